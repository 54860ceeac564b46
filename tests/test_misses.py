"""Misses: what was asked for in vain is counted behind the look-up's back, once, and whatever the disk says."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.store_conformance import KEY, PROBLEM
from tests.test_lookup import DEVICE, FAMILIES, tune
from tuner.cli.app import run
from tuner.lookup import Finder, Misses, Origin, Snapshot
from tuner.lookup import misses as misses_module
from tuner.store import Miss, Store, open_store

OTHER = replace(PROBLEM, m=65)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    opened = open_store(str(tmp_path / "tuner.db"), upgrade=True)
    opened.start_run(*KEY, {})
    return opened


def finder(store: Store) -> tuple[Finder, Misses]:
    misses = Misses(store.spool)
    return Finder(Snapshot(store.snapshot), FAMILIES, misses=misses), misses


def counts(store: Store) -> dict[int, int]:
    store.take_in_misses()
    return {miss.problem.m: miss.count for miss in store.misses()}


def test_what_is_asked_for_in_vain_is_counted(store: Store) -> None:
    found, misses = finder(store)
    for problem in (PROBLEM, OTHER, PROBLEM):
        found.lookup(DEVICE, problem)
    misses.flush()
    assert counts(store) == {64: 2, 65: 1}
    assert store.misses()[0].origin == Origin.DEFAULT


def test_an_exact_and_certified_answer_is_no_miss(store: Store) -> None:
    tune(store, 8)
    tune(store, 8, OTHER, certify=False)
    found, misses = finder(store)
    for problem in (PROBLEM, OTHER):
        found.lookup(DEVICE, problem)
    misses.flush()
    assert counts(store) == {65: 1}


def test_counts_go_on_after_they_were_taken_in(store: Store) -> None:
    found, misses = finder(store)
    for expected in (1, 2, 3):
        found.lookup(DEVICE, PROBLEM)
        misses.flush()
        assert counts(store) == {64: expected}
    assert not list(store.spool.iterdir())


def test_counts_that_were_not_taken_in_add_up_in_one_file(store: Store) -> None:
    found, misses = finder(store)
    for _ in range(3):
        found.lookup(DEVICE, PROBLEM)
        misses.flush()
    assert len(list(store.spool.iterdir())) == 1
    assert counts(store) == {64: 3}


def test_a_thread_writes_them_without_being_asked(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(misses_module, "FLUSH_SECONDS", 0.01)
    flushed = threading.Event()
    monkeypatch.setattr(Misses, "flush", lambda self: flushed.set())
    found, _ = finder(store)
    found.lookup(DEVICE, PROBLEM)
    assert flushed.wait(60)


def test_threads_lose_no_count(store: Store) -> None:
    found, misses = finder(store)

    def ask() -> None:
        for _ in range(500):
            found.lookup(DEVICE, PROBLEM)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        misses.flush()
    for thread in threads:
        thread.join()
    misses.flush()
    assert counts(store) == {64: 2000}


def _ask_in_child(store_path: str) -> None:
    with open_store(store_path, upgrade=False) as store:
        found, misses = finder(store)
        found.lookup(DEVICE, OTHER)
        misses.flush()


def test_every_process_has_a_file_of_its_own(store: Store) -> None:
    found, misses = finder(store)
    found.lookup(DEVICE, PROBLEM)
    misses.flush()
    child = multiprocessing.get_context("spawn").Process(target=_ask_in_child, args=(store.url,))
    child.start()
    child.join()
    assert len(list(store.spool.iterdir())) == 2
    assert counts(store) == {64: 1, 65: 1}


def test_a_forked_child_counts_only_its_own(store: Store) -> None:
    found, misses = finder(store)
    found.lookup(DEVICE, PROBLEM)
    pid = os.fork()
    if pid == 0:
        found.lookup(DEVICE, OTHER)
        misses.flush()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    misses.flush()
    assert counts(store) == {64: 1, 65: 1}


@pytest.mark.parametrize("block", ["file", "folder"])
def test_a_spool_that_cannot_be_written_breaks_no_look_up(store: Store, block: str) -> None:
    if block == "file":
        store.spool.write_text("in the way")
    else:
        store.spool.symlink_to("/proc/nowhere")
    found, misses = finder(store)
    assert found.lookup(DEVICE, PROBLEM).origin is Origin.DEFAULT
    misses.flush()


def test_a_damaged_line_costs_that_line(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    found, misses = finder(store)
    for problem in (PROBLEM, OTHER):
        found.lookup(DEVICE, problem)
    misses.flush()
    (file,) = store.spool.iterdir()
    good = file.read_text().splitlines()
    file.write_text("\n".join([good[0][:50], "[]", good[1].replace('"count":1', '"count":true'), good[1]]))
    assert counts(store) == {65: 1}
    assert caplog.text.count("is damaged and was ignored") == 3


def test_what_is_tuned_is_no_miss_any_more(store: Store) -> None:
    store.add_misses([Miss(*DEVICE_KEY, PROBLEM, "default", 3, "2026-11-29", "2026-11-30")])
    rendered = FAMILIES["tiled"].render(FAMILIES["tiled"].default(PROBLEM, DEVICE), PROBLEM, DEVICE)
    config = FAMILIES["tiled"].default(PROBLEM, DEVICE)
    store.promote(*DEVICE_KEY, PROBLEM, config, rendered, reason="won", time_ms=1.0, noise=0.0, checks=["all"])
    assert store.misses() == []


DEVICE_KEY = (DEVICE.silicon, DEVICE.software)


def test_the_command_lists_them_and_takes_the_spool_in(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    found, misses = finder(store)
    for problem in (PROBLEM, OTHER, OTHER):
        found.lookup(DEVICE, problem)
    misses.flush()
    assert run(["misses", "--json", "--db", store.url]) == 0
    listed = json.loads(capsys.readouterr().out)["misses"]
    assert [(one["problem"]["m"], one["count"], one["origin"]) for one in listed] == [
        (65, 2, "default"),
        (64, 1, "default"),
    ]
    assert run(["misses", "--device", "no such", "--db", store.url]) == 0
    assert "Nothing was asked for in vain" in capsys.readouterr().out
    assert run(["misses", "--db", store.url]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("2\t")
