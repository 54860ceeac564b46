"""One measurer a device: a lock across processes and users, which says who holds it and since when."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import re
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from tuner.model import Device, MachineError

SHARED = (Path("/run/lock"), Path("/var/lock"))
"""Folders for locks that every user of a host can write to and that a restart empties, where there are any."""
_FOLDER = "gemm-tuner"
POLL_S = 0.2


class DeviceBusy(MachineError):
    """Another process measures on the device."""


def lock_folder() -> Path:
    """The folder of all device locks of this host, the same for every user."""
    for place in SHARED:
        if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
            return place / _FOLDER
    return Path(tempfile.gettempdir()) / f"{_FOLDER}-locks"


def lock_name(device: Device) -> str:
    """What is locked: a device; all CPU drivers of a host together, since they compute on the same cores."""
    if device.facts.shares_cores or device.silicon.kind == "cpu":
        return "cpu"
    return re.sub(r"[^A-Za-z0-9.-]+", "_", device.instance) or "device"


@contextmanager
def device_lock(
    device: Device,
    folder: Path | None = None,
    *,
    wait_s: float = 0.0,
    command: str | None = None,
    waiting: Callable[[str], None] = lambda holder: None,
) -> Iterator[None]:
    """Hold `device` for the block, so that no two jobs time each other; a process that dies lets go of it.

    Waits up to `wait_s` seconds, after telling `waiting` who holds it. Raises DeviceBusy, naming the holder.
    """
    folder = lock_folder() if folder is None else folder
    path = folder / f"{lock_name(device)}.lock"
    _make(folder)
    lock = FileLock(path, mode=0o666, thread_local=False)
    try:
        _acquire(lock, path, device, wait_s, waiting)
    except OSError as error:
        raise MachineError(
            f"the lock of {device.name}, {path}, cannot be opened: {error.strerror or error}. "
            "Mend its permissions, or name another folder in GEMM_TUNER_LOCKS."
        ) from error
    try:
        _sign(path, command)
        yield
    finally:
        with contextlib.suppress(OSError):
            _signature(path).unlink()
        lock.release()


def holder(path: Path) -> str:
    """Who holds a lock, in words."""
    try:
        found: Any = json.loads(_signature(path).read_text("utf-8"))
        pid, host, user = found["pid"], found["host"], found["user"]
        return f"{found['command']!r} (process {pid} of {user} on {host}, since {found['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def _acquire(lock: FileLock, path: Path, device: Device, wait_s: float, waiting: Callable[[str], None]) -> None:
    deadline = time.monotonic() + wait_s
    told = False
    while True:
        try:
            lock.acquire(
                timeout=0 if not told else min(1.0, max(0.0, deadline - time.monotonic())), poll_interval=POLL_S
            )
            return
        except Timeout:
            who = holder(path)
            if time.monotonic() >= deadline:
                for_ = f" It was waited for, {wait_s:.0f} s." if wait_s else " Use --wait SECONDS to wait for it."
                raise DeviceBusy(f"{device.name} is in use by {who}; two jobs would time each other.{for_}") from None
            if not told:
                waiting(who)
                told = True


def _make(folder: Path) -> None:
    """Every user may lock, whoever came first; without the sticky bit, with which the kernel would refuse that."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(f"the folder of device locks, {folder}, cannot be made: {error.strerror}.") from error
    with contextlib.suppress(OSError):
        folder.chmod(0o777)


def _signature(path: Path) -> Path:
    """Beside the lock and not in it: whoever tries for the lock empties that file."""
    return path.with_suffix(".holder.json")


def _sign(path: Path, command: str | None) -> None:
    said = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "user": _user(),
        "command": command or " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:200],
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    new = _signature(path).with_suffix(f".{os.getpid()}.new")
    with contextlib.suppress(OSError):  # without a signature the holder has no name, the lock holds all the same
        new.write_text(json.dumps(said), "utf-8")
        new.replace(_signature(path))


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())
