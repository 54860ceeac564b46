"""Wrong kernels are refused by every path that accepts results, and at the latest where the catalogue says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.mutants.catalogue import MUTANTS, RECTANGLE, SQUARE, Latest, Mutant, right
from tests.mutants.harness import build, measure, program
from tests.mutants.laboratory import FLOAT_WAYS, INTEGER_WAYS, Laboratory, Sample, Way
from tuner.bench import Bench, Case, CheckOutcome, ContenderFailed
from tuner.model import Problem, Verdict
from tuner.search.certify import EVERY_KIND, other_shapes, own_case
from tuner.verify import DRAWN, KINDS, kind_named

SEED = 1
"""Of the drawn alpha and beta: see `test_the_drawn_factors_are_like_no_fixed_ones`."""


def at(*latest: Latest) -> pytest.MarkDecorator:
    """Each mutant that is refused there at the latest."""
    return pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.latest in latest], ids=str)


def samples(problem: Problem, ways: tuple[Way, ...], kind: str = "plain") -> list[Sample]:
    """Without alpha there is no product, and then no need for Freivalds' check of one."""
    return [Sample(problem, way, kind) for way in ways if KINDS[kind].alpha or way is not Way.FREIVALDS]


def refusals(bench: Bench, lab: Laboratory, mutant: Mutant, of: list[Sample]) -> dict[Sample, bool]:
    """Whether the mutant is refused on each sample, the right kernel having been accepted just before."""
    needs_dtype(bench, mutant.problem)
    judged = lab.judge(of, program(bench, right(mutant.problem)), program(bench, mutant.rendered()))
    for sample, found in zip(of, judged, strict=True):
        assert found.by == sample.way
        assert found.right.ok, found.right.message
    return {sample: not found.candidate.ok for sample, found in zip(of, judged, strict=True)}


def needs_dtype(bench: Bench, problem: Problem) -> None:
    if not bench.device.has(problem.dtype):
        pytest.skip(f"this device has no {problem.dtype}")


def certify(bench: Bench, mutant: Mutant) -> CheckOutcome:
    """With the same alpha and beta every time: some of the mutants are right for one in a thousand that are drawn."""
    return bench.check([own_case(mutant.problem, mutant.rendered(), SEED)])


def test_every_file_is_in_the_catalogue_and_says_what_is_wrong() -> None:
    files = {path.stem: path for path in (Path(__file__).parent / "wrong").glob("*.cl")}
    assert set(files) == {mutant.name for mutant in MUTANTS}
    for name, path in files.items():
        assert path.read_text(encoding="utf-8").startswith("// Wrong: "), name


def test_the_drawn_factors_are_like_no_fixed_ones() -> None:
    drawn = kind_named(f"{DRAWN}{SEED}")
    for factor in (drawn.alpha, drawn.beta):
        assert abs(factor - round(factor)) > 0.1 and abs(2 * factor - round(2 * factor)) > 0.1


# Path by path


@at(Latest.INTEGERS)
def test_refused_on_integers_by_every_path(bench: Bench, lab: Laboratory, mutant: Mutant) -> None:
    refused = refusals(bench, lab, mutant, samples(mutant.problem, INTEGER_WAYS))
    assert all(refused.values()), refused


@at(Latest.FLOATS)
def test_refused_on_floats_by_every_path(bench: Bench, lab: Laboratory, mutant: Mutant) -> None:
    every = samples(mutant.problem, (*FLOAT_WAYS, *INTEGER_WAYS))
    refused = refusals(bench, lab, mutant, every)
    assert refused == {sample: sample.way in FLOAT_WAYS for sample in every}


@at(Latest.KINDS)
def test_refused_by_every_path_in_the_kinds_of_call_that_show_it(bench: Bench, lab: Laboratory, mutant: Mutant) -> None:
    assert mutant.shows is not None
    showing = {name for name, kind in KINDS.items() if mutant.shows(kind)}
    assert showing & set(EVERY_KIND), "no kind of call shows it"
    every = [sample for kind in KINDS for sample in samples(mutant.problem, INTEGER_WAYS, kind)]
    refused = refusals(bench, lab, mutant, every)
    assert refused == {sample: sample.kind in showing for sample in every}


# Through the bench


def assert_accepted(bench: Bench, problem: Problem) -> None:
    accepted = measure(bench, problem, right(problem))
    assert accepted.verdict is Verdict.CORRECT, accepted.message
    assert accepted.time_ms is not None and accepted.error_ratio is not None


def assert_refused(bench: Bench, mutant: Mutant) -> None:
    refused = measure(bench, mutant.problem, mutant.rendered(), often=mutant.latest is Latest.CALLS)
    assert refused.verdict is Verdict.WRONG_RESULT
    assert refused.time_ms is None and refused.message


@pytest.mark.parametrize("problem", dict.fromkeys(mutant.problem for mutant in MUTANTS), ids=str)
def test_the_right_kernel_is_timed(bench: Bench, problem: Problem) -> None:
    needs_dtype(bench, problem)
    assert_accepted(bench, problem)


@at(Latest.INTEGERS, Latest.FLOATS, Latest.CALLS)
def test_a_mutant_is_never_timed(bench: Bench, mutant: Mutant) -> None:
    needs_dtype(bench, mutant.problem)
    assert_refused(bench, mutant)


@pytest.mark.parametrize("name", ["empty", "leaves_first_row"])
def test_what_a_right_kernel_left_in_c_helps_nobody(bench: Bench, name: str) -> None:
    assert_accepted(bench, RECTANGLE)
    assert_refused(bench, Mutant(name))


@at(Latest.CALLS)
def test_a_trial_names_the_call_after_which_the_result_changes(bench: Bench, mutant: Mutant) -> None:
    refused = measure(bench, mutant.problem, mutant.rendered(), often=True)
    assert re.search(r"changes after \d+ calls: .", refused.message)


@at(Latest.CALLS)
@pytest.mark.parametrize("place", [0, 1])
def test_a_mutant_loses_every_race_and_harms_nobody_in_it(bench: Bench, mutant: Mutant, place: int) -> None:
    contenders = [(of, build(bench, of)) for of in (right(mutant.problem), mutant.rendered())]
    for _ in range(3):
        with pytest.raises(ContenderFailed) as failed:
            bench.rounds(mutant.problem, contenders if place else contenders[::-1], 2)
        if failed.value.verdict is not Verdict.BAD_CLOCK:  # which speaks of a machine that others use
            break
    assert (failed.value.index, failed.value.verdict) == (place, Verdict.WRONG_RESULT)
    assert re.search(r"changes after \d+ calls|writes to A or B", str(failed.value))


@at(Latest.KINDS, Latest.CERTIFICATE)
def test_a_mutant_that_trials_cannot_see_is_never_certified(bench: Bench, mutant: Mutant) -> None:
    needs_dtype(bench, mutant.problem)
    trial = measure(bench, mutant.problem, mutant.rendered())
    assert trial.verdict is Verdict.CORRECT, f"it belongs to those that trials see: {trial.message}"
    outcome = certify(bench, mutant)
    assert outcome.verdict is Verdict.WRONG_RESULT
    assert outcome.message


@pytest.mark.parametrize("name", ["writes_to_a", "spoils_b_if_alpha_is_zero"])
def test_the_right_kernel_is_certified_after_one_that_spoils_operands(bench: Bench, name: str) -> None:
    assert certify(bench, Mutant(name)).verdict is Verdict.WRONG_RESULT
    outcome = bench.check([Case(RECTANGLE, right(RECTANGLE), EVERY_KIND)])
    assert outcome.verdict is Verdict.CORRECT, outcome.message


def test_the_right_kernel_is_certified(bench: Bench) -> None:
    outcome = bench.check([Case(RECTANGLE, right(RECTANGLE), EVERY_KIND, fresh=True, repeats=3)])
    assert outcome.verdict is Verdict.CORRECT, outcome.message


@pytest.mark.parametrize("name", ["square_only", "whole_tiles_of_k"])
def test_what_is_right_on_its_own_shape_only_is_refused_on_another(bench: Bench, name: str) -> None:
    mutant = Mutant(name, problem=SQUARE)
    own = Case(SQUARE, mutant.rendered(), EVERY_KIND, fresh=True, repeats=3)
    assert bench.check([own]).verdict is Verdict.CORRECT
    shapes = other_shapes(SQUARE)
    outcome = bench.check([Case(shape, mutant.rendered(shape)) for shape in shapes])
    assert outcome.verdict is Verdict.WRONG_RESULT
    assert bench.check([Case(shape, right(shape)) for shape in shapes]).verdict is Verdict.CORRECT
