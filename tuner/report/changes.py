"""What changed since the report before: a small manifest beside the output, and the difference to it as a table."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.report.blocks import Block, Cell, Column, Prose, Table
from tuner.report.gather import Facts
from tuner.report.labels import device_name, device_page, plain, problem_name, problem_page, settings
from tuner.report.numbers import Kind, date_of
from tuner.report.statistics import ratio_noise

FORMAT = 1
MOST = 50


def manifest_of(facts: Facts) -> dict[str, Any]:
    """What the next report compares with."""
    champions = {}
    for device in facts.devices:
        for problem, tuned in device.tuned.items():
            if tuned.served is not None:
                event = tuned.served.event
                champions[f"{device_page(device.id)} {problem_page(problem)}"] = {
                    "config": str(event.config),
                    "time_ms": event.time_ms,
                    "noise": event.noise,
                }
    counts = {"trials": facts.trials, "problems": len(facts.problems), "devices": len(facts.devices)}
    return {"format": FORMAT, "when": facts.now, **counts, "champions": champions}


def read_manifest(path: Path) -> Mapping[str, Any] | None:
    """The manifest of the report before; None without one that can be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    good = isinstance(found, dict) and found.get("format") == FORMAT and isinstance(found.get("champions"), dict)
    return found if good else None


def changes(facts: Facts, before: Mapping[str, Any] | None) -> Sequence[Block]:
    """Blocks that say what is new."""
    if before is None:
        return [Prose("This is the first report at this place, so there is nothing to compare with.")]
    rows = _rows(facts, before["champions"])
    trials = facts.trials - int(before.get("trials", 0))
    since = f"Since the report of {date_of(str(before.get('when', '')))} UTC: {trials:+d} trials"
    if not rows:
        return [Prose(f"{since}; no champion changed.")]
    rows.sort(key=lambda row: -(row[5].value if isinstance(row[5].value, float) else math.inf))
    columns = [
        Column("problem", "problem"),
        Column("device", "device"),
        Column("what", "what"),
        Column("before_ms", "before", Kind.TIME, "ms"),
        Column("now_ms", "now", Kind.TIME, "ms"),
        Column("gain", "before / now", Kind.RATIO),
        Column("config", "configuration now"),
    ]
    caption = f"{since}, {len(rows)} champions changed. before / now is of two published medians, each with its noise."
    return [Table.of("changes", caption, columns, rows, MOST)]


def _rows(facts: Facts, before: Mapping[str, Any]) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for device in facts.devices:
        for problem, tuned in device.tuned.items():
            old = before.get(f"{device_page(device.id)} {problem_page(problem)}")
            event = None if tuned.served is None else tuned.served.event
            if event is None and old is None:
                continue
            config = None if event is None else str(event.config)
            if old is not None and (config, event and event.time_ms) == (old.get("config"), old.get("time_ms")):
                continue
            name = Cell(problem_name(problem), link=f"{problem_page(problem)}.html")
            past, now = _time(old), (None if event is None else event.time_ms)
            noises = (None if old is None else old.get("noise"), None if event is None else event.noise)
            gain = Cell(past / now if past and now else None, ratio_noise(*noises))
            shown = "–" if event is None else settings(event.config)
            before_cell, now_cell = Cell(past, noises[0]), Cell(now, noises[1])
            rows.append([name, device_name(device.id), _what(old, config), before_cell, now_cell, gain, shown])
    return rows


def _time(old: Mapping[str, Any] | None) -> float | None:
    found = None if old is None else old.get("time_ms")
    return float(found) if isinstance(found, int | float) else None


def _what(old: Mapping[str, Any] | None, config: str | None) -> str:
    if old is None:
        return "first champion"
    if config is None:
        return "withdrawn"
    return "measured again" if plain(config) == plain(str(old.get("config"))) else "new configuration"
