"""The morning's answer as plain values: what got slower, what got faster, what failed, and what needs a person."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tuner.family import Family
from tuner.model import Config, Device, Problem
from tuner.nightly.beside import libraries_beside, races_of_night
from tuner.nightly.confirm import SUSPECTED
from tuner.nightly.ledger import Ledger
from tuner.nightly.ports import NightClock
from tuner.nightly.published import promotions, renewals
from tuner.nightly.regress import FEWEST_NIGHTS, RECOVERED
from tuner.nightly.search_step import plan_for
from tuner.nightly.settings import NightSettings
from tuner.nightly.words import config_json, device_json, problem_json
from tuner.store import Regression, Store

if TYPE_CHECKING:
    from tuner.nightly.night import LaneEnd

DONE, FAILED, REGRESSED = 0, 1, 3
WORSE = 0.10
"""A default this much slower than the best counts, as users counted it."""
MOST_SLOWER = 0.5
"""Share of the compared champions that is slower, from which on it is the software."""

Values = dict[str, Any]


def summarise_night(
    settings: NightSettings,
    name: str,
    families: Mapping[str, Family],
    store: Store,
    ledger: Ledger,
    ends: Sequence[LaneEnd],
    clock: NightClock,
    started: str,
    *,
    stopped: bool,
) -> Values:
    """The night as one object of plain values: what `nightly --json` prints and hooks receive."""
    devices = [_device(settings, families, store, ledger, end, started) for end in ends]
    attention = [sentence for device in devices for sentence in device["attention"]]
    return {
        "night": {
            "id": ledger.night,
            "name": name,
            "started": started,
            "finished": datetime.now(UTC).isoformat(),
            "seconds": round(clock.elapsed, 1),
            "budget_s": settings.budget.total_s,
            "interrupted": stopped,
            "store": store.url,
        },
        "status": _status(devices),
        "attention": attention,
        "devices": devices,
        "report": None,
    }


def was_skipped(devices: Sequence[Values]) -> bool:
    """Every device of a night was in use, so that it did nothing."""
    return bool(devices) and all(device["skipped"] for device in devices)


def _status(devices: Sequence[Values]) -> int:
    if any(device["failed"] for device in devices) or was_skipped(devices):
        return FAILED
    if any(device["regressions"]["new"] or device["regressions"]["open"] for device in devices):
        return REGRESSED
    return FAILED if devices and all(device["nothing_correct"] for device in devices) else DONE


def _device(
    settings: NightSettings,
    families: Mapping[str, Family],
    store: Store,
    ledger: Ledger,
    end: LaneEnd,
    started: str,
) -> Values:
    device = end.device
    steps = ledger.steps(f"{device.instance} / {device.software.key}")

    def stage(name: str) -> list[Values]:
        return [result for step, result in steps.items() if step.startswith(f"{name} ")]

    searched, confirmed, renewed = stage("search"), stage("confirm"), stage("renew")
    renewed = renewals(store, device, ledger.night, renewed)
    conditions = {step.partition(" ")[2]: result for step, result in steps.items() if step.startswith("condition ")}
    withdrawn = [
        {"problem": problem_json(event.problem), **config_json(event.config), "reason": event.reason}
        for event in store.log(device.silicon, device.software)
        if event.action == "withdraw" and event.when >= started
    ]
    regressions = _regressions(store, device, started)
    found: Values = {
        "device": device_json(device),
        "skipped": end.skipped,
        "failed": end.failed,
        "conditions": conditions,
        "software": _software(confirmed, conditions, settings.threshold),
        "withdrawn": withdrawn,
        "promoted": promotions(store, device, ledger.night),
        "renewed": renewed,
        "regressions": regressions,
        "looks_slower": _looks_slower(confirmed, settings.threshold),
        "confirmed": len(confirmed),
        "searched": searched,
        "evaluated": sum(result["evaluated"] for result in searched),
        "failures": _failures(searched, renewed),
        "baselines": races_of_night(store, device, ledger.night),
        "cross": steps.get("cross measured"),
        "due": _still_due(settings, store, device, families, searched),
        "champions": _champions(settings, store, device),
        "defaults": defaults_statistic(store, device, families),
    }
    found["nothing_correct"] = _nothing_correct(searched) and not found["champions"]
    found["uncertified"] = sum(r["best_ms"] is not None and not _has(found["champions"], r) for r in searched)
    found["attention"] = _attention(device, found, end.attention)
    return found


def _nothing_correct(searched: Sequence[Values]) -> bool:
    tried = sum(result["evaluated"] for result in searched)
    return tried > 0 and all(result["best_ms"] is None for result in searched)


def _has(champions: Sequence[Values], result: Values) -> bool:
    return any(champion["problem"] == result["problem"] for champion in champions)


def _regressions(store: Store, device: Device, started: str) -> Values:
    mine = [r for r in store.regressions(open_only=False) if r.silicon == device.silicon]
    return {
        "new": [_regression(r) for r in mine if r.closed is None and r.opened >= started],
        "open": [_regression(r) for r in mine if r.closed is None and r.opened < started],
        "recovered": [_regression(r) for r in mine if (r.closed or "") >= started and not r.acknowledged],
    }


def _looks_slower(confirmed: Sequence[Values], threshold: float) -> list[Values]:
    """Slower by the threshold, and not called a regression: within noise, or beside too short a history to tell."""
    slow = [r for r in confirmed if r["judged"] and r.get("factor", 0.0) >= 1 + threshold]
    unclaimed = [r for r in slow if r["regression"] in ("", SUSPECTED)]
    return [
        {"settled": r["regression"] != SUSPECTED, **r, "too_few_nights": r["nights"] < FEWEST_NIGHTS} for r in unclaimed
    ]


def _regression(found: Regression) -> Values:
    return {
        "id": found.id,
        "problem": problem_json(found.problem),
        **config_json(found.config),
        "before_ms": found.before_ms,
        "now_ms": found.now_ms,
        "slower": found.now_ms / found.before_ms - 1,
        "noise": found.noise,
        "detail": found.detail,
        "opened": found.opened,
        "reason": found.reason,
    }


def _software(confirmed: Sequence[Values], conditions: Mapping[str, Values], threshold: float) -> Values | None:
    """Whether new software slowed everything; None if the software is as it was."""
    start = conditions.get("start")
    if start is None or not start["software_changed"]:
        return None
    factors = [result["factor"] for result in confirmed if "factor" in result]
    slower = [factor for factor in factors if factor > 1 + RECOVERED * threshold]
    middle = statistics.median(factors) if factors else None
    everything = len(slower) >= max(2, MOST_SLOWER * len(factors)) and middle is not None and middle >= 1 + threshold
    return {
        "compared": len(factors),
        "slower": len(slower),
        "median_factor": middle,
        "kernel_factor": start["kernel_factor"],
        "copy_factor": start["copy_factor"],
        "regression": bool(everything),
        "words": start["words"],
    }


def _failures(searched: Sequence[Values], renewed: Sequence[Values]) -> Values:
    verdicts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    axes: Counter[tuple[str, str, Any]] = Counter()
    for result in (*searched, *renewed):
        verdicts.update(result.get("verdicts", {}))
    verdicts.pop("correct", None)
    for result in searched:
        examples |= result["failures"]["examples"]
        for one in result["failures"]["axes"]:
            axes[one["family"], one["axis"], one["value"]] += one["trials"]
    hopeless = [
        {"family": family, "axis": axis, "value": value, "trials": trials}
        for (family, axis, value), trials in axes.most_common()
    ]
    return {"verdicts": dict(verdicts.most_common()), "examples": examples, "axes": hopeless}


def _still_due(
    settings: NightSettings, store: Store, device: Device, families: Mapping[str, Family], searched: Sequence[Values]
) -> list[Values]:
    """What a night of this length did not come to."""
    done = {Problem(**result["problem"]) for result in searched}
    return [
        {"problem": problem_json(due.problem), "reason": due.reason.value, "why": due.why, "gain": due.gain}
        for due in plan_for(settings, store, device, families).due
        if due.problem not in done
    ]


def _champions(settings: NightSettings, store: Store, device: Device) -> list[Values]:
    """Every problem of the night with its champion and the libraries beside it."""
    found = []
    for champion in store.champions():
        if (champion.silicon, champion.software) != (device.silicon, device.software):
            continue
        if champion.problem not in settings.problems:
            continue
        gflops = champion.problem.gflops(champion.time_ms) if champion.time_ms else None
        records = store.baselines(champion.silicon, champion.software, champion.problem)
        found.append(
            {
                "problem": problem_json(champion.problem),
                "name": settings.names.get(champion.problem, ""),
                **config_json(champion.config),
                "time_ms": champion.time_ms,
                "noise": champion.noise,
                "gflops": gflops,
                "certified": champion.certificate is not None,
                "pinned": champion.pinned,
                "libraries": libraries_beside(records, champion.rendered.source_hash),
            }
        )
    return found


def defaults_statistic(store: Store, device: Device, families: Mapping[str, Family]) -> Values | None:
    """How much the declared defaults cost: the share of problems on which the best of them is over 10 % slower.

    Over the champions' problems where a default was measured; None where none was.
    """
    costs = []
    for champion in store.champions():
        if (champion.silicon, champion.software) != (device.silicon, device.software) or not champion.time_ms:
            continue
        declared: set[Config] = {config for family in families.values() for config in family.defaults}
        records = store.history(champion.silicon, champion.software, champion.problem)
        times = [r.measurement.time_ms for r in records if r.config in declared and r.measurement.time_ms is not None]
        if times:
            costs.append(min(times) / champion.time_ms)
    if not costs:
        return None
    worse = sum(cost > 1 + WORSE for cost in costs)
    return {
        "problems": len(costs),
        "over_10_percent_slower": worse / len(costs),
        "median_gain": statistics.median(costs),
        "largest_gain": max(costs),
    }


def _attention(device: Device, found: Values, said: Sequence[str]) -> list[str]:
    """Whatever a person should see to, most pressing first."""
    sentences = []
    if found["failed"]:
        sentences.append(f"{device.name} failed: {found['failed']}")
    for one in found["withdrawn"]:
        sentences.append(f"{Problem(**one['problem'])}: the champion was withdrawn: {one['reason']}")
    software = found["software"]
    if software is not None and software["regression"]:
        factor, count = software["median_factor"] - 1, software["compared"]
        sentences.append(f"{device.name}: the new software is {factor:.0%} slower over all {count} problems compared.")
    for one in found["regressions"]["new"]:
        sentences.append(f"{Problem(**one['problem'])}: slower by {one['slower']:.1%} ± {one['noise']:.1%}.")
    for one in found["renewed"]:
        if not one["proven"]:
            sentences.append(f"{Problem(**one['problem'])}: not proven on the new driver: {one['reason']}.")
    if found["skipped"]:
        sentences.append(f"{device.name} was skipped: {found['skipped']}.")
    if found["uncertified"]:
        count = found["uncertified"]
        sentences.append(f"{device.name}: for {count} problems there was no time to race and certify; give more time.")
    if found["nothing_correct"]:
        sentences.append(f"{device.name}: no configuration gave a correct result; nothing is published.")
    return [*sentences, *said]
