"""A night's file: what can be asked, and the line of whatever cannot be meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.model import Problem, UserError
from tuner.nightly.read import parse_settings, read_settings
from tuner.nightly.settings import NightSettings

ROOT = Path(__file__).parents[1]


def read(text: str) -> NightSettings:
    return parse_settings(text, "n.toml", Path("/nights"))


def test_the_example_is_read() -> None:
    found = read_settings(ROOT / "scripts" / "nightly.example.toml")
    assert len(found.problems) == 24
    assert found.names[Problem.packed(128, 384, 1536)] == "small transformer down"
    assert (found.budget.total_s, found.budget.problem_s, found.retune.older_than_s) == (1200.0, 180.0, 30 * 86400.0)


def test_nothing_but_problems_is_needed() -> None:
    found = read('[[problems]]\nshapes = ["8"]\n')
    assert found == NightSettings((Problem.packed(8, 8, 8),))


def test_shapes_ranges_and_layers() -> None:
    text = """
[[problems]]
shapes = ["64", "1001x1003x1007"]
transpose = ["nn", "tt"]
[[problems]]
m = "256:768:256"
n = [32, 64]
k = "m"
dtype = "float64"
[[problems]]
name = "block"
m = [1, 16]
layers = [{ name = "up", n = 64, k = 32 }, { name = "down", n = 32, k = 64, m = 8 }]
"""
    found = read(text)
    assert len(found.problems) == 4 + 6 + 3
    assert found.problems[1] == Problem.packed(64, 64, 64, trans_a=True, trans_b=True)
    assert Problem.packed(512, 32, 512, dtype="float64") in found.problems
    assert found.names[Problem.packed(8, 32, 64)] == "block down"


ONE = '[[problems]]\nshapes = ["8"]\n'


def test_paths_start_from_the_file() -> None:
    found = read(f'database = "tuner.db"\n{ONE}[report]\njson = "out/night.json"\nhtml = "pages"\n')
    assert found.outputs.json == Path("/nights/out/night.json")
    assert found.outputs.html == Path("/nights/pages")
    assert found.database == "/nights/tuner.db"
    assert read(f'database = "postgresql://host/tuning"\n{ONE}').database == "postgresql://host/tuning"


def test_libraries_are_all_none_or_names_that_need_not_be_here() -> None:
    assert read(f'{ONE}[baselines]\nlibraries = "all"\n').libraries is None
    assert read(f'{ONE}[baselines]\nlibraries = "none"\n').libraries == ()
    assert read(f'{ONE}[baselines]\nlibraries = ["rocblas", "OpenBLAS"]\n').libraries == ("rocBLAS", "OpenBLAS")


WRONG = [
    ("total = 5\n[[problems]\n", 2, "no TOML"),
    ("budgets = 1\n", 1, "there is no 'budgets'"),
    ("[budget]\ntotal = 'soon'\n", 2, "'soon'"),
    ("[budget]\ntotal = 3\n", 2, "10 seconds at least"),
    ("[budget]\nevaluations = 0\n", 2, "whole number from 1"),
    ("[budget]\n\nproblems = 3\n", 3, "there is no 'problems' here"),
    ("budget = 3\n", 1, "must be a table"),
    ("problems = 3\n", 1, "[[problems]]"),
    ('[[problems]]\nshapes = [\n  "64",\n  "6x4",\n]\n', 4, "'6x4' is no shape"),
    ('[[problems]]\nshapes = ["64"]\n[[problems]]\nshapes = ["64"]\ndtype = "float8"\n', 5, "no dtype 'float8'"),
    ('[[problems]]\nshapes = ["0"]\n', 2, "empty product"),
    ('[[problems]]\nshapes = ["8x0x8"]\n', 2, "empty product"),
    ('[[problems]]\nshapes = [\n  "8",\n  "8 × 8 × 0",\n]\n', 4, "empty product"),
    ('[[problems]]\nshapes = ["64"]\ntranspose = "no"\n', 3, "no transpose 'no'"),
    ('[[problems]]\nshapes = ["64"]\nmath = "loose"\n', 3, "loose"),
    ('[[problems]]\nshapes = ["64"]\nm = 4\n', 1, "give shapes, or m, n and k, or layers"),
    ("[[problems]]\n", 1, "that is no problem"),
    ("[[problems]]\nm = 4\nn = 4\n", 1, "k is missing"),
    ('[[problems]]\nm = "9:1"\nn = 4\nk = 4\n', 2, "no range"),
    ('[[problems]]\nm = "n"\nn = "m"\nk = 4\n', 2, "follows a size"),
    ("[[problems]]\nm = 4\nn = true\nk = 4\n", 3, "is no size"),
    (
        "[[problems]]\nm = 8\nlayers = [\n  { name = 'a', n = 8, k = 8 },\n  { name = 'b', n = 8 },\n]\n",
        5,
        "'b' has no k",
    ),
    ("[[problems]]\nm = 8\nlayers = [\n  { n = 8, k = 8, q = 1 },\n]\n", 4, "no 'q'"),
    ('[[problems]]\nm = "1:1000000"\nn = 4\nk = 4\n', 2, "too long: 1,000,000 sizes, and there may be at most 100,000"),
    ('[[problems]]\nm = "1:9:0"\nn = 4\nk = 4\n', 2, "no range"),
    ("[retune]\nexhaust = 'yes'\n", 2, "true or false"),
    ("[regression]\nthreshold = 7\n", 2, "fraction from 0.01 to 1"),
    ("[machine]\nslow = 'very'\n", 2, "fraction"),
    ("devices = 3\n", 1, "list of texts"),
    ("[report]\nhtml = 3\n", 2, "must be text"),
    ("[report]\npages = 'x'\n", 2, "there is: json, markdown, html, on_finish, on_failure"),
    ('[baselines]\nlibraries = [\n  "MKL",\n  "KML",\n]\n', 4, "no library 'KML'"),
    ('[baselines]\nlibraries = "cuda"\n', 2, "names: cuBLAS, rocBLAS, CLBlast, OpenBLAS, MKL"),
    ('[baselines]\nlibraries = ["MKL", "mkl"]\n', 2, "MKL is named twice"),
    ('[baselines]\nlibraries = ["MKL", "all"]\n', 2, "no library 'all'"),
    ("[baselines]\nlibraries = [1]\n", 2, "list of texts"),
    ("[baselines]\nlibraries = false\n", 2, "list of texts"),
]


@pytest.mark.parametrize(("text", "line", "said"), WRONG)
def test_what_cannot_be_meant_is_refused_with_its_line(text: str, line: int, said: str) -> None:
    with pytest.raises(UserError) as error:
        read(text)
    assert str(error.value).startswith(f"n.toml:{line}: ")
    assert said in str(error.value)


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        read_settings(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="no UTF-8"):
        read_settings(tmp_path / "bytes.toml")
