"""The page of one problem: on each device its search, the race, what mattered, the best ten, its champion's history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner import timing
from tuner.model import Config, Problem, Record
from tuner.report.blocks import Block, Cell, Column, Page, Prose, Section, Table
from tuner.report.device import of_peak
from tuner.report.gather import DeviceFacts, DeviceId
from tuner.report.history import history_blocks
from tuner.report.labels import device_name, device_page, in_order, problem_name, problem_page, settings, short
from tuner.report.numbers import Kind, date_of
from tuner.report.search_figures import converged, convergence_figures, importance_figures, race_figures
from tuner.store import Event, Store
from tuner.store.reading import Reading, Run

BEST = 10


@dataclass(frozen=True)
class ProblemFacts:
    """Everything about one problem, in full."""

    problem: Problem
    records: Mapping[DeviceId, tuple[Record, ...]]
    """Oldest first, on all software."""
    runs: Mapping[int, Run]
    events: tuple[Event, ...]


def read(store: Store, problem: Problem) -> ProblemFacts:
    """Read a problem's trials with samples, its runs and its log."""
    records: dict[DeviceId, list[Record]] = {}
    for record in store.history(problem=problem):
        records.setdefault(DeviceId.of(record.silicon, record.software), []).append(record)
    reading = Reading(store)
    runs = {run.number: run for run in reading.runs(problem)}
    found = {device: tuple(some) for device, some in records.items()}
    return ProblemFacts(problem, found, runs, tuple(reading.events(problem)))


def page(facts: ProblemFacts, devices: Sequence[DeviceFacts]) -> Page:
    """The page; `devices` are those that know the problem."""
    problem = facts.problem
    sections = [Section("devices", "On each device", (_standing(problem, devices),))]
    for device in devices:
        blocks = device_blocks(facts, device)
        sections.append(Section(device_page(device.id), device_name(device.id), tuple(blocks)))
    what = f"C is {problem.m}×{problem.n}, the sum runs over {problem.k}"
    batch = f", {problem.batch} products at once" if problem.batch > 1 else ""
    turned = " and ".join(name for name, yes in (("A", problem.trans_a), ("B", problem.trans_b)) if yes)
    turns = f"; {turned} transposed" if turned else ""
    lead = (
        f"{what}{batch}{turns}; {problem.dtype}, {problem.math} arithmetic, operands aligned to {problem.align} bytes."
    )
    return Page(problem_page(problem), problem_name(problem), lead, tuple(sections))


def _standing(problem: Problem, devices: Sequence[DeviceFacts]) -> Table:
    libraries = sorted({name for device in devices for name in device.libraries})
    rows = [_standing_row(problem, device, libraries) for device in devices]
    columns = [
        Column("device", "device"),
        Column("driver", "driver"),
        Column("time_ms", "champion", Kind.TIME, "ms"),
        Column("gflops", "rate", Kind.RATE, "GFLOP/s"),
        Column("of_peak", "of peak", Kind.PERCENT),
        *(Column(f"ratio_{name}", f"{name} / ours", Kind.RATIO) for name in libraries),
        Column("default_ratio", "default / best", Kind.RATIO),
        Column("config", "configuration"),
        Column("trials", "trials", Kind.COUNT),
        Column("origin", "origin"),
        Column("since", "since", Kind.DATE, "UTC"),
    ]
    caption = (
        "What is published: median by the device's clock ± half of its 95 % interval; ratios as on the device's page."
    )
    return Table.of("standing", caption, columns, rows)


def _standing_row(problem: Problem, device: DeviceFacts, libraries: Sequence[str]) -> list[Any]:
    tuned = device.tuned[problem]
    served = tuned.served
    ms = None if served is None else served.event.time_ms
    noise = None if served is None else served.event.noise
    rate = None if ms is None else problem.gflops(ms)
    beside = [device.standings.get((problem, name)) for name in libraries]
    return [
        Cell(device_name(device.id), link=f"{device_page(device.id)}.html"),
        short(device.software.driver if served is None else served.event.software.driver),
        Cell(ms, noise),
        Cell(rate, noise),
        of_peak(device, tuned),
        *(Cell(None if one is None else one.ratio, None if one is None else one.ratio_noise) for one in beside),
        Cell(tuned.default_ratio, tuned.default_noise),
        "–" if served is None else settings(served.event.config),
        tuned.trials,
        "–" if served is None else served.origin,
        "–" if served is None else date_of(served.event.when)[:10],
    ]


def device_blocks(facts: ProblemFacts, device: DeviceFacts) -> list[Block]:
    """What is known of the problem on one device."""
    id = device_page(device.id)
    every = facts.records.get(device.id, ())
    softwares = {record.software for record in every}
    software = device.software if device.software in softwares or not every else every[-1].software
    records = [record for record in every if record.software == software]
    if not records:
        return [Prose("Nothing was measured here.")]
    driver = Prose(f"Searched under driver {short(software.driver)}: {len(records)} trials.")
    figures = convergence_figures(id, facts.problem, converged(records, facts.runs))
    events = [event for event in facts.events if DeviceId.of(*event.key[:2]) == device.id]
    return [
        driver,
        *figures,
        *_races(id, facts, records, events),
        *importance_figures(id, records),
        *_best_ten(id, facts.problem, records),
        *history_blocks(id, facts.problem, every, events, device.softwares),
    ]


def _races(id: str, facts: ProblemFacts, records: Sequence[Record], events: Sequence[Event]) -> Sequence[Block]:
    """Those of the run that made the champion, else of the last run that raced."""
    made = [event.run for event in events if event.action == "promote" and event.run in facts.runs]
    here = {record.run for record in records}
    raced = [number for number in sorted(here) if _has_race(facts.runs.get(number))]
    chosen = next((number for number in reversed(made) if number in raced), raced[-1] if raced else None)
    if chosen is None:
        return [Prose("No race is kept: there was nothing to race, or it was run by a version that kept none.")]
    return race_figures(f"{id}-race", facts.runs[chosen])


def _has_race(run: Run | None) -> bool:
    return run is not None and bool((run.summary or {}).get("races"))


def _best_ten(id: str, problem: Problem, records: Sequence[Record]) -> Sequence[Block]:
    last = {record.source_hash: record for record in records}
    timed = sorted(
        (record for record in last.values() if record.measurement.time_ms is not None),
        key=lambda record: (record.measurement.time_ms or 0.0, record.number),
    )[:BEST]
    if not timed:
        return [Prose("No configuration gave a correct result.")]
    configs = [record.config for record in timed]
    differing = _differing(configs)
    fastest = timed[0].measurement.time_ms or 0.0
    families = sorted({config.family for config in configs})
    several = len(families) > 1
    rows = [_best_row(problem, record, fastest, differing, several) for record in timed]
    columns = [
        Column("time_ms", "time", Kind.TIME, "ms"),
        Column("gflops", "rate", Kind.RATE, "GFLOP/s"),
        Column("behind", "time / best", Kind.RATIO),
        *([Column("family", "family")] if several else []),
        *(Column(f"axis_{axis}", axis) for axis in differing),
        Column("when", "when", Kind.DATE, "UTC"),
    ]
    alike = {axis: value for axis, value in configs[0].values if axis not in differing}
    same = ", ".join(f"{axis} = {value}" for axis, value in alike.items()) if len(configs) > 1 else ""
    caption = (
        f"The best {len(timed)} by their search's measurement, and what distinguishes them."
        f"{_alike(families, same)} Best of many flatters by about its noise; the race above decides."
    )
    return [Table.of(f"best-{id}", caption, columns, rows)]


def _alike(families: Sequence[str], same: str) -> str:
    """What all of the best have in common."""
    if len(families) > 1:
        return f" All have {same}." if same else ""
    return f" All are {short(families[0])}{f' with {same}' if same else ''}."


def _differing(configs: Sequence[Config]) -> list[str]:
    axes = in_order({axis for config in configs for axis, _ in config.values}, {config.family for config in configs})
    return [axis for axis in axes if len(configs) == 1 or len({config.as_dict().get(axis) for config in configs}) > 1]


def _best_row(problem: Problem, record: Record, fastest: float, axes: Sequence[str], several: bool) -> list[Any]:
    ms = record.measurement.time_ms or 0.0
    noise = timing.summarise(record.measurement.samples_ms).noise if record.measurement.samples_ms else None
    values = record.config.as_dict()
    return [
        Cell(ms, noise),
        Cell(problem.gflops(ms), noise),
        ms / fastest,
        *([record.config.family] if several else []),
        *(str(values.get(axis, "–")) for axis in axes),
        date_of(record.when)[:10],
    ]
