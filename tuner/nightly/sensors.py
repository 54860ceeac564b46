"""What a GPU's own sensors say, through NVML where it is: clocks, throttling, power, heat, and who else is on it."""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from tuner.model import Device

BUSY = 10
"""Per cent of utilisation, before anything of ours runs, that is somebody else's."""

LOOKS = 3
LOOK_S = 0.4
"""NVML's utilisation is of the last moment: what counts is the least of a few looks."""

IDLE_REASON = 0x1
CLOCKS_SETTING_REASON = 0x2
"""Reasons for a lower clock that are no fault: nothing runs, or the clocks are set (NVML, nvmlClocksEventReasons)."""


class Sensors(Protocol):
    """What a night asks of a device's sensors."""

    def read(self) -> dict[str, float]:
        """What they say now, by name, the unit in the name; empty without sensors."""

    def foreign(self) -> str:
        """Who else computes on the device, in words; asked before anything of ours does. Empty: nobody, or unknown."""


class NoSensors:
    """A device without sensors that we can read."""

    def read(self) -> dict[str, float]:
        """Nothing."""
        return {}

    def foreign(self) -> str:
        """Unknown."""
        return ""


def open_sensors(device: Device, nvml: Any = None) -> Sensors:
    """The sensors of `device`: NVML's for an NVIDIA GPU, if `nvidia-ml-py` is installed and finds it.

    `nvml` stands in for that module.
    """
    if device.silicon.vendor != "NVIDIA" or device.silicon.kind != "gpu":
        return NoSensors()
    if nvml is None:
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            return NoSensors()
    try:
        nvml.nvmlInit()
        return Nvml(nvml, _handle(nvml, device.instance))
    except (nvml.NVMLError, KeyError):
        return NoSensors()


def _handle(nvml: Any, instance: str) -> Any:
    """Raises KeyError for an instance that NVML has no name for, and NVMLError for one it does not know."""
    if match := re.fullmatch(r"uuid:([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})", instance):
        return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{'-'.join(match.groups())}".encode())
    if match := re.search(r":pci:([0-9a-f]{4}):([0-9a-f]{2}):([0-9a-f]{2})\.(\d)", instance):
        domain, bus, slot, function = match.groups()
        return nvml.nvmlDeviceGetHandleByPciBusId(f"{domain:0>8}:{bus}:{slot}.{function}".encode())
    raise KeyError(instance)


class Nvml:
    """One GPU as NVML shows it; what a GPU or a container does not let us ask is left out."""

    def __init__(self, nvml: Any, handle: Any, sleep: Callable[[float], None] = time.sleep) -> None:
        self._nvml, self._handle, self._sleep = nvml, handle, sleep

    def read(self) -> dict[str, float]:
        """Clocks in MHz, power in W, temperature in degrees Celsius, utilisation in %, reasons for a lower clock."""
        nvml, handle = self._nvml, self._handle
        found: dict[str, float] = {}
        questions: Mapping[str, Any] = {
            "sm_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            "memory_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
            "power_w": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
            "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            "utilisation_percent": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
            "throttle_reasons": lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle),
        }
        for name, ask in questions.items():
            with suppress(nvml.NVMLError, AttributeError):
                found[name] = float(ask())
        return found

    def foreign(self) -> str:
        """A GPU that is busy, and the processes NVML knows of; one that only holds memory is no load."""
        nvml, handle = self._nvml, self._handle
        looks: list[int] = []
        with suppress(nvml.NVMLError):
            for look in range(LOOKS):
                self._sleep(LOOK_S if look else 0.0)
                looks.append(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        if min(looks, default=0) <= BUSY:
            return ""
        others: list[int] = []
        with suppress(nvml.NVMLError):
            others = [process.pid for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle)]
        by = f" by {_names(others)}" if others else ""
        return f"the GPU is {min(looks)} % busy{by}"


def throttled(reading: Mapping[str, float]) -> bool:
    """Whether the clocks are held down by power, heat or a brake: not by idleness, nor by a fixed setting."""
    return bool(int(reading.get("throttle_reasons", 0)) & ~(IDLE_REASON | CLOCKS_SETTING_REASON))


def _names(pids: list[int]) -> str:
    names = []
    for pid in pids[:3]:
        name = ""
        with suppress(OSError):
            name = " " + Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
        names.append(f"{pid}{name}")
    return ", ".join([*names, *(["..."] if len(pids) > 3 else [])])
