"""`gemm-tuner tune`: search, prove and publish a configuration for one product."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any

import typer

from tuner import timing
from tuner.cli import options as o
from tuner.cli.output import console as make_console
from tuner.cli.output import device_json, duration, percent, print_json, problem_json, rate, settings
from tuner.cli.progress import ProgressDisplay
from tuner.cli.wiring import measuring, require_room, the_device, the_families, the_seeds, the_store
from tuner.model import Device, Problem, UserError, Verdict
from tuner.nightly.peaks import armed
from tuner.search import Budget, Outcome, best_json
from tuner.search import tune as run_tune

BUDGETS = {"quick": 50, "normal": 100, "thorough": 200}
"""Evaluations by name: half of what usually comes within a few percent of the optimum, that, and twice that."""


def tune(
    m: o.M,
    n: o.N,
    k: o.K,
    dtype: o.DTypeOption = "float32",
    trans_a: o.TransAOption = False,
    trans_b: o.TransBOption = False,
    batch: o.BatchOption = 1,
    math: o.MathOption = "strict",
    family: Annotated[list[str] | None, typer.Option("--family", help="Only this family; may be repeated.")] = None,
    family_dir: o.FamilyDirOption = None,
    evals: Annotated[
        int | None, typer.Option("--evals", min=1, help="Configurations to evaluate. [default: as --budget normal]")
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", help="quick (50 evaluations), normal (100) or thorough (200).")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=1, help="Time for everything, race and certificate included.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Of the search; another for each run by default.")] = None,
    device: o.DeviceOption = None,
    wait: o.WaitOption = 0.0,
    db: o.DbOption = None,
    json_output: o.JsonOption = False,
) -> int:
    """Find the fastest correct configuration for C = alpha A B + beta C, prove it, and publish it."""
    problem = o.the_problem(m, n, k, dtype, trans_a, trans_b, batch, math)
    if problem.emptiness:
        return _nothing_to_tune(problem, json_output)
    if seconds is not None and not isfinite(seconds):
        raise UserError(f"--seconds {seconds} is no time; give a number of seconds, or leave it out for no limit.")
    limits = _limits(evals, seconds, budget)
    families = the_families(family or [], family_dir or [])
    chosen = the_device(device)
    if not chosen.has(problem.dtype):
        return _unsupported(problem, chosen, json_output)
    require_room(problem, chosen)
    with the_store(db, upgrade=True) as store, measuring(chosen, wait) as bench, ProgressDisplay(problem) as display:
        bench.arm(armed(store.peaks(chosen.silicon, chosen.software)))
        outcome = run_tune(
            problem, chosen, families, bench, store, limits, seed=seed, observe=display.observe, seeds=the_seeds()
        )
        where = store.url
    if json_output:
        print_json(outcome_json(outcome, chosen, where))
    else:
        _print_outcome(outcome, chosen, where)
    return _status(outcome)


def _limits(evals: int | None, seconds: float | None, budget: str | None) -> Budget:
    if budget is None:
        return Budget(BUDGETS["normal"] if evals is None and seconds is None else evals, seconds)
    if evals is not None:
        raise UserError("--budget and --evals both say how many configurations to evaluate; give one of them.")
    if budget not in BUDGETS:
        raise UserError(f"there is no budget {budget!r}; use one of: {', '.join(BUDGETS)}.")
    return Budget(BUDGETS[budget], seconds)


def _status(outcome: Outcome) -> int:
    if outcome.stopped_by == "interrupted":
        return 130
    return 0 if outcome.best is not None else 1


def outcome_json(outcome: Outcome, device: Device, where: str) -> dict[str, Any]:
    """The object `tune --json` prints."""
    return {
        "problem": problem_json(outcome.problem),
        "device": device_json(device),
        "evaluated": outcome.evaluated,
        "valid_space": {"size": outcome.space_size, "exact": outcome.space_exact},
        "verdicts": dict(outcome.verdicts),
        "best": best_json(outcome.problem, outcome.best),
        "promoted": outcome.promotion.promoted,
        "promotion": _promotion_json(outcome),
        "stopped_by": outcome.stopped_by,
        "where_time_went": {stage: round(spent, 3) for stage, spent in outcome.where_time_went.items()},
        "seconds": round(outcome.seconds, 3),
        "store": where,
    }


def _promotion_json(outcome: Outcome) -> dict[str, Any]:
    promotion = outcome.promotion
    champion = promotion.config
    return {
        "reason": promotion.reason,
        "gain": promotion.gain,
        "champion": None if champion is None else {"family": champion.family, "config": champion.as_dict()},
    }


def _print_outcome(outcome: Outcome, device: Device, where: str) -> None:
    out = make_console()
    exact = "" if outcome.space_exact else "about "
    out.print(f"{outcome.problem} on {device.name} ({device.software.driver})")
    counts = ", ".join(f"{count} {verdict}" for verdict, count in outcome.verdicts.most_common()) or "none"
    out.print(f"evaluated  {outcome.evaluated} of {exact}{outcome.space_size:,} legal configurations: {counts}")
    if outcome.stopped_by == "exhausted":
        out.print("           the space is exhausted: every legal configuration was measured")
    _print_best(outcome)
    promoted = "promoted" if outcome.promotion.promoted else "not promoted"
    gain = "" if outcome.promotion.gain is None else f" ({outcome.promotion.gain:+.1%} in the race)"
    out.print(f"champion   {promoted}: {outcome.promotion.reason}{gain}")
    spent = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in outcome.where_time_went.items())
    out.print(f"time       {outcome.seconds:.1f} s: {spent}")
    out.print(f"kept in    {where}")
    if outcome.best is not None and not outcome.promotion.promoted and outcome.promotion.config is None:
        out.print("Nothing was published: no configuration passed race and certificate in this run.")
    if outcome.best is None:
        out.print("No correct configuration was found; nothing was published. `gemm-tuner history` has the failures.")


def _print_best(outcome: Outcome) -> None:
    best = outcome.best
    if best is None or best.measurement.time_ms is None:
        return
    time_ms = best.measurement.time_ms
    noise = timing.summarise(best.measurement.samples_ms).noise
    speed = rate(outcome.problem.gflops(time_ms))
    out = make_console()
    out.print(f"best       {speed}, {duration(time_ms)} ± {percent(noise)}")
    out.print(f"           {best.config.family} {settings(best.config)}")


def _nothing_to_tune(problem: Problem, json_output: bool) -> int:
    message = f"{problem} is an empty product ({problem.emptiness}): there is nothing to tune."
    return _say_why_not(problem, None, message, {}, json_output)


def _unsupported(problem: Problem, device: Device, json_output: bool) -> int:
    message = f"{device.name} does not support {problem.dtype}; nothing was tuned."
    return _say_why_not(problem, device, message, {Verdict.UNSUPPORTED.value: 1}, json_output)


def _say_why_not(
    problem: Problem, device: Device | None, message: str, verdicts: dict[str, int], json_output: bool
) -> int:
    if not json_output:
        make_console().print(message)
        return 0
    print_json(
        {
            "problem": problem_json(problem),
            "device": None if device is None else device_json(device),
            "evaluated": 0,
            "valid_space": {"size": 0, "exact": True},
            "verdicts": verdicts,
            "best": None,
            "promoted": False,
            "promotion": {"reason": message, "gain": None, "champion": None},
            "stopped_by": "unsupported" if verdicts else "empty",
            "where_time_went": {},
            "seconds": 0.0,
        }
    )
    return 0
