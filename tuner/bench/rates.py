"""Which drivers of one processor are slow: each is measured once, and remembered until its version changes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from tuner.model import Device

SLOW = 3.0
"""A driver this many times slower than another of the same processor is marked, and chosen last.

Drivers that know the processor are within 1.3 of each other; one whose compiler does not was ten times slower.
"""

Ask = Callable[[Device], float | None]


def rates_file() -> Path:
    """Where rates are remembered: a file in the user's cache folder; it need not exist."""
    import platformdirs

    return platformdirs.user_cache_path("gemm-tuner") / "driver-rates.json"


def driver_rates(devices: Sequence[Device], ask: Ask, file: Path) -> dict[Device, float]:
    """GFLOP/s of each CPU that has several drivers, by driver; the others have nothing to be compared with.

    `ask` measures one, or gives None if it cannot. What it says is kept in `file`, as far as that can be written.
    """
    known = _read(file)
    cpus = [device for device in devices if device.silicon.kind == "cpu"]
    rivals = [device for device in cpus if sum(device.silicon == other.silicon for other in cpus) > 1]
    unknown = {_key(device): device for device in rivals if _key(device) not in known}
    measured = {key: rate for key, device in unknown.items() if (rate := ask(device)) is not None}
    if measured:
        known.update(measured)
        _write(file, known)
    return {device: known[_key(device)] for device in rivals if _key(device) in known}


def behind(device: Device, rates: dict[Device, float]) -> tuple[float, Device] | None:
    """(times slower, than which) if another driver of its processor is SLOW times faster."""
    if device not in rates:
        return None
    best = max((other for other in rates if other.silicon == device.silicon), key=rates.__getitem__)
    times = rates[best] / rates[device]
    return (times, best) if times >= SLOW else None


def _key(device: Device) -> str:
    return f"{device.silicon.key} | {device.software.key}"


def _read(file: Path) -> dict[str, float]:
    """Nothing from a file that is not there or is not ours: then everything is measured again."""
    with suppress(OSError, ValueError):
        data = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(data, dict):
            return {key: rate for key, rate in data.items() if isinstance(rate, float) and rate > 0}
    return {}


def _write(file: Path, rates: dict[str, float]) -> None:
    new = file.with_name(f".{file.name}.{os.getpid()}")
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(json.dumps(rates, indent=1) + "\n", encoding="utf-8")
        new.replace(file)
