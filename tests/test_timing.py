"""Samples become honest numbers, and races promote what is faster and nothing else."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner import timing
from tuner.timing import (
    FIRST_LOOK,
    MAX_ROUNDS,
    MOST_SAMPLES,
    ClockError,
    RaceResult,
    decide,
    enough,
    event_ms,
    impossible,
    median_interval,
    race,
    slope_ms,
    summarise,
)

BAD = [math.nan, math.inf, -math.inf, 0.0, -1.0]
times = st.floats(1e-3, 1e4)

# Median and noise


def test_one_absurdly_fast_sample_does_not_win() -> None:
    summary = summarise([6.1, 6.0, 0.52, 6.2, 6.1])
    assert summary.median_ms == 6.1
    assert summary.noise is not None and summary.noise > 0.1, "and it shows in the noise"


def test_one_sample_has_no_noise_rather_than_nan() -> None:
    assert summarise([3.0]) == timing.Summary(3.0, None)


def test_few_samples_count_their_whole_range() -> None:
    assert summarise([2.0, 2.2]).noise == pytest.approx(0.2 / 2.1)
    assert summarise([2.0, 2.0, 2.0]).noise == 0


@given(st.lists(times, min_size=1, max_size=60))
def test_the_summary_is_finite_and_ordered(samples: list[float]) -> None:
    summary = summarise(samples)
    assert summary.median_ms == pytest.approx(statistics.median(samples))
    assert (summary.noise is None) == (len(samples) == 1)
    assert summary.noise is None or 0 <= summary.noise < math.inf
    assert summary == summarise(samples[::-1])


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("place", [0, 2])
def test_impossible_samples_are_refused(bad: float, place: int) -> None:
    samples = [1.0, 1.1, 1.2]
    samples[place] = bad
    with pytest.raises(ValueError, match="positive"):
        summarise(samples)
    with pytest.raises(ValueError, match="positive"):
        enough(samples, 1.0)
    with pytest.raises(ValueError, match="positive"):
        race(lambda count: [(1.0, samples[i % 3]) for i in range(count)])


def test_no_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="no samples"):
        summarise([])
    with pytest.raises(ValueError, match="no samples"):
        enough([], None)


@pytest.mark.parametrize("count", [5, 9, 15, 31, 75])
def test_the_interval_is_the_bootstrap_without_its_randomness(count: int) -> None:
    rng = np.random.default_rng(count)
    samples = np.sort(rng.lognormal(size=count))
    medians = np.median(rng.choice(samples, (20000, count)), axis=1)
    low, high = median_interval(samples)
    assert np.mean(medians < low) <= 0.025 + 0.005 and np.mean(medians <= low) >= 0.025 - 0.005
    assert np.mean(medians > high) <= 0.025 + 0.005 and np.mean(medians >= high) >= 0.025 - 0.005


@pytest.mark.parametrize("count", [6, 10, 20, 40, 41])
def test_the_interval_covers_the_true_median(count: int) -> None:
    rng = np.random.default_rng(7)
    ordered = np.sort(rng.lognormal(size=(2000, count)), axis=1)
    covered = [low <= 1 <= high for low, high in map(median_interval, ordered)]
    assert 0.91 <= np.mean(covered) <= 0.99


def test_wider_confidence_gives_wider_intervals() -> None:
    samples = np.sort(np.random.default_rng(1).normal(10, 1, 100))
    narrow, wide = median_interval(samples, 0.9), median_interval(samples, 0.999)
    assert wide[0] < narrow[0] < np.median(samples) < narrow[1] < wide[1]


# When to stop sampling


def sampled(draw: Callable[[], float], best_ms: float | None) -> list[float]:
    samples: list[float] = []
    while not samples or not enough(samples, best_ms):
        samples.append(draw())
        assert len(samples) <= MOST_SAMPLES
    return samples


def test_quiet_samples_stop_early() -> None:
    rng = np.random.default_rng(1)
    counts = [len(sampled(lambda: rng.normal(1, 0.002), 1.0)) for _ in range(50)]
    assert np.median(counts) <= 6


def test_noisy_samples_go_on() -> None:
    rng = np.random.default_rng(1)
    assert np.median([len(sampled(lambda: rng.normal(1, 0.1), 1.0)) for _ in range(50)]) >= 20


def test_hopeless_configurations_stop_at_once() -> None:
    rng = np.random.default_rng(1)
    assert len(sampled(lambda: rng.normal(3, 0.3), 1.0)) == 2
    assert len(sampled(lambda: rng.normal(1.8, 0.01), 1.0)) == 3
    assert len(sampled(lambda: rng.normal(1.8, 0.3), None)) > 5, "without a best nothing is hopeless"


def test_a_slow_first_sample_does_not_condemn() -> None:
    for slow in (5.0, 50.0):
        samples = iter([slow, *[1.0] * MOST_SAMPLES])
        assert len(sampled(lambda: next(samples), 1.0)) >= 5  # noqa: B023


def test_the_best_itself_is_never_hopeless() -> None:
    rng = np.random.default_rng(2)
    for _ in range(200):
        samples = sampled(lambda: rng.normal(1, 0.05) * (10 if rng.random() < 0.02 else 1), 1.0)
        assert len(samples) >= 5


def test_long_kernels_are_not_sampled_for_minutes() -> None:
    rng = np.random.default_rng(3)
    assert len(sampled(lambda: rng.normal(3000, 900), None)) == 2
    assert not enough([3000.0], None), "one sample tells no noise"


# Clocks


def test_event_times() -> None:
    assert event_ms(1_000, 2_501_000) == 2.5


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (5, 5),
        (0, 0),
        (6, 5),
        (0, 18_446_744_073_709_551_615),
        (1000, 18_400_000_000_000_000_000),
        (0, 1_764_000_000 * 10**9),
    ],
)
def test_impossible_event_times(start: int, end: int) -> None:
    with pytest.raises(ClockError):
        event_ms(start, end)
    with pytest.raises(ClockError):
        event_ms(np.uint64(start), np.uint64(end))  # type: ignore[arg-type]


def test_rates_above_the_peak_are_impossible() -> None:
    flop = 2 * 1024**3
    at_peak = flop / 1000e9 * 1e3
    assert not impossible(at_peak, flop, 1000)
    assert not impossible(at_peak / 1.19, flop, 1000)
    assert impossible(at_peak / 1.21, flop, 1000)
    assert impossible(math.nan, flop, 1000), "an acceptance, so that NaN fails"
    assert not impossible(at_peak / 100, flop, None)


def test_slope_leaves_fixed_costs_out() -> None:
    assert slope_ms(7 + 10 * 0.5, 7 + 20 * 0.5, 10) == pytest.approx(0.5)


@pytest.mark.parametrize("pair", [(2.0, 2.0), (2.0, 1.0), (-1.0, 1.0), (0.0, 1.0), (math.nan, 1.0), (1.0, math.inf)])
def test_impossible_slopes(pair: tuple[float, float]) -> None:
    with pytest.raises(ClockError):
        slope_ms(*pair, 10)


# Races


class FakeBench:
    """Times around a true mean with relative noise; some samples ten times as long."""

    def __init__(self, seed: int, noise: float, outliers: float = 0.0) -> None:
        self.rng, self.noise, self.outliers = np.random.default_rng(seed), noise, outliers
        self.rounds = 0

    def draw(self, champion_ms: float, nominee_ms: float) -> Callable[[int], Sequence[tuple[float, ...]]]:
        def rounds(count: int) -> list[tuple[float, ...]]:
            self.rounds += count
            noise = np.maximum(1 + self.noise * self.rng.standard_normal((count, 2)), 0.05)
            noise[self.rng.random((count, 2)) < self.outliers] *= 10
            return [(champion_ms * x, nominee_ms * y) for x, y in noise.tolist()]

        return rounds

    def race(self, champion_ms: float, nominee_ms: float, max_rounds: int = MAX_ROUNDS) -> RaceResult:
        return race(self.draw(champion_ms, nominee_ms), max_rounds=max_rounds)


@pytest.mark.parametrize("outliers", [0.0, 0.02])
def test_four_percent_is_promoted_within_two_nights(outliers: float) -> None:
    bench = FakeBench(1, 0.05, outliers)
    promoted = [any(bench.race(1.0, 0.96).promote for _ in range(2)) for _ in range(100)]
    assert sum(promoted) >= 97


def test_four_percent_is_mostly_promoted_in_one_night() -> None:
    bench = FakeBench(11, 0.05)
    assert sum(bench.race(1.0, 0.96).promote for _ in range(500)) >= 475


def test_outliers_do_not_hide_a_clear_gain() -> None:
    bench = FakeBench(12, 0.005, 0.02)
    results = [bench.race(1.0, 0.96) for _ in range(500)]
    assert sum(result.promote for result in results) >= 499
    assert np.mean([result.rounds for result in results]) < 15


@pytest.mark.parametrize(("noise", "outliers"), [(0.05, 0.0), (0.05, 0.02)])
def test_equals_keep_their_places_over_twenty_nights(noise: float, outliers: float) -> None:
    bench = FakeBench(2, noise, outliers)
    changed = [any(bench.race(1.0, 1.0).promote for _ in range(20)) for _ in range(100)]
    assert sum(changed) <= 3


def test_very_noisy_equals_keep_their_places_most_of_the_time() -> None:
    bench = FakeBench(3, 0.2)
    assert sum(bench.race(1.0, 1.0).promote for _ in range(500)) <= 8


def test_the_slower_is_never_promoted() -> None:
    bench = FakeBench(4, 0.05, 0.02)
    assert not any(bench.race(1.0, 1.04).promote for _ in range(300))


def test_less_than_the_least_gain_is_not_promoted() -> None:
    bench = FakeBench(5, 0.002)
    assert not any(bench.race(1.0, 1 / 1.005).promote for _ in range(100))


def test_clear_races_end_at_the_first_look() -> None:
    bench = FakeBench(6, 0.003)
    for nominee, promoted in ((0.96, True), (1.0, False), (1.5, False)):
        result = bench.race(1.0, nominee)
        assert (result.promote, result.rounds) == (promoted, FIRST_LOOK)


def test_equals_under_noise_do_not_use_up_the_night() -> None:
    bench = FakeBench(7, 0.05)
    rounds = [bench.race(1.0, 1.0).rounds for _ in range(100)]
    assert np.mean(rounds) < 80 and max(rounds) <= MAX_ROUNDS


def test_gain_and_interval() -> None:
    result = FakeBench(8, 0.01).race(1.0, 0.8)
    assert result.low < result.gain < result.high
    assert result.gain == pytest.approx(0.25, abs=0.02)
    assert result.noise == pytest.approx((result.high - result.low) / 2)
    assert "faster" in result.reason


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), nominee=st.floats(0.8, 1.2), noise=st.floats(0, 0.3), most=st.integers(10, 120))
def test_every_result_is_consistent(seed: int, nominee: float, noise: float, most: int) -> None:
    bench = FakeBench(seed, noise, 0.02)
    result = bench.race(1.0, nominee, max_rounds=most)
    assert FIRST_LOOK <= result.rounds == len(result.samples) == bench.rounds <= most
    assert -1 < result.low <= result.gain <= result.high < math.inf
    assert not result.promote or result.low > 0.01
    assert result == FakeBench(seed, noise, 0.02).race(1.0, nominee, max_rounds=most), "the same samples, the same end"
    ratios = [champion / candidate for champion, candidate in result.samples]
    assert result.gain == pytest.approx(statistics.median(ratios) - 1)


def test_drift_that_both_share_cancels() -> None:
    heat = (1.02**i for i in itertools.count())
    result = race(lambda count: [(slow, slow * 0.9) for slow in itertools.islice(heat, count)])
    assert result.promote and result.gain == pytest.approx(1 / 0.9 - 1)


def test_a_deadline_ends_the_race_soon() -> None:
    for allowed in (0, 1, 3):
        bench = FakeBench(9, 0.3)
        calls = itertools.count(1)
        result = race(bench.draw(1.0, 0.96), deadline=lambda: next(calls) > allowed)  # noqa: B023
        assert result.rounds == bench.rounds <= (allowed + 1) * timing.DRAW_AT_ONCE
        assert not result.promote and f"in {result.rounds} rounds" in result.reason


def test_too_few_rounds_prove_nothing() -> None:
    result = race(lambda count: [(2.0, 1.0)] * count, deadline=lambda: True)
    assert result.rounds < FIRST_LOOK and not result.promote and result.gain == 1


def test_what_is_proven_by_the_deadline_is_promoted() -> None:
    calls = itertools.count(1)
    result = race(FakeBench(1, 0.01).draw(1.0, 0.7), deadline=lambda: next(calls) > 1)
    assert result.promote and result.rounds == FIRST_LOOK


def test_a_race_needs_enough_rounds() -> None:
    with pytest.raises(ValueError, match="at least"):
        race(lambda count: [(1.0, 1.0)] * count, max_rounds=FIRST_LOOK - 1)


def test_draws_must_be_complete() -> None:
    for wrong in (0, 3):
        with pytest.raises(ValueError, match="asked for"):
            race(lambda count: [(1.0, 1.0)] * wrong)  # noqa: B023


def test_failures_of_a_contender_pass_through() -> None:
    def failing(count: int) -> list[tuple[float, ...]]:
        raise RuntimeError("contender 1 crashed")

    with pytest.raises(RuntimeError, match="crashed"):
        race(failing)


def test_decide_waits_while_the_outcome_is_open() -> None:
    rng = np.random.default_rng(1)
    samples = [(float(x), float(y)) for x, y in rng.normal([1, 0.97], 0.05, (30, 2))]
    assert decide(samples, max_rounds=200) is None
    last = decide(samples, max_rounds=30)
    assert last is not None and not last.promote and last.samples == tuple(samples)
