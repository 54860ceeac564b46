"""What a run knows of its candidates: the last word on each, the fastest, and how the verdicts stand."""

from __future__ import annotations

import math
from collections import Counter

from tuner.model import Record, Verdict
from tuner.search.study import SAYS_NOTHING


class Tally:
    """Records by source hash; a later word on a source takes the place of an earlier one."""

    def __init__(self) -> None:
        """With nothing heard yet."""
        self.verdicts: Counter[str] = Counter()
        self.evaluated = 0
        """Configurations that got their verdict in this run."""
        self._judged: dict[str, Verdict] = {}
        """What each source that this run evaluated is counted as."""
        self._correct: dict[str, Record] = {}
        """The last word on every source with a correct result."""
        self._best: Record | None = None
        self._slowest_check: Record | None = None

    @property
    def best(self) -> Record | None:
        """The fastest of what is, by the last word on it, correct."""
        if self._best is None:
            self._best = min(self._correct.values(), key=time_ms, default=None)
        return self._best

    @property
    def telling(self) -> list[Record]:
        """The fastest, and the one that took longest to verify: what a certificate's cost is guessed from."""
        return [record for record in (self.best, self._slowest_check) if record is not None]

    def correct(self, source_hash: str) -> Record | None:
        """The last word on a source, if it is that it is correct."""
        return self._correct.get(source_hash)

    def judge(self, source_hash: str, verdict: Verdict) -> None:
        """One more evaluation of this run."""
        self._judged[source_hash] = verdict
        self.verdicts[verdict] += 1
        self.evaluated += 1

    def hear(self, record: Record) -> None:
        """The last word on its source; a candidate that was cut short has a time to learn from, but no full check."""
        before = self._correct.pop(record.source_hash, None)
        if before is not None and before is self._best:
            self._best = None  # to be looked for again
        if record.measurement.is_checked:
            self._correct[record.source_hash] = record
            if self._slowest_check is None or _verify_ms(record) > _verify_ms(self._slowest_check):
                self._slowest_check = record
            if self._best is not None and time_ms(record) < time_ms(self._best):
                self._best = record

    def count_again(self, record: Record) -> bool:
        """Trials check less than a certificate: what that, or the race, refused is no longer counted correct.

        A clock that failed in the race speaks of the machine, and takes nothing back. False if nothing changed.
        """
        before, verdict = self._judged.get(record.source_hash), record.measurement.verdict
        if before is None or before is verdict or verdict in SAYS_NOTHING:
            return False
        self._judged[record.source_hash] = verdict
        self.verdicts += Counter({verdict: 1})
        self.verdicts -= Counter({before: 1})  # which leaves no verdict of nothing
        return True


def time_ms(record: Record) -> float:
    """Its time; infinite if it has none."""
    return record.measurement.time_ms or math.inf


def _verify_ms(record: Record) -> float:
    return record.measurement.verify_ms or 0.0
