"""Whether the machine is fit to be measured on: tonight's calibration beside its own history.

Two witnesses: a fixed kernel of ours, which the driver compiles, and copies on the device, which no compiler touches.

| software since the last nights | kernel | copies | the machine is called |
|---|---|---|---|
| unchanged | as ever | as ever | quiet |
| unchanged | slower | any | slow |
| unchanged | as ever | much slower | slow |
| unchanged | scattered | any | noisy |
| changed | any | any | never slow or noisy: what is slower is the software's, and reported |
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tuner import timing
from tuner.bench.messages import Pulse
from tuner.model import Software
from tuner.nightly.settings import MachineLimits
from tuner.store import Calibration

NIGHTS = 7
"""Nights that make a history: a machine that stays slower for most of a week is a slower machine."""
COPY_PATIENCE = 2.0
"""Copies may be slower by so many times the limit of the kernel: they scatter more."""
HABIT = 2.0
"""Noise so many times above the usual is not usual."""
UNKNOWN_NOISY = 0.25
"""Noise that is too much where nothing is known of the machine's habits."""


class State(StrEnum):
    """What the machine is like at a moment."""

    QUIET = "quiet"
    SLOW = "slow"
    NOISY = "noisy"


@dataclass(frozen=True)
class Condition:
    """The machine at one moment, beside its history; factors are tonight's time / the usual, 1 if nothing is known."""

    state: State
    kernel_factor: float = 1.0
    copy_factor: float = 1.0
    noise: float = 0.0
    software_changed: bool = False
    words: str = ""

    @property
    def fit(self) -> bool:
        """Measurements made now can be compared with those of other nights."""
        return self.state is State.QUIET

    @property
    def drift(self) -> float:
        """Logarithm of how much slower the machine is than usual, to be taken out of what is measured now."""
        return 0.0 if self.software_changed else max(0.0, math.log(self.kernel_factor))


def reading_of(pulse: Pulse, sensed: Mapping[str, float]) -> dict[str, float]:
    """A reading as the store keeps it; what failed is left out."""
    found = dict(sensed)
    if pulse.kernel_ms:
        summary = timing.summarise(pulse.kernel_ms)
        found["kernel_ms"] = summary.median_ms
        found["kernel_noise"] = summary.noise or 0.0
    if pulse.bandwidth_gbs is not None:
        found["copy_gb_per_s"] = pulse.bandwidth_gbs
    return found


def judge(
    history: Sequence[Calibration], software: Software, reading: Mapping[str, float], limits: MachineLimits
) -> Condition:
    """What the machine is like now. `history` is of its instance, oldest first, any software, without `reading`."""
    same = [calibration for calibration in history if calibration.software == software]
    known = _usual(same)
    changed = not same and bool(history)
    usual = known or _usual([c for c in history if c.software == history[-1].software] if changed else [])
    kernel = _ratio(reading.get("kernel_ms"), usual.get("kernel_ms"))
    copy = _ratio(usual.get("copy_gb_per_s"), reading.get("copy_gb_per_s"))
    noise = reading.get("kernel_noise", 0.0)
    state, words = State.QUIET, ""
    if changed:
        words = _of_software(kernel, copy, limits)
    elif kernel > 1 + limits.slow:
        state, words = State.SLOW, f"the calibration kernel is {kernel - 1:.0%} slower than on other nights"
    elif copy > 1 + COPY_PATIENCE * limits.slow:
        state, words = State.SLOW, f"copies are {copy - 1:.0%} slower than on other nights"
    elif noise > _most_noise(usual, limits):
        state, words = State.NOISY, f"the calibration kernel's times scatter by {noise:.0%}"
    return Condition(state, kernel, copy, noise, changed, words)


def _of_software(kernel: float, copy: float, limits: MachineLimits) -> str:
    if kernel > 1 + limits.slow:
        also = f"; copies are {copy - 1:.0%} slower, too" if copy > 1 + COPY_PATIENCE * limits.slow else ""
        return f"new software; the calibration kernel is {kernel - 1:.0%} slower than with the old one{also}"
    return "new software; the calibration kernel is as fast as with the old one"


def _usual(history: Sequence[Calibration]) -> dict[str, float]:
    """The median over the last nights of each night's medians, so that one long night is one night."""
    nights: defaultdict[int | None, list[Mapping[str, float]]] = defaultdict(list)
    for calibration in history:
        nights[calibration.night].append(calibration.reading)
    last = list(nights.values())[-NIGHTS:]
    found: dict[str, float] = {}
    for name in ("kernel_ms", "kernel_noise", "copy_gb_per_s"):
        values = [statistics.median(known) for readings in last if (known := [r[name] for r in readings if name in r])]
        if values:
            found[name] = statistics.median(values)
    return found


def _ratio(slower: float | None, usual: float | None) -> float:
    return slower / usual if slower and usual else 1.0


def _most_noise(usual: Mapping[str, float], limits: MachineLimits) -> float:
    if "kernel_noise" not in usual:
        return max(limits.noisy, UNKNOWN_NOISY)
    return max(limits.noisy, HABIT * usual["kernel_noise"])
