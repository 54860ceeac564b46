"""Proof before first use: a kernel without a certificate is checked in an isolated process, and the outcome kept."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from tuner.bench import Bench, Case, CheckOutcome
from tuner.lookup import Answer
from tuner.model import Device, MachineError, Measurement, Problem, Record, UserError, Verdict
from tuner.search import own_case
from tuner.store import Store, open_store

IDLE_SECONDS = 20.0
"""How long the checking processes wait for another kernel before they end."""

_log = logging.getLogger("tuner.gemm")
_FOR_GOOD = frozenset(
    {
        Verdict.WRONG_RESULT,
        Verdict.CRASHED,
        Verdict.TIMED_OUT,
        Verdict.LAUNCH_FAILED,
        Verdict.COMPILE_FAILED,
        Verdict.COMPILE_TIMED_OUT,
    }
)
"""What is remembered of a kernel; anything else (no memory just now) is asked again in the next process."""


class Checks(Protocol):
    """What a proof needs of a bench."""

    def check(self, cases: list[Case]) -> CheckOutcome:
        """Run a certificate's cases."""

    def close(self) -> None:
        """End its processes."""


class Prover:
    """Proves kernels on demand; one proof at a time."""

    def __init__(self, db: str | None, *, open_bench: Callable[[Device], Checks] = Bench.open) -> None:
        """`db` as `open_store` takes it: where certificates are kept."""
        self._db = db
        self._open_bench = open_bench
        self._lock = threading.Lock()
        self._known: dict[tuple[Device, Problem, str], str | None] = {}
        self._store: Store | None = None
        self._store_tried = False
        self._bench: tuple[Device, Checks] | None = None
        self._idle: threading.Timer | None = None

    def refusal(self, device: Device, problem: Problem, answer: Answer) -> str | None:
        """Why a kernel must not be run for this problem; None if it is proven right. Raises MachineError."""
        key = (device, problem, answer.rendered.source_hash)
        with self._lock:
            if key not in self._known:
                self._known[key] = self._decide(device, problem, answer)
            return self._known[key]

    def _decide(self, device: Device, problem: Problem, answer: Answer) -> str | None:
        store = self._open_store()
        if store is not None and (said := _last_words(store, device, problem, answer)):
            return said
        outcome = self._check(device, problem, answer)
        if store is not None:
            try:
                _remember(store, device, problem, answer, outcome)
            except UserError as error:
                _log.warning("what was found about a kernel cannot be kept: %s", error)
        return None if outcome.verdict is Verdict.CORRECT else f"{outcome.verdict}: {outcome.message}"

    def _check(self, device: Device, problem: Problem, answer: Answer) -> CheckOutcome:
        if self._idle is not None:
            self._idle.cancel()
        if self._bench is not None and self._bench[0] != device:
            self._close()
        if self._bench is None:
            self._bench = (device, self._opened(device))
            atexit.register(self.close)
        cases = [own_case(problem, answer.rendered)]
        outcome = self._bench[1].check(cases)
        if outcome.verdict not in (Verdict.CORRECT, Verdict.WRONG_RESULT):
            outcome = self._bench[1].check(cases)  # a busy or full machine is no fault of the kernel
        self._idle = threading.Timer(IDLE_SECONDS, self.close)
        self._idle.daemon = True
        self._idle.start()
        return outcome

    def _opened(self, device: Device) -> Checks:
        try:
            return self._open_bench(device)
        except AssertionError as error:  # multiprocessing's "daemonic processes are not allowed to have children"
            raise MachineError(
                "a kernel that is not certified yet is checked in a process of its own, which a daemonic process cannot"
                " start; call gemm() once in the parent, or run gemm-tuner tune."
            ) from error

    def close(self) -> None:
        """End the checking processes; the next proof starts them anew."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._bench is not None:
            atexit.unregister(self.close)
            self._bench[1].close()
            self._bench = None

    def _open_store(self) -> Store | None:
        """The store; None, told once, where it cannot be written: then proofs last as long as this process."""
        if not self._store_tried:
            self._store_tried = True
            try:
                self._store = open_store(self._db, upgrade=True)
            except UserError as error:
                _log.warning("proofs of kernels are not kept beyond this process: %s", error)
        return self._store


def _last_words(store: Store, device: Device, problem: Problem, answer: Answer) -> str:
    """What an earlier process found wrong with this very source here, if anything."""
    try:
        history = store.history(device.silicon, device.software, problem)
    except UserError as error:
        _log.warning("the history of %s cannot be read: %s", problem, error)
        return ""
    found = [record.measurement for record in history if record.source_hash == answer.rendered.source_hash]
    if not found or found[-1].verdict not in _FOR_GOOD:
        return ""
    return f"{found[-1].verdict}: {found[-1].message}"


def _remember(store: Store, device: Device, problem: Problem, answer: Answer, outcome: CheckOutcome) -> None:
    key = (device.silicon, device.software, problem)
    source_hash = answer.rendered.source_hash
    if outcome.verdict is Verdict.CORRECT:
        store.certify(*key, answer.config, source_hash, outcome.checks)
    elif outcome.verdict in _FOR_GOOD:
        _log.warning(
            "a kernel is not used for %s on %s: %s: %s", problem, device.name, outcome.verdict, outcome.message
        )
        run = store.start_run(*key, {"command": "gemm"})
        measurement = Measurement(outcome.verdict, message=outcome.message)
        store.add(Record(*key, answer.config, measurement, source_hash, run, datetime.now(UTC).isoformat()))
        store.finish_run(run, {})
        if not answer.origin.is_miss:
            reason = f"failed before its first use: {outcome.verdict} {outcome.message}"
            store.withdraw(*key, reason=reason, source_hash=source_hash)
