"""Spawned children: no traceback on Ctrl-C, no orphan after a kill -9, no second run of the user's script."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import select
import signal
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.process import BaseProcess
from typing import Any

KILL_WAIT_S = 5.0
"""A killed process that waits for a device may stay in the kernel for a while; nothing waits longer than this."""

_one_start = threading.Lock()


class _QuietProcess(SpawnProcess):
    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Any:
        with _one_start, interrupts_blocked(), _main_module_hidden():
            return SpawnProcess._Popen(process_obj)


class QuietContext(SpawnContext):
    """The spawn context for every child of ours; pebble takes it, too."""

    Process = _QuietProcess


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Hold back SIGINT, so that what starts inside is born deaf to Ctrl-C and spills no traceback while it imports."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _main_module_hidden() -> Iterator[None]:
    """Without this every child imports the user's script again, which runs it again if it lacks a `__main__` guard."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def settle_in() -> None:
    """First act of every child: Ctrl-C is the parent's business, and the parent's death is ours.

    The kernel itself sends SIGIO, whose default is death, when the pipe from the parent closes: a thread could not run
    while a driver holds the interpreter's lock, and PR_SET_PDEATHSIG fires already when the starting *thread* ends.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    sentinel = parent.sentinel
    fcntl.fcntl(sentinel, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(sentinel, fcntl.F_SETFL, fcntl.fcntl(sentinel, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([sentinel], [], [], 0)[0]:
        os._exit(1)


def start(target: Callable[..., None], *args: Any) -> BaseProcess:
    """Spawn a daemon running `target(*args)`."""
    process = QuietContext().Process(target=target, args=args, daemon=True)
    process.start()
    return process


def kill(process: BaseProcess) -> None:
    """End a child at once, whatever it is doing."""
    process.kill()
    process.join(KILL_WAIT_S)


def death_of(process: BaseProcess) -> str:
    """How a dead child ended, for people."""
    process.join(KILL_WAIT_S)
    return describe_exit(process.exitcode)


def describe_exit(code: int | None) -> str:
    """An exit code as text: the signal's name if one ended the process."""
    if code is None:
        return "it does not answer"
    if code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    return f"ended with exit status {code}"
