"""A bench's temporary folder: drivers' .icd files and compilers' caches, gone at the end, whatever the end is."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "gemm-tuner-"
_LOCK = "in-use"
_FRESH_S = 60.0
"""Younger folders may not be locked yet."""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder, removed on exit; what a killed process left behind is removed on the way."""
    _sweep(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with (folder / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel lets go of it when this process is gone
            yield folder


def _sweep(place: Path) -> None:
    for lock in place.glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            if time.time() - lock.stat().st_mtime < _FRESH_S:
                continue
            with lock.open() as held:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:
            continue  # in use, or somebody else's
