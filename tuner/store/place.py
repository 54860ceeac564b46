"""Where a store lies: its URL, the database file if it is one, the snapshot and the lock beside it.

Standard library only (platformdirs when nothing was asked for), so that a look-up finds its snapshot with no database.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tuner.model import UserError

_SQLITE = re.compile(r"sqlite(?:\+pysqlite)?://(?P<rest>.*)", re.DOTALL)
_URL = re.compile(r"[a-z][a-z0-9+_.-]*://", re.IGNORECASE)
_PASSWORD = re.compile(r"(://[^:/@]*):[^@]*@")
NETWORK_FILE_SYSTEMS = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "fuse.sshfs"),
        *("ceph", "lustre", "gpfs", "beegfs", "gfs2", "ocfs2", "glusterfs", "fuse.glusterfs"),
    )
)
"""Names in /proc/mounts of file systems on which SQLite's WAL, shared memory between processes, cannot be trusted."""
SUFFIX = ".snapshot.json"
"""Of a snapshot's name, after the store's."""


@dataclass(frozen=True)
class Place:
    """One store's address and the files that belong to it."""

    url: str
    """As SQLAlchemy takes it."""
    path: Path | None
    """The database file; None for a database server."""
    snapshot: Path
    lock: Path

    @classmethod
    def of(cls, url: str | None = None) -> Place:
        """The place of `url`, which may be a plain path; without one, a file in the user's data folder.

        A link and what it points to are one place, so that they share snapshot and lock. Raises UserError for a URL
        that names no file and no server.
        """
        url = url or str(data_home() / "tuner.db")
        match = _SQLITE.fullmatch(url)
        if match is None and _URL.match(url):
            if not _is_unicode(url):
                raise UserError(f"{url!r} is no database URL; use a file's path or postgresql://...")
            address = _PASSWORD.sub(r"\1@", url)  # a look-up finds the snapshot without knowing the password
            stem = data_home() / f"server-{hashlib.sha256(address.encode()).hexdigest()[:16]}"
            return cls(url, None, stem.with_suffix(SUFFIX), stem.with_suffix(".lock"))
        name = url if match is None else _unquoted(match["rest"].partition("?")[0].removeprefix("/"))
        if name in ("", ":memory:"):
            raise UserError(f"{url!r} names no file; give the path of a database file, such as tuner.db.")
        path = _real(name)
        beside = path.with_name
        return cls(f"sqlite:///{path}", path, beside(f"{path.name}{SUFFIX}"), beside(f"{path.name}.lock"))

    @property
    def spool(self) -> Path:
        """The folder in which look-ups leave their misses; it need not exist."""
        return self.snapshot.with_name(f"{self.snapshot.name.removesuffix(SUFFIX)}.misses")

    @property
    def label(self) -> str:
        """What people are told: the path, or the URL without its password."""
        return str(self.path) if self.path else _PASSWORD.sub(r"\1:***@", self.url)

    def identity(self) -> tuple[int, int] | None:
        """What tells the database file from another of its name (device and inode); None if there is none."""
        try:
            status = self.path.stat() if self.path else None
        except OSError:
            return None
        return None if status is None else (status.st_dev, status.st_ino)


def _unquoted(name: str) -> str:
    """A path as it is in a URL, whose bytes need not be text."""
    from urllib.parse import unquote  # slow to import, and few places are given as URLs

    return unquote(name, errors="surrogateescape")


def _is_unicode(text: str) -> bool:
    """Whether every character can be written as UTF-8: an argument's undecodable bytes cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _real(name: str) -> Path:
    """The absolute path of a file that need not exist, without links. Raises UserError if no file can have it."""
    try:
        path = Path(os.path.realpath(Path(name).expanduser()))
        os.fsencode(path)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"{name!r} is no path of a file: {error}.") from error
    with suppress(OSError):  # a name too long, say: what is done with it says so
        if not path.name or path.is_dir():
            raise UserError(f"{path} is a folder; give the path of a database file.")
    return path


def data_home() -> Path:
    """The user's data folder of gemm-tuner; it need not exist."""
    import platformdirs

    return Path(platformdirs.user_data_dir("gemm-tuner"))


def snapshot_path(url: str | None = None) -> Path:
    """The published snapshot of the store at `url`; it need not exist."""
    return Place.of(url).snapshot


def opened(path: Path) -> int:
    """A descriptor to read a regular file by; it never waits, as opening a pipe that nobody writes to would.

    Raises OSError, IsADirectoryError for a folder, also for whatever else is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "it is no regular file", str(path))


def file_system(path: Path, mounts: Path = Path("/proc/mounts")) -> str:
    """The type of the file system that `path` lies on or would lie on, as the kernel names it; empty if unknown."""
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ""
    real, best, kind = path.resolve(), -1, ""
    for _, point, name, *_ in (line.split(" ") for line in lines if line.count(" ") >= 3):
        folder = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), point))
        depth = len(folder.parts)
        if depth >= best and (real == folder or folder in real.parents):
            best, kind = depth, name
    return kind
