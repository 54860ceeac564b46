"""Whether the service and the nights behind it are well."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from tuner.model import MachineError
from tuner.service.answers import Answers

KEPT_S = 5.0
"""The database is asked no more often than this."""

Ask = Callable[[str], Awaitable[Any]]


class Health:
    """The last complete night, remembered for a few seconds."""

    def __init__(self, answers: Answers, ask: Ask, question: str, max_age_s: float | None) -> None:
        """`ask` asks `question` of the database."""
        self._answers, self._ask, self._question, self._max_age_s = answers, ask, question, max_age_s
        self._one_at_a_time = asyncio.Lock()
        self._night: dict[str, Any] | None = None
        self._trouble = ""
        self._asked = float("-inf")

    async def check(self) -> tuple[bool, dict[str, Any]]:
        """Whether all is well, and how things stand."""
        await self._look()
        night = None
        if self._night is not None:
            age = max(0.0, round(time.time() - self._night["until"], 1))
            night = {"name": self._night["name"], "finished": self._night["finished"], "age_seconds": age}
        ok, message = self._judged(night)
        stands = {
            "ok": ok,
            "message": message,
            "last_complete_night": night,
            "champions": sum(self._answers.snapshot.index.devices.values()),
            "snapshot_age_seconds": snapshot_age(self._answers),
        }
        return ok, stands

    def _judged(self, night: dict[str, Any] | None) -> tuple[bool, str]:
        limit = self._max_age_s
        if self._trouble:
            return limit is None, f"The nights cannot be read: {self._trouble}"
        if night is None:
            return limit is None, "No night was ever completed."
        hours = night["age_seconds"] / 3600
        if limit is not None and night["age_seconds"] > limit:
            return False, f"The last complete night is {hours:.1f} h old, more than {limit / 3600:.1f} h."
        return True, f"The last complete night is {hours:.1f} h old."

    async def _look(self) -> None:
        async with self._one_at_a_time:
            if time.monotonic() - self._asked < KEPT_S:
                return
            try:
                self._night, self._trouble = await self._ask(self._question), ""
            except MachineError as error:
                self._night, self._trouble = None, str(error)
            self._asked = time.monotonic()


def snapshot_age(answers: Answers) -> float | None:
    """Seconds since the snapshot was published; None if there is none."""
    try:
        return max(0.0, round(time.time() - answers.snapshot.path.stat().st_mtime, 1))
    except OSError:
        return None
