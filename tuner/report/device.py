"""The page of one device: what is published there and how good it is, roofline, sweep over sizes, drivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from tuner.model import Problem, Software
from tuner.report.beside import library_table, ratio_figure
from tuner.report.blocks import Block, Cell, Column, Figure, Page, Prose, Section, Table
from tuner.report.figures import axis, line, log_axis, marks, numbers, points
from tuner.report.gather import DeviceFacts, Facts, Tuned, platform_name
from tuner.report.labels import (
    device_name,
    device_page,
    plain,
    problem_name,
    problem_page,
    regret_page,
    settings,
    short,
)
from tuner.report.numbers import Kind, age_of, date_of, rounded, text_of
from tuner.report.rungs import Ladder, ladder_blocks
from tuner.report.statistics import ratio_noise
from tuner.store import Peak

ROWS = 520
"""Of the table of champions: as many as fit a page of 300 kB."""


def page(facts: Facts, device: DeviceFacts, ladders: Sequence[Ladder] = ()) -> Page:
    """The device's page, with the ladders climbed on it."""
    climbed = [
        block for number, one in enumerate(ladders, 1) if _is(one, device) for block in ladder_blocks(number, one)
    ]
    sections = [
        Section("champions", "Champions", tuple(_champions(facts, device))),
        Section("roofline", "Roofline", tuple(_roofline(device))),
        Section("sweep", "Size sweep", tuple(_sweeps(device))),
        Section("ladder", "The ladder", tuple(climbed)),
        Section("drivers", "Drivers and calibration", tuple(_drivers(facts, device))),
    ]
    present = device.software
    lead = (
        f"{plain(device.id.silicon.key)}. Present driver: {plain(present.platform)}, {plain(present.driver)},"
        f" {plain(present.c_version)}. All figures are of this driver unless marked. {_peak_words(device)}"
    )
    kept = tuple(section for section in sections if section.blocks)
    return Page(device_page(device.id), device_name(device.id), lead, kept)


def _is(ladder: Ladder, device: DeviceFacts) -> bool:
    software = Software(ladder.platform, "", "", "")
    return (ladder.silicon_key, platform_name(software)) == (device.id.silicon.key, device.id.platform)


def _peak_words(device: DeviceFacts) -> str:
    rates = [
        f"{peak.dtype} {peak.math} {_with_noise(peak, 'GFLOP/s')}" for peak in device.peaks if peak.what == "gflops"
    ]
    bandwidth = device.bandwidth
    if bandwidth is not None:
        rates.append(f"memory {_with_noise(bandwidth, 'GB/s')}")
    return f"Measured peaks: {'; '.join(rates)}." if rates else "Its peaks were not measured."


def _with_noise(peak: Peak, unit: str) -> str:
    value = text_of(rounded(peak.value, Kind.RATE), Kind.RATE)
    noise = text_of(rounded(peak.noise, Kind.PERCENT), Kind.PERCENT)
    return f"{value} {unit} ± {noise} % ({date_of(peak.when)})"


def served_gflops(tuned: Tuned) -> float | None:
    """The rate of what is published, by the device's clock."""
    served = tuned.served
    ms = None if served is None else served.event.time_ms
    return None if ms is None else tuned.problem.gflops(ms)


def of_peak(device: DeviceFacts, tuned: Tuned) -> Cell:
    """Its share of the device's measured peak, with the noise of both; unknown of another driver's champion."""
    gflops, peak = served_gflops(tuned), device.peak(tuned.problem)
    if gflops is None or peak is None or tuned.served is None or tuned.served.origin == "other_driver":
        return Cell(None)
    return Cell(gflops / peak.value, ratio_noise(tuned.served.event.noise, peak.noise))


def _champions(facts: Facts, device: DeviceFacts) -> Sequence[Block]:
    published = [tuned for tuned in device.tuned.values() if tuned.served is not None]
    blocks: list[Block] = list(library_table([device], named=False))
    rows = [_champion_row(facts, device, tuned) for tuned in published]
    if not rows:
        return [*blocks, Prose("Nothing is published for this device yet.")]
    ratios = [Column(f"ratio_{name}", f"{name} / ours", Kind.RATIO) for name in device.libraries]
    columns = [
        Column("problem", "problem"),
        Column("gflops", "rate", Kind.RATE, "GFLOP/s"),
        Column("of_peak", "of peak", Kind.PERCENT),
        *ratios,
        Column("default_ratio", "default / best", Kind.RATIO),
        Column("config", "configuration"),
        Column("origin", "origin"),
        Column("certificate", "certificate"),
        Column("age", "age", Kind.COUNT, "days"),
        Column("since", "since", Kind.DATE, "UTC"),
    ]
    caption = (
        "What a look-up serves: median rate by the device's clock ± half of its 95 % interval. Ratios to libraries are"
        " times (above 1 ours is faster), paired in rounds by one clock. Default / best: time of what an untuned device"
        " is given / the best time measured, by the device's clock."
    )
    figure = ratio_figure([device])
    drawn = [replace(figure, wide=True)] if figure else []
    return [*blocks, *drawn, Table.of("champions", caption, columns, rows, ROWS)]


def _champion_row(facts: Facts, device: DeviceFacts, tuned: Tuned) -> list[Any]:
    served, problem = tuned.served, tuned.problem
    assert served is not None
    gflops = served_gflops(tuned)
    event = served.event
    beside = [device.standings.get((problem, name)) for name in device.libraries]
    return [
        Cell(problem_name(problem), link=f"{problem_page(problem)}.html"),
        Cell(gflops, event.noise),
        of_peak(device, tuned),
        *(Cell(None if one is None else one.ratio, None if one is None else one.ratio_noise) for one in beside),
        Cell(tuned.default_ratio, tuned.default_noise),
        settings(event.config),
        served.origin,
        _certificate(served.certified, event.checks),
        age_of(event.when, facts.now),
        date_of(event.when)[:10],
    ]


def _certificate(certified: bool, checks: Sequence[str] | None) -> str:
    if not certified:
        return "none here"
    return "valid" if checks is None else f"{len(checks)} checks"


def _roofline(device: DeviceFacts) -> Sequence[Block]:
    by_kind: dict[tuple[str, str], list[Tuned]] = {}
    for tuned in device.tuned.values():
        if served_gflops(tuned) is not None:
            by_kind.setdefault((tuned.problem.dtype, tuned.problem.math), []).append(tuned)
    if not by_kind:
        return []
    data: list[dict[str, Any]] = []
    everything = [tuned for group in by_kind.values() for tuned in group]
    for (dtype, math), group in sorted(by_kind.items()):
        x = numbers([intensity(tuned.problem) for tuned in group])
        y = numbers([served_gflops(tuned) for tuned in group])
        names = [problem_name(tuned.problem) for tuned in group]
        hover = "%{text}<br>%{y} GFLOP/s at %{x} flop/byte<extra></extra>"
        data.append(points(_kind_name(dtype, math), x, y, text=names, hovertemplate=hover))
    data += _roofs(device, [intensity(tuned.problem) for tuned in everything])
    layout = {
        "xaxis": log_axis("flop per byte of A, B and C, each counted once", [x for trace in data for x in trace["x"]]),
        "yaxis": log_axis("GFLOP/s", [y for trace in data for y in trace["y"]]),
    }
    roof = (
        "Lines are the measured peak and bandwidth." if device.peaks else "No roof is drawn: peaks were not measured."
    )
    caption = f"Every champion ({len(everything)}) by arithmetic intensity; both axes logarithmic. {roof}"
    return [Figure("roofline-plot", "Champions under the roof", caption, data, layout, height=440, wide=True)]


def intensity(problem: Problem) -> float:
    """flop per byte of A, B and C, each moved once."""
    p = problem
    moved = p.batch * p.element_bytes * (p.m * p.k + p.k * p.n + p.m * p.n)
    return p.flop / moved if moved else 0.0


def _roofs(device: DeviceFacts, reached: Sequence[float]) -> list[dict[str, Any]]:
    low, high = min(reached) / 2, max(reached) * 2
    roofs = []
    for peak in device.peaks:
        if peak.what != "gflops":
            continue
        name = f"peak {_kind_name(peak.dtype, peak.math)}"
        bandwidth = device.bandwidth
        if bandwidth is None:
            roofs.append(line(name, numbers([low, high]), numbers([peak.value] * 2), meta="roof"))
            continue
        ridge = peak.value / bandwidth.value
        x = [low, ridge, high] if low < ridge < high else [low, high]
        y = [min(peak.value, at * bandwidth.value) for at in x]
        roofs.append(line(name, numbers(x), numbers(y), meta="roof"))
    return roofs


def _kind_name(dtype: str, math: str) -> str:
    return dtype if math == "strict" else f"{dtype} {math}"


def _sweeps(device: DeviceFacts) -> Sequence[Block]:
    """Square products over size: champion, default, libraries, and rungs of the ladder where they were measured."""
    groups: dict[tuple[str, str], list[Tuned]] = {}
    for tuned in device.tuned.values():
        p = tuned.problem
        if p.m == p.n == p.k and p.batch == 1 and not (p.trans_a or p.trans_b):
            groups.setdefault((p.dtype, p.math), []).append(tuned)
    return [
        figure
        for (dtype, math), group in sorted(groups.items())
        if len(group) > 1 and (figure := _sweep(device, _kind_name(dtype, math), group))
    ]


RUNGS = ("naive", "tiled")
"""Families that are steps on the way to the fastest; each is drawn with the best of its configurations measured."""


def _sweep(device: DeviceFacts, kind: str, group: Sequence[Tuned]) -> Figure | None:
    ordered = sorted(group, key=lambda tuned: (tuned.problem.m, tuned.problem.align))
    series: dict[str, list[tuple[int, float]]] = {"champion": []}
    for tuned in ordered:
        p = tuned.problem
        gflops = served_gflops(tuned)
        if gflops is not None:
            series["champion"].append((p.m, gflops))
        if tuned.default_ms is not None:
            series.setdefault("default", []).append((p.m, p.gflops(tuned.default_ms)))
        for name in device.libraries:
            standing = device.standings.get((p, name))
            if standing is not None and standing.gflops is not None:
                series.setdefault(name, []).append((p.m, standing.gflops))
        for family in RUNGS:
            best = _best_of(tuned, family)
            if best is not None:
                series.setdefault(f"best {family}", []).append((p.m, p.gflops(best)))
    data = [
        {**points(name, [x for x, _ in found], numbers([y for _, y in found])), "mode": "lines+markers"}
        for name, found in series.items()
        if found
    ]
    if not data:
        return None
    caption = (
        f"Square products m = n = k, {kind}, row-major: {', '.join(trace['name'] for trace in data)}. Champion,"
        " default and families by the device's clock; libraries by the host's, so compare them by the ratios above."
    )
    layout = {
        "xaxis": axis("m = n = k", rangemode="tozero"),
        "yaxis": axis("GFLOP/s", rangemode="tozero"),
    }
    return Figure(f"sweep-{kind.replace(' ', '-')}", f"Rate over size, {kind}", caption, data, layout, 420, wide=True)


def _best_of(tuned: Tuned, family: str) -> float | None:
    if tuned.present is None:
        return None
    return min((ms for config, ms in tuned.present.times.items() if config.family == family), default=None)


def _drivers(facts: Facts, device: DeviceFacts) -> Sequence[Block]:
    rows: list[list[Any]] = []
    for software in device.softwares:
        keys = [tuned.by_software[software] for tuned in device.tuned.values() if software in tuned.by_software]
        first, last = min((key.first for key in keys), default=""), max((key.last for key in keys), default="")
        name = [short(software.platform), short(software.driver), short(software.c_version)]
        rows.append([*name, len(keys), sum(key.trials for key in keys), date_of(first), date_of(last)])
    columns = [
        Column("platform", "platform"),
        Column("driver", "driver"),
        Column("c_version", "OpenCL C"),
        Column("problems", "problems", Kind.COUNT),
        Column("trials", "trials", Kind.COUNT),
        Column("first", "first trial", Kind.DATE, "UTC"),
        Column("last", "last trial", Kind.DATE, "UTC"),
    ]
    table = Table.of("drivers", "Software this device was tuned under, oldest first.", columns, rows)
    return [table, *_calibration(facts, device)]


READINGS = {"kernel_ms": "kernel (ms)", "copy_gb_per_s": "copy (GB/s)", "sm_clock_mhz": "clock (MHz)"}

WHAT_IT_READS = {
    "kernel_ms": "Time of one fixed kernel, before and during nights: where it changes, the machine does",
    "copy_gb_per_s": "Bandwidth of one fixed copy, before and during nights: where it changes, the machine does",
    "sm_clock_mhz": "The device's clock beside the fixed kernel",
}


def _calibration(facts: Facts, device: DeviceFacts) -> Sequence[Block]:
    mine = [
        one
        for one in facts.calibrations
        if one.silicon == device.id.silicon and one.software in device.softwares and one.reading
    ]
    names = [name for name in READINGS if any(name in one.reading for one in mine)]
    changes = [
        (later.when, short(later.software.driver, 24))
        for earlier, later in pairwise(mine)
        if earlier.software != later.software
    ]
    figures = []
    for name in names:
        found = [(one.when, one.reading[name]) for one in mine if name in one.reading]
        caption = f"{WHAT_IT_READS[name]}; {len(found)} readings, driver changes marked."
        data = [points(name, [when for when, _ in found], numbers([value for _, value in found]))]
        layout = {"xaxis": axis("", type="date"), "yaxis": axis(READINGS[name]), **marks(changes)}
        figures.append(Figure(f"calibration-{name}", f"Calibration: {READINGS[name]}", caption, data, layout, 260))
    return figures


def regret_link(device: DeviceFacts) -> str:
    """Where its shape regret is."""
    return f"{regret_page(device.id)}.html"
