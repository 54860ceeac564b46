"""The compile pool: a bounded number of worker processes that each build one program at a time, under a deadline."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from concurrent.futures.process import BrokenProcessPool
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
        self._running: dict[ProcessFuture[Built], Future[Built]] = {}
        self._pool: ProcessPool | None = None

    def submit(self, rendered: Rendered) -> Future[Built]:
        """Build in the pool; the future's value is always a `Built`, and it raises only for a mistake of ours."""
        outer: Future[Built] = Future()
        self._submit(rendered, outer, strikes=0)
        return outer

    def cancel(self) -> None:
        """Drop the builds that wait and end those that run, at once; their futures are cancelled."""
        with self._lock:
            running = list(self._running.items())
        for inner, outer in running:
            outer.cancel()
            inner.cancel()  # type: ignore[no-untyped-call]

    def wait_idle(self) -> None:
        """Return when nothing is being built; each build has its deadline, so this ends."""
        with self._idle:
            self._idle.wait_for(lambda: not self._running)

    def close(self) -> None:
        """End every worker."""
        self.cancel()
        with self._lock:
            pool, self._pool = self._pool, None
        _end(pool)

    def _submit(self, rendered: Rendered, outer: Future[Built], strikes: int) -> None:
        with self._lock:
            inner = self._schedule(rendered)
            self._running[inner] = outer
        inner.add_done_callback(lambda _: self._done(inner, rendered, outer, strikes))

    def _schedule(self, rendered: Rendered) -> ProcessFuture[Built]:
        if self._pool is None or not self._pool.active:
            broken, self._pool = self._pool, ProcessPool(self.workers, initializer=self._start, context=QuietContext())
            threading.Thread(target=_end, args=(broken,), daemon=True).start()
        with interrupts_blocked():  # the pool's threads, and so later workers too, inherit it
            return self._pool.schedule(_work, args=(self._build, rendered), timeout=self._deadline_s)

    def _done(self, inner: ProcessFuture[Built], rendered: Rendered, outer: Future[Built], strikes: int) -> None:
        try:
            self._settle(inner, rendered, outer, strikes)
        finally:
            with self._idle:
                self._running.pop(inner, None)
                self._idle.notify_all()

    def _settle(self, inner: ProcessFuture[Built], rendered: Rendered, outer: Future[Built], strikes: int) -> None:
        try:
            built = inner.result()
        except CancelledError:
            outer.cancel()
            outer.set_running_or_notify_cancel()
            return
        except TimeoutError:
            late = f"the compiler did not finish within {self._deadline_s:g} s"
            built = Built(Verdict.COMPILE_TIMED_OUT, self._deadline_s * 1e3, message=late)
        except (ProcessExpired, BrokenProcessPool) as error:
            if strikes == 0 and not outer.cancelled():
                self._submit(rendered, outer, strikes=1)
                return
            built = Built(Verdict.CRASHED, message=f"the compiler's process: {self._death(error)}")
        except BaseException as mistake:
            if outer.set_running_or_notify_cancel():
                outer.set_exception(mistake)
            return
        if outer.set_running_or_notify_cancel():
            outer.set_result(built)

    def _death(self, error: ProcessExpired | BrokenProcessPool) -> str:
        if not isinstance(error, ProcessExpired):
            return "the compile pool broke"
        return describe_exit(error.exitcode) + last_words(words_file(_worker_cache(self._scratch, error.pid)))


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
