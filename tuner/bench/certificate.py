"""One case of a certificate in the measuring process: every kind of call, two builds, repeated runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tuner.bench.messages import CaseRun, CheckOutcome
from tuner.model import Verdict
from tuner.verify import DRAWN, LEFT_IN_C, CheckResult, Values

if TYPE_CHECKING:
    from tuner.bench.desk import Desk
    from tuner.bench.operands import Bound, Loaded

SEED = 1
"""Other operands than trials have."""

GO_ON_S, MOST_RUNS = 0.5, 400
"""Runs of the same operands beside those whose bits are compared: as many as this time allows."""


DISTRIBUTIONS: Mapping[str, tuple[Values, ...]] = {
    "strict": ("specials", "tiny", "huge"),
    "tf32": ("specials", "one_signed"),
    "fp32_equivalent": ("specials", "one_signed", "normal", "wide", "outside", "denormals"),
}
"""What is checked beside integers and uniform floats, by the problem's math."""

_DESCRIBED: Mapping[Values, str] = {
    "specials": "infinities and NaN propagate, all else",
    "tiny": "A around 2^-80",
    "huge": "A around 2^80",
    "one_signed": "sums of one sign",
    "normal": "normal numbers",
    "wide": "exponents from -48 to 48",
    "outside": "numbers below 2^-100 and above 2^60",
    "denormals": "denormal numbers",
}


class _Failed(Exception):
    """A check that was not passed; the message is for people."""


def run_case(desk: Desk, request: CaseRun) -> CheckOutcome:
    """Check the case; raises Refused if the driver or the device refuses."""
    case = request.case
    builds = {"cached build": desk.load(case.rendered, request.binary)}
    if case.fresh:
        builds["fresh build"] = desk.load(case.rendered, None)
    run = _Case(desk, request, builds)
    try:
        run.check_integers()
        run.check_floats()
        run.check_distributions()
    except _Failed as failed:
        desk.checker.forget()
        return CheckOutcome(Verdict.WRONG_RESULT, tuple(run.passed), f"{case.problem}: {failed}")
    return CheckOutcome(Verdict.CORRECT, tuple(run.passed))


class _Case:
    """Every set of operands is used by all builds and then looked at once: reading A and B back costs."""

    def __init__(self, desk: Desk, request: CaseRun, builds: dict[str, Bound]) -> None:
        self._desk = desk
        self._request = request
        self._builds = builds
        self._launched: set[str] = set()
        self._used: dict[int, Loaded] = {}
        self.passed: list[str] = []

    def check_integers(self) -> None:
        """Exact integers, with guards between rows and without, for every kind of alpha and beta."""
        for kind in (one for one in self._request.case.kinds if not one.startswith(DRAWN)):
            for pad_rows in (True, False):
                loaded = self._load("integers", kind, pad_rows=pad_rows)
                for build in self._builds:
                    self._check(build, loaded, f"{build}, {kind}" + ", guards between rows" * pad_rows)
            for build in self._builds:
                self._pass(f"{build}, {kind}: exact, guards untouched")
        loaded = self._load("integers", "plain")
        for build in self._builds:
            for over in LEFT_IN_C:
                self._check(build, loaded, f"{build}, over a C that is all {over:g}", again=True, over=over)
        self._pass("whatever C held before, where it is not read")
        self._all_intact("integers")

    def check_floats(self) -> None:
        """Floats within their bound, and bit for bit the same from every build and in every run."""
        case = self._request.case
        for kind in case.kinds[1:]:
            loaded = self._load("floats", kind)
            what = f"floats, {kind}"
            if kind.startswith(DRAWN):
                factors = loaded.reference.kind
                what = f"floats, alpha {factors.alpha:.9g} and beta {factors.beta:.9g}, {kind}"
            self._check(next(iter(self._builds)), loaded, what)
            if kind.startswith(DRAWN):
                self._pass(f"{what}: within the bound")
        loaded = self._load("floats", case.kinds[0])
        runs = self._compare_bits(loaded)
        self._all_intact("floats")
        self._pass("floats within the bound")
        self._pass("A and B untouched by every kind of call")
        if runs > 1:
            self._pass(f"{runs} runs of {' and '.join(self._builds)} agree bit for bit")

    def check_distributions(self) -> None:
        """Infinities and NaN, and for relaxed arithmetic the operands that would expose it."""
        build = next(iter(self._builds))
        for values in DISTRIBUTIONS[self._request.case.problem.math]:
            loaded = self._load(values, "plain")
            result = self._check(build, loaded, values.replace("_", " "))
            beside = "" if result.rms_ratio is None else f", RMS error {result.rms_ratio:.2f} of strict's"
            self._pass(f"{_DESCRIBED[values]}: within the bound{beside}")
            if values == "specials":
                for kind in ("alpha_beta", "add"):
                    self._check(build, self._load(values, kind), f"specials, C's own among them, {kind}")
                self._pass("infinities and NaN of C propagate where it is read, zeros are zeros")
        self._all_intact("special values")

    def _compare_bits(self, loaded: Loaded) -> int:
        """Every build, run again and again; how many runs there were."""
        bits: bytes | None = None
        for build in self._builds:
            for number in range(self._request.case.repeats):
                self._check(build, loaded, f"{build}, floats, run {number + 1}", again=number > 0)
                found = self._desk.checker.bits(loaded)
                if bits is not None and found != bits:
                    raise _Failed(f"{build}, run {number + 1}: differs from the first run bit for bit")
                bits = found
        runs = len(self._builds) * self._request.case.repeats
        return runs + self._go_on(loaded, bits) if self._request.case.repeats > 1 else runs

    def _go_on(self, loaded: Loaded, bits: bytes | None) -> int:
        """More runs of a short kernel, which may go wrong once in many; how many the time allowed."""
        build, runs, end = next(iter(self._builds)), 0, time.monotonic() + GO_ON_S
        while runs < MOST_RUNS and time.monotonic() < end:
            runs += 1
            self._check(build, loaded, f"floats, run {runs} of many", again=True)
        if self._desk.checker.bits(loaded) != bits:
            raise _Failed(f"{build}, {runs} runs later: differs from the first run bit for bit")
        return runs

    def _load(self, values: Values, kind: str, *, pad_rows: bool = False) -> Loaded:
        problem = self._request.case.problem
        loaded = self._desk.checker.load(problem, values, pad_rows=pad_rows, kind=kind, seed=SEED)
        self._used[id(loaded.a)] = loaded
        return loaded

    def _check(
        self, build: str, loaded: Loaded, what: str, *, again: bool = False, over: float = LEFT_IN_C[0]
    ) -> CheckResult:
        if not self._launched:
            self._desk.leave("launch")
        first = build not in self._launched
        self._launched.add(build)
        bound, launch_s = self._builds[build], self._request.launch_s
        result = self._desk.checker.check(bound, loaded, launch_s, first=first, again=again, over=over)
        if not result.ok:
            raise _Failed(f"{what}: {result.message}")
        return result

    def _all_intact(self, what: str) -> None:
        """No kind of call has written to the operands used since the last look; kinds share them on the device."""
        for loaded in self._used.values():
            if not self._desk.checker.is_intact(loaded):
                raise _Failed(f"{what}: it writes to A or B")
        self._used.clear()

    def _pass(self, what: str) -> None:
        self.passed.append(f"{self._request.case.problem}: {what}")
