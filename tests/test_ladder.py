"""The ladder: its rungs, its sizes, column-major products, who is timed and who is not, and what it writes."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import DEVICE, FakeBench, small_family
from tuner.baselines import LibraryFailed
from tuner.bench import Bench, DeviceReport
from tuner.cli import wiring
from tuner.cli.app import run
from tuner.family import Family, load_families
from tuner.ladder import (
    Climb,
    Level,
    Rung,
    Settings,
    Taken,
    chosen,
    column_major,
    fit,
    html,
    ladder_json,
    markdown,
    parse_sizes,
    read_rungs,
    reference,
    speed_svg,
    time_svg,
)
from tuner.lookup import Answer, Origin
from tuner.model import Config, Device, Facts, Measurement, Problem, UserError, Verdict

ROOT = Path(__file__).parents[1]
RUNGS = read_rungs()
FAMILIES = load_families()
LARGE = replace(DEVICE, facts=replace(DEVICE.facts, max_item_sizes=(1024, 1024, 64)))
CUBE = Problem(512, 512, 512)
SMALLEST = replace(DEVICE, facts=Facts(local_mem_bytes=4096, max_group_size=16, max_item_sizes=(16, 16, 16)))


def configuration(name: str, problem: Problem = CUBE, device: Device = LARGE) -> Config:
    (rung,) = chosen(RUNGS, [name])
    found = fit(rung, RUNGS, FAMILIES, problem, device)
    assert isinstance(found, Config), found
    return found


# Rungs


def test_every_rung_says_what_it_adds_to_one_below() -> None:
    below: list[str] = []
    for rung in RUNGS:
        assert rung.adds and (rung.builds_on in below or not below), rung
        below.append(rung.name)
    assert below[0] == "naive" and below[-1] == "champion"


def test_rungs_are_what_their_names_say() -> None:
    expected: dict[str, dict[str, Any]] = {
        "naive": {"lanes": "m", "group_m": 32, "group_n": 32},
        "coalesced": {"lanes": "n", "group_m": 32, "group_n": 32},
        "tiles-16": {"ts": 16},
        "tiles-32": {"ts": 32},
        "work-1d": {"tsm": 64, "tsn": 64, "tsk": 8, "wptm": 8, "wptn": 1, "vw": 1},
        "work-2d": {"tsm": 128, "tsn": 128, "tsk": 8, "wptm": 8, "wptn": 8, "fragments": 0},
        "fragments": {"tsm": 128, "wptm": 8, "wptn": 8, "fragments": 1, "vw": 1, "turn_a": 0, "stages": 1},
        "vectors": {"vw": 4, "turn_a": 1, "stages": 1},
        "double-buffering": {"vw": 4, "turn_a": 1, "stages": 2, "ahead": 1},
        "rectangular": {"tsk": 16, "pre_a": 1, "pad_a": 2, "turn_a": 0, "stages": 1},
    }
    for name, values in expected.items():
        found = configuration(name).as_dict()
        assert found.items() >= values.items(), name


def test_rungs_fit_themselves_to_a_small_device() -> None:
    for name in ("naive", "coalesced", "work-1d", "work-2d", "fragments"):
        configuration(name, Problem(33, 31, 29), SMALLEST)


def test_a_rung_that_fits_nowhere_says_which_rule_it_breaks() -> None:
    (rung,) = chosen(RUNGS, ["rectangular"])
    nowhere = replace(LARGE, facts=replace(LARGE.facts, local_mem_bytes=1))
    assert "the last breaks: " in str(fit(rung, RUNGS, FAMILIES, Problem(64, 64, 64), nowhere))


def test_an_unknown_rung_is_refused_with_those_there_are() -> None:
    with pytest.raises(UserError, match=r"no rung 'top'; there is: naive, coalesced, "):
        chosen(RUNGS, ["top"])


# Sizes


def test_sizes_are_ranges_cubes_and_shapes_with_the_least_work_first() -> None:
    found = parse_sizes("512, 64:192:64,10x20x30,64", "float32")
    assert [(p.m, p.n, p.k) for p in found] == [(10, 20, 30), (64,) * 3, (128,) * 3, (192,) * 3, (512,) * 3]
    assert len(parse_sizes("256:6144:256", "float64")) == 24


@pytest.mark.parametrize(
    "text", ["", "abc", "0", "1:", "9:8:1", "1:2:0", "1:100000:1", "2x3", "2x0x3", "-4", "1:400,401:800"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        parse_sizes(text, "float32")


def test_alignment_is_that_of_the_matrices_as_they_lie() -> None:
    assert column_major(64, 31, 32) == Problem(31, 64, 32, align=16)
    assert parse_sizes("64x31x32", "float32", "column") == [Problem(31, 64, 32, align=16)]
    assert parse_sizes("64x31x32", "float32")[0].align == 4


COLUMNS = """
import sys
import tempfile
from pathlib import Path
from tuner.bench import choose, list_devices
from tuner.opencl import drivers

if __name__ == "__main__":
    device = choose(list_devices(), sys.argv[1])
    with tempfile.TemporaryDirectory() as vendors:
        drivers.write_icd_files(Path(vendors, "icd"))
        drivers.install(Path(vendors, "icd"))
        import numpy as np
        from tuner.family import load_families
        from tuner.ladder import column_major, fit, read_rungs
        from tuner.model import leading_dimensions
        from tuner.opencl.run import Machine

        machine, rungs, families = Machine(device), read_rungs(), load_families()
        rng = np.random.default_rng(1)
        for name, m, n, k, trans_a, trans_b in [
            ("naive", 20, 31, 17, False, True), ("tiles-16", 33, 20, 19, True, False),
            ("tiles-16", 24, 36, 20, True, True), ("rectangular", 35, 22, 40, False, False),
        ]:
            # As a caller who thinks in columns has them.
            a = np.asfortranarray(rng.integers(-9, 9, (k, m) if trans_a else (m, k)).astype("float32"))
            b = np.asfortranarray(rng.integers(-9, 9, (n, k) if trans_b else (k, n)).astype("float32"))
            c = np.asfortranarray(rng.integers(-9, 9, (m, n)).astype("float32"))
            expected = 2 * (a.T if trans_a else a) @ (b.T if trans_b else b) - 3 * c
            problem = column_major(m, n, k, trans_a=trans_a, trans_b=trans_b)
            config = fit(next(rung for rung in rungs if rung.name == name), rungs, families, problem, device)
            rendered = families[config.family].render(config, problem, device)
            program = machine.load(rendered, machine.build(rendered).binary)
            memory = [array.ravel(order="K") for array in (b, a, c)]  # the roles are exchanged, nothing is moved
            buffers = [machine.buffer(flat.nbytes, flat) for flat in memory]
            operands = [
                (buffer, np.int64(0), np.int32(ld), np.int64(0))
                for buffer, ld in zip(buffers, leading_dimensions(problem), strict=True)
            ]
            sizes = np.int32(problem.m), np.int32(problem.n), np.int32(problem.k)
            scratch = {key: machine.buffer(size) for key, size in program.scratch.items()}
            for kernel, step in program.steps:
                more = [scratch[key] for key in step.scratch]
                kernel.set_args(*sizes, np.float32(2), *operands[0], *operands[1], np.float32(-3), *operands[2], *more)
            machine.launch(program)
            machine.read(buffers[2], memory[2])
            assert np.array_equal(memory[2].reshape(c.shape, order="F"), expected), (name, config)
        print("right")
"""


def test_columns_are_an_exchange_of_roles(device: Device, tmp_path: Path) -> None:
    script = tmp_path / "columns.py"
    script.write_text(COLUMNS)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, str(script), device.address]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert found.stdout == "right\n", found.stderr


# The climb


class FakeLibrary:
    """Twice as fast as the fastest rung, unless told to fail."""

    version, how = "1", "as told"

    def __init__(self, name: str = "OpenBLAS", *, absent: str = "", wrong: bool = False) -> None:
        self.name, self.absent, self._wrong = name, absent, wrong
        self.turns = 0

    def ask_prepare(self, problem: Problem) -> None:
        pass

    def prepared(self) -> None:
        if self._wrong:
            raise LibraryFailed("its result is wrong")

    def turn(self, count: int) -> tuple[float, ...]:
        self.turns += 1
        return (0.5,) * count


def step(number: int) -> Rung:
    return Rung(
        f"x{number}", f"x is {number}", f"x{number - 1}" if number > 1 else "", "grid", ({"x": number, "y": 3},)
    )


@pytest.fixture
def grid(tmp_path: Path) -> dict[str, Family]:
    return {"grid": small_family(tmp_path)}


def nothing_stored(problem: Problem) -> Answer:
    return Answer(Config.of("grid", x=1, y=1), Origin.DEFAULT, False, None, None, dict, lambda: pytest.fail("rendered"))


def climb(
    grid: dict[str, Family],
    rungs: Sequence[Rung],
    bench: FakeBench | None = None,
    libraries: Sequence[FakeLibrary] = (),
    answer: Any = nothing_stored,
    **settings: Any,
) -> Climb:
    return Climb(
        (rungs, rungs), grid, bench or FakeBench(), libraries, answer, Settings(**settings), sleep=lambda seconds: None
    )


def test_every_rung_is_verified_and_then_timed_beside_the_library(grid: dict[str, Family]) -> None:
    library = FakeLibrary()
    level = climb(grid, [step(1), step(5)], libraries=[library], rounds=3).level(Problem(64, 64, 64))
    slow, fast = level.rungs
    assert (slow.verdict, fast.verdict) == (Verdict.CORRECT, Verdict.CORRECT)
    assert slow.time_ms == pytest.approx(1.4) and fast.time_ms == pytest.approx(1.0)
    assert len(fast.ms) == 3 and library.turns == 3
    assert level.gflops(fast) == pytest.approx(2 * 64**3 / 1e6)
    assert fast.speed_over(level.libraries[0]) == pytest.approx((0.5, 0.5, 0.5))
    assert fast.speed_over(slow) == pytest.approx((1.4, 1.4, 1.4))


@pytest.mark.parametrize("verdict", [Verdict.WRONG_RESULT, Verdict.COMPILE_FAILED, Verdict.CRASHED])
def test_a_wrong_rung_shows_its_verdict_and_no_time(grid: dict[str, Family], verdict: Verdict) -> None:
    bench = FakeBench(verdict_of=lambda config: verdict if config["x"] == 5 else Verdict.CORRECT)
    level = climb(grid, [step(1), step(5)], bench).level(Problem(64, 64, 64))
    assert [(taken.verdict, taken.time_ms is None) for taken in level.rungs] == [
        (Verdict.CORRECT, False),
        (verdict, True),
    ]
    page = markdown("A ladder", [], [step(1), step(5)], [level])
    assert f"| 64 | 1,311 | *{verdict.value}* |".replace("1,311", "0.374") in page
    assert f"- 64, x5: {verdict.value}: as told" in page


def test_a_rung_that_fails_in_its_turn_loses_its_time(grid: dict[str, Family]) -> None:
    bench = FakeBench(races=lambda config: config["x"] != 5)
    level = climb(grid, [step(1), step(5)], bench).level(Problem(64, 64, 64))
    assert [(t.verdict, bool(t.ms)) for t in level.rungs] == [(Verdict.CORRECT, True), (Verdict.CRASHED, False)]


def test_a_rung_that_would_take_too_long_is_not_run(grid: dict[str, Family]) -> None:
    bench = FakeBench()
    ladder = climb(grid, [step(1), step(5)], bench, limit_s=0.0013)  # 1.4 ms and 1.0 ms
    small, larger = ladder.level(Problem(64, 64, 64)), ladder.level(Problem(64, 64, 65))
    assert [bool(taken.ms) for taken in small.rungs] == [True, True]
    assert [bool(taken.ms) for taken in larger.rungs] == [False, True]
    assert larger.rungs[0].message.startswith("not run: one product would take about 0.0 s, the limit is 0.0013 s")
    assert larger.rungs[0].verdict is None


def test_whoever_is_slow_sits_out_the_rounds_left(grid: dict[str, Family]) -> None:
    level = climb(grid, [step(1)], rounds=4, seconds_each=0.0).level(Problem(64, 64, 64))
    assert len(level.rungs[0].ms) == 1


def test_a_library_that_is_absent_or_wrong_has_no_time(grid: dict[str, Family]) -> None:
    libraries = [FakeLibrary("cuBLAS", absent="no GPU"), FakeLibrary("MKL", wrong=True), FakeLibrary("CLBlast")]
    level = climb(grid, [step(1)], libraries=libraries).level(Problem(64, 64, 64))
    assert [(taken.message, bool(taken.ms)) for taken in level.libraries] == [
        ("no GPU", False),
        ("its result is wrong", False),
        ("", True),
    ]
    assert reference([level]) == "CLBlast"


def test_each_source_is_built_once_for_all_sizes(grid: dict[str, Family]) -> None:
    bench = FakeBench()
    ladder = climb(grid, [step(1), step(5)], bench)
    for size in (64, 128, 256):
        ladder.level(Problem(size, size, size))
    assert bench.steps.count("build") == 2


CHAMPION = Rung("champion", "what is stored", "x5")


def test_the_champion_is_what_is_stored(grid: dict[str, Family]) -> None:
    family, problem = grid["grid"], Problem(64, 64, 64)
    stored = Config.of("grid", x=5, y=3)
    rendered = family.render(stored, problem, DEVICE)
    answer = Answer(stored, Origin.EXACT, True, 1.0, 0.0, dict, lambda: rendered)
    (taken,) = climb(grid, [CHAMPION], answer=lambda problem: answer).level(problem).rungs
    assert (taken.config, taken.note) == (stored, "stored (exact)")


def test_without_one_it_is_the_fastest_default(tmp_path: Path) -> None:
    families = {name: small_family(tmp_path, name=name, x=x) for name, x in (("near", 8), ("far", 8))}
    path = tmp_path / "near.toml"
    path.write_text(path.read_text() + "\n[[default]]\nx = 5\ny = 3\n")
    families["near"] = Family(path)
    level = climb(families, [CHAMPION]).level(Problem(64, 64, 64))
    (taken,) = level.rungs
    assert taken.config == Config.of("near", x=5, y=3)
    assert taken.note == "nothing is stored; the fastest of 3 defaults"
    assert "| 64 | nothing is stored; the fastest of 3 defaults | near x=5 y=3 |" in markdown(
        "", [], [CHAMPION], [level]
    )


def test_a_default_that_fails_or_is_hopeless_is_not_tried_again(tmp_path: Path) -> None:
    families = {name: small_family(tmp_path, name=name) for name in ("good", "slow", "wrong")}
    times = {"good": 1.0, "slow": 100.0, "wrong": 1.0}
    bench = FakeBench(
        lambda config: times[config.family],
        verdict_of=lambda config: Verdict.WRONG_RESULT if config.family == "wrong" else Verdict.CORRECT,
    )
    measured: list[str] = []
    real = bench.measure

    def measure(*arguments: Any, **more: Any) -> Measurement:
        measured.append(arguments[1].source.split()[1])
        return real(*arguments, **more)

    bench.measure = measure  # type: ignore[method-assign]
    ladder = climb(families, [CHAMPION], bench)
    ladder.level(Problem(64, 64, 64))
    measured.clear()
    ladder.level(Problem(128, 128, 128))
    assert set(measured) == {"good"}


def test_where_no_default_is_right_there_is_no_champion(grid: dict[str, Family]) -> None:
    bench = FakeBench(verdict_of=lambda config: Verdict.WRONG_RESULT)
    (taken,) = climb(grid, [CHAMPION], bench).level(Problem(64, 64, 64)).rungs
    assert (taken.ms, taken.message) == ({}, "nothing is stored for it, and no default is right here")


# On devices


def test_every_rung_is_right_on_every_device(bench: Bench) -> None:
    problem = Problem.packed(130, 67, 45)
    compiles_at_launch = "Portable Computing Language" in bench.device.software.platform  # the most of the time here
    few = ("coalesced", "tiles-16", "rectangular") if compiles_at_launch else ()
    rungs = [rung for rung in chosen(RUNGS, few) if rung.family]
    level = Climb((RUNGS, rungs), FAMILIES, bench, [], nothing_stored, Settings(rounds=1)).level(problem)
    assert {taken.name: taken.verdict for taken in level.rungs} == {rung.name: Verdict.CORRECT for rung in rungs}
    assert all(taken.ms for taken in level.rungs)


# What it writes


@pytest.fixture
def levels(grid: dict[str, Family]) -> Iterator[list[Level]]:
    ladder = climb(grid, [step(1), step(5)], libraries=[FakeLibrary("a <library>"), FakeLibrary()])
    yield [ladder.level(Problem(size, size, size)) for size in (64, 128, 256)]


def test_both_pictures_show_every_rung_and_library(levels: list[Level]) -> None:
    for picture in (speed_svg("A & B", levels), time_svg("A & B", levels)):
        root = ElementTree.fromstring(picture)
        texts = [element.text for element in root.iter() if element.tag.endswith("}text")]
        assert {"A & B", "x1", "x5", "a <library>", "OpenBLAS", "64", "256"} <= set(texts)
        marks = [element for element in root.iter() if element.tag.endswith("}circle")]
        assert len(marks) == 3 * 4
        for mark in marks:
            assert 0 < float(mark.attrib["cx"]) < 960 and 0 < float(mark.attrib["cy"]) < 560


def test_faster_is_higher_in_one_picture_and_lower_in_the_other(levels: list[Level]) -> None:
    def height(picture: str, name: str) -> float:
        marks = [mark for mark in ElementTree.fromstring(picture).iter() if mark.tag.endswith("}circle")]
        return next(-float(mark.attrib["cy"]) for mark in marks if str(mark[0].text).startswith(f"{name}, 256"))

    assert height(speed_svg("", levels), "x5") > height(speed_svg("", levels), "x1")
    assert height(time_svg("", levels), "x5") < height(time_svg("", levels), "x1")


def test_a_picture_of_nothing_is_still_a_picture() -> None:
    level = Level(Problem(64, 64, 64), (Taken("naive"),), ())
    for picture in (speed_svg("", [level]), time_svg("", [level]), speed_svg("", [])):
        assert ElementTree.fromstring(picture).tag.endswith("svg")


def test_the_page_of_plotly_has_both_pictures_in_one_file(levels: list[Level]) -> None:
    pytest.importorskip("plotly")
    page = html("A & B", levels)
    assert page is not None and page.count("Plotly.newPlot(") == 2 and "A &amp; B" in page
    assert "<script src=" not in page


def test_without_plotly_there_is_no_page(levels: list[Level], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    assert html("", levels) is None


def test_json_is_complete_and_the_page_has_every_number(levels: list[Level]) -> None:
    rungs = [step(1), step(5)]
    found = ladder_json({"layout": "row"}, rungs, levels)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["library"] == "OpenBLAS" and [rung["name"] for rung in found["rungs"]] == ["x1", "x5"]
    top = found["sizes"][-1]["rungs"][1]
    assert top["of_library"]["ratio"] == pytest.approx(0.5)
    assert top["config"] == {"x": 5, "y": 3} and top["verdict"] == "correct" and len(top["rounds_ms"]) == 5
    page = markdown("T", ["about"], rungs, levels, ["ladder-speed.svg"])
    assert "| 256 | 24 | 33.6 | 67.1 | 67.1 |" in page
    assert "| 256 | 35.7 | 50.0 |" in page
    assert "![ladder-speed](ladder-speed.svg)" in page
    assert not any(math.isnan(value) for value in (top["time_ms"], top["gflops"]))


def test_the_command_writes_what_it_says(
    any_device: Device, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "list_devices", lambda: [DeviceReport(any_device, works=True)])
    out = tmp_path / "out"
    line = ["ladder", "--sizes", "32,24x40x16", "--rungs", "coalesced,naive", "--library", "OpenBLAS", "--rounds", "1"]
    assert run([*line, "--layout", "column", "--out", str(out), "--json", "--db", str(tmp_path / "a.db")]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert found == json.loads((out / "ladder.json").read_text())
    assert [(size["problem"]["m"], size["problem"]["n"]) for size in found["sizes"]] == [(40, 24), (32, 32)]
    assert [rung["name"] for rung in found["sizes"][0]["rungs"]] == ["naive", "coalesced"]
    assert said.err.startswith("[1/2] 40x24x16 float32: ")
    assert {path.name for path in out.iterdir()} >= {"ladder.json", "ladder.md", "ladder-speed.svg", "ladder-time.svg"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--layout", "diagonal"], "no layout 'diagonal'; use one of: row, column"),
        (["--rungs", "top"], "no rung 'top'"),
        (["--sizes", "large"], "'large' is no size"),
        (["--dtype", "int8"], "unknown dtype"),
    ],
)
def test_a_slip_is_told_in_a_sentence(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ladder", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_an_interrupted_ladder_keeps_what_is_written(
    any_device: Device, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "list_devices", lambda: [DeviceReport(any_device, works=True)])
    real = Climb.level
    done: list[Problem] = []

    def interrupted(self: Climb, problem: Problem) -> Level:
        if done:
            raise KeyboardInterrupt
        done.append(problem)
        return real(self, problem)

    monkeypatch.setattr(Climb, "level", interrupted)
    line = ["ladder", "--sizes", "16,32", "--rungs", "coalesced", "--library", "OpenBLAS", "--rounds", "1"]
    assert run([*line, "--out", str(tmp_path), "--db", str(tmp_path / "a.db")]) == 130
    capsys.readouterr()
    assert len(json.loads((tmp_path / "ladder.json").read_text())["sizes"]) == 1
