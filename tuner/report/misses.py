"""What was asked for and not tuned, with what tuning it can be expected to bring."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from tuner.model import Problem
from tuner.report.blocks import Cell, Column, Page, Prose, Section, Table
from tuner.report.gather import DeviceFacts, Facts
from tuner.report.labels import problem_name, short
from tuner.report.numbers import Kind, date_of
from tuner.store import Miss


def expected_gains(device: DeviceFacts) -> Mapping[str, float]:
    """By the origin of an answer what tuning brought where it is known: median of answered ms / best ms over shapes.

    For `default` the default's time; for any other the time of the champion of the nearest other shape.
    """
    defaults, nearest = [], []
    for problem, tuned in device.tuned.items():
        if tuned.present is None or tuned.present.best is None:
            continue
        best = tuned.present.best[1]
        if tuned.default_ms is not None:
            defaults.append(tuned.default_ms / best)
        other = nearest_tuned(device, problem)
        served = None if other is None else device.tuned[other].served
        ms = None if served is None else tuned.present.times.get(served.event.config)
        if ms is not None:
            nearest.append(ms / best)
    found = {"default": defaults, "nearest": nearest}
    return {origin: statistics.median(ratios) for origin, ratios in found.items() if ratios}


def nearest_tuned(device: DeviceFacts, problem: Problem) -> Problem | None:
    """The other published shape at the least log-ratio distance over m, n, k and batch, alike in everything else."""
    alike = [
        other
        for other, tuned in device.tuned.items()
        if other != problem and tuned.served is not None and _kind(other) == _kind(problem)
    ]
    return min(alike, key=lambda other: (_distance(other, problem), other), default=None)


def _kind(problem: Problem) -> tuple[object, ...]:
    return problem.dtype, problem.trans_a, problem.trans_b, problem.math


def _distance(one: Problem, other: Problem) -> float:
    pairs = ((one.m, other.m), (one.n, other.n), (one.k, other.k), (one.batch, other.batch))
    return math.hypot(*(math.log2(max(1, a) / max(1, b)) for a, b in pairs))


def page(facts: Facts) -> Page:
    """The page."""
    lead = (
        "Look-ups that found no champion certified for exactly that product, device and driver. Expected gain: what"
        " tuning brought on this device over an answer of the same origin, the median over shapes where both are known."
    )
    if not facts.misses:
        empty = Prose("Nothing was asked for in vain, as far as the store was told.")
        return Page("misses", "Misses", lead, (Section("asked", "Asked for", (empty,)),))
    gains = {id(device): expected_gains(device) for device in facts.devices}
    rows = [_row(miss, _device_of(facts, miss), gains) for miss in facts.misses]
    rows.sort(key=lambda row: -(row[4] if isinstance(row[4], float) else 0.0))
    columns = [
        Column("problem", "problem"),
        Column("device", "device"),
        Column("origin", "answered with"),
        Column("count", "times asked", Kind.COUNT),
        Column("worth", "asked × (gain − 1)", Kind.RATIO),
        Column("gain", "expected gain", Kind.RATIO),
        Column("last", "last asked", Kind.DATE, "UTC"),
    ]
    caption = "What was asked for and not tuned, by what tuning it is worth: times asked × (expected gain − 1)."
    return Page(
        "misses", "Misses", lead, (Section("asked", "Asked for", (Table.of("misses", caption, columns, rows),)),)
    )


def _device_of(facts: Facts, miss: Miss) -> DeviceFacts | None:
    for device in facts.devices:
        if device.id.silicon == miss.silicon and miss.software in device.softwares:
            return device
    return next((device for device in facts.devices if device.id.silicon == miss.silicon), None)


def _row(
    miss: Miss, device: DeviceFacts | None, gains: Mapping[int, Mapping[str, float]]
) -> Sequence[Cell | str | float | int | None]:
    known = {} if device is None else gains[id(device)]
    gain = known.get("default" if miss.origin == "default" else "nearest")
    worth = None if gain is None else float(miss.count * (gain - 1))
    return [
        problem_name(miss.problem),
        short(miss.silicon.name),
        miss.origin,
        miss.count,
        worth,
        gain,
        date_of(miss.last),
    ]
