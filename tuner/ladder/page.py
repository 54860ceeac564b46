"""A ladder as plain values and as a page of Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tuner.ladder.level import Level, Taken
from tuner.ladder.rungs import Rung

VENDORS = ("cuBLAS", "rocBLAS", "OpenBLAS", "MKL", "CLBlast")
"""The library that rungs are compared with is the first of these that is there."""


def reference(levels: Sequence[Level]) -> str:
    """Name of the library that percentages refer to; empty without any."""
    timed = {taken.name for level in levels for taken in level.libraries if taken.ms}
    return next((name for name in VENDORS if name in timed), "")


def ladder_json(head: Mapping[str, Any], rungs: Sequence[Rung], levels: Sequence[Level]) -> dict[str, Any]:
    """All that was found, as plain values; `head` says where and how."""
    library = reference(levels)
    declared = [
        {"name": rung.name, "adds": rung.adds, "builds_on": rung.builds_on or None, "family": rung.family or None}
        for rung in rungs
    ]
    bases = {rung.name: rung.builds_on for rung in rungs}
    sizes = [
        {
            "problem": dict(vars(level.problem)),
            "rungs": [_taken(taken, level, library, bases.get(taken.name, "")) for taken in level.rungs],
            "libraries": [_taken(taken, level, library, "") for taken in level.libraries],
        }
        for level in levels
    ]
    return {**head, "library": library or None, "rungs": declared, "sizes": sizes}


def _taken(taken: Taken, level: Level, library: str, base: str) -> dict[str, Any]:
    return {
        "name": taken.name,
        "verdict": taken.verdict.value if taken.verdict else None,
        "message": taken.message or None,
        "family": taken.config.family if taken.config else None,
        "config": taken.config.as_dict() if taken.config else None,
        "note": taken.note or None,
        "time_ms": taken.time_ms,
        "noise": taken.noise,
        "gflops": level.gflops(taken),
        "of_library": _speed(taken, level, library),
        "over_base": _speed(taken, level, base),
        "rounds_ms": {str(number): ms for number, ms in sorted(taken.ms.items())},
    }


def _speed(taken: Taken, level: Level, other: str) -> dict[str, float] | None:
    """How many times as fast as another, with its 95 % interval."""
    beside = level.find(other) if other else None
    found = taken.speed_over(beside) if beside else None
    return dict(zip(("ratio", "low", "high"), found, strict=True)) if found else None


def size_name(level: Level) -> str:
    """`512` for a cube, else `m×n×k` of the problem."""
    p = level.problem
    return str(p.m) if p.m == p.n == p.k else f"{p.m}×{p.n}×{p.k}"


def markdown(
    title: str, about: Sequence[str], rungs: Sequence[Rung], levels: Sequence[Level], pictures: Sequence[str] = ()
) -> str:
    """The page: rates, percentages of the library, what each rung adds and gains, and what has no time."""
    names = [rung.name for rung in rungs]
    libraries = [taken.name for taken in levels[0].libraries if not taken.message] if levels else []
    lines = [f"# {title}", "", *about, ""]
    for picture in pictures:
        lines += [f"![{picture.removesuffix('.svg')}]({picture})", ""]
    lines += ["## GFLOP/s", "", *_table(levels, [*names, *libraries], _rate)]
    if library := reference(levels):
        lines += ["", f"## % of {library}", "", *_table(levels, names, lambda t, level: _percent(t, level, library))]
    lines += ["", "## The rungs", "", *_rungs(rungs, levels)]
    if champions := _champions(levels):
        lines += ["", "## The champions", "", *champions]
    if missing := _missing(levels):
        lines += ["", "## Without a time", "", *missing]
    return "\n".join(lines) + "\n"


def _rate(taken: Taken, level: Level) -> str:
    rate = level.gflops(taken)
    if rate is None:
        return f"*{taken.verdict.value}*" if taken.verdict else "-"
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _percent(taken: Taken, level: Level, library: str) -> str:
    found = _speed(taken, level, library)
    return f"{found['ratio']:.1%}".removesuffix("%") if found else "-"


def _table(levels: Sequence[Level], names: Sequence[str], cell: Any) -> list[str]:
    rows = [f"| size | {' | '.join(names)} |", "|---:" * (len(names) + 1) + "|"]
    for level in levels:
        found = [level.find(name) for name in names]
        rows.append(f"| {size_name(level)} | {' | '.join(cell(t, level) if t else '-' for t in found)} |")
    return rows


def _rungs(rungs: Sequence[Rung], levels: Sequence[Level]) -> list[str]:
    rows = ["| rung | builds on | what it adds | times as fast, at the largest size of both |", "|---|---|---|---|"]
    for rung in rungs:
        rows.append(f"| {rung.name} | {rung.builds_on} | {rung.adds} | {_gain(rung, levels)} |")
    return rows


def _gain(rung: Rung, levels: Sequence[Level]) -> str:
    for level in reversed(levels):
        taken = level.find(rung.name)
        if taken and (found := _speed(taken, level, rung.builds_on)):
            return f"{found['ratio']:.2f} ({found['low']:.2f} to {found['high']:.2f}) at {size_name(level)}"
    return ""


def _champions(levels: Sequence[Level]) -> list[str]:
    found = [(level, taken) for level in levels for taken in level.rungs if taken.note and taken.config]
    rows = [f"| {size_name(level)} | {taken.note} | {taken.config} |" for level, taken in found]
    return ["| size | which | configuration |", "|---:|---|---|", *rows] if rows else []


def _missing(levels: Sequence[Level]) -> list[str]:
    rows = []
    for level in levels:
        for taken in (*level.rungs, *(levels[0].libraries if level is levels[0] else ())):
            if not taken.ms:
                verdict = f"{taken.verdict.value}: " if taken.verdict else ""
                rows.append(f"- {size_name(level)}, {taken.name}: {verdict}{' '.join(taken.message.split())}")
    return rows
