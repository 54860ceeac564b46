"""Questions to the database, asked of child processes: however long one takes, look-ups never wait for it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from tuner.bench.process import QuietContext, death_of, kill, settle_in, start
from tuner.model import MachineError, UserError
from tuner.service.kept import Ready, ready_bytes

MOST_WAITING = 64
"""Questions that wait at one desk; more are refused at once."""

Answerer = Callable[[str], Any]
"""Made in the child; answers a question with what can be pickled. Raises UserError."""
Make = Callable[[str | None], Answerer]
"""Makes one for a database, given as `--db` takes it."""


class Desk:
    """One child that answers one question at a time; it starts with the first, and again after it died."""

    def __init__(self, make: Make, db: str | None, timeout_s: float) -> None:
        """`make` is importable by name."""
        self._make, self._db, self._timeout_s = make, db, timeout_s
        self._thread = _one_thread()
        self._waiting = 0
        self._child: tuple[BaseProcess, Connection] | None = None

    async def ask(self, question: str) -> Any:
        """The answer. Raises MachineError if the store cannot be read, or the child dies or has too much to do."""
        if self._waiting >= MOST_WAITING:
            raise MachineError("too many others are asking for this; try again later.")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._answer, question)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """End the child, whatever it is doing; nobody's question waits any more."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._thread = _one_thread()
        self._stop()

    def _answer(self, question: str) -> Any:
        process, pipe = self._child = self._child or self._started()
        try:
            pipe.send(question)
            if not pipe.poll(self._timeout_s):
                self._stop()
                raise MachineError(f"the store does not answer within {self._timeout_s:.0f} s; try again later.")
            refused, answer = pipe.recv()
        except (EOFError, OSError) as error:
            died = death_of(process)
            self._stop()
            raise MachineError(f"the process that reads the store is gone ({died}); try again.") from error
        if refused:
            raise MachineError(answer)
        return answer

    def _started(self) -> tuple[BaseProcess, Connection]:
        pipe, childs_end = QuietContext().Pipe()
        process = start(_work, childs_end, self._make, self._db)
        childs_end.close()
        return process, pipe

    def _stop(self) -> None:
        if self._child is not None:
            process, pipe = self._child
            self._child = None
            kill(process)
            pipe.close()


def _one_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="gemm-tuner-desk")


def _work(pipe: Connection, make: Make, db: str | None) -> None:
    """The child: answers until its parent is gone."""
    settle_in()
    os.nice(5)  # look-ups come first
    answer = make(db)
    while True:
        try:
            question = pipe.recv()
        except EOFError:
            return
        try:
            said = False, answer(question)
        except UserError as error:
            said = True, str(error)
        pipe.send(said)


LIVE = "live"
NIGHT = "night"


def answer_pages(db: str | None) -> Answerer:
    """Answers a page's path, and on a second line the version that the asker has, with the page; None: there is none.

    The body of a version that the asker has is left out.
    """
    from tuner.report import Pages, pages
    from tuner.store import Store, open_store
    from tuner.store.place import Place

    path = Place.of(db).path
    opened: list[tuple[Any, Store, Pages]] = []

    def now() -> Any:
        """What file it is; another one may have been put in its place."""
        try:
            found = path.stat() if path else None
        except OSError:
            return "missing"
        return (found.st_dev, found.st_ino) if found else "a server"

    def answer(question: str) -> Ready | None:
        path_of_page, _, held = question.partition("\n")
        state = now()
        if opened and opened[0][0] != state:
            opened.pop()[1].close()
        if not opened:
            store = open_store(db, upgrade=False)
            opened.append((state, store, pages(store)))
        shown = opened[0][2]
        try:
            found = ready_bytes(shown[path_of_page], shown.content_type(path_of_page))
        except KeyError:
            return None
        return replace(found, body=b"") if found.unchanged_for(held.encode("latin-1")) else found

    return answer


def answer_quick(db: str | None) -> Answerer:
    """Answers LIVE with the searches in progress, and NIGHT with the last night that went to its end, or None."""
    from tuner.report import running
    from tuner.store import Night, open_store
    from tuner.store.nouns import NightState

    def last(nights: list[Night]) -> dict[str, Any] | None:
        for night in nights:
            if night.state is NightState.COMPLETE and night.finished is not None:
                return {"name": night.name, "finished": night.finished, "until": _seconds(night.finished)}
        return None

    def answer(question: str) -> Any:
        with open_store(db, upgrade=False) as store:
            return running(store) if question == LIVE else last(store.nights(100))

    return answer


def _seconds(when: str) -> float:
    """Since 1970."""
    moment = datetime.fromisoformat(when)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
