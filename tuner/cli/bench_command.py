"""`gemm-tuner bench`: what is served for a product, beside every library that is here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tuner import timing
from tuner.baselines import Comparison, Standing, compare, open_libraries, read_parameters
from tuner.baselines.compare import ROUNDS
from tuner.bench import Bench, ContenderFailed
from tuner.cli import options as o
from tuner.cli.output import device_json, duration, percent, print_json, problem_json, rate, settings, table
from tuner.cli.wiring import measuring, require_room, the_device, the_families, the_store
from tuner.family import Family
from tuner.lookup import Answer, Snapshot, lookup, snapshot_path
from tuner.model import Built, Device, MachineError, Problem, UserError, Verdict
from tuner.search import certificate_cases

FEWEST_ROUNDS = 5
"""With fewer no interval reaches 95 %."""


def bench(
    m: o.M,
    n: o.N,
    k: o.K,
    dtype: o.DTypeOption = "float32",
    trans_a: o.TransAOption = False,
    trans_b: o.TransBOption = False,
    batch: o.BatchOption = 1,
    math: o.MathOption = "strict",
    rounds: Annotated[
        int, typer.Option("--rounds", min=FEWEST_ROUNDS, help="Rounds in which all take their turns.")
    ] = ROUNDS,
    clblast_parameters: Annotated[
        Path | None,
        typer.Option("--clblast-parameters", metavar="PATH", help="What CLBlast's own tuners wrote."),
    ] = None,
    family_dir: o.FamilyDirOption = None,
    device: o.DeviceOption = None,
    wait: o.WaitOption = 0.0,
    db: o.DbOption = None,
    json_output: o.JsonOption = False,
) -> None:
    """Time what is served for a product beside the vendors' libraries, in turns and by one clock."""
    problem = o.the_problem(m, n, k, dtype, trans_a, trans_b, batch, math)
    if problem.is_empty or problem.k == 0:
        raise UserError(f"{problem} is an empty product: there is nothing to time.")
    parameters = None if clblast_parameters is None else read_parameters(clblast_parameters)
    families = the_families([], family_dir or [])
    chosen = the_device(device)
    require_room(problem, chosen)
    answer = lookup(Snapshot(snapshot_path(db)), chosen, problem, families)
    with measuring(chosen, wait) as opened:
        if not answer.certified:
            _certify(answer, families, chosen, problem, opened, db)
        built = opened.build(answer.rendered).result()
        with open_libraries(chosen, clblast_parameters=parameters) as libraries:
            found = _compare(problem, answer, built, opened, libraries, rounds)
    if json_output:
        print_json(_to_json(found, answer, chosen, rounds))
    else:
        _print(found, answer, chosen)


def _certify(
    answer: Answer, families: dict[str, Family], device: Device, problem: Problem, bench: Bench, db: str | None
) -> None:
    """Nothing is timed that was not proven on this driver; the certificate is kept."""
    rendered = answer.rendered
    cases = certificate_cases(answer.config, families.get(answer.family), problem, device, rendered)
    outcome = bench.check(cases)
    if outcome.verdict is not Verdict.CORRECT:
        raise MachineError(
            f"{answer.config} ({answer.origin.value}) is not right for {problem} here: {outcome.verdict}, "
            f"{outcome.message}. Tune the product first."
        )
    key = (device.silicon, device.software, problem)
    with the_store(db, upgrade=True) as store:
        store.certify(*key, answer.config, rendered.source_hash, outcome.checks)


def _compare(problem: Problem, answer: Answer, built: Built, bench: Bench, libraries: Any, rounds: int) -> Comparison:
    try:
        return compare(problem, (answer.rendered, built), bench, libraries, rounds=rounds)
    except ContenderFailed as failure:
        raise MachineError(f"{answer.config} can't be timed: {failure.verdict}, {failure.message}.") from failure


def _to_json(found: Comparison, answer: Answer, device: Device, rounds: int) -> dict[str, Any]:
    return {
        "problem": problem_json(found.problem),
        "device": device_json(device),
        "rounds": rounds,
        "ours": {
            "family": answer.family,
            "config": answer.config.as_dict(),
            "origin": answer.origin.value,
            "time_ms": found.time_ms,
            "gflops": found.problem.gflops(found.time_ms),
            "noise": timing.summarise(found.ours_ms).noise,
            "samples_ms": list(found.ours_ms),
        },
        "libraries": [standing.to_json(found.problem) for standing in found.libraries],
    }


def _print(found: Comparison, answer: Answer, device: Device) -> None:
    ours = (
        *("gemm-tuner", "", duration(found.time_ms), rate(found.problem.gflops(found.time_ms)), ""),
        f"{answer.family} {settings(answer.config)} ({answer.origin.value})",
    )
    title = f"{found.problem} on {device.name} ({device.software.driver}); ratio: library's time / ours"
    columns = ("name", "version", "time", "speed", "ratio", "how")
    table(title, columns, [ours, *(_row(standing, found.problem) for standing in found.libraries)])


def _row(standing: Standing, problem: Problem) -> tuple[str, ...]:
    time_ms, ratio = standing.time_ms, standing.ratio
    if time_ms is None or ratio is None:
        why = f"absent: {standing.absent}" if standing.absent else f"failed: {standing.failed}"
        return standing.name, standing.version, "-", "-", "-", why
    speed = rate(problem.gflops(time_ms))
    return (
        *(standing.name, standing.version, duration(time_ms), speed),
        *(f"{ratio:.2f} ± {percent(standing.noise)}", standing.how),
    )
