"""Figures of one search: how it converged, the race that ended it, which axes mattered."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tuner.model import Config, Problem, Record
from tuner.report.blocks import Figure
from tuner.report.figures import axis, bars, line, log_axis, numbers, points, thin
from tuner.report.labels import apart
from tuner.report.numbers import Kind, rounded, text_of
from tuner.report.statistics import Convergence
from tuner.search.rebuilt import importances, rebuild, slices
from tuner.store.reading import Run

SLICES = 4
"""Axes that are drawn, the most important ones."""
FEWEST = 10
"""Correct trials below which nothing is said about importance."""


def converged(records: Sequence[Record], runs: Mapping[int, Run]) -> Convergence:
    """The search behind these records, oldest first; time is counted from the start of each run."""
    seconds: list[float] = []
    before, run, spent = 0.0, None, 0.0
    for record in records:
        if record.run != run:
            before, run = before + spent, record.run
        began = runs[record.run].started if record.run in runs else record.when
        spent = max(0.0, _seconds(began, record.when))
        seconds.append(before + spent)
    return Convergence(tuple(record.measurement.time_ms for record in records), tuple(seconds))


def _seconds(began: str, ended: str) -> float:
    try:
        return (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()
    except (ValueError, TypeError):
        return 0.0


def _rate(gflops: float) -> str:
    return text_of(rounded(gflops, Kind.RATE), Kind.RATE)


def convergence_figures(id: str, problem: Problem, found: Convergence) -> list[Figure]:
    """Best so far over evaluations and over seconds, every trial beside it."""
    evaluations = list(range(1, len(found.times_ms) + 1))
    failures = sum(ms is None for ms in found.times_ms)
    best = found.best_ms[-1] if found.best_ms else None
    end = "nothing correct was found" if best is None else f"the best reached {_rate(problem.gflops(best))} GFLOP/s"
    some = f"{failures} of them failures (crosses at 0)" if failures else "all of them correct"
    words = f"{len(evaluations)} evaluations, {some}; {end}."
    figures = []
    for name, title, x in (
        ("evaluations", "evaluations", evaluations),
        ("seconds", "seconds of search, pauses between runs left out", found.seconds),
    ):
        caption = f"Best rate so far over {title}, with every trial: {words}"
        layout = {
            "xaxis": axis(title.partition(",")[0], rangemode="tozero"),
            "yaxis": axis("GFLOP/s", rangemode="tozero"),
        }
        data = _convergence_traces(problem, found, x)
        figures.append(Figure(f"{id}-{name}", f"Convergence over {name}", caption, data, layout))
    return figures


def _convergence_traces(problem: Problem, found: Convergence, x: Sequence[float]) -> list[dict[str, Any]]:
    rows = list(zip(x, found.times_ms, found.best_ms, strict=True))
    correct = thin([(at, problem.gflops(ms)) for at, ms, _ in rows if ms is not None])
    failed = thin([at for at, ms, _ in rows if ms is None])
    best: list[tuple[float, float]] = []
    for at, _, ms in rows:
        if ms is not None and (not best or problem.gflops(ms) != best[-1][1] or at == rows[-1][0]):
            best.append((at, problem.gflops(ms)))
    traces = [points("trial", numbers([at for at, _ in correct]), numbers([rate for _, rate in correct]), meta="faint")]
    if failed:
        traces.append(points("failed", numbers(failed), [0] * len(failed), meta="failed"))
    step = {"line": {"shape": "hv"}, "meta": "main"}
    traces.append(line("best so far", numbers([at for at, _ in best]), numbers([rate for _, rate in best]), **step))
    return traces


def race_figures(id: str, run: Run) -> list[Figure]:
    """Every sample of the races of one run."""
    races = (run.summary or {}).get("races") or []
    return [figure for number, race in enumerate(races, 1) if (figure := _race(f"{id}-{number}", run, race))]


def _race(id: str, run: Run, race: Mapping[str, Any]) -> Figure | None:
    try:
        configs = [Config.of(one["family"], one["config"]) for one in race["contenders"]]
        rounds = [[float(ms) for ms in times] for times in race["rounds_ms"]]
        columns = list(zip(*rounds, strict=True))
        decided = race.get("decided")
    except (KeyError, TypeError, ValueError):
        return None
    if len(columns) != len(configs):
        return None
    names = apart(configs)
    if decided:
        names = [f"champion before {names[0]}", f"nominee {names[1]}"]
    data = [
        {**points(name, list(range(1, len(times) + 1)), numbers(times)), "mode": "lines+markers", "line": {"width": 1}}
        for name, times in zip(names, columns, strict=True)
    ]
    title = "The race with the champion" if decided else "The fastest measured again in turns"
    layout = {"xaxis": axis("round", dtick=max(1, len(rounds) // 10)), "yaxis": axis("ms per call, host's clock")}
    return Figure(id, title, _race_words(run, names, columns, decided), data, {**layout, "legend": _BELOW}, height=380)


_BELOW = {"orientation": "h", "y": -0.25, "yanchor": "top"}


def _race_words(
    run: Run, names: Sequence[str], columns: Sequence[Sequence[float]], decided: Mapping[str, Any] | None
) -> str:
    when = run.started[:16].replace("T", " ")
    rounds = f"{len(columns[0])} {'round' if len(columns[0]) == 1 else 'rounds'} on {when} UTC"
    if decided is None:
        medians = "; ".join(
            f"{name.partition(':')[0]}: {statistics.median(times):.4g} ms"
            for name, times in zip(names, columns, strict=True)
        )
        return f"All samples of {rounds}, in which the fastest took turns. Medians: {medians}."
    try:
        gain, low, high = (100 * float(decided[name]) for name in ("gain", "low", "high"))
    except (KeyError, TypeError, ValueError):
        return f"All samples of {rounds}."
    outcome = "promoted" if decided.get("promote") else "not promoted"
    return (
        f"All samples of {rounds}. Gain of the nominee: {gain:+.1f} %, 95 % interval {low:+.1f} to {high:+.1f} %;"
        f" {outcome}: {decided.get('reason', '')}."
    )


def importance_figures(id: str, records: Sequence[Record]) -> list[Figure]:
    """Which axes mattered, and the time by the value of each; for the family with the most correct trials."""
    correct = [record for record in records if record.measurement.time_ms is not None]
    families = [record.config.family for record in correct]
    if not families:
        return []
    family = max(sorted(set(families)), key=families.count)
    ours = [record for record in records if record.config.family == family]
    if families.count(family) < FEWEST:
        return []
    study = rebuild(ours)
    weights = importances(study)
    if not weights:
        return []
    names = list(weights)
    caption = (
        f"Share of each axis of {family} in what tells the fastest trials from all (Optuna's PED-ANOVA,"
        f" {families.count(family)} correct trials). Most: " + ", ".join(names[:3]) + "."
    )
    data = [bars("importance", names, list(weights.values()))]
    layout = {"xaxis": axis("importance", rangemode="tozero"), "yaxis": axis("", type="category"), "showlegend": False}
    importance = Figure(f"{id}-importance", "Which axes mattered", caption, data, layout, 100 + 22 * len(names))
    return [importance, *_slices(id, slices(study, names[:SLICES]), names)]


def _slices(id: str, drawn: Mapping[str, Any], names: Sequence[str]) -> list[Figure]:
    """Each panel of Optuna's plot as a figure of its own, as wide as the others; what mattered most first."""
    figures = {}
    for trace in drawn["data"]:
        panel = drawn["layout"][trace["xaxis"].replace("x", "xaxis")]
        name = panel["title"]["text"]
        across = {key: value for key, value in panel.items() if key not in ("anchor", "domain")}
        layout = {"xaxis": across, "yaxis": log_axis("time (ms)", trace["y"]), "showlegend": False}
        data = [{**trace, "xaxis": "x", "yaxis": "y", "meta": "faint"}]
        words = f"Every correct trial by its value of {name} (Optuna's slice plot); time is logarithmic."
        figures[name] = Figure(f"{id}-slice-{name}", f"Time by {name}", words, data, layout, 260)
    return [figures[name] for name in names if name in figures]
