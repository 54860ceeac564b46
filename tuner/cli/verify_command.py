"""`verify` and `pin`: what needs the device to prove a configuration before it is, or stays, published."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from tuner.bench import Bench
from tuner.cli import options as o
from tuner.cli.output import champion_json, console, print_json, problem_json, settings
from tuner.cli.wiring import measuring, require_published, require_room, stored, the_device, the_families
from tuner.family import Family
from tuner.model import Champion, Config, Device, Problem, UserError, Verdict
from tuner.search import certificate_cases
from tuner.store import Store


def verify(
    m: Annotated[int | None, typer.Argument(metavar="M")] = None,
    n: Annotated[int | None, typer.Argument(metavar="N")] = None,
    k: Annotated[int | None, typer.Argument(metavar="K")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every champion of the device on this driver.")] = False,
    dtype: o.DTypeOption = "float32",
    trans_a: o.TransAOption = False,
    trans_b: o.TransBOption = False,
    batch: o.BatchOption = 1,
    math: o.MathOption = "strict",
    family_dir: o.FamilyDirOption = None,
    device: o.DeviceOption = None,
    wait: o.WaitOption = 0.0,
    db: o.DbOption = None,
    json_output: o.JsonOption = False,
) -> int:
    """Certify champions again on this device and driver; one that fails is withdrawn at once, and the status is 1."""
    problem = None
    if not every:
        if m is None or n is None or k is None:
            raise UserError("name a product as M N K, or all champions of the device with --all.")
        problem = o.the_problem(m, n, k, dtype, trans_a, trans_b, batch, math)
    families = the_families([], family_dir or [])
    chosen = the_device(device)
    with stored(db, upgrade=True) as store:
        found = _here(store, chosen, problem)
        results = []
        if found:
            with measuring(chosen, wait) as bench:
                results = [_verify(store, bench, families, chosen, champion) for champion in found]
            require_published(store)
    if json_output:
        print_json({"verified": results})
    else:
        _print_results(results, chosen)
    return 0 if all(result["certified"] for result in results) else 1


def _here(store: Store, device: Device, problem: Problem | None) -> list[Champion]:
    found = [c for c in store.champions() if c.silicon == device.silicon and c.software == device.software]
    if problem is None:
        return found
    found = [champion for champion in found if champion.problem == problem]
    if not found:
        raise UserError(f"{problem} has no champion on {device.name} with this driver; tune it first.")
    return found


def _verify(
    store: Store, bench: Bench, families: dict[str, Family], device: Device, champion: Champion
) -> dict[str, Any]:
    key = (champion.silicon, champion.software, champion.problem)
    cases = certificate_cases(
        champion.config, families.get(champion.config.family), champion.problem, device, champion.rendered
    )
    outcome = bench.check(cases)
    if outcome.verdict not in (Verdict.CORRECT, Verdict.WRONG_RESULT):
        outcome = bench.check(cases)  # a busy or full machine is no fault of the champion's
    source_hash = champion.rendered.source_hash
    correct = outcome.verdict is Verdict.CORRECT
    if correct:
        store.certify(*key, champion.config, source_hash, outcome.checks)
    elif outcome.verdict is not Verdict.UNSUPPORTED:
        reason = f"failed verification: {outcome.verdict} {outcome.message}"
        store.withdraw(*key, reason=reason, source_hash=source_hash)
    return {
        "problem": problem_json(champion.problem),
        "family": champion.config.family,
        "config": champion.config.as_dict(),
        "certified": correct,
        "verdict": outcome.verdict.value,
        "checks": list(outcome.checks),
        "message": outcome.message,
    }


def _print_results(results: list[dict[str, Any]], device: Device) -> None:
    out = console()
    if not results:
        out.print(f"Nothing is published for {device.name} on this driver; there is nothing to verify.")
    for result in results:
        config = settings(Config.of(result["family"], result["config"]))
        what = f"{Problem(**result['problem'])}  {result['family']} {config}"
        if result["certified"]:
            out.print(f"certified  {what}  ({len(result['checks'])} checks)")
        else:
            fate = "not judged" if result["verdict"] == Verdict.UNSUPPORTED else "WITHDRAWN "
            out.print(f"{fate} {what}  {result['verdict']}: {result['message']}")


def pin(
    m: o.M,
    n: o.N,
    k: o.K,
    family: Annotated[
        str | None, typer.Argument(metavar="[FAMILY", help="Family to pin; the present champion without.")
    ] = None,
    values: Annotated[list[str] | None, typer.Argument(metavar="AXIS=VALUE...]", help="Its configuration.")] = None,
    dtype: o.DTypeOption = "float32",
    trans_a: o.TransAOption = False,
    trans_b: o.TransBOption = False,
    batch: o.BatchOption = 1,
    math: o.MathOption = "strict",
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the champions' log.")] = "by hand",
    family_dir: o.FamilyDirOption = None,
    device: o.DeviceOption = None,
    wait: o.WaitOption = 0.0,
    db: o.DbOption = None,
    json_output: o.JsonOption = False,
) -> int:
    """Serve one configuration until it is unpinned, whatever is promoted; certified first, and refused if wrong."""
    problem = o.the_problem(m, n, k, dtype, trans_a, trans_b, batch, math)
    if problem.is_empty or problem.k == 0:
        raise UserError(f"{problem} is an empty product: there is nothing to pin.")
    families = the_families([], family_dir or [])
    chosen = the_device(device)
    require_room(problem, chosen)
    with stored(db, upgrade=True) as store:
        if family is None:
            champion = _pin_champion(store, chosen, problem, reason)
        else:
            config = _configuration(families, family, values or [], problem, chosen)
            champion = _pin_new(store, families, chosen, problem, config, reason, wait)
        require_published(store)
    if json_output:
        print_json({"champion": champion_json(champion)})
    else:
        served = f"{champion.config.family} {settings(champion.config)}"
        console().print(f"{problem} on {chosen.name}: pinned {served}.")
    return 0


def _pin_champion(store: Store, device: Device, problem: Problem, reason: str) -> Champion:
    key = (device.silicon, device.software, problem)
    champion = store.champion(*key)
    if champion is None:
        raise UserError(f"{problem} has no champion on {device.name} to pin; name a family and values, or tune first.")
    time_ms, noise = champion.time_ms, champion.noise
    return store.pin(*key, champion.config, champion.rendered, reason=reason, time_ms=time_ms, noise=noise)


def _pin_new(
    store: Store,
    families: dict[str, Family],
    device: Device,
    problem: Problem,
    config: Config,
    reason: str,
    wait_s: float,
) -> Champion:
    key = (device.silicon, device.software, problem)
    family = families[config.family]
    rendered = family.render(config, problem, device)
    with measuring(device, wait_s) as bench:
        outcome = bench.check(certificate_cases(config, family, problem, device, rendered))
    if outcome.verdict is not Verdict.CORRECT:
        raise UserError(f"{config} is not pinned: {outcome.verdict}, {outcome.message}")
    store.certify(*key, config, rendered.source_hash, outcome.checks)
    return store.pin(*key, config, rendered, reason=reason)


def _configuration(
    families: dict[str, Family], name: str, values: list[str], problem: Problem, device: Device
) -> Config:
    if name not in families:
        raise UserError(f"there is no family {name!r}; there is: {', '.join(sorted(families))}.")
    family = families[name]
    config = family.complete(dict(_pair(text) for text in values))
    broken = family.broken_rule(config, problem, device)
    if broken is not None:
        raise UserError(f"{config} is illegal for {problem} on {device.name}: it breaks the rule “{broken}”.")
    return config


def _pair(text: str) -> tuple[str, int | str]:
    axis, equals, value = text.partition("=")
    if not equals or not axis:
        raise UserError(f"{text!r} is no axis and value; write it as tsm=64.")
    return axis, int(value) if re.fullmatch(r"-?[0-9]{1,18}", value) else value
