"""A connection to one store: transactions that read, that write, and that publish the snapshot afterwards."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from sqlalchemy import Connection, Engine

from tuner.model import MachineError, UserError
from tuner.store import migrate, publish
from tuner.store.engine import plain_errors, transact, writing
from tuner.store.place import Place
from tuner.store.process import Process

_log = logging.getLogger("tuner.store")
_Result = TypeVar("_Result")


class Session:
    """What every verb of a store stands on; safe to use from several threads and processes at once."""

    def __init__(self, engine: Engine, place: Place, process: Process, *, missing: bool = False) -> None:
        """For `open_store`. `missing`: nothing is stored at that place, so nothing can be changed."""
        self._engine = engine
        self._writer = writing(engine)
        self._place = place
        self._process = process
        self._missing = missing
        self._unpublished = False
        self._file = place.identity()
        self._wrote = False

    def __enter__(self) -> Self:
        """Itself; leaving closes it, and raises MachineError if what was written is gone: see `lost`."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        lost = self.lost
        self.close()
        if lost and (kind is None or issubclass(kind, MachineError)):  # where it is lost, other failures follow from it
            raise MachineError(lost) from error

    def close(self) -> None:
        """Close every connection; the store is of no use after."""
        self._engine.dispose()

    @property
    def url(self) -> str:
        """Where it is, as people are told: a path, or a URL without its password."""
        return self._place.label

    @property
    def snapshot(self) -> Path:
        """Where its snapshot is published."""
        return self._place.snapshot

    @property
    def spool(self) -> Path:
        """The folder in which look-ups leave their misses."""
        return self._place.spool

    @property
    def unpublished(self) -> bool:
        """The last attempt to publish failed: what is stored stands, but a look-up does not know of it yet."""
        return self._unpublished

    @property
    def lost(self) -> str:
        """One sentence if what was written went into a file that is no longer at the store's place; else empty."""
        if not self._wrote or self._file is None or self._place.identity() == self._file:
            return ""
        return (
            f"the store's file {self.url} was removed or replaced while it was in use, so nothing of this run is kept."
        )

    @property
    def version(self) -> str:
        """The schema's revision."""
        return migrate.head()

    def publish(self) -> Path:
        """Publish the snapshot anew; every verb that changes what it says does so by itself. Raises UserError."""
        self._unpublished = True
        try:
            path = publish.publish(self._engine, self._place)
        except OSError as error:
            raise MachineError(f"the snapshot {self.snapshot} cannot be written: {error.strerror}.") from error
        self._unpublished = False
        return path

    def catch_up(self) -> None:
        """Publish if the snapshot is not what the database says, after a kill between the two, say."""
        if not publish.is_current(self._engine, self._place):
            self._try_to_publish()

    def publish_first(self) -> None:
        """Publish if there is no snapshot yet, also of an empty store: one that is missing later was lost."""
        if not os.path.lexists(self.snapshot):
            self._try_to_publish()

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        """For what is read as it streams, and so cannot be done again."""
        with plain_errors(self._place), self._engine.begin() as connection:
            yield connection

    def _reads(self, work: Callable[[Connection], _Result]) -> _Result:
        """What `work` returns, all of it as of one moment; it may be called several times."""
        return transact(self._place, self._engine, work)

    def _writes(self, work: Callable[[Connection], _Result]) -> _Result:
        """What `work` returns, committed; it may be called several times, each time from what then stands."""
        if self._missing:
            raise UserError(f"nothing is stored at {self.url} yet; run gemm-tuner tune first.")
        result = transact(self._place, self._writer, work)
        self._wrote = True
        return result

    def _publishes(self, work: Callable[[Connection], _Result]) -> _Result:
        """As `_writes`; then the snapshot says what the database does."""
        result = self._writes(work)
        self._try_to_publish()
        return result

    def _try_to_publish(self) -> None:
        """What is committed stays committed: a snapshot that cannot be written is a warning, and made up for later."""
        if self.lost:  # told when the store is left; the snapshot is that of another store, or of none
            return
        try:
            self.publish()
        except UserError as error:
            _log.warning("%s The change is stored; run gemm-tuner db upgrade once that is mended.", error)
