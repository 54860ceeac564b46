"""A PostgreSQL server for tests: made in a temporary folder, reached by a socket there, gone afterwards."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DATABASE_USER = "tuner"


def programs() -> Path | None:
    """The folder of the newest installed server's programs: Debian keeps them off the search path."""
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


@dataclass(frozen=True)
class Server:
    """A running server."""

    programs: Path
    folder: Path
    _numbers: Iterator[int] = field(default_factory=itertools.count, compare=False)
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list, compare=False)

    def url(self, database: str) -> str:
        """The URL of one of its databases."""
        return f"postgresql://{DATABASE_USER}@/{database}?host={self.folder}"

    def fresh(self) -> str:
        """The URL of a new database."""
        name = f"fresh{next(self._numbers)}"
        self.run("createdb", name)
        return self.url(name)

    def run(self, program: str, *arguments: str) -> str:
        """Run one of its client programs; returns what it printed."""
        where = ("--host", str(self.folder), "--username", DATABASE_USER)
        return _checked([str(self.programs / program), *where, *arguments])

    def ask(self, url: str, statement: str) -> str:
        """What one statement gives in the database of a URL."""
        database = url.partition("?")[0].rpartition("/")[2]
        return self.run("psql", "--no-align", "--tuples-only", "--command", statement, database).strip()

    def start(self) -> None:
        """Start it, as a child of ours rather than pg_ctl's: who started a process also has to bury it."""
        # Nothing on the network; no promise to survive a power cut, of which tests have none.
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "fsync": "off",
            "full_page_writes": "off",
            "wal_level": "minimal",
            "max_wal_senders": "0",
            "deadlock_timeout": "100ms",
        }
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        command = [str(self.programs / "postgres"), "-D", str(self.folder / "data"), *options]
        with (self.folder / "log").open("a") as log:
            rest: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            self._running.append(subprocess.Popen(command, user=_servant(), cwd="/", **rest))
        _wait_for(self._running[-1], self)

    def stop(self) -> None:
        """Stop it at once: what it holds is thrown away."""
        for running in self._running:
            running.send_signal(signal.SIGQUIT)
            running.wait(timeout=60)
        self._running.clear()


@contextmanager
def serving(found: Path) -> Iterator[Server]:
    """A server from the programs in `found`, which root may not run: then another user does."""
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        user = _servant()
        if user is not None:
            os.chown(folder, user, -1)
        first = ("--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync", "--username", DATABASE_USER)
        _checked([str(found / "initdb"), "--pgdata", str(folder / "data"), *first], user)
        server = Server(found, folder)
        try:
            server.start()
            yield server
        finally:
            server.stop()


def _wait_for(running: subprocess.Popen[bytes], server: Server) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if running.poll() is not None:
            break
        if subprocess.run([server.programs / "pg_isready", "-q", "-h", server.folder]).returncode == 0:
            return
        time.sleep(0.05)
    raise RuntimeError(f"the server does not start: {(server.folder / 'log').read_text()}")


def _servant() -> int | None:
    """Who is to run the server instead of root; None if this is not root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_uid
        except KeyError:
            continue
    raise LookupError("there is no user postgres and no user nobody to run a server as")


def _checked(command: list[str], user: int | None = None) -> str:
    done = subprocess.run(command, user=user, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr or done.stdout}")
    return done.stdout
