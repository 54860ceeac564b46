"""The two classic pictures of a ladder: GFLOP/s over size, and time over size; as SVG, and as HTML where Plotly is.

Plotly writes SVG only with a browser at hand, so that the static pictures are drawn here.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from tuner.ladder.level import Level, Taken
from tuner.ladder.page import size_name

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 960, 560, 80, 170, 60, 50
COLOURS = (
    "#888888",
    "#b07aa1",
    "#9c755f",
    "#e15759",
    "#f28e2b",
    "#edc948",
    "#59a14f",
    "#76b7b2",
    "#4e79a7",
    "#af4fd8",
    "#1a3c8f",
)
LIBRARY_COLOURS = ("#000000", "#666666", "#999999")


@dataclass(frozen=True)
class Line:
    """One rung or library over the sizes where it has a time."""

    name: str
    points: tuple[tuple[float, float, str], ...]
    """(size, value, name of the size)."""
    colour: str
    dashed: bool


def speed_svg(title: str, levels: Sequence[Level]) -> str:
    """GFLOP/s over size, all rungs and libraries."""
    return _svg(title, "GFLOP/s", _lines(levels, _rate), logarithmic=False)


def time_svg(title: str, levels: Sequence[Level]) -> str:
    """Milliseconds over size, the time on a logarithmic axis."""
    return _svg(title, "ms", _lines(levels, lambda taken, level: taken.time_ms), logarithmic=True)


def html(title: str, levels: Sequence[Level]) -> str | None:
    """One self-contained page with both as Plotly draws them; None if Plotly is not installed."""
    try:
        go: Any = importlib.import_module("plotly.graph_objects")
    except ImportError:
        return None
    figures: list[str] = []
    for unit, value in (("GFLOP/s", _rate), ("ms", lambda taken, level: taken.time_ms)):
        traces = [
            go.Scatter(
                x=[x for x, _, _ in line.points],
                y=[y for _, y, _ in line.points],
                text=[name for _, _, name in line.points],
                name=line.name,
                mode="lines+markers",
                line={"color": line.colour, "dash": "dash" if line.dashed else "solid"},
            )
            for line in _lines(levels, value)
        ]
        figure = go.Figure(traces)
        figure.update_layout(title=escape(title), xaxis_title="size", yaxis_title=unit, template="plotly_white")
        if unit == "ms":
            figure.update_yaxes(type="log")
        figures.append(figure.to_html(full_html=False, include_plotlyjs="inline" if not figures else False))
    head = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title></head>'
    return f"{head}<body>{''.join(figures)}</body></html>\n"


def _rate(taken: Taken, level: Level) -> float | None:
    return level.gflops(taken)


def _lines(levels: Sequence[Level], value: Callable[[Taken, Level], float | None]) -> list[Line]:
    rungs = list(dict.fromkeys(taken.name for level in levels for taken in level.rungs))
    libraries = list(dict.fromkeys(taken.name for level in levels for taken in level.libraries if taken.ms))
    lines = []
    for names, colours, dashed in ((rungs, COLOURS, False), (libraries, LIBRARY_COLOURS, True)):
        for index, name in enumerate(names):
            found = [(level, level.find(name)) for level in levels]
            points = [
                ((level.problem.flop / 2) ** (1 / 3), y, size_name(level))
                for level, taken in found
                if taken is not None and (y := value(taken, level)) is not None
            ]
            lines.append(Line(name, tuple(points), colours[index % len(colours)], dashed))
    return lines


def _svg(title: str, unit: str, lines: Sequence[Line], *, logarithmic: bool) -> str:
    xs = [x for line in lines for x, _, _ in line.points] or [1.0]
    ys = [y for line in lines for _, y, _ in line.points] or [1.0]
    x_at = _scale(0 if len(set(xs)) == 1 else min(xs), max(xs), LEFT, WIDTH - RIGHT)
    ticks = _decades(min(ys), max(ys)) if logarithmic else _round_steps(max(ys))
    shown: Callable[[float], float] = math.log10 if logarithmic else float
    y_at = _scale(shown(ticks[0]), shown(ticks[-1]), HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="15">{escape(title)}</text>',
        f'<text x="{LEFT - 8}" y="{TOP - 14}" text-anchor="end">{unit}</text>',
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 10}" text-anchor="end">size (cube root of m·n·k)</text>',
    ]
    for tick in ticks:
        y = y_at(shown(tick))
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:,g}</text>')
    for x in _some(sorted(set(xs)), 12):
        parts.append(f'<text x="{x_at(x):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{x:.0f}</text>')
    for index, line in enumerate(lines):
        parts += _drawn(line, index, x_at, lambda y: y_at(shown(y)))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _drawn(line: Line, index: int, x_at: Callable[[float], float], y_at: Callable[[float], float]) -> list[str]:
    """Its line, a mark at each point whose tooltip names it, and its entry of the legend."""
    dash = ' stroke-dasharray="6 4"' if line.dashed else ""
    style = f'fill="none" stroke="{line.colour}" stroke-width="2"{dash}'
    legend_y = TOP + 10 + 20 * index
    parts = [
        f'<path d="M{WIDTH - RIGHT + 12} {legend_y}h24" {style}/>',
        f'<text x="{WIDTH - RIGHT + 42}" y="{legend_y + 4}">{escape(line.name)}</text>',
    ]
    if line.points:
        path = "L".join(f"{x_at(x):.1f} {y_at(y):.1f}" for x, y, _ in line.points)
        parts.append(f'<path d="M{path}" {style}/>')
    for x, y, size in line.points:
        mark = f'<circle cx="{x_at(x):.1f}" cy="{y_at(y):.1f}" r="3" fill="{line.colour}">'
        parts.append(f"{mark}<title>{escape(line.name)}, {size}: {y:.4g}</title></circle>")
    return parts


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    span = high - low or 1.0
    return lambda value: start + (value - low) / span * (end - start)


def _round_steps(most: float) -> list[float]:
    """From 0 to `most` or beyond in 4 to 10 steps of 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(most / 4))
    step = next(factor * power for factor in (1, 2, 5, 10) if most / (factor * power) <= 10)
    return [step * index for index in range(math.ceil(most / step) + 1)]


def _decades(least: float, most: float) -> list[float]:
    first, last = math.floor(math.log10(least)), math.ceil(math.log10(most))
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]


def _some(values: Sequence[float], most: int) -> list[float]:
    step = math.ceil(len(values) / most)
    return list(values[::step])
