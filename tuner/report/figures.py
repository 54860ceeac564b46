"""The figures, as Plotly's traces and layouts in plain values; colours and fonts come from the page's theme."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.report.blocks import Figure
from tuner.report.numbers import significant

DIGITS = 5
"""Significant digits of what is drawn: finer than any screen, and a third of the bytes."""
LINES_AT_MOST = 600
"""Points of one trace."""


def number(value: float | None) -> float | None:
    """A drawn number."""
    return None if value is None else significant(value, DIGITS)


def numbers(values: Sequence[float | None]) -> list[float | None]:
    """Drawn numbers."""
    return [number(value) for value in values]


def thin(rows: Sequence[Any], most: int = LINES_AT_MOST) -> list[Any]:
    """At most about `most` of the rows, evenly, the last among them."""
    step = max(1, -(-len(rows) // most))
    kept = list(rows[::step])
    return kept if not rows or (len(rows) - 1) % step == 0 else [*kept, rows[-1]]


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with its title."""
    return {"title": {"text": title}, **more}


def log_axis(title: str, values: Sequence[float | None], **more: Any) -> dict[str, Any]:
    """A logarithmic axis around these values, with ticks at 1, 2 and 5, or at powers where there are many decades
    or the exponents are shown as powers.
    """
    known = [math.log10(value) for value in values if value] or [0.0]
    low, high = min(known) - 0.15, max(known) + 0.15
    if high - low < 1:
        low, high = (low + high - 1) / 2, (low + high + 1) / 2
    ticks = {"dtick": 1} if high - low >= 3.2 or "exponentformat" in more else _ticks(low, high)
    return axis(title, type="log", range=[number(low), number(high)], **ticks, **more)


def work_axis(traces: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The axis along which these traces show products by their work."""
    return log_axis("flop of the product", [x for trace in traces for x in trace["x"]], exponentformat="power")


def _ticks(low: float, high: float) -> dict[str, Any]:
    """Whole figures at 1, 2 and 5: Plotly would show them without their power."""
    decades = range(math.floor(low), math.ceil(high))
    found = [float(f"{digit}e{power}") for power in decades for digit in (1, 2, 5)]
    shown = [value for value in found if low <= math.log10(value) <= high]
    return {"tickvals": shown, "ticktext": [f"{value:,.0f}" if value >= 1 else f"{value:g}" for value in shown]}


def points(name: str, x: Sequence[Any], y: Sequence[Any], **more: Any) -> dict[str, Any]:
    """A trace of markers."""
    return {"type": "scatter", "mode": "markers", "name": name, "x": list(x), "y": list(y), **more}


def line(name: str, x: Sequence[Any], y: Sequence[Any], **more: Any) -> dict[str, Any]:
    """A trace of a line."""
    return {"type": "scatter", "mode": "lines", "name": name, "x": list(x), "y": list(y), **more}


def bars(name: str, labels: Sequence[str], values: Sequence[float], **more: Any) -> dict[str, Any]:
    """Horizontal bars, the first on top."""
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": list(labels)[::-1],
        "x": numbers(list(values)[::-1]),
        **more,
    }


def heat_map(
    id: str,
    title: str,
    caption: str,
    across: Sequence[str],
    down: Sequence[str],
    values: Sequence[Sequence[float | None]],
    unit: str,
) -> Figure:
    """Colours for numbers from 1 on; what is None stays the colour of the unknown."""
    drawn = [numbers(row) for row in values]
    known = [value for row in drawn for value in row if value is not None]
    top = max(1.1, min(2.0, max(known, default=1.0)))
    trace: Mapping[str, Any] = {
        "type": "heatmap",
        "x": list(across),
        "y": list(down),
        "z": drawn,
        "zmin": 1.0,
        "zmax": top,
        "hoverongaps": True,
        "xgap": 1,
        "ygap": 1 if len(down) <= 60 else 0,
        "colorbar": {"title": {"text": unit, "side": "right"}, "thickness": 12},
        "hovertemplate": "%{y}<br>%{x}<br>%{z:.3r}<extra></extra>",
        **({"texttemplate": "%{z:.3r}"} if len(down) <= 40 and len(across) <= 12 else {}),
    }
    many = len(down) > 60
    layout = {
        "xaxis": axis("", side="top", type="category", showgrid=False, tickangle=_turn(across)),
        "yaxis": axis("", autorange="reversed", type="category", showgrid=False, showticklabels=not many),
        "meta": {"unknown": True},
    }
    return Figure(id, title, caption, [trace], layout, height=min(900, 120 + max(8, 22 * len(down))), wide=True)


def _turn(across: Sequence[str]) -> int:
    """Degrees by which names above columns are turned, so that they do not run into each other."""
    return 0 if len(across) <= 3 or max(map(len, across)) <= 3 else -30


def marks(moments: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Layout of vertical lines at moments, each with its words."""
    shapes = [
        {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper", "line": {"dash": "dot", "width": 1}}
        for x, _ in moments
    ]
    annotations = [
        {"x": x, "y": 1, "yref": "paper", "yanchor": "bottom", "xanchor": "left", "showarrow": False, "text": words}
        for x, words in moments
    ]
    return {"shapes": shapes, "annotations": annotations}
