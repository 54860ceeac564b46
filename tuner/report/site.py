"""A report as a folder of pages: only what changed is built again, and each file is replaced whole."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tuner.model import MachineError, Problem, UserError
from tuner.report.changes import manifest_of, read_manifest
from tuner.report.contents import Contents, path_of, problem_model, read_contents, read_logs
from tuner.report.failures import log_text
from tuner.report.gather import DeviceFacts
from tuner.report.html import Html, Navigation, shared
from tuner.report.rungs import Ladder
from tuner.store import Store
from tuner.store.reading import Reading

MANIFEST = "manifest.json"
TOGETHER = 10
"""Problems that a worker is handed at a time."""
WORTH_WORKERS = 30
"""With fewer pages to build, starting workers would take longer than the work."""

Open = Callable[[], Store]
"""Opens the store; pickles, for workers open it themselves."""


@dataclass(frozen=True)
class Done:
    """What a build did."""

    folder: Path
    pages: int
    built: int
    """Of the problems' pages, those that were built now."""
    index_seconds: float
    """Until the overview and everything else but the problems' pages stood."""


def build(
    opened: Open,
    folder: Path,
    *,
    workers: int = 2,
    ladders: Sequence[Ladder] = (),
    told: Callable[[int, int], None] = lambda done, total: None,
) -> Done:
    """Bring the report in `folder` up to date; `told` hears how many of the problems' pages are done.

    Raises UserError if the folder holds somebody else's index.html, MachineError if it cannot be written.
    """
    began = time.monotonic()
    before = read_manifest(folder / MANIFEST)
    if before is None and (folder / "index.html").exists():
        raise UserError(f"{folder} has an index.html that is no report of ours; give another folder.")
    with _plain_errors(folder), opened() as store:
        folder.mkdir(parents=True, exist_ok=True)
        contents = read_contents(store, before, ladders)
        written = _write_front(store, contents, folder)
        index_seconds = time.monotonic() - began
        digests = _digests(store, contents)
        old = before.get("pages", {}) if before else {}
        due = [
            problem
            for problem in contents.facts.problems
            if digests[path_of(problem)] != old.get(path_of(problem)) or not _file(folder, path_of(problem)).exists()
        ]
        for number, _ in enumerate(_problem_pages(opened, store, contents, folder, due, workers), 1):
            told(number, len(due))
        _remove_stale(folder, old, digests)
        manifest = {**manifest_of(contents.facts), "pages": digests}
        replace_file(folder / MANIFEST, json.dumps(manifest, ensure_ascii=True).encode())
    return Done(folder, written + len(digests), len(due), index_seconds)


def _file(folder: Path, path: str) -> Path:
    return folder / f"{path}.html"


def _write_front(store: Store, contents: Contents, folder: Path) -> int:
    """Everything but the problems' pages; returns how many pages."""
    logs = read_logs(store, contents.facts)
    html = Html(contents.navigation, contents.facts.now[:16].replace("T", " "))
    for name, data in shared().items():
        replace_file(folder / name, data)
    for name, data in log_files(logs).items():
        (folder / "logs").mkdir(exist_ok=True)
        replace_file(folder / name, data)
    pages = contents.front(logs, log_link=True)
    for page in pages:
        replace_file(_file(folder, page.path), html.page(page))
    return len(pages)


def log_files(logs: Mapping[str, str]) -> dict[str, bytes]:
    """Compile logs as files of their own."""
    return {f"logs/{hash[:16]}.txt": log_text(text).encode("utf-8", "replace") for hash, text in logs.items()}


def _digests(store: Store, contents: Contents) -> dict[str, str]:
    """For each problem's page what it is made from, in short."""
    prints = Reading(store).fingerprints()
    common = [code_hash(), repr(contents.navigation)]
    for device in contents.facts.devices:
        common += [repr(device.software), repr(device.softwares), repr(device.peaks), repr(device.libraries)]
    start = hashlib.sha256("\n".join(common).encode("utf-8", "surrogatepass")).hexdigest()
    found = {}
    for problem in contents.facts.problems:
        text = f"{start} {prints.get(problem, '')}"
        found[path_of(problem)] = hashlib.sha256(text.encode()).hexdigest()[:32]
    return found


@cache
def code_hash() -> str:
    """Changes whenever a page would be made otherwise: with our code, and with the libraries that draw."""
    here = Path(__file__).parent
    files = [*sorted(here.rglob("*.py")), *sorted((here / "templates").iterdir()), here.parent / "search/rebuilt.py"]
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    for name in ("plotly", "optuna"):
        digest.update(metadata.version(name).encode())
    return digest.hexdigest()


def _problem_pages(
    opened: Open, store: Store, contents: Contents, folder: Path, due: Sequence[Problem], workers: int
) -> Iterator[None]:
    """Build and write the pages that are due, in other processes if there are many."""
    made = contents.facts.now[:16].replace("T", " ")
    jobs = [(problem, contents.devices_of(problem)) for problem in due]
    if workers < 2 or len(jobs) < WORTH_WORKERS:
        for job in jobs:
            _build_one(store, folder, contents.navigation, made, *job)
            yield
        return
    chunks = [jobs[start : start + TOGETHER] for start in range(0, len(jobs), TOGETHER)]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(_build_some, opened, folder, contents.navigation, made, chunk) for chunk in chunks]
        try:
            for future in as_completed(futures):
                for _ in range(future.result()):
                    yield
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _build_some(
    opened: Open,
    folder: Path,
    navigation: Navigation,
    made: str,
    jobs: Sequence[tuple[Problem, Sequence[DeviceFacts]]],
) -> int:
    with opened() as store:
        for job in jobs:
            _build_one(store, folder, navigation, made, *job)
    return len(jobs)


def _build_one(
    store: Store, folder: Path, navigation: Navigation, made: str, problem: Problem, devices: Sequence[DeviceFacts]
) -> None:
    page = problem_model(store, problem, devices)
    replace_file(_file(folder, page.path), Html(navigation, made).page(page))


def _remove_stale(folder: Path, old: Mapping[str, Any], digests: Mapping[str, str]) -> None:
    for path in old.keys() - digests.keys():
        if path.startswith("problem-") and "/" not in path:
            _file(folder, path).unlink(missing_ok=True)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file that a reader sees whole; one that already says the same is left alone.

    Raises UserError for a device, a pipe or anything else that is no file: reading one may never end.
    """
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is no regular file; name another.")
    if path.exists() and path.read_bytes() == data:
        return
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_bytes(data)
    unfinished.replace(path)


class _plain_errors:
    """What the file system refuses becomes a MachineError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise MachineError(f"{self._folder} cannot be written: {error.strerror or error}.") from error
