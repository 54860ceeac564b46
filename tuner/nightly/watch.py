"""The night's eye on its machine: readings at start, between problems and at the end, each kept in the store."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from tuner.model import Device
from tuner.nightly.machine import Condition, State, judge, reading_of
from tuner.nightly.ports import Bench, NightClock
from tuner.nightly.sensors import Sensors, throttled
from tuner.nightly.settings import MachineLimits
from tuner.store import Calibration, Store

FRESH_S = 30.0
"""A reading this young still says what the machine is like."""
POLL_S = 10.0
"""Between two looks at a machine that is waited for."""
HISTORY = 1000
WAIT_SHARE = 0.5
"""Part of the time left that waiting may use."""


class Watch:
    """Readings of one device in one night."""

    def __init__(
        self,
        device: Device,
        bench: Bench,
        store: Store,
        night: int | None,
        sensors: Sensors,
        limits: MachineLimits,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._device, self._bench, self._store, self._night = device, bench, store, night
        self._sensors, self._limits, self._now, self._sleep = sensors, limits, now, sleep
        before = store.calibrations(device.instance, limit=HISTORY)
        self._history: Sequence[Calibration] = [c for c in before if c.silicon == device.silicon]
        others = [c for c in self._history if c.night != night]
        self.software_changed = bool(others) and others[-1].software != device.software
        self.known = bool(others)
        """There are readings of other nights to compare with."""
        self.last = Condition(State.QUIET, software_changed=self.software_changed)
        self._looked = -1e9

    def look(self, stage: str) -> Condition:
        """Take a reading, keep it, and say what the machine is like."""
        reading = reading_of(self._bench.pulse(), self._sensors.read())
        device = self._device
        self.last = judge(self._history, device.software, reading, self._limits)
        held = throttled(reading)
        self._store.add_calibration(device.instance, device.silicon, device.software, self._night, stage, reading)
        if self.last.fit:  # what is not fit is no part of what is usual, unless it lasts: then the store has it
            now = Calibration(device.instance, device.silicon, device.software, self._night, stage, reading, "")
            self._history = [*self._history, now]
        elif held:
            self.last = replace(self.last, words=f"{self.last.words}; its clocks are held down")
        self._looked = self._now()
        return self.last

    def recent(self) -> Condition:
        """The last reading, or a new one if that is stale."""
        return self.last if self._now() - self._looked < FRESH_S else self.look("between")

    def wait(self, clock: NightClock, stage: str, say: Callable[[str], None]) -> Condition:
        """A reading; if the machine is not fit, further ones until it is, or the limit is reached."""
        condition = self.look(stage)
        limit = min(self._limits.wait_s, WAIT_SHARE * clock.left)
        patience = clock.part(limit)
        if not condition.fit and patience.left > 0:
            say(f"{self._device.name}: {condition.words}; waiting up to {limit:.0f} s")
        while not condition.fit and patience.left > 0:
            self._sleep(min(POLL_S, patience.left))
            condition = self.look(stage)
        return condition


def wait_for_others(
    sensors: Sensors, patience: NightClock, say: Callable[[str], None], sleep: Callable[[float], None]
) -> str:
    """Wait while somebody else computes on the device; who still does when patience ends, or nothing."""
    foreign = sensors.foreign()
    if foreign and patience.left > 0:
        say(f"{foreign}; waiting up to {patience.left:.0f} s")
    while foreign and patience.left > 0:
        sleep(min(POLL_S, patience.left))
        foreign = sensors.foreign()
    return foreign
