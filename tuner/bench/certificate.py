"""One case of a certificate in the measuring process: every kind of call, two builds, repeated runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.bench.messages import CaseRun, CheckOutcome
from tuner.model import Verdict
from tuner.verify import CheckResult

if TYPE_CHECKING:
    from tuner.bench.desk import Desk
    from tuner.bench.operands import Bound

SEED = 1
"""Other operands than trials have."""


class _Failed(Exception):
    """A check that was not passed; the message is for people."""


def run_case(desk: Desk, request: CaseRun) -> CheckOutcome:
    """Check the case; raises Refused if the driver or the device refuses."""
    case = request.case
    builds = {"cached build": desk.load(case.rendered, request.binary)}
    if case.fresh:
        builds["fresh build"] = desk.load(case.rendered, None)
    run = _Case(desk, request)
    try:
        for name, bound in builds.items():
            run.check_kinds(name, bound)
        run.compare_bits(builds)
    except _Failed as failed:
        return CheckOutcome(Verdict.WRONG_RESULT, tuple(run.passed), f"{case.problem}: {failed}")
    return CheckOutcome(Verdict.CORRECT, tuple(run.passed))


class _Case:
    def __init__(self, desk: Desk, request: CaseRun) -> None:
        self._desk = desk
        self._request = request
        self._asked = False
        self.passed: list[str] = []

    def check_kinds(self, build: str, bound: Bound) -> None:
        """Exact integers, with guards between rows and without, for every kind of alpha and beta."""
        case = self._request.case
        first = True
        for kind in case.kinds:
            for pad_rows in (True, False):
                loaded = self._desk.checker.load(case.problem, "integers", pad_rows=pad_rows, kind=kind, seed=SEED)
                self._ask_once()
                result = self._desk.checker.check(bound, loaded, self._request.launch_s, first=first)
                first = False
                self._accept(result, f"{build}, {kind}" + ", guards between rows" * pad_rows)
            self.passed.append(f"{case.problem}: {build}, {kind}: exact, guards untouched")
            # What writes to A or B does so in every kind; reading them back costs more than the check itself.
            if kind == case.kinds[0]:
                if not self._desk.checker.is_intact(loaded):
                    raise _Failed(f"{build}, {kind}: it writes to A or B")
                self.passed.append(f"{case.problem}: {build}: A and B untouched")

    def compare_bits(self, builds: dict[str, Bound]) -> None:
        """Floats within their bound, and bit for bit the same from every build and in every run."""
        case, checker = self._request.case, self._desk.checker
        first = next(iter(builds.values()))
        for kind in case.kinds[1:]:
            other = checker.load(case.problem, "floats", pad_rows=False, kind=kind, seed=SEED)
            self._accept(checker.check(first, other, self._request.launch_s), f"floats, {kind}")
        loaded = checker.load(case.problem, "floats", pad_rows=False, kind=case.kinds[0], seed=SEED)
        bits: bytes | None = None
        for name, bound in builds.items():
            for number in range(case.repeats):
                result = checker.check(bound, loaded, self._request.launch_s, again=number > 0)
                self._accept(result, f"{name}, floats, run {number + 1}")
                found = checker.bits(loaded)
                if bits is not None and found != bits:
                    raise _Failed(f"{name}, run {number + 1}: differs from the first run bit for bit")
                bits = found
        runs = len(builds) * case.repeats
        self.passed.append(f"{case.problem}: floats within the bound")
        if runs > 1:
            self.passed.append(f"{case.problem}: {runs} runs of {' and '.join(builds)} agree bit for bit")

    def _ask_once(self) -> None:
        if not self._asked:
            self._desk.leave("launch")
            self._asked = True

    def _accept(self, result: CheckResult, what: str) -> None:
        if not result.ok:
            raise _Failed(f"{what}: {result.message}")
