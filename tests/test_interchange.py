"""Export and import: everything comes back, nothing of another machine's wins, and no file does harm."""

from __future__ import annotations

import contextlib
import io
import json
import math
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import fakes
from tests.fakes import FakeBench, config_of, small_family, tuned
from tests.journal_conformance import baseline, miss
from tests.store_conformance import KEY, NEWER, PROBLEM, SILICON, config, hash_of, promote, record, rendered
from tuner.cli.app import run
from tuner.family import load_families
from tuner.interchange import Imported, clblast, load, parse, write_header, write_lines, write_seeds, write_t4
from tuner.interchange.header import HEADER, header
from tuner.interchange.reading import MAX_LINE_BYTES, File
from tuner.lookup import Snapshot, lookup
from tuner.lookup.seeds import read_seeds
from tuner.model import (
    Champion,
    CompilerInfo,
    Config,
    Device,
    Facts,
    Measurement,
    Problem,
    Rendered,
    Silicon,
    Software,
    UserError,
    Verdict,
)
from tuner.search.portfolio import known_good
from tuner.store import Store, open_store, valid

DATA = Path(__file__).parent / "data"
Opened = Callable[[str], Store]


def anything(*_: object) -> bool:
    return True


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """An empty database and a full one: copying them is faster than making them."""
    folder = tmp_path_factory.mktemp("made")
    with open_store(str(folder / "empty.db"), upgrade=True):
        pass
    with open_store(str(folder / "full.db"), upgrade=True) as store:
        fill(store)
    return {path.stem: path.read_bytes() for path in folder.glob("*.db")}


@pytest.fixture
def opened(tmp_path: Path, made: dict[str, bytes]) -> Iterator[Opened]:
    """Stores by name: the one called `full` has something of everything."""
    stores: list[Store] = []

    def open_one(name: str) -> Store:
        path = tmp_path / f"{name}.db"
        if not path.exists():
            path.write_bytes(made["full" if name == "full" else "empty"])
        stores.append(open_store(str(path), upgrade=True))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


@pytest.fixture
def full(opened: Opened) -> Store:
    return opened("full")


def fill(store: Store) -> None:
    """Something of everything."""
    store.start_run(*KEY, {"seed": 1})
    compiler = CompilerInfo(registers=128, spill_bytes=0, local_bytes=49152)
    store.add(record(1, compile_ms=12.5, error_ratio=0.1, verify_ms=7.0, compiler=compiler))
    for number, verdict in enumerate(Verdict, 2):
        store.add(record(number, verdict, message='why "so"\n', compiler=CompilerInfo(log="line 7: warning é 🙂")))
    store.add(record(40, Verdict.WRONG_RESULT, error_ratio=math.inf))
    second = store.start_run(SILICON, NEWER, PROBLEM, {})
    store.add(replace(record(1, run=second), software=NEWER))
    store.add_baseline(baseline(run=store.start_run(*KEY, {})))
    promote(store, 1)
    store.certify(*KEY, config(5), hash_of(5), ["odd sizes", "fresh build"])
    store.add_misses([miss(3), miss(2, replace(PROBLEM, m=7))])


def exported(store: Store) -> list[dict[str, Any]]:
    out = io.StringIO()
    write_lines(store, out, anything)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def written(folder: Path, rows: list[Any]) -> File:
    path = folder / "export.jsonl"
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), "utf-8")
    return File(path, "the export")


def taken(store: Store, folder: Path, rows: list[Any]) -> Imported:
    return load(written(folder, rows), store)


# JSON lines


def test_the_round_trip_is_equal(full: Store, opened: Opened, tmp_path: Path) -> None:
    there = opened("there")
    found = taken(there, tmp_path, exported(full))
    ours, theirs = list(full.records()), list(there.records())
    assert [replace(one, imported_from=None) for one in theirs] == ours
    assert {one.imported_from for one in theirs} == {found.origin}
    assert there.misses() == full.misses()
    without = [{k: v for k, v in row.items() if k != "imported_from"} for row in exported(there)[1:]]
    assert sorted(map(json.dumps, without)) == sorted(map(json.dumps, exported(full)[1:]))
    assert vars(found.added) == {
        "trials": len(ours),
        "champions": 1,
        "certificates": 2,
        "portfolio_entries": 0,
        "misses": 2,
    }
    assert there.check() == []


def test_the_third_machine_knows_where_it_came_from_first(full: Store, opened: Opened, tmp_path: Path) -> None:
    rows = exported(full)
    taken(opened("there"), tmp_path, [{**rows[0], "from": "first"}, *rows[1:]])
    taken(third := opened("third"), tmp_path, exported(opened("there")))
    assert {one.imported_from for one in third.records()} == {"first"}
    assert {one.imported_from for one in third.nominees()} == {"first"}


@pytest.mark.parametrize("name", ["full", "there"])
def test_the_same_file_again_adds_nothing(full: Store, opened: Opened, tmp_path: Path, name: str) -> None:
    store = opened(name)
    taken(store, tmp_path, exported(full))
    before = exported(store)[1:]
    assert set(vars(taken(store, tmp_path, exported(full)).added).values()) == {0}
    assert exported(store)[1:] == before


def test_an_export_that_grew_adds_what_is_new_to_the_same_run(full: Store, opened: Opened, tmp_path: Path) -> None:
    there = opened("there")
    taken(there, tmp_path, exported(full))
    full.add(replace(record(50), when="2026-11-30T01:00:00.000000+00:00"))
    full.add_misses([miss(2)])
    added = taken(there, tmp_path, exported(full)).added
    assert (added.trials, added.misses, there.misses()[0].count) == (1, 1, 5)
    assert there.stats()["tables"]["run"] == full.stats()["tables"]["run"]


def test_a_new_field_is_kept(full: Store, opened: Opened, tmp_path: Path) -> None:
    """Field case 54: an import must not fail because a set of fields has grown."""
    there = opened("there")
    rows = [{**row, "watts": [1.5, None, {"é": 2}]} if 0 < i < 99 else row for i, row in enumerate(exported(full))]
    taken(there, tmp_path, rows)
    kept = [row["watts"] for row in exported(there) if row["kind"] in ("trial", "champion", "certificate")]
    assert kept == [[1.5, None, {"é": 2}]] * (len(list(full.records())) + 3)
    assert there.history(*KEY, imported=True)[0].extra == '{"watts":[1.5,null,{"é":2}]}'


def test_a_new_kind_of_line_is_left_out_and_said(full: Store, opened: Opened, tmp_path: Path) -> None:
    rows = exported(full)
    rows = [*rows[:-1], {"kind": "weather", "wind": 3}, {"kind": "end", "lines": rows[-1]["lines"] + 1}]
    found = taken(opened("there"), tmp_path, rows)
    assert dict(found.left_out) == {"line of kind 'weather'": 1}


def test_only_the_devices_asked_for_are_exported(full: Store) -> None:
    out = io.StringIO()
    write_lines(full, out, lambda silicon, software: software == NEWER)
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [row["kind"] for row in rows] == ["gemm-tuner", "trial", "end"]


# Another machine's smaller time


@pytest.fixture
def faster(opened: Opened, tmp_path: Path) -> list[dict[str, Any]]:
    """What a machine with our very keys, but ten times faster, has to say of another configuration."""
    there = opened("faster")
    there.start_run(*KEY, {})
    fast = Measurement(Verdict.CORRECT, (0.1, 0.1, 0.1))
    there.add(replace(record(90), measurement=fast))
    there.certify(*KEY, config(90), hash_of(90), ["odd sizes"])
    there.promote(*KEY, config(90), rendered(90), reason="won", time_ms=0.1, noise=0.01)
    return exported(there)


def test_another_machines_smaller_time_never_wins(full: Store, faster: list[dict[str, Any]], tmp_path: Path) -> None:
    """Field case 1: parameters of another machine with the same device were merged, and were wrong there."""

    def said() -> tuple[object, ...]:
        published = full.snapshot.read_bytes(), full.champions(), full.log()
        return full.history(*KEY), full.fastest(*KEY, 3), full.certificate(*KEY, hash_of(90)), published

    before = said()
    assert taken(full, tmp_path, faster).added.trials == 1
    assert said() == before
    full.publish()
    assert said() == before
    assert [one.measurement.time_ms for one in full.history(*KEY, imported=True) if one.imported_from] == [0.1]


def test_an_imported_champion_is_a_nominee_until_it_was_tried_here(
    full: Store, faster: list[dict[str, Any]], tmp_path: Path
) -> None:
    taken(full, tmp_path, faster)
    (nominee,) = full.nominees(SILICON)
    assert (nominee.champion.config, nominee.champion.rendered, nominee.pending) == (config(90), rendered(90), True)
    assert (full.nominees(replace(SILICON, compute_units=1)), len(full.nominees())) == ([], 1)
    full.add(replace(record(90), source_hash="of a newer family", when="2026-11-30T02:00:00+00:00"))
    assert [one.pending for one in full.nominees()] == [False]


def test_an_imported_champion_is_never_executed_before_it_is_certified_here(opened: Opened, tmp_path: Path) -> None:
    """Field case 1: right with its own driver, but with ours one tile of its result is wrong."""
    families = {"grid": small_family(tmp_path)}
    theirs = Config.of("grid", x=7, y=7)
    key = (fakes.SILICON, replace(fakes.SOFTWARE, driver="0.9"), fakes.PROBLEM)
    with open_store(str(tmp_path / "their.db"), upgrade=True) as there:
        source = families["grid"].render(theirs, fakes.PROBLEM, fakes.DEVICE)
        there.certify(*key, theirs, source.source_hash, ["odd sizes"])
        there.promote(*key, theirs, source, reason="won", time_ms=1e-6, noise=0.01)
        rows = exported(there)
    here = opened("here")
    taken(here, tmp_path, rows)
    here.publish()
    assert "grid" not in here.snapshot.read_text()
    assert lookup(Snapshot(here.snapshot), fakes.DEVICE, fakes.PROBLEM, families).origin == "default"
    bench = FakeBench(verdict_of=lambda config: Verdict.WRONG_RESULT if config == theirs else Verdict.CORRECT)
    outcome = tuned(bench, here, families, evaluations=20)
    assert bench.measured[0] == theirs
    assert (outcome.promotion.promoted, here.champions()[0].config == theirs) == (True, False)
    assert theirs not in {config_of(case.rendered) for case in bench.checked}


# Malformed and hostile files


def cut(rows: list[Any]) -> list[Any]:
    return rows[:-1]


def changed(line: int, **fields: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda rows: [{**row, **fields} if number == line else row for number, row in enumerate(rows, 1)]


def raw(line: int, text: str) -> Callable[[list[Any]], list[Any]]:
    return lambda rows: [text if number == line else row for number, row in enumerate(rows, 1)]


def planted(line: int, **parts: Any) -> Callable[[list[Any]], list[Any]]:
    """Something else under a hash that is known."""
    return lambda rows: [
        {**row, "rendered": {**row["rendered"], **parts}} if number == line else row
        for number, row in enumerate(rows, 1)
    ]


def lacking(line: int, name: str) -> Callable[[list[Any]], list[Any]]:
    return lambda rows: [
        {k: v for k, v in row.items() if k != name} if number == line else row for number, row in enumerate(rows, 1)
    ]


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (cut, "line 20: the end is missing, so the file was cut short"),
        (lambda rows: [rows[0], *rows[2:]], "line 20: it counts 19 lines, but there are 18"),
        (lambda rows: [*rows, rows[1]], "line 22: it stands after the end"),
        (lambda rows: rows[1:], "line 1: it is no heading"),
        (changed(1, format=2), "line 1: a newer gemm-tuner wrote it; upgrade"),
        (changed(1, format="1"), "line 1: '1' is no format"),
        (lacking(1, "from"), "line 1: where it came from is None, no text"),
        (raw(3, '{"kind": "trial"'), "line 3: it is no JSON"),
        (raw(3, "[]"), "line 3: it is no JSON object"),
        (lacking(2, "verdict"), "line 2: it has no 'verdict'"),
        (lacking(2, "kind"), "line 2: its kind is None, no text"),
        (changed(2, verdict="fast"), "line 2: 'fast' is not a valid Verdict"),
        (changed(2, samples_ms=[]), "line 2: a correct measurement has samples"),
        (changed(2, samples_ms=[1.0, -1.0]), "line 2: -1.0 is no time"),
        (changed(2, samples_ms=[0]), "line 2: 0 is no time"),
        (changed(2, samples_ms=["1"]), "line 2: '1' is no time"),
        (changed(2, samples_ms=[1.0] * 100_001), "line 2: it has 100001 samples"),
        (changed(2, run=2**31), "line 2: the run is 2147483648, too large"),
        (changed(2, registers=True), "line 2: registers is True, no whole number"),
        (changed(2, config={"ts": 1.5}), "line 2: .* is no configuration"),
        (changed(2, config={"ts": True}), "line 2: .* is no configuration"),
        (changed(2, source_hash="h" * 65), "line 2: source_hash is longer than 64"),
        (changed(2, when="yesterday"), "line 2: 'yesterday' is no date"),
        (changed(2, problem={"m": 1}), "line 2: .* is no problem"),
        (changed(2, problem={**vars(PROBLEM), "m": 0}), "line 2: m is 0, no whole number from 1"),
        (changed(2, problem={**vars(PROBLEM), "m": 2**31}), "line 2: m = 2147483648 is too large"),
        (changed(2, problem={**vars(PROBLEM), "dtype": "float8"}), "line 2: unknown dtype 'float8'"),
        (changed(2, silicon={**vars(SILICON), "kind": "g" * 17}), "line 2: the kind of device is longer than 16"),
        (changed(16, rendered={}), "line 16: it has no 'source'"),
        (changed(16, source_hash="other"), "line 16: its source has another source_hash"),
        (
            planted(16, source="__kernel void gemm() { evil(); }"),
            "line 16: its source, options or launches do not give",
        ),
        (planted(16, build_options="-cl-fast-relaxed-math"), "line 16: its source, options or launches do not give"),
        (planted(16, scratch=[["packed", 65]]), "line 16: its source, options or launches do not give"),
        (changed(16, time_ms=1e-320), "line 16: .* is no time for"),
        (changed(16, certificate=[]), "line 16: "),
        (changed(17, checks="all"), "line 17: the list of checks is 'all', no list"),
        (changed(19, count=0), "line 19: the count is 0, no whole number from 1"),
        (changed(19, count=10**12), "line 19: the count is 1000000000000, too large"),
        (raw(2, '{"kind": "trial", "x": NaN}'), "line 2: NaN is no number"),
        (raw(2, '{"kind": "trial", "x": -Infinity}'), "line 2: -Infinity is no number"),
        (raw(2, '{"kind": "trial", "x": 1e999}'), "line 2: 1e999 is too large a number"),
        (raw(2, '{"kind": "trial", "x": ' + "9" * 5000 + "}"), "line 2: 9+... is too large a number"),
        (raw(2, '{"x": ' + "[" * 200_000 + "]" * 200_000 + "}"), "line 2: it is nested too deeply"),
        (raw(2, '{"kind": "trial", "x": "\\u0000"}'), "line 2: .* characters that cannot be stored"),
        (raw(2, '{"kind": "trial", "x": {"\\ud800": 1}}'), "line 2: .* characters that cannot be stored"),
        (raw(2, '{"kind": "trial"} \0'), "line 2: it is no JSON"),
    ],
)
def test_a_malformed_file_is_refused_with_its_line_and_nothing_is_imported(
    full: Store, opened: Opened, tmp_path: Path, harm: Callable[[list[Any]], list[Any]], said: str
) -> None:
    there = opened("there")
    rows = exported(full)
    assert [row["kind"] for row in rows[15:]] == ["champion", "certificate", "certificate", "miss", "miss", "end"]
    with pytest.raises(UserError, match=said) as caught:
        taken(there, tmp_path, harm(rows))
    message = str(caught.value)
    assert (message.count("\n"), len(message) < 400, "Nothing was imported" in message) == (0, True, True)
    assert set(there.stats()["tables"].values()) == {0}


def test_bytes_that_are_no_text_are_refused(full: Store, opened: Opened, tmp_path: Path) -> None:
    file = written(tmp_path, exported(full))
    file.path.write_bytes(file.path.read_bytes().replace(b"won 1", b"won \xff"))
    with pytest.raises(UserError, match="the export, line 16: it is no UTF-8"):
        load(file, opened("there"))


def test_an_empty_file_and_a_missing_one_are_refused(opened: Opened, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the export is empty"):
        load(written(tmp_path, []), opened("there"))
    with pytest.raises(UserError, match="cannot be read: No such file"):
        load(File(tmp_path / "none", "none"), opened("there"))


def test_a_line_without_end_is_not_read_whole(full: Store, opened: Opened, tmp_path: Path) -> None:
    """A gigabyte of zeros, which takes no room on the disk."""
    file = written(tmp_path, exported(full)[:3])
    with file.path.open("r+b") as stream:
        stream.truncate(2**30)
    with pytest.raises(UserError, match=f"line 4: it is longer than {MAX_LINE_BYTES // 2**20} MiB"):
        load(file, opened("there"))


def test_a_file_that_changes_meanwhile_leaves_nothing(
    full: Store, opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, file = opened("there"), written(tmp_path, exported(full))
    take_in = Store.take_in

    def cut_short(store: Store, read: Any) -> Any:
        file.path.write_text("".join(file.path.read_text().splitlines(keepends=True)[:9]))
        return take_in(store, read)

    monkeypatch.setattr(Store, "take_in", cut_short)
    with pytest.raises(UserError, match="cut short"):
        load(file, there)
    assert set(there.stats()["tables"].values()) == {0}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_value_in_any_field_does_more_than_be_refused(data: st.DataObject) -> None:
    row: dict[str, Any] = data.draw(st.sampled_from(_examples()))
    name = data.draw(st.sampled_from(sorted(row)))
    with contextlib.suppress(*valid.UNREADABLE):
        parse.item({**row, name: data.draw(JSON)}, "elsewhere")


def _examples() -> list[dict[str, Any]]:
    from tuner.interchange.lines import champion_row, trial_row

    champion = Champion(*KEY, config(1), rendered(1), 1.5, 0.01, None, "won", "2026-11-29T22:00:00+00:00")
    missed = {"silicon": vars(SILICON), "software": vars(NEWER), "problem": vars(PROBLEM), "origin": "seed"}
    return [
        trial_row(record(1)),
        {"kind": "champion", **champion_row(champion)},
        {"kind": "miss", **missed, "count": 1, "first": "2026-11-29", "last": "2026-11-29"},
    ]


# T4


def test_t4_is_what_the_schema_asks_for(full: Store) -> None:
    out = io.StringIO()
    count = write_t4(full, out, anything)
    document = json.loads(out.getvalue())
    schema = json.loads((DATA / "t4" / "results-schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    assert (count, len(document["results"])) == (15 - 1, 15 - 1)


def test_t4_of_an_empty_store_is_valid_too(opened: Opened) -> None:
    out = io.StringIO()
    assert write_t4(opened("empty"), out, anything) == 0
    assert json.loads(out.getvalue())["results"] == []


def test_t4_says_what_was_measured(full: Store) -> None:
    out = io.StringIO()
    write_t4(full, out, anything)
    first, second, *_ = json.loads(out.getvalue())["results"]
    assert first["configuration"] == {"family": "tiled", "ts": 1}
    assert (first["times"]["runtimes"], first["times"]["compilation_time"]) == ([2.0, 3.0, 2.5], 12.5)
    assert first["measurements"][0] == {"name": "time", "value": 2.5, "unit": "ms"}
    found = {result["invalidity"] for result in json.loads(out.getvalue())["results"]}
    assert found == {"correct", "constraints", "compile", "timeout", "runtime", "correctness"}
    assert (first["correctness"], second["problem"]) == (1, vars(PROBLEM))


# A C header

PROGRAM = """
#include <stdio.h>
#include "gemm_tuner_kernels.h"
int main(void) {
    for (unsigned int i = 0; i < gemm_tuner_champion_count; i++) {
        const gemm_tuner_champion *c = &gemm_tuner_champions[i];
        printf("%s|%s|%s|%u %u %u|%.17g|%s|%s|%s", c->vendor, c->device, c->driver, c->m, c->n, c->k, c->time_ms,
               c->source_file, c->build_options, c->configuration);
        for (unsigned int s = 0; s < c->step_count; s++) {
            const gemm_tuner_step *step = &c->steps[s];
            printf("|%s %zu %zu %u", step->kernel, step->global_size[0], step->local_size[1], step->dimensions);
            for (unsigned int b = 0; b < step->scratch_count; b++)
                printf(" %s=%zu", c->scratch[step->scratch[b]].name, c->scratch[step->scratch[b]].bytes);
        }
        puts("");
    }
    return 0;
}
"""
COMPILER = shutil.which("cc")
needs_a_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler is installed (apt-get install gcc)")


def compiled_and_run(folder: Path) -> str:
    (folder / "program.c").write_text(PROGRAM)
    strict = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-trigraphs")
    subprocess.run([str(COMPILER), *strict, "program.c", "-o", "program"], cwd=folder, check=True)
    return subprocess.run([folder / "program"], check=True, capture_output=True).stdout.decode()


@needs_a_compiler
def test_the_header_compiles_and_says_what_the_champions_are(full: Store, tmp_path: Path) -> None:
    full.promote(SILICON, NEWER, PROBLEM, config(3), rendered(3), reason="won", time_ms=None, noise=None)
    folder = tmp_path / "out"
    assert write_header(full, folder, anything) == (1, 1)
    about, build, launch = "NVIDIA|NVIDIA H200|580.159.04|64 96 128|1.5", "-cl-mad-enable", "gemm 96 8 3 packed=64"
    said = f"{about}|tiled-f9db7af5aa72.cl|{build}|tiled ts=1|{launch}"
    assert compiled_and_run(folder).splitlines() == [said]
    assert (folder / "tiled-f9db7af5aa72.cl").read_text() == rendered(1).source


@needs_a_compiler
def test_the_header_of_nothing_compiles(opened: Opened, tmp_path: Path) -> None:
    assert write_header(opened("empty"), tmp_path / "out", anything) == (0, 0)
    assert compiled_and_run(tmp_path / "out") == ""


@needs_a_compiler
def test_no_name_gets_out_of_its_string(tmp_path: Path) -> None:
    odd = 'a"; system("x"); //\\ */ ??/ \t\\ é 🙂 %s'
    silicon, software = Silicon(odd, odd, "gpu", 1, 1), Software(odd, odd, odd, odd)
    options = Rendered("source", odd, rendered(1).steps, rendered(1).scratch, hash_of(1))
    champion = Champion(silicon, software, PROBLEM, Config.of(odd, {"a": odd}), options, 1.0, None, None, "", "")
    (tmp_path / HEADER).write_text(header([champion]), "ascii")
    said = compiled_and_run(tmp_path).split("|")
    assert (said[:3], said[6], said[7]) == ([odd] * 3, odd, f"{odd} a={odd}")


# Seeds


def test_seeds_are_what_a_look_up_reads(full: Store, tmp_path: Path) -> None:
    with (tmp_path / "ours.jsonl").open("w") as file:
        assert write_seeds(full, file, anything) == 1
    (entry,) = read_seeds(tmp_path)
    assert (entry.key, entry.champion.config, entry.champion.time_ms) == (KEY, config(1), 1.5)


# CLBlast


def clblast_result(time: float = 1.5, **parameters: int) -> dict[str, Any]:
    """One result of CLBlast's tuner for its kernel of matrix products."""
    usual = {"GEMMK": 0, "KREG": 1, "KWG": 16, "KWI": 8, "MDIMA": 16, "MDIMC": 16, "MWG": 128, "NDIMB": 8, "NDIMC": 8}
    usual |= {"NWG": 64, "PRECISION": 32, "SA": 1, "SB": 1, "STRM": 0, "STRN": 0, "VWM": 4, "VWN": 2}
    return {"kernel": "Xgemm", "time": time, "parameters": {**usual, **parameters}}


def clblast_file(folder: Path, *results: dict[str, Any], **head: Any) -> File:
    """What CLBlast's tuner writes: its heading's values are all texts."""
    document = {
        "kernel_family": "xgemm_1",
        **{"precision": "32", "best_kernel": "Xgemm", "best_time": "1.5", "best_parameters": "KWG=16"},
        **{"arg_m": "1024", "arg_n": "512", "arg_k": "256", "arg_alpha": "2.00", "arg_beta": "2.00"},
        **{"clblast_device_type": "GPU", "clblast_device_vendor": "NVIDIA", "clblast_device_architecture": "SM9.0"},
        **{"clblast_device_name": "H200", "device": "NVIDIA H200", "platform_vendor": "NVIDIA Corporation"},
        **{"platform_version": "OpenCL 3.0 CUDA 12.4", "device_vendor": "NVIDIA Corporation", "device_type": "GPU"},
        **{"device_core_clock": "1980", "device_compute_units": "132", "device_extra_info": ""},
        "results": list(results),
        **head,
    }
    path = folder / "clblast_xgemm_1_32.json"
    path.write_text(json.dumps(document, indent=2))
    return File(path, path.name)


def test_clblasts_result_is_a_portfolio_entry_in_our_axes(opened: Opened, tmp_path: Path) -> None:
    store = opened("store")
    found = load(clblast_file(tmp_path, clblast_result()), store)
    assert (found.added.portfolio_entries, found.origin) == (1, "CLBlast on NVIDIA H200")
    (nominee,) = store.nominees()
    values = nominee.champion.config.as_dict()
    assert nominee.champion.config.family == "register_tiled"
    sizes = {"tsm": 64, "tsn": 128, "tsk": 16, "wptm": 8, "wptn": 8, "vw": 2, "chunk": 4, "unroll": 8, "stages": 1}
    assert {name: values[name] for name in sizes} == sizes
    assert (nominee.champion.problem, nominee.pending) == (Problem(512, 1024, 256), False)
    assert (nominee.champion.silicon.vendor, nominee.champion.silicon.kind) == ("NVIDIA", "gpu")
    assert (store.champions(), store.history(), store.check()) == ([], [], [])


def test_a_search_on_a_similar_device_tries_it_early(opened: Opened, tmp_path: Path) -> None:
    store = opened("store")
    load(clblast_file(tmp_path, clblast_result()), store)
    facts = Facts(local_mem_bytes=49152, max_group_size=1024, max_item_sizes=(1024, 1024, 64))
    device = Device(Silicon("NVIDIA", "NVIDIA A100", "gpu", 108, 40), NEWER, "GPU-1", facts)
    families = load_families()
    first = known_good((one.champion for one in store.nominees()), families, Problem(512, 1024, 256), device)[0]
    assert first == store.nominees()[0].champion.config


def test_only_the_best_that_have_a_counterpart_come(opened: Opened, tmp_path: Path) -> None:
    results = [clblast_result(time, KWG=kwg, KWI=kwi) for time, kwg, kwi in _twelve()]
    others = [clblast_result(0.1, GEMMK=1), clblast_result(0.1, SA=0), clblast_result(0.1, MWG=48)]
    store = opened("store")
    found = load(clblast_file(tmp_path, *results, *others, clblast_result(0.0)), store)
    assert found.added.portfolio_entries == clblast.MOST
    assert [one.champion.time_ms for one in store.nominees()] == sorted(time for time, *_ in _twelve())[: clblast.MOST]
    assert dict(found.left_out) == {
        "configuration of another kernel": 1,
        "configuration that reads from global memory only": 1,
        "configuration of a size that our axes do not have": 1,
        "configuration without a time": 1,
        "configuration slower than the best 8": 1,
    }
    assert load(clblast_file(tmp_path, *results), store).added.portfolio_entries == 0


def _twelve() -> list[tuple[float, int, int]]:
    sizes = [(kwg, kwi) for kwg in (4, 8, 16, 32) for kwi in (1, 4, 8, 16) if kwi <= kwg]
    return [(1.0 + number / 10, kwg, kwi) for number, (kwg, kwi) in enumerate(sizes)][:9]


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ({"kernel_family": "xgemm_direct_1"}, "only those of xgemm have a counterpart"),
        ({"kernel_family": "xdot_1"}, "only those of xgemm have a counterpart"),
        ({"precision": "3232"}, "complex numbers have no counterpart"),
        ({"arg_m": "many"}, "invalid literal"),
        ({"arg_m": "0"}, "arg_m is 0"),
        ({"results": {}}, "results is {}, no list"),
        ({"results": [{"kernel": "Xgemm"}]}, "it has no 'time'"),
        ({"results": [{"time": 1.0, "parameters": []}]}, "no attribute"),
        ({"results": [clblast_result(MWG=-1)]}, "MWG is -1"),
        ({"device_compute_units": "1" * 30}, "too large"),
    ],
)
def test_what_is_no_such_result_is_refused(opened: Opened, tmp_path: Path, head: dict[str, Any], said: str) -> None:
    store = opened("store")
    with pytest.raises(UserError, match=f"clblast_xgemm_1_32.json is no result of CLBlast's tuners: .*{said}"):
        load(clblast_file(tmp_path, **head), store)
    assert set(store.stats()["tables"].values()) == {0}


@pytest.mark.parametrize(
    "text", ['{"kernel_family": NaN}', '{"kernel_family": "xgemm_1", "results": [', '{"kernel_family": ']
)
def test_a_damaged_result_is_refused(opened: Opened, tmp_path: Path, text: str) -> None:
    path = tmp_path / "clblast_xgemm_1_32.json"
    path.write_text(text)
    with pytest.raises(UserError, match="is no result of CLBlast's tuners"):
        load(File(path, path.name), opened("store"))


# The commands


@pytest.fixture
def cli(tmp_path: Path, full: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command on the full store, or on the one that it names."""
    monkeypatch.setenv("GEMM_TUNER_DB", str(tmp_path / "full.db"))

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        status = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return status, out, " ".join(err.split())

    return call


def test_export_writes_to_standard_output_or_to_a_file(cli: Any, tmp_path: Path) -> None:
    lines = cli("export")[1].splitlines()
    assert cli("export", "--out", tmp_path / "out.jsonl") == (0, f"{tmp_path}/out.jsonl: {len(lines) - 2} lines.\n", "")
    assert (tmp_path / "out.jsonl").read_text().splitlines()[1:] == lines[1:]
    assert [path.name for path in tmp_path.glob(".*unfinished")] == []


def test_export_says_what_it_did_in_json(cli: Any, tmp_path: Path) -> None:
    status, out, _ = cli("export", "--format", "header", "--out", tmp_path / "kernels", "--json")
    said = {"out": str(tmp_path / "kernels"), "format": "header", "written": 1, "left_out": 0}
    assert (status, json.loads(out)) == (0, said)


def test_export_of_one_device(cli: Any) -> None:
    assert len(json.loads(cli("export", "--format", "t4", "--device", NEWER.driver)[1])["results"]) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--format", "xml"], "unknown format 'xml'; use one of: lines, t4, seeds, header."),
        (["--format", "header"], "--format header needs --out."),
        (["--json"], "--json needs --out."),
        (["--out", "/nowhere/at/all"], "/nowhere/at/all cannot be written: No such file or directory."),
        (["--format", "header", "--out", "/dev/null/x"], "/dev/null/x cannot be written: Not a directory."),
    ],
)
def test_export_says_what_is_wrong(cli: Any, arguments: list[str], said: str) -> None:
    status, out, error = cli("export", *arguments)
    assert (status in (1, 2), out, error) == (True, "", f"gemm-tuner: {said}")


def test_import_says_what_came_and_what_has_to_happen(cli: Any, tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    cli("export", "--out", file)
    status, out, _ = cli("import", file, "--db", tmp_path / "there.db")
    assert status == 0
    assert "14 trials, 1 champion, 2 certificates, 2 misses." in out
    assert "none of them is raced against or published here" in out
    assert "Imported champions to be certified and raced on their devices: 1." in out
    added = json.loads(cli("import", file, "--db", tmp_path / "there.db", "--json")[1])
    assert (added["trials"], added["pending"], added["left_out"]) == (0, 1, {})


def test_import_reads_a_pipe(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("export", "--out", tmp_path / "out.jsonl")
    with (tmp_path / "out.jsonl").open() as pipe:
        monkeypatch.setattr("sys.stdin", pipe)
        assert "14 trials" in cli("import", "-", "--db", tmp_path / "there.db")[1]
    with (tmp_path / "there.db").open(errors="replace") as pipe:
        monkeypatch.setattr("sys.stdin", pipe)
        assert "gemm-tuner: standard input, line 1: it is no" in cli("import", "-", "--db", tmp_path / "there.db")[2]


@pytest.mark.parametrize(("name", "said"), [("none.jsonl", "does not exist."), (".", "is a folder; give a file.")])
def test_import_says_what_is_wrong(cli: Any, tmp_path: Path, name: str, said: str) -> None:
    status, _, error = cli("import", tmp_path / name)
    assert (status, error) == (2, f"gemm-tuner: {tmp_path / name} {said}")
