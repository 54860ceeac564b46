"""The spool: one file of misses for each process that looks things up, taken in by commands that tune.

Standard library only, as a look-up has no database. A file holds all that its process has counted since the file was
last taken in; both sides lock it while they work on it.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tuner.model import canonical_json
from tuner.store import valid
from tuner.store.nouns import Miss
from tuner.store.process import Process

_log = logging.getLogger("tuner.store")


def spool_file(folder: Path, process: Process) -> Path:
    """The file of a process."""
    host = re.sub(r"[^A-Za-z0-9.-]+", "_", process.host)
    return folder / f"{host}-{process.pid}-{process.started}.jsonl"


def replace_misses(path: Path, contents: Callable[[bool], Iterable[Miss]]) -> None:
    """Write a process's file anew with `contents(taken)`; `taken`: what it held before was taken in since.

    Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path, os.O_RDWR | os.O_CREAT) as file:
        taken = os.fstat(file.fileno()).st_size == 0
        lines = [canonical_json(_row(miss)) for miss in contents(taken)]
        file.truncate(0)
        file.write("".join(f"{line}\n" for line in lines).encode())


def take_in(folder: Path, add: Callable[[list[Miss]], None]) -> int:
    """Hand the misses of every file in `folder` to `add`, and remove the file when it returns; returns their number.

    A damaged line, and a file that cannot be read or removed, is left out with a warning.
    """
    number = 0
    for path in sorted(folder.glob("*.jsonl")) if folder.is_dir() else ():
        try:
            with _locked(path, os.O_RDONLY) as file:
                found = list(_misses(path, file))
                add(found)
                path.unlink()
            number += len(found)
        except FileNotFoundError:
            continue  # another command was quicker
        except OSError as error:
            _log.warning("the misses in %s cannot be taken in: %s", path, error.strerror)
    return number


def _locked(path: Path, flags: int) -> BinaryIO:
    """The file, locked until it is closed, and still the one of that name. Raises OSError."""
    while True:
        file = os.fdopen(
            os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o644), "rb" if flags == os.O_RDONLY else "r+b"
        )
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()


def _misses(path: Path, file: BinaryIO) -> Iterator[Miss]:
    for number, line in enumerate(file, 1):
        try:
            yield _miss(json.loads(line))
        except (*valid.UNREADABLE, RecursionError) as error:
            _log.warning("%s, line %d, is damaged and was ignored: %s", path, number, error)


def _row(miss: Miss) -> dict[str, Any]:
    keys = {"silicon": vars(miss.silicon), "software": vars(miss.software), "problem": vars(miss.problem)}
    return {**keys, "origin": miss.origin, "count": miss.count, "first": miss.first, "last": miss.last}


def _miss(row: Any) -> Miss:
    count = valid.whole(row["count"], "the count", 1)
    return Miss(
        *valid.key(row),
        valid.text(row["origin"], "the origin"),
        count,
        valid.text(row["first"], "its date"),
        valid.text(row["last"], "its date"),
    )
