"""The statistics of reports: by hand, on a few numbers each."""

from __future__ import annotations

import pytest

from tuner.model import Config, Problem
from tuner.report.labels import apart, slug
from tuner.report.numbers import Kind, rounded, text_of
from tuner.report.statistics import (
    Convergence,
    by_axis_value,
    default_regret,
    geometric_mean,
    mean_noise,
    portfolio,
    ratio_noise,
)

P = [Problem(n, 64, 64) for n in (64, 128, 256, 512)]
A, B, C = (Config.of("f", x=x) for x in (1, 2, 3))


def test_the_share_of_shapes_on_which_the_default_is_slower() -> None:
    found = default_regret([(P[0], 1.0, 1.0), (P[1], 1.1, 1.0), (P[2], 1.2, 1.0), (P[3], 4.4, 1.0)])
    assert (found.shapes, found.share, found.where) == (4, 0.5, P[3])
    assert found.median == pytest.approx(1.15) and found.largest == pytest.approx(4.4)
    assert default_regret([]).share is None


def test_a_portfolio_adds_what_lowers_the_mean_most_and_knows_what_it_does_not_know() -> None:
    times = {P[0]: {A: 1.0, B: 1.5}, P[1]: {A: 1.0, B: 3.0}, P[2]: {A: 2.0, B: 1.0}, P[3]: {C: 1.0}}
    found = portfolio(times)
    assert found.configs == (A, B)
    assert list(dict(found.regrets)[P[2]]) == pytest.approx([2.0, 1.0])
    assert dict(found.regrets)[P[3]] == (None, None), "C was measured on one shape only"
    assert [covered for covered, _ in found.steps] == [3, 3]
    assert [mean for _, mean in found.steps] == pytest.approx([2 ** (1 / 3), 1.0])
    assert [portfolio(times).configs for times in ({P[0]: {C: 1.0}}, {})] == [(C,), ()]


def test_values_that_always_fail_come_first() -> None:
    found = by_axis_value({Config.of("f", vw=8, n=1): (0, 38), Config.of("f", vw=4, n=1): (9, 10)})
    worst = found[0]
    assert (worst.axis, worst.value, worst.correct, worst.trials) == ("vw", 8, 0, 38)
    assert found[-1].correct / found[-1].trials == 0.9


def test_convergence_keeps_the_least_so_far() -> None:
    assert Convergence((None, 3.0, None, 4.0, 2.0), (1, 2, 3, 4, 5)).best_ms == [None, 3.0, 3.0, 3.0, 2.0]
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0) and geometric_mean([]) is None


def test_noises_that_are_independent_add_as_squares() -> None:
    assert ratio_noise(0.03, 0.04) == pytest.approx(0.05) and ratio_noise(None, 0.04) is None
    assert mean_noise([0.03, 0.04]) == pytest.approx(0.025)
    assert mean_noise([0.03, None]) is None and mean_noise([]) is None


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (49812.3, Kind.RATE, "49810"),
        (0.0144049, Kind.TIME, "0.01440"),
        (9.9996, Kind.TIME, "10.00"),
        (0.95849, Kind.RATIO, "0.958"),
        (0.0049, Kind.PERCENT, "0.5"),
        (1.0, Kind.PERCENT, "100.0"),
        (2538 / 2539, Kind.PERCENT, "99.96"),
        (199999 / 200000, Kind.PERCENT, "99.99"),
        (1 / 2539, Kind.PERCENT, "0.04"),
        (1.7e-5, Kind.PERCENT, "0.002"),
        (-1e-6, Kind.PERCENT, "-0.0001"),
        (1e-9, Kind.PERCENT, "0.0001"),
        (0.0, Kind.PERCENT, "0.0"),
        (1.0004, Kind.PERCENT, "100.04"),
        (38, Kind.COUNT, "38"),
        (0.0, Kind.RATE, "0"),
        (None, Kind.RATE, "–"),
        (float("nan"), Kind.RATIO, "–"),
        (float("inf"), Kind.TIME, "–"),
    ],
)
def test_a_number_is_rounded_once_and_reads_back_the_same(value: float | None, kind: Kind, text: str) -> None:
    shown = text_of(rounded(value, kind), kind)
    assert shown == text
    assert shown == "–" or float(shown) == rounded(value, kind)


def test_names_tell_configurations_and_files_apart() -> None:
    assert apart([A, B]) == ["1: x=1", "2: x=2"]
    assert apart([A, Config.of("g", x=1)]) == ["1: f", "2: g"]
    assert slug("a/b", "1") != slug("a/b", "2") and slug("🚀", "1").isalnum()
