"""A library beside our kernel: the ratio of their times within rounds, as its stored record has them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuner import timing
from tuner.model import Config, Record
from tuner.store import LIBRARY_PREFIX

NAMES = {"cublas": "cuBLAS", "rocblas": "rocBLAS", "clblast": "CLBlast", "openblas": "OpenBLAS", "mkl": "MKL"}


@dataclass(frozen=True)
class Standing:
    """One library's last record for a problem."""

    record: Record
    name: str
    version: str
    time_ms: float | None
    """The library's median."""
    noise: float | None
    ratio: float | None
    """library's ms / ours, median over rounds in which both took turns: above 1 ours is faster. None if not paired."""
    ratio_noise: float | None
    """Half-width of its 95 % interval, as a fraction of it."""
    against: Config | None
    """Ours in those rounds."""

    @property
    def gflops(self) -> float | None:
        """The library's rate."""
        return None if self.time_ms is None else self.record.problem.gflops(self.time_ms)


def library_name(family: str) -> str:
    """`lib:cublas` as people write it."""
    name = family.removeprefix(LIBRARY_PREFIX)
    return NAMES.get(name.lower(), name)


def standing_of(record: Record) -> Standing:
    """What a library's record says. Our side of the rounds is `ours_ms` in its further fields (`Record.extra`)."""
    samples = record.measurement.samples_ms
    time_ms = record.measurement.time_ms
    noise = timing.summarise(samples).noise if samples else None
    extra = _extra(record)
    ratio, ratio_noise = _ratio(samples, extra.get("ours_ms"))
    version = str(record.config.as_dict().get("version", ""))
    name = library_name(record.config.family)
    return Standing(record, name, version, time_ms, noise, ratio, ratio_noise, _against(extra.get("against")))


def _extra(record: Record) -> dict[str, Any]:
    try:
        found = json.loads(record.extra or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _ratio(theirs: tuple[float, ...], ours: Any) -> tuple[float | None, float | None]:
    if not isinstance(ours, list) or len(ours) != len(theirs) or not ours:
        return None, None
    if not all(isinstance(ms, int | float) and 0 < ms < float("inf") for ms in ours):
        return None, None
    ratios = np.sort(np.divide(theirs, ours))
    median = float(np.median(ratios))
    low, high = timing.median_interval(ratios)
    return median, (high - low) / 2 / median


def _against(value: Any) -> Config | None:
    try:
        return Config.of(value["family"], value["config"])
    except (TypeError, KeyError, AttributeError):
        return None
