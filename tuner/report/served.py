"""The report as a server shows it: pages made when asked for, from the store as it is now, kept until it changes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping

from tuner.report.contents import Contents, path_of, problem_model, read_contents, read_logs
from tuner.report.html import Html, shared
from tuner.report.live import running
from tuner.report.site import log_files
from tuner.store import Store
from tuner.store.reading import Reading

PATIENCE = 10.0
"""The store is read anew no sooner than so many times as long as reading it took: a search adds trials all the time."""
LIVE = "live.json"

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "txt": "text/plain; charset=utf-8",
}


class Pages(Mapping[str, bytes]):
    """Path -> bytes: `index.html`, `report.css`, `live.json`, ...; safe to ask from several threads at once.

    `live.json` says which searches are in progress, and is made anew each time; see `live.running`.
    """

    def __init__(self, store: Store) -> None:
        """Serve from `store`, for as long as it is open."""
        self._store = store
        self._lock = threading.Lock()
        self._state: object = None
        self._contents: Contents | None = None
        self._front: dict[str, bytes] = {}
        self._problems: dict[str, bytes] = {}
        self._read_at, self._took = 0.0, 0.0

    def __getitem__(self, path: str) -> bytes:
        if path == LIVE:
            return json.dumps(running(self._store)).encode()
        with self._lock:
            contents = self._fresh()
            if path in self._front:
                return self._front[path]
            if path not in self._problems:
                problem = next((one for one in contents.facts.problems if f"{path_of(one)}.html" == path), None)
                if problem is None:
                    raise KeyError(path)
                page = problem_model(self._store, problem, contents.devices_of(problem))
                self._problems[path] = self._html(contents).page(page)
            return self._problems[path]

    def __iter__(self) -> Iterator[str]:
        with self._lock:
            contents = self._fresh()
            yield from [*self._front, *(f"{path_of(one)}.html" for one in contents.facts.problems), LIVE]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, path: object) -> bool:
        return any(path == one for one in self)

    def content_type(self, path: str) -> str:
        """What HTTP calls it."""
        return TYPES.get(path.rpartition(".")[2], "application/octet-stream")

    def _html(self, contents: Contents) -> Html:
        return Html(contents.navigation, contents.facts.now[:16].replace("T", " "), live=True)

    def _fresh(self) -> Contents:
        now = time.monotonic()
        if self._contents is not None and now - self._read_at < max(1.0, PATIENCE * self._took):
            return self._contents
        state = Reading(self._store).state()
        if self._contents is None or state != self._state:
            self._contents = read_contents(self._store, None)
            logs = read_logs(self._store, self._contents.facts)
            html = self._html(self._contents)
            pages = self._contents.front(logs, log_link=True)
            self._front = {**shared(), **log_files(logs), **{f"{page.path}.html": html.page(page) for page in pages}}
            self._problems, self._state = {}, state
            self._took = time.monotonic() - now
        self._read_at = time.monotonic()
        return self._contents


def pages(store: Store) -> Pages:
    """The report's pages, live from the store."""
    return Pages(store)
