"""A device's peak rates and bandwidth: measured once per software, believed only from a quiet machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tuner import timing
from tuner.bench.peak import PeakRate, judge_peak
from tuner.model import Device
from tuner.nightly.ports import Bench
from tuner.store import Peak, Store

METHOD = "multiply-adds alone"
STRICT = "strict"
TYPES = ("float32", "float64")
"""Those whose strict arithmetic is multiply-adds; with 16 bits other units may do it."""


def armed(peaks: Iterable[Peak]) -> dict[str, float]:
    """By type, the stored peaks that are sure enough to call a rate far above them a mistake of the clock."""
    return {p.dtype: p.value for p in peaks if p.what == "gflops" and p.math == STRICT and p.method == METHOD}


def missing(store: Store | None, device: Device, dtypes: Iterable[str]) -> list[str]:
    """The types whose peak can be measured on a device and, with a store, is not known on this software."""
    known = {} if store is None else armed(store.peaks(device.silicon, device.software))
    able = [dtype for dtype in dict.fromkeys(dtypes) if dtype in TYPES and device.has(dtype)]
    return [dtype for dtype in able if dtype not in known]


def measure_peaks(
    store: Store, device: Device, bench: Bench, dtypes: Sequence[str], *, quiet: bool
) -> dict[str, PeakRate]:
    """Measure, keep what is sure or at least a bound, and return it all. Nothing is kept from a restless machine."""
    pulse = bench.pulse(dtypes)
    found: dict[str, PeakRate] = {}
    for dtype, repeats in pulse.peaks:
        peak = judge_peak(repeats, best_seen(store, device, dtype), quiet=quiet)
        if peak is None:
            continue
        found[dtype] = peak
        if quiet:
            method = METHOD if peak.trusted else f"{peak.method}, a lower bound"
            store.set_peak(device.silicon, device.software, dtype, STRICT, peak.gflops, peak.noise, method)
    if quiet and pulse.bandwidth_gbs is not None:
        noise = timing.summarise(pulse.copy_ms).noise or 0.0
        store.set_bandwidth(device.silicon, device.software, pulse.bandwidth_gbs, noise, "copies on the device")
    return found


def best_seen(store: Store, device: Device, dtype: str) -> float | None:
    """The highest rate of any champion with strict arithmetic, in GFLOP/s."""
    rates = [
        champion.problem.gflops(champion.time_ms)
        for champion in store.champions()
        if (champion.silicon, champion.software) == (device.silicon, device.software)
        and (champion.problem.dtype, champion.problem.math) == (dtype, STRICT)
        and champion.time_ms
    ]
    return max(rates, default=None)
