"""Searches in progress, from the store alone: for a page that asks again and again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tuner.report.gather import DeviceId
from tuner.report.labels import device_name, problem_name
from tuner.report.numbers import Kind, rounded, text_of
from tuner.store import Store
from tuner.store.reading import Progress, Reading, Run

SILENT = timedelta(seconds=150)
"""A run that was not heard of for so long, and has nothing in flight on this machine, is not shown: it was killed."""
OLDEST = timedelta(days=2)


def running(store: Store, now: datetime | None = None) -> dict[str, Any]:
    """`running`: one object for each search in progress, newest first."""
    now = now or datetime.now(UTC)
    reading = Reading(store)
    alive = {flight.run: flight.stage for flight in reading.flights() if flight.here}
    found = []
    for run in reversed(reading.runs(unfinished=True)):
        if run.number not in alive and _since(run.started, now) > OLDEST:
            continue
        progress = reading.progress(run)
        if run.number in alive or _since(progress.last, now) <= SILENT:
            found.append(_one(run, progress, alive.get(run.number, "between two"), now))
    return {"running": found, "when": now.isoformat()}


def _since(when: str, now: datetime) -> timedelta:
    try:
        return now - datetime.fromisoformat(when)
    except (ValueError, TypeError):
        return timedelta.max


def _one(run: Run, progress: Progress, stage: str, now: datetime) -> dict[str, Any]:
    evaluated = progress.verdicts.total()
    seconds = _since(run.started, now).total_seconds()
    gflops = None if progress.best_ms is None else run.problem.gflops(progress.best_ms)
    best = rounded(gflops, Kind.RATE)
    budget = run.settings.get("budget")
    limits = budget if isinstance(budget, Mapping) else {}
    most, longest = limits.get("evaluations"), limits.get("seconds")
    of = f" of {most}" if most else ""
    rate = "nothing correct yet" if best is None else f"best so far {text_of(best, Kind.RATE)} GFLOP/s"
    return {
        "run": run.number,
        "problem": problem_name(run.problem),
        "device": device_name(DeviceId.of(run.silicon, run.software)),
        "stage": stage,
        "evaluated": evaluated,
        "evaluations": most,
        "seconds": round(seconds, 1),
        "seconds_limit": longest,
        "fraction": _fraction(evaluated, most, seconds, longest),
        "best_gflops": best,
        "verdicts": {verdict.value: count for verdict, count in progress.verdicts.items()},
        "words": f"{evaluated}{of} evaluated in {seconds:.0f} s, {rate}; {stage}",
    }


def _fraction(evaluated: int, most: Any, seconds: float, longest: Any) -> float | None:
    """By the limit that ends the run first."""
    shares = [done / limit for done, limit in ((evaluated, most), (seconds, longest)) if limit]
    return round(min(1.0, max(shares)), 3) if shares else None
