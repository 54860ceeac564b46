"""What speaks for an answer, as plain values for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tuner.lookup.answer import Origin
from tuner.model import Certificate, Device
from tuner.store.published import Entry

_MOST_SKIPPED = 10

_WHY = {
    Origin.PINNED: "it was pinned for this problem on this device and driver",
    Origin.EXACT: "it is the champion of this problem on this device and driver",
    Origin.OTHER_DRIVER: "it is the champion of this problem on this device with another driver, {driver}",
    Origin.NEAREST: "nothing was tuned for this problem; this was for the nearest one, {problem}",
    Origin.SIMILAR_DEVICE: "nothing was tuned on this device; this was for {problem} on a similar one, {device}",
    Origin.SEED: "nothing was tuned here; this is what the package knows to be good for {problem} on {device}",
    Origin.DEFAULT: "nothing that was tuned fits; this is what the family declares as its default",
}


def evidence_of(
    origin: Origin, entry: Entry, device: Device, held: Certificate | None, skipped: Sequence[str], now: float
) -> dict[str, Any]:
    """What is known of a champion; `now` is in seconds since 1970."""
    found = entry.champion
    same_silicon = found.silicon == device.silicon
    return {
        "why": _WHY[origin].format(problem=found.problem, driver=found.software.driver, device=found.silicon.name),
        "problem": str(found.problem),
        "device": found.silicon.name,
        "same_device": same_silicon,
        "driver": found.software.driver,
        "same_driver": same_silicon and found.software == device.software,
        "time_ms": found.time_ms,
        "noise": found.noise,
        "gflops": found.problem.gflops(found.time_ms) if found.time_ms else None,
        "when": found.when,
        "age_seconds": _age(found.when, now),
        "run": entry.run,
        "reason": found.reason,
        **_proof(held),
        "skipped": _shortened(skipped),
    }


def default_evidence(held: Certificate | None, skipped: Sequence[str]) -> dict[str, Any]:
    """What there is to say for a default."""
    return {"why": _WHY[Origin.DEFAULT], **_proof(held), "skipped": _shortened(skipped)}


def _proof(held: Certificate | None) -> dict[str, Any]:
    """The certificate that what is served has here."""
    return {"checks": list(held.checks) if held else [], "certified_when": held.when if held else None}


def _age(when: str, now: float) -> float | None:
    try:
        return max(0.0, round(now - datetime.fromisoformat(when).timestamp(), 1))
    except ValueError:
        return None


def _shortened(skipped: Sequence[str]) -> list[str]:
    rest = len(skipped) - _MOST_SKIPPED
    return list(skipped) if rest <= 0 else [*skipped[:_MOST_SKIPPED], f"and {rest} more"]
