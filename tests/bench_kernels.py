"""Handwritten kernels, right and wrong, as the bench is handed them, and compilers that misbehave."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from pathlib import Path

from tuner.model import Built, Problem, Rendered, Step, Verdict

_FOLDER = Path(__file__).parent / "kernels"


def source(name: str) -> str:
    """The text of tests/kernels/NAME.cl."""
    return (_FOLDER / f"{name}.cl").read_text(encoding="utf-8")


def naive(problem: Problem, *defines: str, scratch: tuple[tuple[str, int], ...] = ()) -> Rendered:
    """The naive kernel for `problem`, broken by `defines` ("LOSE_LAST", ...)."""
    real = {"float32": "float", "float64": "double"}[problem.dtype]
    options = " ".join(f"-D{define}" for define in (f"REAL={real}", *defines))
    size = (-(-problem.n // 8) * 8, -(-problem.m // 8) * 8, problem.batch)
    step = Step("naive", size, (8, 8, 1), tuple(name for name, _ in scratch))
    return rendered(source("naive"), options, step, scratch=scratch)


def single(name: str) -> Rendered:
    """One launch of 64 work-items of tests/kernels/NAME.cl."""
    return rendered(source(name), "", Step(name, (64, 1, 1), (64, 1, 1)))


def rendered(text: str, options: str, *steps: Step, scratch: tuple[tuple[str, int], ...] = ()) -> Rendered:
    """A `Rendered` with a hash of its own."""
    digest = hashlib.sha256(f"{text}{options}{steps}".encode()).hexdigest()[:32]
    return Rendered(text, options, steps, scratch, digest)


def endless_compiler(_: Rendered) -> Built:
    """A compiler that never comes back."""
    time.sleep(3600)
    raise AssertionError("somebody waited for an hour")


def signing_compiler(_: Rendered) -> Built:
    """A compiler that takes its time, and says which process it is."""
    time.sleep(0.05)
    return Built(Verdict.CORRECT, message=str(os.getpid()))


def dying_compiler(_: Rendered) -> Built:
    """A compiler that aborts its process, as AMD's did on too much local memory."""
    os.kill(os.getpid(), signal.SIGABRT)
    raise AssertionError("nobody survives that")


def talkative_compiler(_: Rendered) -> Built:
    """A compiler that prints much, the last of it with control characters, and then aborts."""
    os.write(2, b"PLEASE submit a bug report\n" * 100 + b"\n\x1b[31mAssertion \tfailed\x07\n" + b"x" * 270 + b"\n")
    os.kill(os.getpid(), signal.SIGABRT)
    raise AssertionError("nobody survives that")


def mistaken_compiler(_: Rendered) -> Built:
    """A mistake of ours in a worker."""
    raise KeyError("a mistake of ours")
