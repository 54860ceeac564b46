"""What a night published, by the champions' log: also what a kill left without the mark of its step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tuner.model import Device, Problem
from tuner.nightly.words import config_json, problem_json
from tuner.store import Event, Store
from tuner.store.champions import Standing
from tuner.store.reading import Reading, Run

Values = dict[str, Any]


def promotions(store: Store, device: Device, night: int) -> list[Values]:
    """Every champion that the night's searches published on a device: old and new, and the gain of the deciding race.

    The gain is None for the first champion of a problem, and where a kill took the race's samples with it.
    """
    return [_promotion(*found) for found in _publications(store, device, night, "search")]


def renewals(store: Store, device: Device, night: int, marked: Sequence[Values]) -> list[Values]:
    """The results of proving another driver's champions again, with those that were published and not `marked`."""
    known = [result["problem"] for result in marked]
    unmarked = [
        {
            "problem": problem_json(event.problem),
            "from": [config_json(event.config)],
            "proven": True,
            "reason": event.reason,
            "verdicts": {},
        }
        for event, _, _ in _publications(store, device, night, "renew")
        if problem_json(event.problem) not in known
    ]
    return [*marked, *unmarked]


def _publications(store: Store, device: Device, night: int, stage: str) -> Iterator[tuple[Event, Event | None, Run]]:
    """(promotion, what stood promoted before, run), oldest first.

    A run publishes once: a later promotion in its name is what a withdrawal brought back.
    """
    reading = Reading(store)
    runs = {run.number: run for run in reading.runs() if run.settings.get("night") == night}
    standing: dict[Problem, Standing] = {}
    for event in reading.events():
        if (event.silicon, event.software) != (device.silicon, device.software):
            continue
        before = standing.get(event.problem, Standing())
        standing[event.problem] = before.after(event)
        if event.action != "promote" or event.run is None:
            continue
        run = runs.pop(event.run, None)
        if run is not None and run.settings.get("stage") == stage:
            yield event, before.promoted, run


def _promotion(event: Event, before: Event | None, run: Run) -> Values:
    races = [race["decided"] for race in (run.summary or {}).get("races", ()) if race.get("decided")]
    decided = races[-1] if races and before is not None else {}
    return {
        "problem": problem_json(event.problem),
        "old": None if before is None else {**config_json(before.config), "time_ms": before.time_ms},
        "new": {**config_json(event.config), "time_ms": event.time_ms, "noise": event.noise},
        "gflops": None if event.time_ms is None else event.problem.gflops(event.time_ms),
        "gain": decided.get("gain"),
        "low": decided.get("low"),
        "high": decided.get("high"),
        "reason": event.reason,
    }
