"""A bench's temporary folder: drivers' .icd files and compilers' caches, gone at the end, whatever the end is."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tuner.bench.words import words_file
from tuner.model import MachineError
from tuner.opencl import drivers

_PREFIX = "gemm-tuner-"
_LOCK = "in-use"
_FRESH_S = 60.0
"""Younger folders may not be locked yet."""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder, removed on exit; what a killed process left behind is removed on the way.

    Raises MachineError, as all of this module, if there is no room for temporary files.
    """
    with ExitStack() as resources:
        with _making_files():
            _sweep(Path(tempfile.gettempdir()))
            name = resources.enter_context(
                tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)  # gone even if locking fails
            )
            lock = resources.enter_context((Path(name) / _LOCK).open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel lets go of it when this process is gone
        yield Path(name)


def vendors_folder(scratch: Path) -> Path:
    """A folder in `scratch` with the .icd file of every driver: what a child is given."""
    folder = scratch / "drivers"
    with _making_files():
        drivers.write_icd_files(folder)
    return folder


def cache_folder(scratch: Path, name: str) -> Path:
    """A child's folder in `scratch`, for compilers' caches, and the file beside it that the child prints to."""
    folder = scratch / name
    with _making_files():
        folder.mkdir(exist_ok=True)
        words_file(folder).touch()
    return folder


@contextmanager
def _making_files() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        place = tempfile.tempdir or "any temporary folder"
        raise MachineError(
            f"gemm-tuner cannot make temporary files in {place}: {error.strerror or error}. "
            "Make room there, or name another folder in TMPDIR."
        ) from error


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
