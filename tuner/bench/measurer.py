"""The parent's side of the measuring process: one at work, one standing by, deadlines by stage, an end by SIGKILL."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path

from tuner.bench import worker
from tuner.bench.messages import Answer, Ask, Done, Gone, Hello, Mistake, Reply, Request, Stage
from tuner.bench.process import QuietContext, death_of, kill, start
from tuner.bench.scratch import cache_folder
from tuner.bench.words import last_words, words_file
from tuner.model import Device, MachineError, Verdict

START_DEADLINE_S = 60.0

_LATE = {"load": Verdict.COMPILE_TIMED_OUT, "specialise": Verdict.COMPILE_TIMED_OUT}
"""Which verdict silence in a stage means; `timed_out` in every other."""


class BenchError(RuntimeError):
    """A mistake of ours: nothing that a verdict on one candidate could say."""


class DeviceLost(MachineError):
    """The device went away, or no process can open it any more."""


@dataclass(frozen=True)
class Lost:
    """The measuring process died, or had to be killed, while it worked on a request."""

    stage: Stage
    verdict: Verdict
    message: str


class _Dead(Exception):
    """The child's end of the pipe is closed."""


class _Late(Exception):
    """The child is silent."""


class _Child:
    """One measuring process and our end of its pipe."""

    def __init__(self, device: Device, vendors: Path, cache: Path) -> None:
        self.pipe, childs_end = QuietContext().Pipe()
        self.process = start(worker.main, childs_end, device, vendors, cache)
        self._words = words_file(cache)
        childs_end.close()
        self._started = time.monotonic()
        self._said_hello = False

    def wait_ready(self) -> None:
        """Return once it has opened its device; _Dead or _Late if it never does."""
        if not self._said_hello:
            reply = self.receive(max(0.0, self._started + START_DEADLINE_S - time.monotonic()))
            if isinstance(reply, Gone):
                raise DeviceLost(reply.message)
            if isinstance(reply, Mistake):
                raise BenchError(f"the measuring process can't start:\n{reply.traceback}")
            assert isinstance(reply, Hello)
            self._said_hello = True

    def receive(self, seconds: float) -> Reply:
        if not wait([self.pipe], seconds):
            raise _Late
        try:
            reply: Reply = self.pipe.recv()
        except (EOFError, OSError):
            raise _Dead from None
        return reply

    def send(self, message: Request | Reply) -> None:
        try:
            self.pipe.send(message)
        except OSError:
            raise _Dead from None

    def death(self) -> str:
        """How it ended, and what was printed last."""
        return death_of(self.process) + last_words(self._words)

    def end(self) -> None:
        kill(self.process)
        self.pipe.close()


class Measurer:
    """Runs requests one after another; a process that dies, hangs or is poisoned is replaced by the standby."""

    def __init__(self, device: Device, vendors: Path, scratch: Path) -> None:
        self._numbers = itertools.count()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        """Where the time of all requests went, by the stages that the process names; the rest of each is `start`."""
        self._assignment = (device, vendors, scratch)
        self._active = self._new()
        self._standby = self._new()

    def run(
        self, request: Request, leave: Callable[[str], None], meanwhile: Callable[[], None] = lambda: None
    ) -> Answer | Lost:
        """Answer `request`; `leave(name)` is called each time the process asks for leave to go on with `name`.

        `meanwhile` is called once, while the process begins; not if that is dead before.
        Raises BenchError for a mistake of ours. Whatever is raised here, Ctrl-C included, ends the process at work.
        """
        child = self._ready_child()
        try:
            return self._converse(child, request, leave, meanwhile)
        except BaseException:
            self._retire()
            raise

    def renew(self) -> None:
        """The next request is answered by a fresh process."""
        self._retire()

    def wait_quiet(self) -> None:
        """Return when the standby has started, so that its imports disturb no measurement."""
        try:
            self._standby.wait_ready()
        except (_Dead, _Late):
            self._replace_standby()

    def close(self) -> None:
        """End both processes."""
        self._active.end()
        self._standby.end()

    def _ready_child(self) -> _Child:
        """The process at work or the standby; a few more tries before giving the device up."""
        problem = ""
        for _ in range(4):
            try:
                self._active.wait_ready()
                if self._active.process.is_alive():
                    return self._active
                raise _Dead
            except _Late:
                problem = "it does not answer"
            except _Dead:
                problem = self._active.death()
            self._retire()
        device = self._assignment[0]
        raise DeviceLost(f"{device.name} can't be opened any more ({problem}); see gemm-tuner devices.")

    def _converse(
        self, child: _Child, request: Request, leave: Callable[[str], None], meanwhile: Callable[[], None]
    ) -> Answer | Lost:
        stage = Stage("start", START_DEADLINE_S)
        before = time.monotonic()
        try:
            child.send(request)
            meanwhile()
            while True:
                reply = child.receive(stage.seconds)
                before = self._count(stage.name, before)
                if isinstance(reply, Stage):
                    stage = reply
                elif isinstance(reply, Ask):
                    leave(reply.name)
                    child.send(reply)
                elif isinstance(reply, Done):
                    if reply.poisoned:
                        self._retire()
                    return reply.answer
                elif isinstance(reply, Mistake):
                    raise BenchError(f"a mistake in the measuring process:\n{reply.traceback}")
        except _Late:
            self._retire()
            late = f"no answer within {stage.seconds:.3g} s ({stage.name})"
            return Lost(stage, _LATE.get(stage.name, Verdict.TIMED_OUT), late)
        except _Dead:
            how = child.death()
            self._retire()
            return Lost(stage, Verdict.CRASHED, f"the measuring process ({stage.name}): {how}")

    def _count(self, stage: str, since: float) -> float:
        now = time.monotonic()
        self.seconds[stage] += now - since
        return now

    def _retire(self) -> None:
        """The standby takes over; the next one starts at once, while the caller still thinks."""
        self._active.end()
        self._active, self._standby = self._standby, self._new()

    def _new(self) -> _Child:
        device, vendors, scratch = self._assignment
        return _Child(device, vendors, cache_folder(scratch, f"measurer-{next(self._numbers)}"))

    def _replace_standby(self) -> None:
        self._standby.end()
        self._standby = self._new()
