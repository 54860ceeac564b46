"""The model-based sampler: its process, features and candidates, and how it treats failures and what is awaited."""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from pathlib import Path

import numpy as np
import pytest

from tests.fakes import DEVICE, PROBLEM, small_family, valley
from tuner.family import load_family
from tuner.model import Config, Verdict
from tuner.search import candidates
from tuner.search import sampler as sampling
from tuner.search.candidates import Candidates
from tuner.search.features import Features
from tuner.search.promise import DOUBTS, Known, Model, Outlook, expected_improvement
from tuner.search.sampler import AWAITED_EACH, STARTUP, ModelSampler
from tuner.search.space import Space
from tuner.search.study import FamilySearch
from tuner.search.surrogate import GaussianProcess

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def space(tmp_path: Path) -> Space:
    return small_family(tmp_path, x=20, y=20, z=[0, 1]).space(PROBLEM, DEVICE)


def test_the_process_knows_what_it_was_told_and_how_little_it_knows_elsewhere() -> None:
    rng = np.random.default_rng(0)
    points = rng.random((40, 3))
    values = np.sin(4 * points[:, 0]) + points[:, 1]
    values = (values - values.mean()) / values.std()
    process = GaussianProcess(3)
    process.fit(points, values)
    process.condition(points, values)
    mean, deviation = process.predict(points)
    assert np.abs(mean - values).max() < 0.2
    far = process.predict(points + 30.0)
    assert np.abs(far[0]).max() < 1e-6 and far[1].min() > 5 * deviation.max()


def test_the_process_learns_which_features_matter() -> None:
    rng = np.random.default_rng(1)
    points, new = rng.random((60, 6)), rng.random((200, 6))

    def time_of(p: np.ndarray) -> np.ndarray:
        return np.asarray(np.cos(5 * p[:, 2]))

    errors = []
    for steps in (0, 20):
        process = GaussianProcess(6)
        for _ in range(steps):
            process.fit(points, time_of(points))
        process.condition(points, time_of(points))
        errors.append(np.abs(process.predict(new)[0] - time_of(new)).mean())
    assert errors[1] < 0.6 * errors[0]


@pytest.mark.parametrize("doubt", [0.0, 0.5])
def test_to_believe_a_point_is_to_wait_for_it(doubt: float) -> None:
    """The update of the variances is what conditioning on everything anew would bring."""
    rng = np.random.default_rng(6)
    points, many = rng.random((40, 5)), rng.random((300, 5))
    values = rng.normal(size=40)
    process = GaussianProcess(5, doubt)
    process.fit(points, values)
    process.condition(points, values, many[:3])
    expected = process.expect(many[:200])
    expected.join(process.expect(many[200:]))
    before = expected.variance
    for index in (17, 250, 18):
        process.believe(expected, index)
    process.condition(points, values, many[[0, 1, 2, 17, 250, 18]])
    anew = process.expect(many)
    assert np.allclose(expected.mean, anew.mean, atol=1e-4)
    assert np.allclose(expected.variance, anew.variance, atol=1e-4) and np.all(expected.deviation > 0)
    assert (before - expected.variance).max() > 0.05 and (before - anew.variance).min() > -1e-4


def test_what_is_doubted_is_far_above_the_lowest() -> None:
    """A high value beside a lower one counts for less, the more doubt there is; the lowest is never doubted."""
    points, values = np.array([[0.5], [0.5], [0.0]]), np.array([0.0, 2.0, -1.0])
    means = []
    for doubt in (0.0, 0.5, 1.0, 10.0):
        process = GaussianProcess(1, doubt)
        process.condition(points, values)
        means.append(process.predict(points)[0])
    assert means[0][0] == pytest.approx(1.0, abs=0.05)
    assert means[0][0] > means[1][0] > means[2][0] and means[2][0] < 0.5
    assert all(mean[2] == pytest.approx(-1.0, abs=0.1) for mean in means)


def test_times_are_doubted_in_turns(space: Space) -> None:
    """Among slow ones beside the best, whoever doubts them expects more of a spot; each has its turn again."""
    every = space.sample(np.random.default_rng(0), 800)
    near = [config for config in every if abs(int(config["x"]) - 9) + abs(int(config["y"]) - 9) == 2]
    spot = [config for config in every if (config["x"], config["y"]) == (9, 9)]
    log_times = np.array([0.0, *[1.0] * (len(near) - 1), *[0.5] * 20])
    known = Known(near + [config for config in every if config not in near + spot][:20], log_times, [], [], [], [])
    model, means = Model(Features(space, every)), []
    for _ in range(2 * len(DOUBTS)):
        model.learn(known)
        means.append(model.look(model._points_of(spot))._expected.mean[0])
    first, again = means[: len(DOUBTS)], means[len(DOUBTS) :]
    assert first == pytest.approx(again) and len({round(mean, 3) for mean in first}) == len(DOUBTS)
    assert first[DOUBTS.index(max(DOUBTS))] < first[DOUBTS.index(0.0)] - 0.1


@pytest.mark.parametrize("doubt", [0.0, 0.5])
def test_the_slope_of_the_posterior_is_its_slope(doubt: float) -> None:
    rng = np.random.default_rng(2)
    points, values = rng.random((15, 4)), rng.normal(size=15)
    process = GaussianProcess(4, doubt)
    process._lowest = values.min()
    slope = process._posterior(points, values)[1]
    for place in range(6):
        heights = []
        for shift in (-1e-5, 1e-5):
            moved = GaussianProcess(4, doubt)
            moved._lowest = values.min()
            moved._logs[place] += shift
            heights.append(moved._posterior(points, values)[0])
        assert slope[place] == pytest.approx((heights[1] - heights[0]) / 2e-5, rel=1e-3, abs=1e-4)


def test_expected_improvement_is_what_chance_would_bring() -> None:
    drawn = np.random.default_rng(3).normal(0.3, 0.7, 400_000)
    brought = np.maximum(0.0, 0.1 - drawn).mean()
    assert expected_improvement(0.1, np.array([0.3]), np.array([0.7]))[0] == pytest.approx(brought, rel=0.02)


def test_features_span_zero_to_one_and_say_nothing_twice(tmp_path: Path) -> None:
    family = small_family(tmp_path, x=8, y=8)
    text = family.path.read_text().replace(
        "[[launch]]", '[derived]\ntwice = "2 * x"\nfixed = "problem.m"\nratio = "x / y"\n[[launch]]', 1
    )
    family.path.write_text(text)
    space = load_family(family.path).space(PROBLEM, DEVICE)
    reference = space.sample(np.random.default_rng(0), 64)
    features = Features(space, reference)
    points = features.points(reference)
    assert features.count == 3  # x, y and their ratio
    assert points.min() == 0.0 and points.max() == 1.0
    assert np.array_equal(features.points(reference[5:6]), points[5:6])


def test_words_are_features_too(tmp_path: Path) -> None:
    words = load_family(ROOT / "templates" / "naive.toml").space(PROBLEM, DEVICE)
    found = words.columns([Config.of("naive", lanes=lanes, group_m=1, group_n=4) for lanes in ("n", "m")])
    assert found["lanes"].tolist() == [0.0, 1.0] and found["group_size"].tolist() == [4.0, 4.0]


def test_candidates_are_free_distinct_and_bounded(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "MOST", 100)
    every = space.sample(np.random.default_rng(0), 800)
    taken = {every[0]}
    pool = Candidates(space, Features(space, every), every[:60], taken)
    pool.add_neighbours(every[:8])
    assert len(set(pool.configs)) == len(pool.configs) == len(pool.points) > 100
    assert every[0] not in pool.configs
    taken.add(pool.configs[7])
    chosen = pool.configs[8]
    promise = -np.abs(np.arange(len(pool.configs)) - 7.1)
    assert (pool.choose(promise), pool.choose(promise)) == (8, 6)
    gone = {*pool.configs[6:9]}
    pool.thin(promise)
    assert not gone & {*pool.configs} and chosen in gone and 40 < len(pool.configs) == len(pool.points) <= 50


def test_its_choices_are_far_better_than_chance(space: Space) -> None:
    search = FamilySearch("grid", space, seed=5)
    times = []
    for _ in range(40):
        config = search.ask()
        assert config is not None
        times.append(valley(config))
        search.tell(config, times[-1])
    assert np.mean(times[STARTUP:25]) < 0.75 * np.mean(times[:STARTUP])
    assert min(times[:25]) <= 1.1


def test_failures_teach(space: Space) -> None:
    """Half of the space fails, told without any time: soon hardly any of it is proposed."""
    search = FamilySearch("grid", space, seed=1)
    failed = []
    for _ in range(50):
        config = search.ask()
        assert config is not None
        fails = config["z"] == 1
        failed.append(fails)
        search.tell(config, None if fails else 10.0 + abs(int(config["x"]) - 8) + abs(int(config["y"]) - 7))
    assert np.mean(failed[:STARTUP]) > 0.2 > np.mean(failed[STARTUP:])
    assert search.best_ms <= 11.0


@pytest.mark.parametrize("verdict", [Verdict.WRONG_RESULT, Verdict.COMPILE_FAILED, Verdict.CRASHED, Verdict.TIMED_OUT])
def test_what_is_like_the_failures_and_the_hung_is_avoided(space: Space, verdict: Verdict) -> None:
    assert _of_the_bad_half(space, verdict) < 0.25


@pytest.mark.parametrize("verdict", [Verdict.BAD_CLOCK, Verdict.UNSUPPORTED])
def test_a_bad_clock_and_what_the_device_lacks_say_nothing_of_the_configuration(space: Space, verdict: Verdict) -> None:
    assert 0.3 < _of_the_bad_half(space, verdict) < 0.8


def _of_the_bad_half(space: Space, verdict: Verdict) -> float:
    """Share of the later proposals that go where every one ends in `verdict`; the times are the same in both halves."""
    search = FamilySearch("grid", space, seed=1)
    bad = []
    for _ in range(50):
        config = search.ask()
        assert config is not None
        bad.append(config["z"] == 1)
        time_ms = 10.0 + abs(int(config["x"]) - 8) + abs(int(config["y"]) - 7)
        search.tell(config, *((None, verdict) if bad[-1] else (time_ms, Verdict.CORRECT)))
        assert search.best_ms < np.inf or bad[-1]
    return float(np.mean(bad[STARTUP:]))


def test_what_hung_and_what_failed_come_back_from_history_as_that(space: Space) -> None:
    search = FamilySearch("grid", space, seed=1)
    configs = space.sample(np.random.default_rng(0), 4)
    search.tell(configs[0], 3.0, Verdict.CORRECT)
    for config, verdict in zip(configs[1:], (Verdict.TIMED_OUT, Verdict.WRONG_RESULT, Verdict.BAD_CLOCK), strict=True):
        search.tell(config, None, verdict)
    sampler = search._study.sampler
    assert isinstance(sampler, ModelSampler)
    known = sampler._known(search._study, -1)
    assert (known.timed, known.failed) == (configs[:1], configs[1:3])
    assert (known.slow, known.pending, known.unheard) == (configs[1:2], [], configs[3:])
    assert search.taken == set(configs) and known.log_times.tolist() == [pytest.approx(np.log(3.0))]


def test_when_all_fail_the_search_goes_on(space: Space) -> None:
    search = FamilySearch("grid", space, seed=1)
    for _ in range(30):
        config = search.ask()
        assert config is not None
        search.tell(config, None)
    assert search.best_ms == np.inf


def test_proposals_ahead_are_spread_out(space: Space) -> None:
    search = FamilySearch("grid", space, seed=2)
    for _ in range(30):
        config = search.ask()
        assert config is not None
        search.tell(config, valley(config))
    ahead = [search.ask() for _ in range(16)]
    assert len(set(ahead)) == 16
    assert len({(config["x"], config["y"]) for config in ahead if config}) >= 8


@pytest.mark.parametrize(
    ("ahead", "timed_each", "choices"),
    [(0, 1, 1), (AWAITED_EACH - 1, 1, 1), (2 * AWAITED_EACH + 1, 1, 3), (2 * AWAITED_EACH + 1, 1000, 1)],
)
def test_far_ahead_one_look_of_the_model_serves_for_several_proposals(
    space: Space, ahead: int, timed_each: int, choices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random proposals between neither use it up nor end it; nothing comes twice, nor what was taken in between."""
    looks: list[Known] = []
    look = ModelSampler._look

    def counted(self: ModelSampler, known: Known) -> Outlook:
        looks.append(known)
        return look(self, known)

    monkeypatch.setattr(ModelSampler, "_look", counted)
    monkeypatch.setattr(sampling, "TIMED_EACH", timed_each)
    search = FamilySearch("grid", space, seed=4)
    sampler = search._study.sampler
    assert isinstance(sampler, ModelSampler)
    others = space.sample(np.random.default_rng(9), 100)
    waiting: deque[Config] = deque()
    for number in range(STARTUP + ahead + 70):
        if len(waiting) > ahead:
            search.tell(waiting[0], valley(waiting.popleft()))
        if number == STARTUP + ahead + 10:
            looks.clear()
            sampler._choices_left, random_ones = 0, sampler._random_ones
        if looks:
            search.skip(others.pop())
        before = set(search.taken)
        config = search.ask()
        assert config is not None and config not in before
        waiting.append(config)
    chosen = 60 - (sampler._random_ones - random_ones)
    assert chosen < 60 and len(looks) == -(-chosen // choices)


def test_what_is_skipped_is_neither_proposed_nor_awaited_nor_learnt_from(tmp_path: Path) -> None:
    space = small_family(tmp_path, x=3, y=4).space(PROBLEM, DEVICE)
    search = FamilySearch("grid", space, seed=2)
    asked = search.ask()
    assert asked is not None
    search.skip(asked)
    search.skip(Config.of("grid", x=2, y=2))
    rest = []
    while (config := search.ask()) is not None:
        search.tell(config, valley(config))
        rest.append(config)
    assert not {asked, Config.of("grid", x=2, y=2)} & set(rest)
    assert len(rest) >= 10 and search.exhausted


def test_a_family_of_one_configuration_is_tried_once(tmp_path: Path) -> None:
    search = FamilySearch("grid", small_family(tmp_path, x=1, y=1).space(PROBLEM, DEVICE), seed=0)
    assert search.ask() == Config.of("grid", x=1, y=1)
    assert search.ask() is None and search.exhausted


def test_a_wide_space_is_searched_without_a_list_of_it() -> None:
    family = load_family(ROOT / "tests" / "families" / "gpu" / "wide.toml")
    space = family.space(PROBLEM, DEVICE)
    search = FamilySearch("wide", space, seed=0)
    for _ in range(STARTUP + 5):
        config = search.ask()
        assert config is not None and family.broken_rule(config, PROBLEM, DEVICE) is None
        search.tell(config, 100.0 / (int(config["wptm"]) * int(config["wptn"])))


SCRIPT = """
import sys
from pathlib import Path
from tests.fakes import DEVICE, PROBLEM, small_family, valley
from tuner.search.proposer import Proposer

proposer = Proposer({"grid": small_family(Path(sys.argv[1]), x=30, y=30).space(PROBLEM, DEVICE)}, [], 4)
waiting = []
for _ in range(30):
    waiting.append(proposer.propose())
    if len(waiting) > 4:
        done = waiting.pop(0)
        print(done)
        proposer.tell(done, valley(done))
"""


def test_a_seed_means_the_same_proposals_in_every_process(tmp_path: Path) -> None:
    """Hashes of texts differ from process to process: no order of a set may decide."""
    outputs = set()
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
        environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT), "PATH": ""}
        outputs.add(subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, check=True).stdout)
    assert len(outputs) == 1 and outputs.pop().count(b"\n") == 26
