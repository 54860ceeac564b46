"""The first page: what is here, what changed, how far it reaches, and where to look next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tuner.model import Problem, Verdict
from tuner.report.beside import library_table, ratio_figure
from tuner.report.blocks import Block, Cell, Column, Figure, Page, Prose, Section, Table
from tuner.report.device import served_gflops
from tuner.report.figures import log_axis, numbers, points, thin, work_axis
from tuner.report.gather import DeviceFacts, Facts
from tuner.report.labels import device_name, device_page, plain, problem_name, problem_page, settings, short
from tuner.report.numbers import Kind, date_of
from tuner.report.statistics import MARGIN, default_regret

NIGHTS = 14
RECENT = 20
DRAWN = 300
"""Champions of one device in the figure of rates."""


def page(facts: Facts, changes: Sequence[Block]) -> Page:
    """The overview; `changes` say what is new since the report before."""
    sections = (
        Section("glance", "At a glance", tuple(_glance(facts))),
        Section("changes", "What changed", (*changes, *_regressions(facts))),
        Section("devices", "Devices", tuple(_devices(facts))),
        Section("nights", "Last nights", tuple(_nights(facts))),
        Section("problems", "Problems", tuple(_problems(facts))),
        Section("reading", "How to read the numbers", tuple(Prose(text) for text in READING)),
    )
    store = facts.store if "://" in facts.store else Path(facts.store).name
    last = max((tuned.last for device in facts.devices for tuned in device.tuned.values()), default="")
    measured = f" Last measured {date_of(last)} UTC." if last else ""
    lead = f"From {plain(store)}, {date_of(facts.now)} UTC.{measured}"
    return Page("index", "GEMM tuning report", lead, sections)


READING = (
    "A rate is 2·m·n·k·batch flop over the median time of the raw samples. ± is half of the 95 % interval of the"
    " median, in percent of it. – means not measured. Only what was checked and correct has a time.",
    "Times of trials and champions are taken by the device's clock. A ratio to a library or in a race is the median of"
    " paired ratios, in rounds in which both took turns, by the host's clock; above 1 ours is faster.",
    "Default / best compares what an untuned device is given with the best measured; the share of shapes counts those"
    f" on which the default is more than {100 * MARGIN:.0f} % slower. Best is the least median of many, so it flatters"
    " by about its noise.",
)


def _glance(facts: Facts) -> Sequence[Block]:
    served = [tuned.served for device in facts.devices for tuned in device.tuned.values() if tuned.served is not None]
    failures = [device.failures.verdicts for device in facts.devices]
    correct = sum(verdicts.get(Verdict.CORRECT, 0) for verdicts in failures)
    trials = facts.trials
    columns = [
        Column("devices", "devices", Kind.COUNT),
        Column("problems", "problems", Kind.COUNT),
        Column("champions", "champions", Kind.COUNT),
        Column("certified", "certified on the present driver", Kind.COUNT),
        Column("without", "tuned without a champion", Kind.COUNT),
        Column("trials", "trials", Kind.COUNT),
        Column("correct", "correct", Kind.PERCENT),
        Column("regressions", "open regressions", Kind.COUNT),
        Column("misses", "asked for, not tuned", Kind.COUNT),
    ]
    certified = sum(one.certified and one.origin != "other_driver" for one in served)
    without = sum(tuned.served is None for device in facts.devices for tuned in device.tuned.values())
    row = [
        *(len(facts.devices), len(facts.problems), len(served), certified, without, trials),
        Cell(correct / trials if trials else None, link="failures.html"),
        sum(one.closed is None for one in facts.regressions),
        Cell(len(facts.misses), link="misses.html"),
    ]
    blocks: list[Block] = [Table.of("glance", "What the store holds.", columns, [row])]
    if not facts.trials and not served:
        blocks.append(Prose("Nothing was tuned yet: gemm-tuner tune M N K makes the first entry."))
    figures = [figure for figure in (ratio_figure(facts.devices), _rates(facts)) if figure is not None]
    if len(figures) == 1:
        figures = [replace(figures[0], wide=True)]
    return [*blocks, *figures, *library_table(facts.devices)]


def _rates(facts: Facts) -> Figure | None:
    data, total = [], 0
    for device in facts.devices:
        found = [(tuned.problem, rate) for tuned in device.tuned.values() if (rate := served_gflops(tuned)) is not None]
        total += len(found)
        found = thin(found, DRAWN)
        if found:
            x, y = numbers([problem.flop for problem, _ in found]), numbers([rate for _, rate in found])
            hover = "%{text}<br>%{y} GFLOP/s<extra>%{fullData.name}</extra>"
            names = [problem_name(problem) for problem, _ in found]
            data.append(points(device_name(device.id), x, y, text=names, hovertemplate=hover))
    if not data:
        return None
    count = sum(len(trace["x"]) for trace in data)
    some = f"every champion ({count})" if count == total else f"{count} of {total} champions"
    caption = f"Rate of {some} over the work of its product, by device; both axes logarithmic."
    layout = {
        "xaxis": work_axis(data),
        "yaxis": log_axis("GFLOP/s", [y for trace in data for y in trace["y"]]),
        "showlegend": True,
    }
    return Figure("rates", "Champions", caption, data, layout, height=380)


def _regressions(facts: Facts) -> Sequence[Block]:
    open_ones = [one for one in facts.regressions if one.closed is None]
    if not open_ones:
        return []
    rows = [
        [
            Cell(problem_name(one.problem), link=f"{problem_page(one.problem)}.html"),
            short(one.silicon.name),
            one.before_ms,
            Cell(one.now_ms, one.noise),
            one.now_ms / one.before_ms,
            settings(one.config),
            date_of(one.opened),
        ]
        for one in open_ones
    ]
    columns = [
        Column("problem", "problem"),
        Column("device", "device"),
        Column("before_ms", "before", Kind.TIME, "ms"),
        Column("now_ms", "now", Kind.TIME, "ms"),
        Column("ratio", "now / before", Kind.RATIO),
        Column("config", "configuration"),
        Column("opened", "open since", Kind.DATE, "UTC"),
    ]
    caption = "Open regressions: the same configuration, slower than its own history beyond noise."
    return [Table.of("regressions", caption, columns, rows)]


def _devices(facts: Facts) -> Sequence[Block]:
    if not facts.devices:
        return [Prose("No device was tuned yet.")]
    rows = [_device_row(facts, device) for device in facts.devices]
    columns = [
        Column("device", "device"),
        Column("driver", "present driver"),
        Column("asked", "problems", Kind.COUNT),
        Column("champions", "champions", Kind.COUNT),
        Column("coverage", "certified here", Kind.PERCENT),
        Column("shapes", "shapes with a default's time", Kind.COUNT),
        Column("share", "default > 10 % slower", Kind.PERCENT),
        Column("median", "median default / best", Kind.RATIO),
        Column("largest", "largest", Kind.RATIO),
        Column("where", "on shape"),
        Column("last", "last trial", Kind.DATE, "UTC"),
    ]
    caption = (
        "Certified here: share of the problems tuned or asked for, with a champion certified on this driver. The share"
        " of shapes on which the default is more than 10 % slower than the best is taken over shapes with both times."
    )
    return [Table.of("devices", caption, columns, rows)]


def _device_row(facts: Facts, device: DeviceFacts) -> list[Any]:
    asked = set(device.tuned) | {
        miss.problem for miss in facts.misses if miss.silicon == device.id.silicon and miss.software in device.softwares
    }
    served = [tuned.served for tuned in device.tuned.values() if tuned.served is not None]
    covered = sum(one.certified and one.origin != "other_driver" for one in served)
    regret = default_regret(
        (problem, tuned.default_ms, tuned.present.best[1])
        for problem, tuned in device.tuned.items()
        if tuned.default_ms is not None and tuned.present is not None and tuned.present.best is not None
    )
    last = max((tuned.last for tuned in device.tuned.values()), default="")
    return [
        Cell(device_name(device.id), link=f"{device_page(device.id)}.html"),
        short(device.software.driver),
        len(asked),
        len(served),
        covered / len(asked) if asked else None,
        regret.shapes,
        regret.share,
        regret.median,
        Cell(regret.largest, None if regret.where is None else device.tuned[regret.where].default_noise),
        "–" if regret.where is None else problem_name(regret.where),
        date_of(last),
    ]


def _nights(facts: Facts) -> Sequence[Block]:
    if not facts.nights:
        return [Prose("No night was run with this store yet.")]
    rows = []
    for night in facts.nights[:NIGHTS]:
        summary = night.summary or {}
        rows.append(
            [
                date_of(night.started),
                short(night.name),
                short(night.host),
                night.state.value,
                date_of(night.finished),
                *(_count(summary, name) for name in ("promoted", "withdrawn", "regressions", "failures")),
                _count(summary, "evaluated"),
            ]
        )
    columns = [
        Column("started", "began", Kind.DATE, "UTC"),
        Column("name", "job"),
        Column("host", "host"),
        Column("state", "state"),
        Column("finished", "ended", Kind.DATE, "UTC"),
        Column("promoted", "promoted", Kind.COUNT),
        Column("withdrawn", "withdrawn", Kind.COUNT),
        Column("regressions", "regressions", Kind.COUNT),
        Column("failures", "failures", Kind.COUNT),
        Column("evaluated", "evaluated", Kind.COUNT),
    ]
    caption = f"The last {len(rows)} of {len(facts.nights)} nights; – where a night's summary does not say."
    return [Table.of("nights", caption, columns, rows)]


def _count(summary: Mapping[str, Any], name: str) -> int | None:
    """A number of a night's summary: over its devices, whose lists are counted; None where nothing is said."""
    found = [_size(one[name]) for one in summary.get("devices") or () if isinstance(one, Mapping) and name in one]
    return sum(found) if found else None


def _size(value: Any) -> int:
    """Of regressions the new ones, of failures those of all verdicts."""
    if isinstance(value, Mapping):
        return sum(value["verdicts"].values()) if "verdicts" in value else len(value.get("new", ()))
    return len(value) if isinstance(value, list) else int(value)


def _problems(facts: Facts) -> Sequence[Block]:
    rows = [_problem_row(facts, problem) for problem in facts.problems]
    if not rows:
        return [Prose("No problem was tuned yet.")]
    columns = [
        Column("problem", "problem"),
        Column("devices", "devices", Kind.COUNT),
        Column("champions", "champions", Kind.COUNT),
        Column("gflops", "fastest champion", Kind.RATE, "GFLOP/s"),
        Column("device", "on"),
        Column("behind", "least library / ours", Kind.RATIO),
        Column("library", "library"),
        Column("trials", "trials", Kind.COUNT),
        Column("last", "last trial", Kind.DATE, "UTC"),
    ]
    return [Table.of("problems", "Every problem; each has a page of its own.", columns, rows)]


def _problem_row(facts: Facts, problem: Problem) -> list[Any]:
    found = [(device, device.tuned[problem]) for device in facts.devices if problem in device.tuned]
    rates = [(rate, device, tuned) for device, tuned in found if (rate := served_gflops(tuned)) is not None]
    fastest = max(rates, key=lambda one: one[0], default=None)
    noise = None if fastest is None or fastest[2].served is None else fastest[2].served.event.noise
    return [
        Cell(problem_name(problem), link=f"{problem_page(problem)}.html"),
        len(found),
        sum(tuned.served is not None for _, tuned in found),
        Cell(None if fastest is None else fastest[0], noise),
        "–" if fastest is None else short(fastest[1].id.silicon.name, 30),
        *_furthest_behind(problem, [device for device, _ in found]),
        sum(tuned.trials for _, tuned in found),
        date_of(max(tuned.last for _, tuned in found)),
    ]


def _furthest_behind(problem: Problem, devices: Sequence[DeviceFacts]) -> list[Any]:
    """The least ratio of a library's time to ours, on any device, and which library that is."""
    standings = [one for device in devices for (of, _), one in device.standings.items() if of == problem]
    found = min((one for one in standings if one.ratio is not None), key=lambda one: one.ratio or 0.0, default=None)
    return [None, "–"] if found is None else [Cell(found.ratio, found.ratio_noise), found.name]
