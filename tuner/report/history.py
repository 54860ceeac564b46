"""A champion's history: what was published when, how it measured each night, and where the driver changed."""

from __future__ import annotations

from collections.abc import Sequence

from tuner import timing
from tuner.model import Problem, Record, Software
from tuner.report.blocks import Block, Cell, Column, Figure, Table
from tuner.report.figures import axis, line, marks, number, numbers, points, thin
from tuner.report.labels import settings, short
from tuner.report.numbers import Kind, date_of
from tuner.store import Event

EVENTS = 30


def history_blocks(
    id: str, problem: Problem, records: Sequence[Record], events: Sequence[Event], softwares: Sequence[Software]
) -> list[Block]:
    """A figure and the log, newest first; nothing if nothing was ever published."""
    if not events:
        return []
    return [_figure(id, problem, records, events, softwares), _log(id, problem, events)]


def _figure(
    id: str, problem: Problem, records: Sequence[Record], events: Sequence[Event], softwares: Sequence[Software]
) -> Figure:
    sources = {event.rendered.source_hash for event in events}
    again = thin([one for one in records if one.source_hash in sources and one.measurement.time_ms is not None], 200)
    rates = [problem.gflops(one.measurement.time_ms or 1.0) for one in again]
    spread = [_noise(one) * rate for one, rate in zip(again, rates, strict=True)]
    bars = {"type": "data", "array": numbers(spread), "thickness": 1, "width": 2}
    measured = points("champions measured", [one.when for one in again], numbers(rates), error_y=bars)
    published = [(event.when, event.time_ms) for event in events if event.time_ms and event.action != "withdraw"]
    steps = [(when, number(problem.gflops(ms))) for when, ms in published]
    if steps:
        end = max([steps[-1][0], *(one.when for one in again)])
        steps.append((end, steps[-1][1]))
    shape = {"line": {"shape": "hv"}, "mode": "lines+markers", "meta": "main"}
    data = [line("published", [when for when, _ in steps], [rate for _, rate in steps], **shape), measured]
    changes = _driver_changes(records, events, softwares)
    words = f"{len(changes)} changes of the driver, marked." if changes else "The driver did not change."
    caption = (
        f"Rate of what was published, and of champions each time they were measured again ({len(again)}), with the 95 %"
        f" interval of the median; by the device's clock. {words}"
    )
    layout = {"xaxis": axis("", type="date"), "yaxis": axis("GFLOP/s"), **marks(changes)}
    return Figure(f"{id}-history", "The champion's history", caption, data, layout, 340, wide=True)


def _noise(record: Record) -> float:
    samples = record.measurement.samples_ms
    return (timing.summarise(samples).noise or 0.0) if samples else 0.0


def _driver_changes(
    records: Sequence[Record], events: Sequence[Event], softwares: Sequence[Software]
) -> list[tuple[str, str]]:
    """The first moment of each software after the first."""
    first: dict[Software, str] = {}
    for software, when in [*((r.software, r.when) for r in records), *((e.software, e.when) for e in events)]:
        first[software] = min(when, first.get(software, when))
    ordered = sorted((when, software) for software, when in first.items() if software in softwares)
    return [(when, short(software.driver, 24)) for when, software in ordered[1:]]


def _log(id: str, problem: Problem, events: Sequence[Event]) -> Table:
    rows = [
        [
            date_of(event.when),
            event.action,
            Cell(event.time_ms, event.noise),
            Cell(None if event.time_ms is None else problem.gflops(event.time_ms), event.noise),
            settings(event.config),
            short(event.software.driver, 40),
            short(event.reason, 160),
        ]
        for event in reversed(events)
    ]
    columns = [
        Column("when", "when", Kind.DATE, "UTC"),
        Column("action", "what"),
        Column("time_ms", "time", Kind.TIME, "ms"),
        Column("gflops", "rate", Kind.RATE, "GFLOP/s"),
        Column("config", "configuration"),
        Column("driver", "driver"),
        Column("reason", "reason"),
    ]
    return Table.of(f"log-{id}", "The champions' log, newest first.", columns, rows, EVENTS)
