"""What a search of a problem must have, at least, to publish something: known from its own trials, or from others'."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tuner.model import Device, Problem, operand_shapes
from tuner.nightly.plan import LEAST_S
from tuner.search.certify import LEAST_S as CERTIFY_LEAST_S
from tuner.search.certify import VERIFICATIONS, expected_s
from tuner.search.outcome import CERTIFY_MARGIN
from tuner.store import Store

FIRST = 2.0
"""Seconds of the first candidate besides its verification, as a multiple of that: it is built, uploaded and timed."""


class Costs:
    """What each problem takes on one device, from what was measured there so far."""

    def __init__(self, store: Store, device: Device, compilers: int, problems: Iterable[Problem]) -> None:
        self._store, self._device, self._compilers = store, device, compilers
        self._verify_s: dict[Problem, float] = {}
        self._certify_s: dict[Problem, float] = {}
        self._build_s: dict[Problem, float] = {}
        for problem in problems:
            self.learn(problem)

    def learn(self, problem: Problem) -> None:
        """Look at what the store has of a problem now."""
        records = self._store.history(self._device.silicon, self._device.software, problem)
        verified = [record.measurement.verify_ms for record in records if record.measurement.is_checked]
        if verified:
            self._verify_s[problem] = max(verified) / 1e3
            self._certify_s[problem] = expected_s(records, self._compilers)
            self._build_s[problem] = max(record.measurement.compile_ms or 0.0 for record in records) / 1e3

    def one_s(self, problem: Problem) -> float:
        """Seconds to build and measure one configuration, the first on its problem; 0 if nothing is known."""
        return FIRST * self._verified_s(problem) + self._build_s.get(problem, 0.0)

    def least_s(self, problem: Problem) -> float:
        """Seconds for a first candidate, a look at the fastest, and a certificate."""
        verify = self._verified_s(problem)
        certify = self._certify_s.get(problem, CERTIFY_LEAST_S + VERIFICATIONS * verify)
        return max(LEAST_S, FIRST * verify + CERTIFY_MARGIN * certify)

    def _verified_s(self, problem: Problem) -> float:
        return self._verify_s[problem] if problem in self._verify_s else self._by_size(problem)

    def _by_size(self, problem: Problem) -> float:
        """A verification's seconds by the size of its operands, as that of the problem nearest in size; 0 without."""
        size = _elements(problem)
        near = min(self._verify_s, key=lambda other: abs(math.log(_elements(other) / size)), default=None)
        return 0.0 if near is None else self._verify_s[near] * max(1.0, size / _elements(near))


def _elements(problem: Problem) -> int:
    """Of A, B and C together."""
    return sum(problem.batch * rows * columns for rows, columns in operand_shapes(problem))
