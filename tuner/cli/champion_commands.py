"""`champions`, `history`, `unpin`, `withdraw`, `rollback`: what is published, how it came to be, and taking it back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from tuner.cli import options as o
from tuner.cli.output import champion_json, console, duration, percent, print_json, problem_json, rate, settings, table
from tuner.cli.wiring import require_published, stored, the_device, the_store
from tuner.model import Champion, Problem, Record, Silicon
from tuner.store import Event

REASON = Annotated[str, typer.Option("--reason", help="Why; kept in the champions' log.")]


def champions(device: o.DeviceOption = None, db: o.DbOption = None, json_output: o.JsonOption = False) -> None:
    """List what is published; --device narrows it to part of a device's name, which need not be here."""
    with stored(db) as store:
        found = [c for c in store.champions() if _matches(device, c.silicon, c.software.key)]
        where = store.url
    if json_output:
        print_json({"champions": [champion_json(champion) for champion in found], "store": where})
    elif not found:
        console().print(f"Nothing is published in {where} yet; gemm-tuner tune M N K publishes the first.")
    else:
        table(f"Champions in {where}", _CHAMPION_COLUMNS, [_champion_row(champion) for champion in found])


_CHAMPION_COLUMNS = ("device", "driver", "problem", "speed", "time", "noise", "certified", "configuration", "since")


def _champion_row(champion: Champion) -> list[str]:
    time_ms = champion.time_ms
    return [
        champion.silicon.name,
        champion.software.driver,
        str(champion.problem),
        rate(None if time_ms is None else champion.problem.gflops(time_ms)),
        duration(time_ms),
        percent(champion.noise),
        "yes" if champion.certificate else "no",
        f"{'pinned: ' if champion.pinned else ''}{champion.config.family} {settings(champion.config)}",
        champion.when[:19],
    ]


def history(
    m: o.M,
    n: o.N,
    k: o.K,
    dtype: o.DTypeOption = "float32",
    trans_a: o.TransAOption = False,
    trans_b: o.TransBOption = False,
    batch: o.BatchOption = 1,
    math: o.MathOption = "strict",
    last: Annotated[int, typer.Option("--last", min=0, help="How many of the latest trials to show.")] = 20,
    device: o.DeviceOption = None,
    db: o.DbOption = None,
    json_output: o.JsonOption = False,
) -> None:
    """Show how a product's champion came to be: the log, and the trials behind it, on every device that has any."""
    problem = o.the_problem(m, n, k, dtype, trans_a, trans_b, batch, math)
    with stored(db) as store:
        events = [e for e in store.log(problem=problem) if _matches(device, e.silicon, e.software.key)]
        trials = [t for t in store.history(problem=problem) if _matches(device, t.silicon, t.software.key)]
        where = store.url
    if json_output:
        log = [_event_json(event) for event in events]
        print_json({"problem": problem_json(problem), "log": log, "trials": [_trial_json(trial) for trial in trials]})
    elif not events and not trials:
        console().print(f"Nothing was measured for {problem} in {where} yet.")
    else:
        _print_history(problem, events, trials, last)


def _print_history(problem: Problem, events: Sequence[Event], trials: Sequence[Record], last: int) -> None:
    if events:
        table(f"Champions' log of {problem}", _EVENT_COLUMNS, [_event_row(event) for event in events])
    if trials and last:
        columns = ("when", "run", "driver", "verdict", "time", "speed", "configuration", "message")
        title = f"The last {min(last, len(trials))} of {len(trials)} trials"
        table(title, columns, [_trial_row(trial) for trial in trials[-last:]])


_EVENT_COLUMNS = ("when", "device", "driver", "what", "time", "configuration", "reason")


def _event_row(event: Event) -> list[str]:
    config = f"{event.config.family} {settings(event.config)}"
    name, driver = event.silicon.name, event.software.driver
    return [event.when[:19], name, driver, event.action, duration(event.time_ms), config, event.reason]


def _trial_row(trial: Record) -> list[str]:
    time_ms = trial.measurement.time_ms
    speed = rate(None if time_ms is None else trial.problem.gflops(time_ms))
    config = f"{trial.config.family} {settings(trial.config)}"
    message = trial.measurement.message.splitlines()[0][:100] if trial.measurement.message else ""
    verdict = trial.measurement.verdict.value
    driver = trial.software.driver
    return [trial.when[:19], str(trial.run), driver, verdict, duration(time_ms), speed, config, message]


def unpin(
    m: o.M,
    n: o.N,
    k: o.K,
    dtype: o.DTypeOption = "float32",
    trans_a: o.TransAOption = False,
    trans_b: o.TransBOption = False,
    batch: o.BatchOption = 1,
    math: o.MathOption = "strict",
    reason: REASON = "by hand",
    device: o.DeviceOption = None,
    db: o.DbOption = None,
    json_output: o.JsonOption = False,
) -> None:
    """Serve again what was promoted, instead of what is pinned."""
    problem = o.the_problem(m, n, k, dtype, trans_a, trans_b, batch, math)
    _change(problem, device, db, json_output, lambda store, *key: store.unpin(*key, reason=reason))


def withdraw(
    m: o.M,
    n: o.N,
    k: o.K,
    dtype: o.DTypeOption = "float32",
    trans_a: o.TransAOption = False,
    trans_b: o.TransBOption = False,
    batch: o.BatchOption = 1,
    math: o.MathOption = "strict",
    reason: REASON = "by hand",
    device: o.DeviceOption = None,
    db: o.DbOption = None,
    json_output: o.JsonOption = False,
) -> None:
    """Take the champion and its certificate away; the one before it returns if it is still certified."""
    problem = o.the_problem(m, n, k, dtype, trans_a, trans_b, batch, math)
    _change(problem, device, db, json_output, lambda store, *key: store.withdraw(*key, reason=reason))


def _change(
    problem: Problem, device: str | None, db: str | None, json_output: bool, verb: Callable[..., Champion | None]
) -> None:
    chosen = the_device(device)
    with the_store(db, upgrade=False) as store:
        champion = verb(store, chosen.silicon, chosen.software, problem)
        require_published(store)
    if json_output:
        print_json({"champion": None if champion is None else champion_json(champion)})
    elif champion is None:
        console().print(f"{problem} on {chosen.name}: nothing is published now.")
    else:
        served = f"{champion.config.family} {settings(champion.config)}"
        console().print(f"{problem} on {chosen.name}: published now is {served}.")


def rollback(
    to: Annotated[str, typer.Option("--to", metavar="DATE", help="A moment such as 2026-11-29 or 2026-11-29T06:00.")],
    db: o.DbOption = None,
    json_output: o.JsonOption = False,
) -> None:
    """Publish again what was published at a moment; the log keeps both."""
    moment = o.the_moment(to)
    with the_store(db, upgrade=False) as store:
        events = store.rollback(moment)
        require_published(store)
    if json_output:
        print_json({"to": moment.isoformat(), "changes": [_event_json(event) for event in events]})
    elif not events:
        console().print(f"Nothing has changed since {moment:%Y-%m-%d %H:%M:%S %Z}.")
    else:
        table(f"Rolled back to {moment:%Y-%m-%d %H:%M:%S %Z}", _EVENT_COLUMNS, [_event_row(event) for event in events])


def _matches(text: str | None, silicon: Silicon, software_key: str) -> bool:
    return text is None or any(text.casefold() in key.casefold() for key in (silicon.key, software_key))


def _event_json(event: Event) -> dict[str, Any]:
    return {
        "when": event.when,
        "action": event.action,
        "device": event.silicon.key,
        "software": event.software.key,
        "problem": problem_json(event.problem),
        "family": event.config.family,
        "config": event.config.as_dict(),
        "time_ms": event.time_ms,
        "noise": event.noise,
        "run": event.run,
        "certified": event.checks is not None,
        "reason": event.reason,
        "source_hash": event.rendered.source_hash,
    }


def _trial_json(trial: Record) -> dict[str, Any]:
    measurement = trial.measurement
    return {
        "when": trial.when,
        "run": trial.run,
        "device": trial.silicon.key,
        "software": trial.software.key,
        "family": trial.config.family,
        "config": trial.config.as_dict(),
        "verdict": measurement.verdict.value,
        "time_ms": measurement.time_ms,
        "samples_ms": list(measurement.samples_ms),
        "compile_ms": measurement.compile_ms,
        "error_ratio": measurement.error_ratio,
        "message": measurement.message,
        "source_hash": trial.source_hash,
    }
