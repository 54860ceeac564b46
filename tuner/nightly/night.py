"""A whole night: begun or resumed, a lane for each device, stopped in order, and closed with its summary."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tuner.bench import DeviceBusy
from tuner.model import Device, MachineError
from tuner.nightly.device_night import device_night
from tuner.nightly.lane import Lane
from tuner.nightly.ledger import Ledger
from tuner.nightly.ports import Bench, Collaborators, NightClock, StoppableBench, Stopped
from tuner.nightly.settings import NightSettings
from tuner.nightly.summary import summarise_night, was_skipped
from tuner.nightly.watch import Watch, wait_for_others
from tuner.nightly.words import device_json
from tuner.opencl.cores import usable_cores
from tuner.store import Night, NightState, Process, Store

RESUME_WITHIN = timedelta(hours=20)
"""An older night that was cut short is over: the next one has begun."""
PASSED_OVER = 10
"""Nights looked back over for one that was cut short, while all devices were in use."""
LEAST_LEFT_S = 20.0
"""With less left of its budget a night is not worth going on with."""

_log = logging.getLogger("tuner.nightly")


@dataclass
class LaneEnd:
    """How one device's night ended, beside what its ledger says."""

    device: Device
    skipped: str = ""
    """Why nothing was done, for people."""
    failed: str = ""
    attention: list[str] = field(default_factory=list)


def run_night(
    settings: NightSettings,
    name: str,
    store: Store,
    beside: Collaborators,
    stop: threading.Event,
    *,
    fresh: bool = False,
    spent_s: float = 0.0,
) -> dict[str, Any]:
    """Run the night `name`, or go on with the one that was cut short, and return its summary, which is stored.

    `stop` ends it in order. `fresh` begins anew in any case; `spent_s` of the budget were used before the call.
    """
    night = None if fresh else resumable(store, name, settings)
    spent = spent_s + (float(night.progress.get("spent_s", 0.0)) if night else 0.0)
    clock = NightClock(settings.budget.total_s, spent, beside.now)
    if night is None:
        number = store.start_night(name, Process.current().host, _plan(settings, beside.devices))
        started, progress = datetime.now(UTC).isoformat(timespec="microseconds"), None
    else:
        store.resume_night(night.id)
        number, started, progress = night.id, night.started, night.progress
        beside.say(f"going on with night {number}, begun {started}; {clock.left:.0f} s of its budget are left")
    ledger = Ledger(store, number, lambda: clock.elapsed, progress)
    ends = _Lanes(settings, store, beside, stop, ledger, clock, started).run()
    for end in ends:
        end.failed = store.lost.rstrip(".") or end.failed
    summary = summarise_night(
        settings, name, beside.families, store, ledger, ends, clock, started, stopped=stop.is_set()
    )
    ledger.tick()
    store.finish_night(number, _state(ends, stop), summary)
    return summary


def resumable(store: Store, name: str, settings: NightSettings) -> Night | None:
    """The last night of this name that had a device to itself, if it was cut short lately and has time left."""
    for night in store.nights(PASSED_OVER, name):
        # One that found every device in use did nothing: what was cut short before it is still to be finished.
        if night.state == NightState.FAILED and was_skipped((night.summary or {}).get("devices", ())):
            continue
        cut_short = night.state in (NightState.DIED, NightState.INTERRUPTED)
        recent = datetime.now(UTC) - datetime.fromisoformat(night.started) < RESUME_WITHIN
        left = settings.budget.total_s - float(night.progress.get("spent_s", 0.0))
        if cut_short and recent and left >= min(LEAST_LEFT_S, settings.budget.total_s / 2):
            return night
        return None
    return None


def _plan(settings: NightSettings, devices: Sequence[Device]) -> dict[str, Any]:
    return {
        "problems": len(settings.problems),
        "budget_s": settings.budget.total_s,
        "devices": [device_json(device) for device in devices],
    }


def _state(ends: Sequence[LaneEnd], stop: threading.Event) -> str:
    if stop.is_set():
        return NightState.INTERRUPTED.value
    if any(end.failed for end in ends) or (ends and all(end.skipped for end in ends)):
        return NightState.FAILED.value
    return NightState.COMPLETE.value


class _Lanes:
    def __init__(
        self,
        settings: NightSettings,
        store: Store,
        beside: Collaborators,
        stop: threading.Event,
        ledger: Ledger,
        clock: NightClock,
        started: str,
    ) -> None:
        self._settings, self._store, self._beside, self._stop = settings, store, beside, stop
        self._ledger, self._clock, self._started = ledger, clock, started

    def run(self) -> list[LaneEnd]:
        """GPUs at once, then one CPU device after another: those share the cores that everything else needs."""
        together = [device for device in self._beside.devices if not device.facts.shares_cores]
        alone = [device for device in self._beside.devices if device.facts.shares_cores]
        groups = ([together] if together else []) + [[device] for device in alone]
        ends: list[LaneEnd] = []
        for number, group in enumerate(groups):
            clock = self._clock.part(self._clock.left / (len(groups) - number))
            ends += self._at_once(group, clock)
        return ends

    def _at_once(self, devices: Sequence[Device], clock: NightClock) -> list[LaneEnd]:
        ends = [LaneEnd(device) for device in devices]
        compilers = _compilers(len(devices))
        threads = [
            threading.Thread(target=self._guarded, args=(end, clock, compilers), daemon=True, name=end.device.name)
            for end in ends
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.2)  # with a limit, so that signals are handled meanwhile
        return ends

    def _guarded(self, end: LaneEnd, clock: NightClock, compilers: int | None) -> None:
        """Whatever goes wrong on one device is that device's: the others go on."""
        try:
            self._device(end, clock, compilers)
        except Stopped:
            pass
        except DeviceBusy as error:
            end.skipped = str(error)
        except MachineError as error:
            end.failed = str(error)
        except Exception as error:
            _log.exception("the night on %s failed", end.device.name)
            end.failed = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"

    def _device(self, end: LaneEnd, clock: NightClock, compilers: int | None) -> None:
        device, beside, limits = end.device, self._beside, self._settings.machine
        sensors = beside.open_sensors(device)
        patience = clock.part(min(limits.wait_s, clock.left / 2))
        foreign = wait_for_others(sensors, patience, beside.say, beside.sleep)
        if foreign:
            end.skipped = f"{foreign}; it was waited for, {limits.wait_s:.0f} s"
            return
        with ExitStack() as resources:
            wait_s = min(limits.wait_s, clock.left / 2)
            opened = resources.enter_context(beside.open_bench(device, compilers, wait_s))
            resources.enter_context(_cancelled(opened, self._stop))
            bench = StoppableBench(opened, self._stop)
            watch = Watch(
                *(device, bench, self._store, self._ledger.night, sensors, limits), now=beside.now, sleep=beside.sleep
            )
            lane = Lane(
                device,
                self._settings,
                beside.families,
                bench,
                self._store,
                self._ledger,
                clock,
                watch,
                self._started,
                self._stop,
                beside.say,
                beside.seeds,
                end.attention,
            )
            device_night(lane, lambda: beside.open_libraries(device, lambda: clock.left))


@contextmanager
def _cancelled(bench: Bench, stop: threading.Event) -> Iterator[None]:
    """When the night is told to stop, builds end at once, and whoever waits for one goes on."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.2):
            if stop.is_set():
                bench.cancel_builds()
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _compilers(devices: int) -> int | None:
    """Compilers of each device, so that all together leave a core to measure; None: as many as fit."""
    return None if devices == 1 else max(1, (usable_cores() - devices) // devices)
