"""Writers and readers, each a process, at one store: nobody is locked out and no row is lost; eight each to soak."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import postgresql
from tests.store_conformance import KEY
from tests.store_worker import Stressed
from tuner.data import data_folder
from tuner.store import open_store

FOUND = postgresql.programs()
CROWDS = [(3, 3.0), pytest.param(8, 60.0, marks=[pytest.mark.soak, pytest.mark.timeout(600)])]


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param(
            "postgresql",
            marks=[
                pytest.mark.skipif(FOUND is None, reason="no PostgreSQL server is installed"),
                pytest.mark.skipif(find_spec("psycopg") is None, reason="psycopg is not installed"),
            ],
        ),
    ]
)
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(data_folder("db").parent))
    if request.param == "sqlite":
        yield str(tmp_path / "tuner.db")
        return
    assert FOUND is not None
    with postgresql.serving(FOUND) as server:
        yield server.fresh()


@pytest.mark.parametrize(("each", "seconds"), CROWDS)
def test_writers_and_readers_are_never_locked_out(url: str, each: int, seconds: float) -> None:
    open_store(url, upgrade=True).close()
    stressed = stress(url, each, seconds)
    print(f"{url}: {stressed} in {seconds:.0f} s")
    with open_store(url, upgrade=False) as store:
        found = [record.source_hash for record in store.records()]
        assert (len(found), max(Counter(found).values())) == (stressed.written, 1)
        assert (store.stats()["tables"]["in_flight"], store.check()) == (0, [])
        assert store.champion(*KEY) is not None
    assert min(stressed) > 0


@pytest.mark.parametrize("writes", [100, pytest.param(1000, marks=[pytest.mark.soak, pytest.mark.timeout(600)])])
def test_eight_readers_keep_no_writer_waiting_for_ever(url: str, writes: int) -> None:
    open_store(url, upgrade=True).close()
    stressed = stress(url, 1, 300.0, readers=8, most=writes)
    print(f"{url}: {stressed}")
    with open_store(url, upgrade=False) as store:
        assert len({record.source_hash for record in store.records()}) == stressed.written == writes
        assert store.check() == []
    assert stressed.read >= 8


def stress(url: str, writers: int, seconds: float, *, readers: int | None = None, most: int = 10**9) -> Stressed:
    """What so many did (as many readers as writers); fails if any of them said anything to its standard error."""
    crowd = ["write"] * writers + ["read"] * (writers if readers is None else readers)
    started = [(what, _start(what, url, seconds, 1_000_000 * number, most)) for number, what in enumerate(crowd)]
    counts: Counter[str] = Counter()
    errors = []
    for what, process in started:
        out, error = process.communicate(timeout=seconds + 300)
        errors += [error] if error or process.returncode else []
        counts[what] += int(out or 0)
    assert errors == []
    return Stressed(counts["write"], counts["read"])


def _start(what: str, url: str, seconds: float, first: int, most: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.store_worker", what, url, str(seconds), str(first), str(most)]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
