"""Which kernel is run: the best answer that is certified on this software, or proves itself now."""

from __future__ import annotations

import functools
import os
import threading

import pyopencl as cl

from tuner.family import is_sound
from tuner.gemm.prove import Prover
from tuner.lookup import Answer, Origin
from tuner.lookup.api import finder
from tuner.lookup.finder import Finder
from tuner.model import Device, MachineError, Problem
from tuner.opencl.describe import describe_handle


class Chooser:
    """Choices on one store; safe to use from several threads."""

    def __init__(self, finder: Finder, prover: Prover) -> None:
        """`prover` is asked about what has no certificate."""
        self.finder = finder
        self._prover = prover
        self._one_at_a_time = threading.Lock()

    def choose(self, device: Device, problem: Problem) -> Answer:
        """The answer to run, after a proof if need be, which takes seconds. Raises MachineError if none is right."""
        first = next(self.finder.answers(device, problem))
        if first.certified and is_sound(first.rendered):
            return first
        with self._one_at_a_time:
            return self._proven(device, problem)

    def _proven(self, device: Device, problem: Problem) -> Answer:
        failed: dict[Origin, str] = {}
        for answer in self.finder.answers(device, problem):
            if answer.origin in failed and answer.origin is not Origin.DEFAULT:
                continue  # another of that origin may be as bad; the next origin is tried
            if answer.certified and is_sound(answer.rendered):
                return answer
            refused = self._prover.refusal(device, problem, answer)
            if refused is None:
                return answer
            failed[answer.origin] = refused
        why = "; ".join(f"{origin}: {reason}" for origin, reason in failed.items())
        raise MachineError(f"no kernel gives a right result for {problem} on {device.name} ({why}).")


@functools.cache
def chooser(db: str | None = None) -> Chooser:
    """The process's chooser on a store."""
    return Chooser(finder(db), Prover(db or os.environ.get("GEMM_TUNER_DB")))


@functools.cache
def describe(device: cl.Device) -> Device:
    """The value that stands for a PyOpenCL device in look-ups: silicon, software, and the limits that rules use."""
    return describe_handle(device)
