"""The parent's side of a library: which there are, their processes, deadlines, and why one is absent or failed."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path

from tuner.baselines import child
from tuner.baselines.adapter import Parameters
from tuner.baselines.child import Failed, Lacking, Prepare, Ready, Reply, Samples, Turn
from tuner.bench.process import QuietContext, death_of, kill, start
from tuner.bench.scratch import scratch_folder
from tuner.model import Device, Problem, UserError
from tuner.opencl import drivers

START_S = 120.0
"""Importing PyTorch from a cold disk takes most of a minute."""
PREPARE_S = 300.0
TURN_S = 120.0

SET_ASIDE = (
    *("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"),
    *("MKL_NUM_THREADS", "MKL_ENABLE_INSTRUCTIONS", "MKL_DEBUG_CPU_TYPE", "MKL_CBWR"),
    *("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "CUDA_LAUNCH_BLOCKING"),
)
"""Variables that make a library slower or its results coarser: it is measured at its best, by its own choices."""


@dataclass(frozen=True)
class Entry:
    """A library that can be measured."""

    name: str
    adapter: str
    """`module:Class`, imported in the child only."""
    kinds: frozenset[str] = frozenset(("cpu", "gpu", "accelerator"))
    vendor: str = ""
    """Of the devices it computes on; empty for any."""
    prefixes: tuple[str, ...] = ()
    """Beginnings of the names of variables of SET_ASIDE that concern it."""
    parameters: Parameters | None = None

    def unsuitable(self, device: Device) -> str:
        """Why it is no opponent on this device; empty if it is one."""
        silicon = device.silicon
        if silicon.kind not in self.kinds or self.vendor not in silicon.vendor:
            computes = f"{self.vendor} {'/'.join(kind.upper() for kind in sorted(self.kinds))}s".strip()
            return f"it computes on {computes}, not on {device.name}"
        return ""


_CPU, _GPU = frozenset(("cpu",)), frozenset(("gpu",))
_BLAS = ("OPENBLAS", "GOTO", "OMP")
_CUDA = ("NVIDIA", "TORCH", "CUDA")
LIBRARIES = (
    Entry("cuBLAS", "tuner.baselines.torch_blas:CuBlas", _GPU, "NVIDIA", _CUDA),
    Entry("rocBLAS", "tuner.baselines.torch_blas:RocBlas", _GPU, "AMD", _CUDA),
    Entry("CLBlast", "tuner.baselines.clblast:ClBlast"),
    Entry("OpenBLAS", "tuner.baselines.openblas:OpenBlas", _CPU, prefixes=_BLAS),
    Entry("MKL", "tuner.baselines.mkl:Mkl", _CPU, prefixes=("MKL", "OMP")),
)


class LibraryFailed(Exception):
    """The library could not go on; the message says why, for people."""


class Library:
    """One library in its process, which is replaced at the next `prepare` after it failed."""

    def __init__(
        self,
        entry: Entry,
        device: Device,
        vendors: Path,
        scratch: Path,
        start_s: float = START_S,
        seconds_left: Callable[[], float] = lambda: math.inf,
    ) -> None:
        """Start its process; `wait_ready` says whether the library is there. Nothing waits beyond `seconds_left()`."""
        self.name = entry.name
        self.version = ""
        self.how = ""
        self.absent = entry.unsuitable(device)
        """Why it can't be measured here; empty if it can."""
        self._entry, self._device, self._vendors, self._scratch = entry, device, vendors, scratch
        self._start_s, self._seconds_left = start_s, seconds_left
        self._numbers = itertools.count()
        self._ready = False
        self._running = False
        if not self.absent:
            self._start()

    def wait_ready(self) -> None:
        """Return when the library is open, or `absent` says why it is not."""
        if self.absent or self._ready:
            return
        try:
            self._take(self._receive(self._start_s, "start"))
            self._ready = True
        except LibraryFailed as failure:
            self.absent = str(failure)

    def ask_prepare(self, problem: Problem) -> None:
        """Begin to load the operands of `problem`; `prepared` waits for it. Raises LibraryFailed."""
        if not self._running:
            self._start()
            self._take(self._receive(self._start_s, "start"))
        self._send(Prepare(problem))

    def prepared(self) -> None:
        """Return when the operands are loaded and the library's result was found right. Raises LibraryFailed."""
        self._take(self._receive(PREPARE_S, "prepare"))

    def turn(self, count: int, deadline_s: float = TURN_S) -> tuple[float, ...]:
        """`count` samples, in milliseconds of one product. Raises LibraryFailed."""
        self._send(Turn(count))
        reply = self._receive(deadline_s, "time")
        assert isinstance(reply, Samples)
        return reply.ms

    def close(self) -> None:
        """End its process."""
        if self._running:
            self._running = False
            kill(self._process)
            self._pipe.close()

    def _start(self) -> None:
        cache = self._scratch / f"{self._entry.adapter.rpartition(':')[2]}-{next(self._numbers)}"
        self._pipe, childs_end = QuietContext().Pipe()
        with _at_its_best():
            arguments = (self._entry.adapter, self._device, self._entry.parameters, self._vendors, cache)
            self._process = start(child.main, childs_end, *arguments)
        childs_end.close()
        self._running = True

    def _take(self, reply: Reply) -> None:
        assert isinstance(reply, Ready)
        self.version = reply.version
        aside = [name for name in SET_ASIDE if name in os.environ and name.startswith(self._entry.prefixes or ("-",))]
        self.how = reply.how + (f"; set aside: {', '.join(aside)}" if aside else "")

    def _send(self, request: Prepare | Turn) -> None:
        try:
            self._pipe.send(request)
        except OSError:
            raise self._dead() from None

    def _receive(self, seconds: float, stage: str) -> Reply:
        seconds = max(0.0, min(seconds, self._seconds_left()))
        if not wait([self._pipe], seconds):
            self.close()
            raise LibraryFailed(f"no answer within {seconds:.3g} s ({stage})")
        try:
            reply: Reply = self._pipe.recv()
        except (EOFError, OSError):
            raise self._dead() from None
        if isinstance(reply, Lacking | Failed):
            self.close()
            raise LibraryFailed(reply.reason)
        return reply

    def _dead(self) -> LibraryFailed:
        how = death_of(self._process)
        self.close()
        return LibraryFailed(f"its process: {how}")


@contextmanager
def open_libraries(
    device: Device,
    names: Sequence[str] | None = None,
    clblast_parameters: Parameters | None = None,
    entries: Sequence[Entry] = LIBRARIES,
    seconds_left: Callable[[], float] = lambda: math.inf,
) -> Iterator[list[Library]]:
    """The libraries of these names (all without), each in its process, absent ones among them; ended on leaving.

    `clblast_parameters` adds a second CLBlast that computes with them. A library that is waited for when
    `seconds_left()` are over has failed. Raises UserError for an unknown name.
    """
    with ExitStack() as resources:
        folder = resources.enter_context(scratch_folder())
        vendors = folder / "drivers"
        drivers.write_icd_files(vendors)
        libraries = []
        for entry in _chosen(entries, names, clblast_parameters):
            library = Library(entry, device, vendors, folder, seconds_left=seconds_left)
            resources.callback(library.close)
            libraries.append(library)
        for library in libraries:
            library.wait_ready()
        yield libraries


def _chosen(entries: Sequence[Entry], names: Sequence[str] | None, parameters: Parameters | None) -> list[Entry]:
    known: Mapping[str, Entry] = {entry.name.casefold(): entry for entry in entries}
    for name in names or ():
        if name.casefold() not in known:
            listing = ", ".join(entry.name for entry in entries)
            raise UserError(f"there is no library {name!r}; there is: {listing}.")
    chosen = [known[name.casefold()] for name in names] if names else list(entries)
    if parameters is not None:
        chosen.append(Entry("CLBlast, tuned", "tuner.baselines.clblast:ClBlast", parameters=parameters))
    return chosen


@contextmanager
def _at_its_best() -> Iterator[None]:
    """What is born inside does not see SET_ASIDE. A library reads it while it is loaded, so its process must not."""
    aside = {name: os.environ.pop(name) for name in SET_ASIDE if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(aside)
