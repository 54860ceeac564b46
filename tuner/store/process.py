"""Which process this is, and whether another one still lives, so that nobody's unfinished work is mistaken for dead."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """One process of one boot of one machine; a process id alone is used again by the system."""

    host: str
    boot: str
    """The kernel's random id of this boot."""
    pid: int
    started: str
    """Clock ticks from boot to the start of the process, as /proc gives them."""

    @classmethod
    def current(cls) -> Process:
        """The process that calls."""
        return cls(socket.gethostname(), _boot_id(), os.getpid(), _start_of(os.getpid()) or "")

    def lives(self) -> bool:
        """Whether that very process runs now; only meaningful on its own host and in its own boot."""
        if not (_PROC / "self" / "stat").exists():
            return _answers(self.pid)
        return _start_of(self.pid) == self.started


def _boot_id() -> str:
    try:
        return (_PROC / "sys" / "kernel" / "random" / "boot_id").read_text().strip()
    except OSError:
        return ""


def _start_of(pid: int) -> str | None:
    """Start time in ticks of a process that can still do something; None for a dead one or a zombie."""
    try:
        text = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return None
    state, *rest = text.rpartition(")")[2].split()
    return None if state in ("Z", "X") else str(rest[18])


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
