"""The compile pool: a bounded number of worker processes that each build one program at a time, under a deadline."""

from __future__ import annotations

import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future, InvalidStateError
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pebble import ProcessExpired, ProcessFuture, ProcessPool

from tuner.bench.devices import prepare_child
from tuner.bench.process import QuietContext, describe_exit, interrupts_blocked
from tuner.bench.scratch import cache_folder
from tuner.bench.words import forget_words, last_words, words_file
from tuner.model import Built, Device, MachineError, Rendered, Verdict
from tuner.opencl.cores import usable_cores

if TYPE_CHECKING:
    from tuner.opencl.run import Machine

BUILD_DEADLINE_S = 60.0

LEFT_S = 1.5
"""A build that nobody waits for any more may go on for so long before its worker is ended: on a machine with many
cores, new workers that open the driver all at once took four seconds to their first build."""

_HOST_BYTES_EACH = 2**30
"""What a worker with a driver's compiler may grow to."""

_DEVICE_BYTES_EACH = 2**29
"""What an open context takes of a GPU's memory."""

BuildFunction = Callable[[Rendered], Built]


class CompilePool:
    """Builds in processes that nothing else depends on: a compiler that dies or hangs costs one build."""

    def __init__(
        self,
        device: Device,
        vendors: Path,
        scratch: Path,
        *,
        workers: int | None = None,
        build_function: BuildFunction | None = None,
        deadline_s: float = BUILD_DEADLINE_S,
    ) -> None:
        self.workers = workers or worker_count(device, usable_cores(), _available_bytes())
        self._scratch = scratch
        self._start = functools.partial(_initialise, device, vendors, scratch)
        self._build = build_function or _build
        self._deadline_s = deadline_s
        self._lock = threading.RLock()
        self._idle = threading.Condition(self._lock)
        self._waiting: deque[_Job] = deque()
        self._running: dict[ProcessFuture[Built], _Job] = {}
        """Never more than there are workers: the pool ends a worker to cancel what it has been given."""
        self._pool: ProcessPool | None = None

    def submit(self, rendered: Rendered) -> Future[Built]:
        """Build in the pool; the future's value is always a `Built`, and it raises only for a mistake of ours."""
        job = _Job(rendered)
        with self._lock:
            self._waiting.append(job)
        self._hand_out()
        return job.future

    def cancel(self) -> None:
        """Drop the builds that wait; their futures are cancelled at once, and so are those of the builds that run.

        These go on for nothing, until they end or are ended after `LEFT_S`, so that most workers live on.
        """
        with self._idle:
            running = dict(self._running)
            for job in (*self._waiting, *running.values()):
                _cancel(job.future)
            self._waiting.clear()
            self._idle.notify_all()
        if running:
            overdue = threading.Timer(LEFT_S, _end_builds, [list(running)])
            overdue.daemon = True
            overdue.start()

    def wait_idle(self) -> None:
        """Return when nothing is being built; each build has its deadline, so this ends."""
        with self._idle:
            self._idle.wait_for(lambda: not self._running and not self._waiting)

    def close(self) -> None:
        """End every worker."""
        self.cancel()
        with self._lock:
            pool, self._pool = self._pool, None
        _end(pool)

    def _hand_out(self) -> None:
        """Give the workers that are free what waits."""
        while True:
            with self._lock:
                if not self._waiting or len(self._running) >= self.workers:
                    return
                job = self._waiting.popleft()
                try:
                    inner = self._schedule(job.rendered)
                except Exception as mistake:  # raised in a thread of the pool, nobody would hear of it
                    job.future.set_exception(mistake)
                    continue
                self._running[inner] = job
            inner.add_done_callback(lambda inner, job=job: self._done(inner, job))  # type: ignore[misc]

    def _schedule(self, rendered: Rendered) -> ProcessFuture[Built]:
        if self._pool is None or not self._pool.active:
            broken, self._pool = self._pool, ProcessPool(self.workers, initializer=self._start, context=QuietContext())
            threading.Thread(target=_end, args=(broken,), daemon=True).start()
        with interrupts_blocked():  # the pool's threads, and so later workers too, inherit it
            return self._pool.schedule(_work, args=(self._build, rendered), timeout=self._deadline_s)

    def _done(self, inner: ProcessFuture[Built], job: _Job) -> None:
        try:
            self._settle(inner, job)
        finally:
            with self._lock:
                self._running.pop(inner, None)
            self._hand_out()
            with self._idle:
                self._idle.notify_all()

    def _settle(self, inner: ProcessFuture[Built], job: _Job) -> None:
        try:
            built = inner.result()
        except CancelledError:
            with self._lock:
                _cancel(job.future)
            return
        except TimeoutError:
            late = f"the compiler did not finish within {self._deadline_s:g} s"
            built = Built(Verdict.COMPILE_TIMED_OUT, self._deadline_s * 1e3, message=late)
        except (ProcessExpired, BrokenProcessPool) as error:
            if not job.struck and not job.future.cancelled():
                with self._lock:
                    self._waiting.appendleft(replace(job, struck=True))
                return
            built = Built(Verdict.CRASHED, message=f"the compiler's process: {self._death(error)}")
        except BaseException as mistake:
            with suppress(InvalidStateError):  # it was cancelled
                job.future.set_exception(mistake)
            return
        with suppress(InvalidStateError):
            job.future.set_result(built)

    def _death(self, error: ProcessExpired | BrokenProcessPool) -> str:
        if not isinstance(error, ProcessExpired):
            return "the compile pool broke"
        return describe_exit(error.exitcode) + last_words(words_file(_worker_cache(self._scratch, error.pid)))


@dataclass(frozen=True)
class _Job:
    """One build that somebody waits for; struck if its worker died once already."""

    rendered: Rendered
    future: Future[Built] = field(default_factory=Future)
    struck: bool = False


def _cancel(future: Future[Built]) -> None:
    """Cancelled, and whoever waits is told; by one thread at a time."""
    if not future.cancelled() and future.cancel():
        future.set_running_or_notify_cancel()


def _end_builds(running: Iterable[ProcessFuture[Built]]) -> None:
    for inner in running:
        inner.cancel()  # type: ignore[no-untyped-call]


def _worker_cache(scratch: Path, pid: int) -> Path:
    return scratch / f"compiler-{pid}"


def worker_count(device: Device, cores: int, available_bytes: int) -> int:
    """How many builds run at once: one core is left for the measuring process, unless it pauses while we build."""
    wanted = cores if device.facts.shares_cores else cores - 1
    wanted = min(wanted, available_bytes // _HOST_BYTES_EACH)
    if device.silicon.kind == "gpu":
        wanted = min(wanted, device.facts.global_mem_bytes // 4 // _DEVICE_BYTES_EACH)
    return max(1, wanted)


def _available_bytes() -> int:
    """Memory that may still be taken, by the kernel's estimate and by the container's limit."""
    room = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                room = int(line.split()[1]) * 1024
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii"))
    except OSError:
        return room
    return room if limit == "max" else min(room, int(limit) - used)


def _end(pool: ProcessPool | None) -> None:
    if pool is not None:
        pool.stop()  # type: ignore[no-untyped-call]
        pool.join()


_device: Device | None = None
_no_room: MachineError | None = None


def _initialise(device: Device, vendors: Path, scratch: Path) -> None:
    """Initialiser of a worker. The driver is opened at the first build only: a start must disturb no measurement."""
    global _device, _no_room
    _device = device
    try:
        cache_folder(scratch, _worker_cache(scratch, os.getpid()).name)
    except MachineError as error:
        _no_room = error  # an initialiser that fails is repeated for ever
        return
    prepare_child(vendors, _worker_cache(scratch, os.getpid()))


@functools.cache
def _machine() -> Machine:
    from tuner.opencl.run import Machine

    assert _device is not None
    return Machine(_device)


def _work(build: BuildFunction, rendered: Rendered) -> Built:
    if _no_room is not None:
        raise _no_room
    forget_words()
    return build(rendered)


def _build(rendered: Rendered) -> Built:
    return _machine().build(rendered)
