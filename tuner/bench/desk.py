"""What every request in the measuring process works with: the device, its operands, and a line to the parent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tuner.bench.checker import Checker
from tuner.bench.messages import Stage
from tuner.bench.operands import Bound
from tuner.model import Rendered
from tuner.opencl.run import Machine

LOAD_S = 60.0
"""Deadline of loading a binary, which may mean compiling once more."""


@dataclass(frozen=True)
class Desk:
    """The device opened in this process, and the parent's ear."""

    machine: Machine
    checker: Checker
    say: Callable[[Stage], None]
    """Tells the parent what begins and how long it may take."""
    leave: Callable[[str], None]
    """Asks the parent for leave to go on, and returns when it is given."""

    def load(self, rendered: Rendered, binary: bytes | None, contender: int = 0) -> Bound:
        """A program ready to be pointed at operands. Raises Refused if the driver will not have it."""
        self.say(Stage("load", LOAD_S, contender))
        return Bound(self.machine, self.machine.load(rendered, binary))
