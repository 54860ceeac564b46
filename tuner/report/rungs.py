"""The ladder on a device's page, from the JSON that `gemm-tuner ladder` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tuner.model import UserError
from tuner.report.blocks import Block, Cell, Column, Figure, Table
from tuner.report.figures import axis, numbers, points
from tuner.report.labels import short
from tuner.report.numbers import Kind, date_of


@dataclass(frozen=True)
class Ladder:
    """One climb: every rung and library over sizes, in turns by one clock."""

    silicon_key: str
    platform: str
    when: str
    words: str
    """Dtype and layout."""
    library: str
    """The one that shares refer to; empty without any."""
    climbers: Mapping[str, tuple[tuple[str, float, float, float | None, float | None], ...]] = field(hash=False)
    """By name: size, ms, GFLOP/s, noise, and speed over the library."""


def read_ladder(path: Path) -> Ladder:
    """The ladder in a file. Raises UserError if it is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        climbers: dict[str, list[tuple[str, float, float, float | None, float | None]]] = {}
        for level in data["sizes"]:
            p = level["problem"]
            size = str(p["m"]) if p["m"] == p["n"] == p["k"] else f"{p['m']}×{p['n']}×{p['k']}"
            for one in (*level["rungs"], *level["libraries"]):
                if one["time_ms"] is not None:
                    share = (one["of_library"] or {}).get("ratio")
                    row = (size, float(one["time_ms"]), float(one["gflops"]), one["noise"], share)
                    climbers.setdefault(str(one["name"]), []).append(row)
        device = data["device"]
        words = f"{data['dtype']}, {data['layout']}-major"
        found = {name: tuple(rows) for name, rows in climbers.items()}
        where = (str(device["silicon"]["key"]), str(device["software"]["platform"]))
        return Ladder(*where, str(data["when"]), words, data["library"] or "", found)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is no ladder; give the ladder.json that gemm-tuner ladder --out writes.") from error


def ladder_blocks(number: int, ladder: Ladder) -> Sequence[Block]:
    """A figure over size, and a table of the largest size."""
    if not ladder.climbers:
        return []
    data = [
        {**points(short(name), [row[0] for row in rows], numbers([row[2] for row in rows])), "mode": "lines+markers"}
        for name, rows in ladder.climbers.items()
    ]
    caption = (
        f"Every rung and library over size, {ladder.words}, in turns by the host's clock, {date_of(ladder.when)} UTC."
    )
    sizes = list(dict.fromkeys(row[0] for rows in ladder.climbers.values() for row in rows))
    layout = {
        "xaxis": axis("m = n = k", type="category", categoryorder="array", categoryarray=sizes),
        "yaxis": axis("GFLOP/s", rangemode="tozero"),
    }
    figure = Figure(f"ladder-{number}-plot", "The ladder", caption, data, layout, height=460, wide=True)
    last = sizes[-1]
    rows = [
        [short(name), Cell(row[1], row[3]), Cell(row[2], row[3]), row[4]]
        for name, found in ladder.climbers.items()
        for row in found
        if row[0] == last
    ]
    columns = [
        Column("rung", "rung or library"),
        Column("time_ms", "time", Kind.TIME, "ms"),
        Column("gflops", "rate", Kind.RATE, "GFLOP/s"),
        Column("of_library", f"of {ladder.library}" if ladder.library else "of a library", Kind.PERCENT),
    ]
    words = f"At {last}: medians ± half of the 95 % interval; the share is the median ratio within rounds."
    return [figure, Table.of(f"ladder-{number}", words, columns, rows)]
