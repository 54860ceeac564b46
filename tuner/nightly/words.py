"""Values as JSON and as words for people, shared by the night's steps and its summary."""

from __future__ import annotations

from typing import Any

from tuner.model import Config, Device, Problem


def problem_json(problem: Problem) -> dict[str, Any]:
    """A problem as plain values."""
    return dict(vars(problem))


def config_json(config: Config) -> dict[str, Any]:
    """A configuration as plain values."""
    return {"family": config.family, "config": config.as_dict()}


def device_json(device: Device) -> dict[str, Any]:
    """A device's keys as plain values."""
    silicon = {**vars(device.silicon), "key": device.silicon.key}
    return {
        "name": device.name,
        "address": device.address,
        "silicon": silicon,
        "software": dict(vars(device.software)),
        "instance": device.instance,
    }


def driver(device: Device) -> str:
    """Platform and driver in short."""
    return f"{device.software.platform.split(',')[0].strip()}, {device.software.driver}"


def rate(gflops: float | None) -> str:
    """A rate in words."""
    if gflops is None:
        return "-"
    if gflops >= 10_000:
        return f"{gflops / 1000:.2f} TFLOP/s"
    return f"{gflops:.1f} GFLOP/s" if gflops >= 1 else f"{gflops:.3g} GFLOP/s"


def span(seconds: float) -> str:
    """A time in words."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
