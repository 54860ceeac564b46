"""Regret: what a few configurations cost on every tuned shape, and what one device's champions cost on another."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.model import Config, Problem
from tuner.report.blocks import Block, Cell, Column, Page, Prose, Section, Table
from tuner.report.figures import heat_map
from tuner.report.gather import DeviceFacts, Facts
from tuner.report.labels import device_name, device_page, drawn_names, problem_name, problem_page, regret_page, settings
from tuner.report.numbers import Kind
from tuner.report.statistics import UNCOVERED, Portfolio, portfolio

DRAWN = 250
"""Shapes of one heat map at most."""


def device_regret_page(facts: Facts, device: DeviceFacts) -> Page:
    """Shape regret of one device: a section for each dtype and math."""
    groups: dict[tuple[str, str], dict[Problem, Mapping[Config, float]]] = {}
    for problem, tuned in device.tuned.items():
        if tuned.present is not None and tuned.present.times:
            groups.setdefault((problem.dtype, problem.math), {})[problem] = tuned.present.times
    sections = tuple(_section(dtype, math, times) for (dtype, math), times in sorted(groups.items()))
    lead = (
        "How few configurations would serve all shapes, and what each would cost: its time / the shape's best time,"
        " both by the device's clock on the present driver. 1 is the best; what was not measured is shown as unknown."
    )
    return Page(regret_page(device.id), f"Shape regret: {device_name(device.id)}", lead, sections)


def _section(dtype: str, math: str, times: Mapping[Problem, Mapping[Config, float]]) -> Section:
    found = portfolio(times)
    name = f"{dtype} {math}"
    id = f"{dtype}-{math}"
    return Section(id, name, (_steps(id, found, len(times)), *_map(id, found), _table(id, found)))


def _steps(id: str, found: Portfolio, shapes: int) -> Table:
    rows = [
        [f"#{number}", settings(config), covered, shapes, regret]
        for number, (config, (covered, regret)) in enumerate(zip(found.configs, found.steps, strict=True), 1)
    ]
    columns = [
        Column("number", "configuration"),
        Column("config", "values"),
        Column("covered", "shapes measured with the chosen so far", Kind.COUNT),
        Column("shapes", "of", Kind.COUNT),
        Column("regret", "geometric mean of regret there", Kind.RATIO),
    ]
    caption = (
        "The greedy portfolio: each row adds the configuration that lowers the mean regret most; a shape not measured"
        f" with any chosen counts as {UNCOVERED:g} in the choice, and is left out of the mean shown."
    )
    return Table.of(f"portfolio-{id}", caption, columns, rows)


def _numbers(found: Portfolio) -> list[str]:
    return [f"#{number}" for number, _ in enumerate(found.configs, 1)]


def _map(id: str, found: Portfolio) -> Sequence[Block]:
    if not found.configs:
        return []
    drawn = found.regrets[:: max(1, -(-len(found.regrets) // DRAWN))]
    unknown = sum(one is None for _, row in found.regrets for one in row)
    some = "" if len(drawn) == len(found.regrets) else f" {len(drawn)} of {len(found.regrets)} shapes are drawn."
    caption = (
        f"Time / best time of each configuration (columns) on each shape (rows). {unknown} of"
        f" {len(found.regrets) * len(found.configs)} pairs were not measured: they are grey.{some}"
        " The table below has the numbers."
    )
    names, alike = drawn_names([problem for problem, _ in drawn])
    down = [names[problem] for problem, _ in drawn]
    values = [row for _, row in drawn]
    caption += alike
    return [heat_map(f"map-{id}", "Shape regret", caption, _numbers(found), down, values, "time / best")]


def _table(id: str, found: Portfolio) -> Table:
    columns = [
        Column("problem", "problem"),
        *(Column(f"regret_{number}", f"#{number}", Kind.RATIO) for number, _ in enumerate(found.configs, 1)),
        Column("least", "least of these", Kind.RATIO),
    ]
    rows = [[_link(problem), *row, _least(row)] for problem, row in found.regrets]
    return Table.of(
        f"regret-{id}", "Time / best time on every tuned shape; – where it was not measured.", columns, rows
    )


def _link(problem: Problem) -> Cell:
    return Cell(problem_name(problem), link=f"{problem_page(problem)}.html")


def _least(row: Sequence[float | None]) -> float | None:
    return min((one for one in row if one is not None), default=None)


def page(facts: Facts) -> Page:
    """Device regret, and the way to each device's shape regret."""
    links = [[Cell(device_name(one.id), link=f"{regret_page(one.id)}.html"), _measured(one)] for one in facts.devices]
    columns = [Column("device", "device"), Column("shapes", "shapes with times", Kind.COUNT)]
    shapes = Table.of("shape-regret", "Shape regret has a page for each device.", columns, links)
    sections = (
        Section("shapes", "Shape regret", (shapes,)),
        Section("devices", "Device regret", tuple(_devices(facts.devices))),
    )
    lead = "What it costs to use a configuration somewhere else than where it won: on other shapes, on other devices."
    return Page("regret", "Regret", lead, sections)


def _measured(device: DeviceFacts) -> int:
    return sum(bool(tuned.present and tuned.present.times) for tuned in device.tuned.values())


def _devices(devices: Sequence[DeviceFacts]) -> Sequence[Block]:
    if len(devices) < 2:
        return [Prose("There is one device, so nothing to compare." if devices else "There is no device yet.")]
    names = [device_name(device.id) for device in devices]
    medians: list[list[float | None]] = []
    rows: list[list[Any]] = []
    for ours in devices:
        costs = [device_costs(ours, theirs) for theirs in devices]
        row = [statistics.median(found) if found else None for found in costs]
        medians.append(row)
        for name, found, middle in zip(names, costs, row, strict=True):
            worst = max(found, default=None)
            rows.append(
                [Cell(device_name(ours.id), link=f"{device_page(ours.id)}.html"), name, len(found), middle, worst]
            )
    drawn = [name.replace(", ", "<br>", 1) for name in names]
    caption = (
        "Median over shapes of: time on the device of the row of the configuration that won on the device of the column"
        " / best time there. Grey: no shape on which that was measured."
    )
    columns = [
        Column("device", "run on"),
        Column("champions_of", "champions of"),
        Column("shapes", "shapes measured", Kind.COUNT),
        Column("median", "median regret", Kind.RATIO),
        Column("largest", "largest", Kind.RATIO),
    ]
    return [
        heat_map("device-map", "Device regret", caption, drawn, drawn, medians, "time / best"),
        Table.of("device-regret", caption, columns, rows),
    ]


def device_costs(ours: DeviceFacts, theirs: DeviceFacts) -> list[float]:
    """On `ours`, time / best time of what is published on `theirs` for the same shape, where that was measured."""
    found = []
    for problem, tuned in theirs.tuned.items():
        here = ours.tuned.get(problem)
        present = None if here is None else here.present
        if tuned.served is None or present is None or present.best is None:
            continue
        ms = present.times.get(tuned.served.event.config)
        if ms is not None:
            found.append(ms / present.best[1])
    return found
