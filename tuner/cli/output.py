"""What people and programs are shown: JSON, tables, times and rates."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from tuner.model import Champion, Config, Device, Problem, Silicon, Software


def console(*, stderr: bool = False) -> Console:
    """A console that never breaks plain lines when the output is no terminal."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, soft_wrap=not stream.isatty(), highlight=False, markup=False)


def print_json(value: Any) -> None:
    """One JSON object on standard output."""
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table on a terminal; tab-separated lines elsewhere, so that programs can read them."""
    rows = [[plain(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for row in ([*columns], *rows):
            print("\t".join(row))
        return
    drawn = Table(title=title, title_justify="left")
    for column in columns:
        drawn.add_column(column, overflow="fold")
    for row in rows:
        drawn.add_row(*row)
    Console(markup=False, highlight=False).print(drawn)


def plain(text: str) -> str:
    """Stored or foreign text on one line, without characters that steer a terminal."""
    return "".join(" " if unicodedata.category(character)[0] == "C" else character for character in text)


def rate(gflops: float | None) -> str:
    """A rate in words, with three significant figures at least."""
    if gflops is None:
        return "-"
    if gflops >= 10_000:
        return f"{gflops / 1000:.2f} TFLOP/s"
    return f"{gflops:.1f} GFLOP/s" if gflops >= 1 else f"{gflops:.3g} GFLOP/s"


def duration(time_ms: float | None) -> str:
    """A kernel's time in words."""
    if time_ms is None:
        return "-"
    return f"{time_ms:.3f} ms" if time_ms >= 1 else f"{time_ms * 1000:.1f} µs"


def percent(fraction: float | None) -> str:
    """A fraction as a percentage."""
    return "-" if fraction is None else f"{fraction:.1%}"


def settings(config: Config) -> str:
    """A configuration's values on one line."""
    return plain(" ".join(f"{name}={value}" for name, value in config.values))


def problem_json(problem: Problem) -> dict[str, Any]:
    """A problem as plain values."""
    return dict(vars(problem))


def device_json(device: Device) -> dict[str, Any]:
    """A device's keys as plain values."""
    return {
        "address": device.address,
        "silicon": silicon_json(device.silicon),
        "software": dict(vars(device.software)),
        "instance": device.instance,
    }


def silicon_json(silicon: Silicon) -> dict[str, Any]:
    """Silicon as plain values, with its key."""
    return {**vars(silicon), "key": silicon.key}


def software_name(software: Software) -> str:
    """Platform and driver in short."""
    platform = software.platform.split(",")[0].strip()
    return f"{platform}, {software.driver}"


def champion_json(champion: Champion) -> dict[str, Any]:
    """A champion as plain values, without its source."""
    problem = champion.problem
    return {
        "device": champion.silicon.key,
        "software": champion.software.key,
        "problem": problem_json(problem),
        "family": champion.config.family,
        "config": champion.config.as_dict(),
        "time_ms": champion.time_ms,
        "noise": champion.noise,
        "gflops": None if champion.time_ms is None else problem.gflops(champion.time_ms),
        "certified": champion.certificate is not None,
        "checks": list(champion.certificate.checks) if champion.certificate else [],
        "pinned": champion.pinned,
        "reason": champion.reason,
        "when": champion.when,
        "source_hash": champion.rendered.source_hash,
    }
