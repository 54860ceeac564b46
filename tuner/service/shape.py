"""Answers as plain values for JSON."""

from __future__ import annotations

from typing import Any

from tuner.model import Champion, Silicon, Software
from tuner.service.answers import Found
from tuner.service.devices import Known


def device_json(known: Known) -> dict[str, Any]:
    """A device that can be asked about."""
    return {
        "key": known.key,
        "silicon": _keyed(known.device.silicon),
        "software": _keyed(known.device.software),
        "champions": known.champions,
        "facts_from": known.facts_from.value,
    }


def _keyed(noun: Silicon | Software) -> dict[str, Any]:
    return {"key": noun.key, **vars(noun)}


def lookup_json(found: Found) -> dict[str, Any]:
    """An answer without its source. Its age is left out: what is kept and compared must not change with the clock."""
    answer = found.answer
    evidence = {name: value for name, value in answer.evidence.items() if name != "age_seconds"}
    return {
        "device": found.known.device.silicon.key,
        "driver": found.known.device.software.driver,
        "facts_from": found.known.facts_from.value,
        "problem": dict(vars(found.problem)),
        **answer.to_json(),
        "evidence": evidence,
        "source_hash": answer.rendered.source_hash,
    }


def kernel_json(found: Found, passed_over: list[str]) -> dict[str, Any]:
    """An answer with its source."""
    return {**lookup_json(found), "source": found.answer.source(), "passed_over": passed_over}


def champion_json(champion: Champion) -> dict[str, Any]:
    """A champion without its source."""
    problem, held = champion.problem, champion.certificate
    return {
        "device": champion.silicon.key,
        "software": champion.software.key,
        "problem": dict(vars(problem)),
        "family": champion.config.family,
        "config": champion.config.as_dict(),
        "time_ms": champion.time_ms,
        "noise": champion.noise,
        "gflops": problem.gflops(champion.time_ms) if champion.time_ms else None,
        "certified": held is not None,
        "pinned": champion.pinned,
        "reason": champion.reason,
        "when": champion.when,
        "source_hash": champion.rendered.source_hash,
    }
