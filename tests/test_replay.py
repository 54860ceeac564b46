"""Recorded spaces and the search replayed on them: files are read or refused clearly, and a broken search is seen."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from tuner.cli.app import run
from tuner.model import Config, UserError
from tuner.search.recorded import RecordedSpace, read_space
from tuner.search.replay import Replayed, Settings, portfolio_from, replay
from tuner.search.rivals import NEEDS, SAMPLERS

RECORDED = Path(__file__).parent / "data" / "gemm-spaces" / "rtx2080ti.csv.gz"
SMALL = "ts,pad,mode,time_ms,sd_ms\n8,0,a,4.0,0.1\n8,1,a,3.0,0.1\n16,0,a,2.0,0.1\n16,1,b,,\n32,0,a,2.5,0.1\n"


@pytest.fixture(scope="module")
def turing() -> RecordedSpace:
    return read_space(RECORDED)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.csv"
    path.write_text(SMALL)
    return path


def grid(tmp_path: Path, name: str = "grid") -> Path:
    """A space of 12 x 12 x 2 with one optimum and some failures."""
    lines = ["x,y,z,time_ms"]
    for x in range(1, 13):
        for y in range(1, 13):
            for z in (0, 1):
                time = "" if x == 12 else str(1.0 + 0.1 * abs(x - 9) + 0.2 * abs(y - 4) + 0.05 * z)
                lines.append(f"{x},{y},{z},{time}")
    path = tmp_path / f"{name}.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_search_that_works(turing: RecordedSpace) -> None:
    """The search reaches what neither chance nor a model that learns nothing would in so few evaluations."""
    found = {}
    for sampler in ("ours", "random"):
        settings = Settings(evaluations=60, repeats=8, sampler=sampler)
        found[sampler] = float(np.median(replay(turing, settings).fractions[:, -1]))
    assert found["ours"] >= 0.92 > found["random"]


def test_the_recorded_space_is_complete(turing: RecordedSpace) -> None:
    assert turing.size == (17956, True)
    assert turing.best_ms == 11.482779
    assert [axis.name for axis in turing.axes][:3] == ["MWG", "NWG", "KWG"]


def test_values_are_ordered_by_size_and_words_after_numbers(small: Path) -> None:
    space = read_space(small)
    assert [axis.values for axis in space.axes] == [(8, 16, 32), (0, 1), ("a", "b")]
    assert space.times[Config.of("small", ts=16, pad=1, mode="b")] is None
    assert space.fastest(2) == [Config.of("small", ts=16, pad=0, mode="a"), Config.of("small", ts=32, pad=0, mode="a")]


def test_it_answers_as_a_space_does(turing: RecordedSpace) -> None:
    rng = np.random.default_rng(0)
    for config in turing.sample(rng, 5):
        index = turing.indices(config)
        others = {other for other in turing.times if len(set(other.values) - set(config.values)) == 1}
        assert set(turing.neighbours(config)) == others
        assert turing.snap(index) == config
        assert turing.snap(index, {config}) in turing.neighbours(config)
        columns = turing.columns([config])
        assert all(columns[name][0] == value for name, value in config.values)
        assert columns["MWG / MDIMC"][0] == int(config["MWG"]) / int(config["MDIMC"])
        assert "MDIMC / MWG" not in columns and "MWG / NWG" not in columns
    assert len(set(turing.sample(rng, 500))) == 500
    assert not turing.contains(Config.of("rtx2080ti", MWG=1))


def test_a_small_space_is_exhausted(small: Path) -> None:
    replayed = replay(read_space(small), Settings(evaluations=30, repeats=2, ahead=3))
    assert replayed.fractions.shape == (2, 30) and (replayed.fractions[:, -1] == 1.0).all()


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_can_be_replayed(tmp_path: Path, sampler: str) -> None:
    if sampler in NEEDS:
        pytest.importorskip(NEEDS[sampler])
    replayed = replay(read_space(grid(tmp_path)), Settings(evaluations=15, repeats=1, sampler=sampler, ahead=2))
    steps = replayed.fractions[0]
    assert (np.diff(steps) >= 0).all() and steps[-1] > 0.4


def test_a_portfolio_is_tried_first_and_comes_in_turns(tmp_path: Path) -> None:
    space, one = read_space(grid(tmp_path)), tmp_path / "one.csv"
    one.write_text("x,y,z,time_ms\n1,1,0,5\n2,2,0,3\n3,3,0,\n99,1,0,0.1\n")
    first = portfolio_from([read_space(one), read_space(grid(tmp_path, "other"))], space)
    places = [(config["x"], config["y"], config["z"]) for config in first]
    assert places[:4] == [(2, 2, 0), (9, 4, 0), (1, 1, 0), (9, 4, 1)]
    assert len(first) == len(set(first)) == 8
    assert replay(space, Settings(evaluations=2, repeats=1), first).fractions[0, 1] == 1.0


def test_with_noise_the_score_is_the_true_time_of_what_would_be_published(tmp_path: Path) -> None:
    space = read_space(grid(tmp_path))
    clear, noisy = (
        replay(space, Settings(evaluations=264, repeats=4, noise=noise, sampler="random")) for noise in (0.0, 0.3)
    )
    assert (clear.fractions[:, -1] == 1.0).all()
    assert 0.7 < noisy.fractions[:, -1].mean() < 1.0


def test_the_same_seed_gives_the_same_replay(tmp_path: Path) -> None:
    space = read_space(grid(tmp_path))
    one, same, other = (
        replay(space, Settings(evaluations=30, repeats=2, ahead=4, noise=0.03, seed=seed)).fractions
        for seed in (1, 1, 7)
    )
    assert np.array_equal(one, same) and not np.array_equal(one, other)


def test_intervals_hold_what_they_describe_and_never_is_null() -> None:
    rng = np.random.default_rng(0)
    fractions = np.maximum.accumulate(rng.uniform(0.5, 0.97, (40, 100)), axis=1)
    described = Replayed(fractions, rng.uniform(1, 2, 40)).to_json()
    assert list(described["fraction_of_optimum"]) == ["25", "50", "100"]
    for found, name in ((described["fraction_of_optimum"]["50"], "p10"), (described["evaluations_to_95"], "median")):
        low, high = found[f"{name}_interval"]
        assert low <= found[name] <= high
    assert described["evaluations_to_99"]["p90"] is None
    assert described["seconds_interval"][0] <= described["seconds"] <= described["seconds_interval"][1]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "line 1"),
        ("a,b\n1,2\n", "line 1"),
        ("time_ms\n1\n", "line 1"),
        ("a,a,time_ms\n1,2,3\n", "line 1"),
        ("a,time_ms\n1,2\n2\n", "line 3: 1 fields"),
        ("a,time_ms\n1,2\n\n1,3\n", "line 4: this configuration"),
        ("a,time_ms\n1,fast\n", "line 2: 'fast'"),
        ("a,time_ms\n1,-2\n", "line 2"),
        ("a,time_ms\n1,nan\n", "line 2"),
        ("a,time_ms\n1,\n", "no configuration with a time"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=complaint):
        read_space(path)


def test_what_is_no_text_or_is_cut_off_is_refused(tmp_path: Path) -> None:
    cut, bytes_only = tmp_path / "cut.csv.gz", tmp_path / "bytes.csv"
    cut.write_bytes(gzip.compress(SMALL.encode())[:-12])
    bytes_only.write_bytes(b"\xff\xfe\x00")
    for path in (cut, bytes_only, tmp_path / "absent.csv"):
        with pytest.raises(UserError, match=path.name):
            read_space(path)


def test_the_command_prints_what_scripts_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(grid(tmp_path))
    options = ["--evals", "30", "--repeats", "2", "--ahead", "2", "--portfolio", path, "--sampler", "random", "--json"]
    assert run(["replay", path, *options]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["fraction_of_optimum"]["25"]["median"] == 1.0
    assert printed["evaluations_to_95"]["p90"] == 1.0
    assert run(["replay", path, "--evals", "5", "--repeats", "1"]) == 0
    assert "never" in capsys.readouterr().out


@pytest.mark.parametrize(
    "wrong", [["--sampler", "best"], ["--noise", "7"], ["--evals", "0"], ["--portfolio", "absent"]]
)
def test_the_command_refuses_what_makes_no_sense(tmp_path: Path, wrong: list[str]) -> None:
    assert run(["replay", str(grid(tmp_path)), *wrong]) == 2
