"""Whether nights happen: one that died, failed or never came is not silent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tuner.store.nouns import Night, NightState


@dataclass(frozen=True)
class Vigil:
    """How nights stand."""

    ok: bool
    message: str


def judge(nights: Sequence[Night], max_age_s: float | None, now: datetime | None = None) -> Vigil:
    """Judge by the newest of `nights` (given newest first); too old is one that began over `max_age_s` seconds ago."""
    if not nights:
        return Vigil(False, "No night was ever begun.")
    last = nights[0]
    age = ((now or datetime.now(UTC)) - datetime.fromisoformat(last.started)).total_seconds()
    said = f"Night {last.id} ({last.name}), begun {last.started[:16].replace('T', ' ')} UTC on {last.host}"
    if max_age_s is not None and age > max_age_s:
        return Vigil(False, f"{said}, is {age / 3600:.0f} h old.")
    endings = {
        NightState.RUNNING: (True, "is running."),
        NightState.COMPLETE: (True, "is complete."),
        NightState.INTERRUPTED: (True, "was told to stop; the next one goes on."),
        NightState.FAILED: (False, "failed."),
        NightState.DIED: (False, "died: its process is gone without a word."),
    }
    ok, words = endings[last.state]
    if last.state is NightState.FAILED:
        attention = (last.summary or {}).get("attention", [])
        words = f"failed: {attention[0]}" if attention else words
    return Vigil(ok, f"{said}, {words}")
