"""`gemm-tuner db prune`: what it says, and that the file gets smaller."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.store_conformance import KEY, record
from tuner.cli.app import run
from tuner.model import Measurement, Verdict
from tuner.store import open_store
from tuner.store.engine import shrink
from tuner.store.place import Place


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store whose samples take a megabyte."""
    path = tmp_path / "tuner.db"
    samples = tuple(1.0 + number for number in range(1001))
    with open_store(str(path), upgrade=True) as opened:
        opened.start_run(*KEY, {})
        for number in range(125):
            opened.add(replace(record(number), measurement=Measurement(Verdict.CORRECT, samples)))
    return str(path)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert run(["db", "prune", *arguments]) == 0
    return capsys.readouterr().out


def test_a_store_without_nights_keeps_everything(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "has not seen 30 nights yet; nothing goes" in said(capsys, "--db", store)


def test_the_file_gets_smaller(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    size = Path(store).stat().st_size
    first = json.loads(said(capsys, "--db", store, "--before", "2027-01-01", "--dry-run", "--json"))
    assert (first["trials"], first["bytes"], Path(store).stat().st_size) == (125, 1_000_000, size)
    text = " ".join(said(capsys, "--db", store, "--before", "2027-01-01").split())
    assert "the raw samples of 125 trials from before" in text
    assert "are gone, their medians stay" in text
    assert size - Path(store).stat().st_size > 900_000


def test_a_date_that_is_none_is_refused(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["db", "prune", "--db", store, "--before", "yesterday"]) == 2
    assert "'yesterday' is no date" in capsys.readouterr().err


def test_a_file_that_is_being_read_gets_smaller_afterwards(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    size = Path(store).stat().st_size
    with open_store(store, upgrade=False) as reader, reader._read() as connection:
        connection.exec_driver_sql("SELECT count(*) FROM trial").scalar()
        said(capsys, "--db", store, "--before", "2027-01-01")
    assert size - Path(store).stat().st_size > 900_000


def test_a_file_that_is_being_written_stays_large_and_says_so(store: str, caplog: pytest.LogCaptureFixture) -> None:
    with closing(sqlite3.connect(store, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        shrink(Place.of(store))
    assert "the file stays large" in caplog.text


ASKING = (
    *(["champions"], ["history", "64", "64", "64"], ["misses"], ["export"], ["study", "--out", "study.db"]),
    *(["db", "check"], ["db", "stats"], ["db", "prune"], ["nightly", "status"], ["verify", "--all"]),
    *(["report"], ["report", "--out", "report.html"], ["report", "--format", "md"], ["report", "--json"]),
)


@pytest.mark.parametrize("arguments", ASKING, ids=" ".join)
def test_who_only_asks_makes_no_store(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([*arguments, "--db", str(tmp_path / "none.db")]) == 1
    said = capsys.readouterr()
    assert f"there is no store at {tmp_path / 'none.db'};" in said.err and not said.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [*ASKING, ["lookup", "64", "64", "64"]], ids=" ".join)
def test_a_folder_is_no_store(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([*arguments, "--db", str(tmp_path)]) == 1
    assert f"{tmp_path} is a folder; give the path of a database file." in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
