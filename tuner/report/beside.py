"""Champions beside libraries: one row for each device and library, and a figure of every ratio with its noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tuner.model import Problem
from tuner.report.blocks import Block, Cell, Column, Figure, Prose, Table
from tuner.report.figures import axis, log_axis, numbers, points, thin, work_axis
from tuner.report.gather import DeviceFacts
from tuner.report.labels import device_name, device_page, drawn_names, problem_name, short
from tuner.report.numbers import Kind, date_of
from tuner.report.statistics import geometric_mean, mean_noise

NAMED = 40
"""Shapes up to which the figure names each; beyond that it shows them by the work they are."""

DRAWN = 100
"""Ratios of one device and library that are drawn without names, evenly from the worst to the best."""

Ratios = list[tuple[float, float | None, Problem]]
"""(library's time / ours, its noise, the shape)."""


def paired(device: DeviceFacts, library: str) -> Ratios:
    """Every shape on which both took turns, the worst first."""
    found = ((problem, one) for (problem, name), one in device.standings.items() if name == library)
    ratios = [(one.ratio, one.ratio_noise, problem) for problem, one in found if one.ratio is not None]
    return sorted(ratios, key=lambda one: (one[0], one[2]))


def library_table(devices: Sequence[DeviceFacts], *, named: bool = True) -> Sequence[Block]:
    """How champions stand beside each library, over all shapes raced; `named`: with the device of each row."""
    rows = [
        _row(device, name, ratios, named)
        for device in devices
        for name in device.libraries
        if (ratios := paired(device, name))
    ]
    if not rows:
        return [Prose("No library was raced here in turns, so no ratio to one is given.")] if devices else []
    columns = [
        *([Column("device", "device")] if named else []),
        Column("library", "library"),
        Column("version", "version"),
        Column("shapes", "shapes", Kind.COUNT),
        Column("mean", "geometric mean", Kind.RATIO),
        Column("faster", "ours at least as fast", Kind.COUNT, "shapes"),
        Column("worst", "least", Kind.RATIO),
        Column("where", "on shape"),
        Column("last", "last raced", Kind.DATE, "UTC"),
    ]
    caption = (
        "Library's time / ours in rounds in which both took turns, over all shapes raced: above 1 ours is faster."
        " Least: the shape that is furthest behind."
    )
    return [Table.of("libraries", caption, columns, rows)]


def _row(device: DeviceFacts, library: str, ratios: Ratios, named: bool) -> list[Any]:
    standings = [one for (_, name), one in device.standings.items() if name == library]
    worst, noise, where = ratios[0]
    return [
        *([Cell(device_name(device.id), link=f"{device_page(device.id)}.html")] if named else []),
        library,
        short(", ".join(sorted({one.version for one in standings}))),
        len(ratios),
        Cell(geometric_mean([ratio for ratio, _, _ in ratios]), mean_noise([noise for _, noise, _ in ratios])),
        sum(ratio >= 1 for ratio, _, _ in ratios),
        Cell(worst, noise),
        problem_name(where),
        date_of(max(one.record.when for one in standings))[:10],
    ]


def ratio_figure(devices: Sequence[DeviceFacts]) -> Figure | None:
    """Every ratio to a library: named while there are few, by the work of the shape when there are many."""
    groups = [
        (name if len(devices) == 1 else f"{name}, {device_name(device.id)}", ratios)
        for device in devices
        for name in device.libraries
        if (ratios := paired(device, name))
    ]
    if not groups:
        return None
    everything = sorted((one for _, ratios in groups for one in ratios), key=lambda one: (one[0], one[2]))
    names, alike = drawn_names({problem for _, _, problem in everything})
    shapes = list(dict.fromkeys(names[problem] for _, _, problem in everything))
    reached = [1.0, *(ratio for ratio, _, _ in everything)]
    named = len(shapes) <= NAMED
    traces = [_trace(name, ratios if named else thin(ratios, DRAWN), names, named) for name, ratios in groups]
    over = "by shape, the least on top" if named else "over the work of the shape"
    count = _count(traces, everything)
    caption = f"Library's time / ours {over}, with its 95 % interval; {count}. Right of 1 ours is faster.{alike}"
    heading = "library's time / ours"
    if named:
        layout = {
            "xaxis": log_axis(heading, reached),
            "yaxis": axis("", type="category", categoryorder="array", categoryarray=shapes[::-1]),
            "shapes": [_one("x")],
        }
        return Figure(
            "ratios", "Beside the libraries", caption, traces, layout, height=max(320, 110 + 19 * len(shapes))
        )
    layout = {
        "xaxis": work_axis(traces),
        "yaxis": log_axis(heading, reached),
        "shapes": [_one("y")],
    }
    return Figure("ratios", "Beside the libraries", caption.replace("Right of", "Above"), traces, layout, height=380)


def _count(traces: Sequence[Mapping[str, Any]], everything: Ratios) -> str:
    drawn = sum(len(trace["x"]) for trace in traces)
    return f"{drawn} ratios" if drawn == len(everything) else f"{drawn} of {len(everything)} ratios"


def _trace(name: str, ratios: Ratios, shapes: Mapping[Problem, str], named: bool) -> dict[str, Any]:
    drawn = numbers([ratio for ratio, _, _ in ratios])
    spread = numbers([ratio * (noise or 0.0) for ratio, noise, _ in ratios])
    names = [shapes[problem] for _, _, problem in ratios]
    bars = {"type": "data", "array": spread, "thickness": 1, "width": 2}
    if named:
        return points(name, drawn, names, error_x=bars, showlegend=True)
    work = numbers([problem.flop for _, _, problem in ratios])
    return points(name, work, drawn, error_y=bars, text=names, hovertemplate="%{text}<br>%{y}", showlegend=True)


def _one(along: str) -> dict[str, Any]:
    """A line where both are as fast."""
    across = "y" if along == "x" else "x"
    ends = {f"{along}0": 1, f"{along}1": 1, f"{across}0": 0, f"{across}1": 1, f"{across}ref": "paper"}
    return {"type": "line", **ends, "line": {"dash": "dot", "width": 1}}
