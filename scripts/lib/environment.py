"""The virtual environments that the scripts work in: made once, brought up to date when the project asks for more.

Standard library only: this runs before anything is installed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""


class Stop(Exception):
    """The script ends here, with this message and exit status."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


class Environment:
    """A virtual environment in `folder`, and how to run its commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"

    def variables(self) -> dict[str, str]:
        """The process environment in which the commands of this environment come first."""
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "PYTHONPATH")}
        path = os.pathsep.join([str(self.folder / "bin"), kept.get("PATH", os.defpath)])
        return {**kept, "PATH": path, "VIRTUAL_ENV": str(self.folder)}

    def run(self, *command: str, **more: str) -> int:
        """Run a command in the checkout, its output straight to ours; returns its exit status."""
        return run(command, {**self.variables(), **more})

    def install(self, requirement: str, *, editable: bool = False, contents: Sequence[str] = ()) -> None:
        """Install `requirement` (such as `.[dev]`) unless that was done since pyproject.toml and `contents` changed.

        `contents` are files and folders of the checkout that are copied into the environment. Raises Stop on failure.
        """
        with _locked(self.folder.with_name(f"{self.folder.name}.lock")):
            stamp = self.folder / "installed"
            state = _state(requirement, contents)
            if self.python.exists() and stamp.exists() and stamp.read_text() == state:
                return
            if not self.python.exists() or not self._works():
                self._create()
            stamp.unlink(missing_ok=True)
            arguments = [*(["--editable"] if editable else []), requirement]
            print(f"$ pip install {' '.join(arguments)}", flush=True)
            pip = [str(self.python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *arguments]
            if run(pip, self.variables()):
                raise Stop(f"pip could not install {requirement}; its message above says why.")
            stamp.write_text(state)

    def _works(self) -> bool:
        return subprocess.run([self.python, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0

    def _create(self) -> None:
        print(f"$ {Path(sys.executable).name} -m venv {self.folder}", flush=True)
        if run([sys.executable, "-m", "venv", "--clear", str(self.folder)], os.environ):
            raise Stop(f"{sys.executable} cannot make a virtual environment; on Debian: apt-get install python3-venv.")


def _state(requirement: str, contents: Sequence[str]) -> str:
    """A text that changes whenever the installation would."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [str(ROOT), sys.version, requirement, repr(project["build-system"]), repr(project["project"])]
    digest = hashlib.sha256("\n".join(wanted).encode())
    for file in sorted(_files(contents)):
        digest.update(f"\n{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def _files(contents: Sequence[str]) -> Iterator[Path]:
    for name in contents:
        place = ROOT / name
        inside = place.rglob("*") if place.is_dir() else [place]
        yield from (file for file in inside if file.is_file() and "__pycache__" not in file.parts)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One script at a time works on an environment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class _Terminated(KeyboardInterrupt):
    """A termination signal came; unlike Ctrl-C, it came to this process alone."""


def run(command: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run a command in the checkout; on Ctrl-C or a termination signal let it end its own way, then raise Stop."""
    process = subprocess.Popen(command, cwd=ROOT, env=variables)
    try:
        with _termination_as_interrupt():
            return process.wait()
    except KeyboardInterrupt as interrupt:
        _let_end(process, told=not isinstance(interrupt, _Terminated))
        raise Stop("Interrupted.", 130) from None


def _let_end(process: subprocess.Popen[bytes], told: bool) -> None:
    """Wait for an interrupted command; one that does not end in 20 s, or at the second Ctrl-C, is killed."""
    try:
        if not told:
            process.send_signal(signal.SIGINT)
        process.wait(timeout=20)
    except (KeyboardInterrupt, subprocess.TimeoutExpired):
        process.kill()
        process.wait()


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
