"""The published snapshot: always whole, never older than the one before, readable row by row when damaged."""

from __future__ import annotations

import copy
import functools
import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.store_conformance import KEY, NEWER, PROBLEM, SILICON, SOFTWARE, config, hash_of, promote, record, rendered
from tests.test_lookup import DEVICE, Tiled
from tuner.data import data_folder
from tuner.lookup import Snapshot, lookup
from tuner.store import Store, open_store, publish, snapshot_path
from tuner.store.contents import Contents, open_contents
from tuner.store.published import FORMAT, read, write


@pytest.fixture
def store(tmp_path: Path) -> Store:
    opened = open_store(str(tmp_path / "tuner.db"), upgrade=True)
    opened.start_run(*KEY, {})
    return opened


def text(store: Store) -> str:
    return store.snapshot.read_text("utf-8")


def test_there_is_no_snapshot_before_there_is_a_champion(store: Store) -> None:
    store.add(record())
    assert not store.snapshot.exists()


def test_it_says_what_the_store_says(store: Store) -> None:
    promote(store, 1)
    (entry,) = read(text(store)).entries
    assert entry.champion == store.champion(*KEY)


def test_it_is_one_json_document_with_each_source_once(store: Store) -> None:
    for m in (1, 2):
        store.promote(SILICON, SOFTWARE, replace(PROBLEM, m=m), config(), rendered(), reason="", time_ms=1.0, noise=0.0)
    document = json.loads(text(store))
    assert (document["format"], len(document["champions"]), list(document["sources"].values())) == (
        FORMAT,
        2,
        [rendered().source],
    )


def test_writing_what_was_read_gives_the_same_text(store: Store) -> None:
    promote(store, 1)
    store.pin(*KEY, config(7), rendered(7), reason="known good")
    assert write(read(text(store))) == text(store)


def test_both_the_pinned_and_the_promoted_are_in_it(store: Store) -> None:
    promote(store, 1)
    store.pin(*KEY, config(7), rendered(7), reason="known good")
    assert [(one.champion.config, one.champion.pinned) for one in read(text(store)).entries] == [
        (config(7), True),
        (config(1), False),
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda store: promote(store, 2),
        lambda store: store.pin(*KEY, config(7), rendered(7), reason=""),
        lambda store: store.withdraw(*KEY, reason="wrong"),
        lambda store: store.withdraw(*KEY, reason="wrong", source_hash="never stood"),
        lambda store: store.certify(*KEY, config(1), hash_of(1), ["more checks"]),
        lambda store: store.certify(SILICON, NEWER, PROBLEM, config(1), hash_of(1), ["checks"]),
    ],
)
def test_every_change_is_published(store: Store, change: object) -> None:
    promote(store, 1)
    store.certify(*KEY, config(5), "never stood", ["checks"])
    before = text(store)
    assert callable(change)
    change(store)
    assert text(store) != before
    assert store.check() == []


def test_trials_do_not_change_it(store: Store) -> None:
    promote(store, 1)
    before = store.snapshot.stat()
    store.add(record())
    assert store.snapshot.stat().st_mtime_ns == before.st_mtime_ns


def test_others_can_read_it(store: Store) -> None:
    before = os.umask(0o077)
    try:
        promote(store, 1)
    finally:
        os.umask(before)
    assert store.snapshot.stat().st_mode & 0o777 == 0o644


def test_a_snapshot_that_cannot_be_written_loses_nothing(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    store.snapshot.mkdir()
    before = store.unpublished
    promote(store, 1)
    assert "cannot be written" in caplog.text
    assert (before, store.unpublished) == (False, True)
    found = store.champion(*KEY)
    assert found is not None
    assert found.config == config(1)
    assert any("is not what the database says" in message for message in store.check())


def test_a_snapshot_that_can_be_written_again_is_published(store: Store) -> None:
    store.snapshot.mkdir()
    promote(store, 1)
    store.snapshot.rmdir()
    store.withdraw(*KEY, reason="wrong")
    assert (store.unpublished, store.check()) == (False, [])


def test_a_certificate_revoked_and_not_published_is_noticed(store: Store) -> None:
    for number in (5, 6):
        store.certify(*KEY, config(number), hash_of(number), ["checks"])
    before = text(store)
    store.withdraw(*KEY, reason="wrong", source_hash=hash_of(5))
    right = text(store)
    store.snapshot.write_text(before)
    assert any("is not what the database says" in message for message in store.check())
    open_store(store.url, upgrade=True).close()
    assert text(store) == right


@pytest.mark.parametrize("name", ["tuner.db.snapshot.json", ".tuner.db.snapshot.json.unfinished"])
def test_a_pipe_in_the_way_is_waited_for_by_nobody(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with open_store(str(tmp_path / "tuner.db"), upgrade=True) as store:
        promote(store, 1)
        assert len(read(text(store)).entries) == 1


def test_a_link_has_no_snapshot_of_its_own(store: Store, tmp_path: Path) -> None:
    promote(store, 1)
    link = tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(store.url)
    with open_store(str(link), upgrade=True) as other:
        assert other.snapshot == snapshot_path(str(link)) == store.snapshot
    store.withdraw(*KEY, reason="wrong")
    assert Snapshot(snapshot_path(str(link))).index.same_problem(SILICON, PROBLEM) == []
    assert list(link.parent.iterdir()) == [link]


@pytest.mark.parametrize("damage", ["missing", "truncated", "older"])
def test_opening_to_tune_makes_up_for_a_snapshot_that_is_behind(store: Store, damage: str) -> None:
    promote(store, 1)
    older = text(store)
    promote(store, 2)
    right = text(store)
    store.snapshot.unlink()
    if damage != "missing":
        store.snapshot.write_text(older if damage == "older" else right[:-50])
    open_store(store.url, upgrade=True).close()
    assert text(store) == right


def test_concurrent_publishers_leave_the_newest(store: Store) -> None:
    def work(first: int) -> None:
        with open_store(store.url, upgrade=True) as mine:
            for number in range(first, first + 8):
                mine.promote(*KEY, config(number), rendered(number), reason="", time_ms=1.0, noise=0.0)

    threads = [threading.Thread(target=work, args=(first,)) for first in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read(text(store)).state == (24, 0)
    assert store.check() == []


def test_a_reader_never_sees_half_a_file(store: Store) -> None:
    promote(store, 0)
    seen: list[str] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.extend(read(text(store)).messages)

    reader = threading.Thread(target=look)
    reader.start()
    for number in range(1, 30):
        publish.replace_text(store.snapshot, text(store) + " " * number * 1000)
    done.set()
    reader.join()
    assert seen == []


def test_another_devices_data_leaves_this_ones_rows_as_they_are(store: Store) -> None:
    promote(store, 1)
    before = [line.rstrip(",") for line in text(store).splitlines() if line.startswith('{"c')]
    other = replace(SILICON, name="another", compute_units=20)
    promote(store, 1, (other, SOFTWARE, PROBLEM))
    promote(store, 2, (other, SOFTWARE, replace(PROBLEM, m=1)))
    after = [line.rstrip(",") for line in text(store).splitlines()]
    assert len(before) == 2
    assert [line for line in before if line not in after] == []


def test_the_format_needs_no_database(tmp_path: Path) -> None:
    script = "import sys, tuner.lookup; print([name for name in sys.argv[1:] if name in sys.modules])"
    heavy = ["sqlalchemy", "alembic", "numpy", "jinja2", "pyopencl", "optuna", "filelock", "sqlite3"]
    done = subprocess.run(
        [sys.executable, "-c", script, *heavy],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(data_folder("db").parent)},
    )
    assert done.stdout == "[]\n"


# Damage


@pytest.fixture
def two(store: Store) -> str:
    """The text of a snapshot with two champions."""
    promote(store, 1)
    promote(store, 2, (SILICON, SOFTWARE, replace(PROBLEM, m=1000)))
    return text(store)


def test_a_snapshot_from_a_newer_gemm_tuner_is_not_guessed_at(two: str) -> None:
    found = read(two.replace(f'"format":{FORMAT}', f'"format":{FORMAT + 1}'))
    assert (found.entries, len(found.messages)) == ((), 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"m":64', '"m":-64'),
        ('"m":64', '"m":"64"'),
        ('"m":64', '"m":64,"colour":1'),
        ('"config":{"ts":1}', '"config":{"ts":1.5}'),
        ('"config":{"ts":1}', '"config":{"ts":true}'),
        ('"config":{"ts":1}', '"config":null'),
        ('"time_ms":1.5', '"time_ms":NaN'),
        ('"time_ms":1.5', '"time_ms":-1'),
        ('"global_size":[96,64,1]', '"global_size":[96,0,1]'),
        ('"global_size":[96,64,1]', '"global_size":"all"'),
        ('"family":"tiled",', ""),
        ('"rendered":{', '"rendered":{},"other":{'),
    ],
)
def test_a_damaged_champion_is_left_out_with_a_message(two: str, old: str, new: str) -> None:
    lines = two.splitlines()
    number = next(n for n, line in enumerate(lines) if old in line and '"config"' in line)
    lines[number] = lines[number].replace(old, new, 1)
    found = read("\n".join(lines))
    assert len(found.entries) == 1
    assert any("is damaged and was ignored" in message for message in found.messages)


def test_a_source_that_was_changed_is_not_served(two: str) -> None:
    found = read(two.replace("int number = 1;", "int number = -1;"))
    assert [entry.champion.config for entry in found.entries] == [config(2)]
    assert len(found.messages) == 2


@pytest.mark.parametrize("content", ["", "null", "[]", "{", '{"format":1', '"' * 100, "[" * 100_000, "{}"])
def test_rubbish_is_a_message(content: str) -> None:
    found = read(content)
    assert (found.entries, bool(found.messages)) == ((), True)


def test_a_truncated_snapshot_still_serves_its_whole_rows(two: str) -> None:
    counts = [len(read(two[:end]).entries) for end in range(0, len(two), 97)]
    assert counts == sorted(counts)
    assert set(counts) == {0, 1, 2}


def test_a_broken_line_costs_that_line(two: str) -> None:
    lines = two.splitlines()
    number = next(n for n, line in enumerate(lines) if '"config":{"ts":1}' in line)
    lines[number] = lines[number][: len(lines[number]) // 2]
    assert [entry.champion.config for entry in read("\n".join(lines)).entries] == [config(2)]


NASTY: list[Any] = [
    *(None, True, 0, -1, 5, 2**31, 10**400, 0.5, 1e-320, math.inf, -math.inf, math.nan),
    *("", "x", "\ud800", "2026-11-29", [], [1], ["x"], [[]], {}, {"x": 1}),
]


def places(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """The path of everything inside a JSON value."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ()):
        yield (*path, key)
        yield from places(inner, *path, key)


def test_no_value_anywhere_stops_a_look_up(store: Store) -> None:
    good = {"tiled": Tiled()}
    for number, m in ((1, 64), (2, 1000)):
        promote(store, number, (SILICON, SOFTWARE, replace(PROBLEM, m=m)))
    document = json.loads(text(store))
    asked = [PROBLEM, replace(PROBLEM, m=999), replace(PROBLEM, m=1000)]
    for table in ("champions", "certificates"):
        for path in places(document[table][0]):
            for value in NASTY:
                damaged = copy.deepcopy(document)
                holder = functools.reduce(lambda found, key: found[key], path[:-1], damaged[table][0])
                holder[path[-1]] = value
                store.snapshot.write_text(json.dumps(damaged))
                snapshot = Snapshot(store.snapshot)
                answers = [lookup(snapshot, DEVICE, problem, good) for problem in asked]
                assert [json.dumps(answer.to_json(), allow_nan=False) for answer in answers]
                assert (answers[2].origin, answers[2].config) == ("exact", config(2)), (path, value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("problem", "m"), 0),
        (("problem", "align"), 16.0),
        (("problem", "trans_a"), "yes"),
        (("silicon", "name"), ["NVIDIA"]),
        (("silicon", "compute_units"), -132),
        (("when",), 5),
        (("reason",), 5),
        (("pinned",), 1),
        (("run",), "1"),
        (("time_ms",), 1e-320),
        (("certificate", "checks"), "odd sizes"),
        (("rendered", "build_options"), 5),
        (("rendered", "steps", 0, "kernel"), 5),
        (("rendered", "steps", 0, "local_size"), [8, 8]),
        (("rendered", "steps", 0, "scratch"), ["nosuch"]),
        (("rendered", "scratch", 0), ["packed", -64]),
    ],
)
def test_a_value_of_a_wrong_type_or_range_costs_its_row(two: str, path: tuple[Any, ...], value: Any) -> None:
    document = json.loads(two)
    functools.reduce(lambda found, key: found[key], path[:-1], document["champions"][0])[path[-1]] = value
    found = read(json.dumps(document))
    assert [entry.champion.config for entry in found.entries] == [config(2)]
    assert len(found.messages) == 1
    assert "is damaged and was ignored" in found.messages[0]


# Reading it again


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_newer_snapshot_is_seen_within_a_second_and_not_before(store: Store) -> None:
    clock = Clock()
    promote(store, 1)
    snapshot = Snapshot(store.snapshot, clock=clock)
    first = snapshot.index
    promote(store, 2)
    clock.now = 0.9
    assert snapshot.index is first
    clock.now = 1.0
    assert [one.champion.config for one in snapshot.index.same_problem(SILICON, PROBLEM)] == [config(2)]


def test_an_unchanged_snapshot_is_not_read_again(store: Store) -> None:
    clock = Clock()
    promote(store, 1)
    snapshot = Snapshot(store.snapshot, clock=clock)
    first = snapshot.index
    clock.now = 10.0
    assert snapshot.index is first


def test_a_missing_snapshot_says_nothing_until_it_is_there(store: Store) -> None:
    clock = Clock()
    snapshot = Snapshot(store.snapshot, clock=clock)
    assert snapshot.index.same_problem(SILICON, PROBLEM) == []
    promote(store, 1)
    clock.now = 1.0
    assert len(snapshot.index.same_problem(SILICON, PROBLEM)) == 1


def test_a_store_without_its_snapshot_is_told_once(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    promote(store, 1)
    store.snapshot.unlink()
    clock = Clock()
    snapshot = Snapshot(store.snapshot, clock=clock)
    for clock.now in (0.0, 2.0):
        assert snapshot.index.same_problem(SILICON, PROBLEM) == []
    assert caplog.text.count("gemm-tuner db upgrade writes it") == 1 and f"store {store.url}," in caplog.text
    assert not store.snapshot.exists()


def test_where_there_is_no_store_no_snapshot_is_missed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert Snapshot(tmp_path / "tuner.db.snapshot.json").index.same_problem(SILICON, PROBLEM) == []
    assert caplog.text == ""


def test_a_snapshot_cut_short_is_told_with_what_mends_it(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    promote(store, 1)
    store.snapshot.write_text(text(store)[:-40])
    assert isinstance(Snapshot(store.snapshot).index.silicons, list)
    assert "gemm-tuner db upgrade writes it anew" in caplog.text


def test_what_is_damaged_is_told(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    promote(store, 1)
    store.snapshot.write_text(text(store).replace("number = 1;", "number = -1;"))
    assert Snapshot(store.snapshot).index.same_problem(SILICON, PROBLEM) == []
    assert "is damaged and was ignored" in caplog.text


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_told_and_not_read(tmp_path: Path, make: Any, caplog: pytest.LogCaptureFixture) -> None:
    make(tmp_path / "snapshot.json")
    assert Snapshot(tmp_path / "snapshot.json").index.same_problem(SILICON, PROBLEM) == []
    assert "cannot be read" in caplog.text


# The table of contents


def asked(store: Store, m: int) -> Any:
    return lookup(Snapshot(store.snapshot), DEVICE, replace(PROBLEM, m=m), {"tiled": Tiled()})


def test_a_look_up_reads_the_row_it_needs_and_no_other(two: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    read_rows: list[int] = []
    before = Contents.row

    def row(self: Contents, where: tuple[int, int]) -> dict[str, Any]:
        read_rows.append(where[0])
        return before(self, where)

    monkeypatch.setattr(Contents, "row", row)
    assert asked(store, 1000).config == config(2)
    assert len(read_rows) == 2  # the champion and its certificate


def test_a_snapshot_with_a_table_and_one_without_answer_the_same(two: str, store: Store) -> None:
    with_table = [asked(store, m).to_json() for m in (64, 999, 1000)]
    document = json.loads(two)
    del document["table"]
    store.snapshot.write_text(json.dumps(document))
    without = [asked(store, m).to_json() for m in (64, 999, 1000)]
    for answer in (*with_table, *without):
        del answer["evidence"]["age_seconds"]
    assert with_table == without


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"config":{"ts":1}', '"config":{"ts":!}'),
        ('"time_ms":1.5', '"time_ms":-15'),
        ("number = 1;", "number = 3;"),
        ('"m":64', '"m":65'),
    ],
)
def test_damage_that_keeps_the_length_is_found_when_the_row_is_read(
    two: str, store: Store, old: str, new: str, caplog: pytest.LogCaptureFixture
) -> None:
    first, table, body = two.split("\n", 2)
    assert old in body
    store.snapshot.write_text("\n".join((first, table, body.replace(old, new, 1))))
    assert [asked(store, m).config for m in (64, 1000)] == [config(2), config(2)]
    assert "is damaged and was ignored" in caplog.text


@pytest.mark.parametrize("damage", [lambda text: text.replace("[64,96,", "[65,96,", 1), lambda text: text + " "])
def test_a_table_that_cannot_be_believed_is_not(two: str, store: Store, damage: Any) -> None:
    store.snapshot.write_text(damage(two))
    assert open_contents(store.snapshot, FORMAT) is None
    assert [asked(store, m).config for m in (64, 1000)] == [config(1), config(2)]


def test_an_open_snapshot_is_read_to_the_end_though_a_newer_one_has_replaced_it(two: str, store: Store) -> None:
    contents = open_contents(store.snapshot, FORMAT)
    assert contents is not None
    promote(store, 3)
    (group,) = contents.groups
    assert [contents.row(row)["config"] for _, _, row, _ in group.champions] == [{"ts": 1}, {"ts": 2}]
