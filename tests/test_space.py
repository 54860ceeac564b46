"""Spaces: what they offer is legal, nearest, uniform and complete, whatever axes and rules they are made of."""

import itertools
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuner.expr import Domain, Expression, Value, compile_expression
from tuner.family import Axis, Rule, Space, bind, load_families, load_family, tail
from tuner.family.facts import facts_of
from tuner.model import Config, Device, Facts, Problem, Silicon, Software, UserError

ROOT = Path(__file__).parents[1]
WIDE = ROOT / "tests" / "families" / "gpu" / "wide.toml"
GPU = Device(
    Silicon("NVIDIA", "a GPU", "gpu", 132, 139),
    Software("P", "1", "OpenCL C 1.2", "d"),
    "0",
    Facts(49152, 1024, (1024, 1024, 64), 2**37, 2**35, fp64=True),
)
FACTS: dict[str, Value] = {"problem.m": 96, "device.local_mem_bytes": 40}
TINY = 4
"""A limit on rows, or on entries of a tabulated rule, that nearly every space of these tests exceeds."""


def space_of(
    axes: dict[str, list[Any]], rules: list[str], derived: dict[str, str] | None = None, max_rows: int = 10**6
) -> Space:
    names = {name: Domain.of(values) for name, values in axes.items()}
    names |= {"problem.m": Domain.between(1, 2**31 - 1), "device.local_mem_bytes": Domain.between(1, 2**40)}
    formulas: dict[str, Expression] = {}
    for name, text in (derived or {}).items():
        formulas[name] = compile_expression(text, names, "test:1")
        names[name] = formulas[name].domain
    tests = [Rule(text, compile_expression(text, names, "test:2")) for text in rules]
    return Space(
        "f", [Axis(name, tuple(values), name) for name, values in axes.items()], formulas, tests, FACTS, max_rows
    )


class Described:
    """A random space, built on demand in each way, and its legal configurations by brute force."""

    def __init__(self, axes: dict[str, list[Any]], rules: list[str], derived: dict[str, str]) -> None:
        self.axes, self.rules, self.derived = axes, rules, derived

    def __repr__(self) -> str:
        return f"Described({self.axes!r}, {self.rules!r}, {self.derived!r})"

    def space(self, max_rows: int = 10**6) -> Space:
        return space_of(self.axes, self.rules, self.derived, max_rows)

    def legal(self) -> list[Config]:
        return list(self._legal())

    def _legal(self) -> Iterator[Config]:
        space = self.space()
        for values in itertools.product(*self.axes.values()):
            env: dict[str, Any] = {**FACTS, **dict(zip(self.axes, values, strict=True))}
            plain = {"m": 96, "local_mem_bytes": 40}
            names: dict[str, Any] = {**env, "problem": _Record(plain), "device": _Record(plain)}
            for name, text in self.derived.items():
                names[name] = eval(text, {}, names)
            if all(eval(rule, {}, names) for rule in self.rules):
                yield Config.of(space.family, dict(zip(self.axes, values, strict=True)))


class _Record:
    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)


@st.composite
def described(draw: Any) -> Described:
    numbers = st.lists(st.sampled_from([0, 1, 2, 3, 4, 6, 8, 12, 16]), min_size=1, max_size=5, unique=True)
    axes: dict[str, list[Any]] = {f"a{i}": draw(numbers) for i in range(draw(st.integers(0, 5)))}
    axes["s"] = draw(st.lists(st.sampled_from(["x", "y", "z"]), min_size=1, max_size=3, unique=True))
    terms = [*(name for name in axes if name != "s"), "3"]
    derived: dict[str, str] = {}
    for i in range(draw(st.integers(0, 2))):
        a, b = draw(st.sampled_from(terms)), draw(st.sampled_from(terms))
        shapes = (f"{a} * {b}", f"{a} // max(1, {b})", f"{a} if s == 'x' else {b}", f"min({a}, problem.m) + {b}")
        derived[f"d{i}"] = draw(st.sampled_from(shapes))
        terms.append(f"d{i}")
    rules = [draw(rule(terms)) for _ in range(draw(st.integers(0, 4)))]
    return Described(axes, rules, derived)


@st.composite
def rule(draw: Any, terms: list[str]) -> str:
    a, b, c = (draw(st.sampled_from(terms)) for _ in range(3))
    return str(
        draw(
            st.sampled_from(
                [
                    f"{a} * {b} <= device.local_mem_bytes",
                    f"{a} % max(1, {b}) == 0",
                    f"{a} + {b} <= {c} + 6",
                    f"{a} in (1, 2, 4, 8) or {b} > 2",
                    f"s != 'y' or {a} >= {b}",
                    f"{a} != {b} and {a} <= problem.m",
                    f"{a} > 1",
                    f"{a} < 100 or {b} == 1",
                ]
            )
        )
    )


@pytest.fixture(params=["tabulated rules", "rules over rows"])
def any_rules(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "rules over rows":
        monkeypatch.setattr(bind, "TABLE_ENTRIES", TINY)


def examples(count: int) -> settings:
    """So many examples; the fixture only sets a module's constant, so it may stay for all of them."""
    return settings(max_examples=count, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def place(data: st.DataObject, space: Space) -> dict[str, float]:
    whole = data.draw(st.booleans())
    step = st.integers(-2, 6) if whole else st.floats(-2, 6, allow_nan=False)
    return {axis.name: float(data.draw(step)) for axis in space.axes}


def distance(space: Space, point: dict[str, float], config: Config) -> float:
    total = 0.0
    for axis in space.axes:
        inside = min(max(point[axis.name], 0.0), len(axis.values) - 1.0)
        total += abs(axis.values.index(config[axis.name]) - inside)
    return total


@examples(120)
@given(described())
def test_size_and_enumeration_equal_brute_force(any_rules: None, model: Described) -> None:
    space = model.space()
    legal = model.legal()
    assert space.size == (len(legal), True)
    listed = list(space.enumerate())
    assert len(listed) == len(legal)
    assert set(listed) == set(legal)


@examples(80)
@given(described())
def test_contains_equals_brute_force(any_rules: None, model: Described) -> None:
    space = model.space()
    legal = set(model.legal())
    for values in itertools.islice(itertools.product(*model.axes.values()), 300):
        config = Config.of("f", dict(zip(model.axes, values, strict=True)))
        assert space.contains(config) == (config in legal)


@examples(80)
@given(described(), st.integers(0, 1000))
def test_samples_are_distinct_legal_and_all_there_are(any_rules: None, model: Described, seed: int) -> None:
    legal = set(model.legal())
    for space in (model.space(), model.space(max_rows=TINY)):
        found = space.sample(np.random.default_rng(seed), 20)
        assert len(found) == len(set(found)) == min(20, len(legal))
        assert set(found) <= legal
        assert set(space.sample(np.random.default_rng(seed), 10**4)) == legal


@examples(80)
@given(st.data(), described())
def test_neighbours_differ_in_one_axis_and_are_all_there_are(
    any_rules: None, data: st.DataObject, model: Described
) -> None:
    legal = model.legal()
    if not legal:
        return
    config = data.draw(st.sampled_from(legal))
    near = {other for other in legal if sum(other[axis] != config[axis] for axis in other) == 1}
    for space in (model.space(), model.space(max_rows=TINY)):
        listed = space.neighbours(config)
        assert len(listed) == len(near)
        assert set(listed) == near
        several = data.draw(st.lists(st.sampled_from(legal), max_size=4))
        assert space.neighbours(*several) == [other for one in several for other in space.neighbours(one)]


@examples(100)
@given(st.data(), described())
def test_snap_is_nearest_and_passes_over_the_excluded(any_rules: None, data: st.DataObject, model: Described) -> None:
    space = model.space()
    legal = model.legal()
    point = place(data, space)
    excluded = set(data.draw(st.lists(st.sampled_from(legal), max_size=6))) if legal else set()
    allowed = [config for config in legal if config not in excluded]
    found = space.snap(point, excluded)
    if not allowed:
        assert found is None
        return
    assert found in allowed
    nearest = min(distance(space, point, config) for config in allowed)
    assert distance(space, point, found) == pytest.approx(nearest, abs=1e-9)
    assert model.space().snap(point, excluded) == found


@examples(80)
@given(st.data(), described())
def test_snapping_again_and_again_visits_every_configuration_once(data: st.DataObject, model: Described) -> None:
    legal = model.legal()[:200]
    whole = model.space()
    point = place(data, whole)
    if len(legal) == 200:
        return
    for space in (whole, model.space(max_rows=TINY)):
        visited: list[Config] = []
        while (found := space.snap(point, visited)) is not None:
            visited.append(found)
        assert len(visited) == len(legal)
        assert set(visited) == set(legal)
        if space is whole:
            distances = [distance(space, point, config) for config in visited]
            assert distances == pytest.approx(sorted(distances), abs=1e-9)


@examples(60)
@given(described())
def test_a_small_space_beyond_the_limit_is_counted_but_marked(model: Described) -> None:
    space = model.space(max_rows=TINY)
    size, exact = space.size
    assert size == len(model.legal())
    assert exact or any(isinstance(component, tail.CoreAndTail) for component in space._components)


@examples(60)
@given(st.data(), described())
def test_indices_lead_back_to_the_configuration(data: st.DataObject, model: Described) -> None:
    space = model.space()
    for config in space.sample(np.random.default_rng(0), 5):
        indices = space.indices(config)
        assert {axis.name: axis.values[indices[axis.name]] for axis in space.axes} == config.as_dict()
        assert space.snap({name: float(index) for name, index in indices.items()}) == config


@pytest.mark.parametrize("rules", [["a > 5"], ["a * b > 100"], ["problem.m < 50"], ["a > 1", "a < 1"]])
def test_an_empty_space(rules: list[str]) -> None:
    space = space_of({"a": [1, 2], "b": [3, 4], "c": [0, 1]}, rules)
    assert space.size == (0, True)
    assert space.sample(np.random.default_rng(0), 5) == []
    assert space.snap({"a": 0, "b": 0, "c": 0}) is None
    assert list(space.enumerate()) == []
    assert not space.contains(Config.of("f", a=1, b=3, c=0))
    assert space.neighbours(Config.of("f", a=1, b=3, c=0)) == []


@pytest.mark.parametrize(("axes", "values"), [({}, {}), ({"a": [7]}, {"a": 7})])
def test_a_space_of_one(axes: dict[str, list[Any]], values: dict[str, Any]) -> None:
    space = space_of(axes, [])
    only = Config.of("f", values)
    assert space.size == (1, True)
    assert space.sample(np.random.default_rng(0), 5) == [only]
    assert space.neighbours(only) == []
    assert space.snap(dict.fromkeys(axes, 0.0)) == only
    assert space.snap(dict.fromkeys(axes, 0.0), {only}) is None


def test_foreign_configurations() -> None:
    space = space_of({"a": [1, 2]}, [])
    assert not space.contains(Config.of("g", a=1))
    assert not space.contains(Config.of("f", a=3))
    assert not space.contains(Config.of("f", a="1"))
    assert not space.contains(Config.of("f"))
    assert not space.contains(Config.of("f", a=1, b=1))
    with pytest.raises(UserError, match="is no configuration of f as it is now"):
        space.indices(Config.of("f", a=3))


def test_a_point_needs_a_place() -> None:
    space = space_of({"a": [1, 2, 4]}, [])
    assert space.snap({"a": math.inf}) == Config.of("f", a=4)
    with pytest.raises(ValueError, match="no place along a"):
        space.snap({"a": math.nan})


def test_free_axes_are_never_multiplied_out() -> None:
    space = space_of({f"a{i}": list(range(100)) for i in range(30)}, ["a0 < a1"])
    assert space.size == (100**28 * 4950, True)
    found = space.sample(np.random.default_rng(0), 100)
    assert len(set(found)) == 100
    assert all(space.contains(config) for config in found)
    nearest = space.snap({f"a{i}": 50.0 for i in range(30)})
    assert nearest == Config.of("f", {f"a{i}": 50 for i in range(30)} | {"a0": 49})


SKEWED: dict[str, list[Any]] = {"a": list(range(16)), "b": list(range(16)), "c": list(range(16)), "d": list(range(16))}


@pytest.mark.parametrize("max_rows", [10**6, 3000])
def test_every_configuration_is_about_equally_likely(max_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "SAMPLE_ROWS", 128)
    # The number of completions of a core row differs widely: from 1 to 16 choices of d.
    space = space_of(SKEWED, ["d <= a", "(a + b + c) % 2 == 0", "b <= c"], max_rows=max_rows)
    assert space.size[1] == (max_rows == 10**6)
    rng = np.random.default_rng(7)
    drawn = [config for _ in range(200) for config in space.sample(rng, 50)]
    by_a = Counter(config["a"] for config in drawn)
    pairs = {parity: sum((b + c) % 2 == parity for b in range(16) for c in range(b, 16)) for parity in (0, 1)}
    weights = [(a + 1) * pairs[a % 2] for a in range(16)]
    for a in range(16):
        expected = len(drawn) * weights[a] / sum(weights)
        assert by_a[a] == pytest.approx(expected, abs=5 * math.sqrt(expected) + 0.05 * expected)


def test_a_small_space_is_sampled_evenly() -> None:
    space = space_of({"a": [1, 2, 3, 4], "b": [1, 2, 3, 4], "c": [0, 1]}, ["a <= b"])
    rng = np.random.default_rng(3)
    counts = Counter(space.sample(rng, 1)[0] for _ in range(4000))
    assert len(counts) == 20
    assert all(abs(count - 200) < 5 * math.sqrt(200) for count in counts.values())


def test_snap_in_a_core_and_tail_is_near(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = ["d <= a", "(a + b + c) % 2 == 0", "b <= c", "(a * d + b) % 3 == 0"]
    whole, parted = space_of(SKEWED, rules), space_of(SKEWED, rules, max_rows=300)
    assert whole.size[1] and not parted.size[1]
    monkeypatch.setattr(tail, "BEAM", 64)
    rng = np.random.default_rng(5)
    excess = []
    for _ in range(100):
        point = {name: float(rng.uniform(0, 15)) for name in SKEWED}
        found, best = parted.snap(point), whole.snap(point)
        assert found is not None and best is not None
        assert whole.contains(found)
        excess.append(distance(whole, point, found) - distance(whole, point, best))
    assert max(excess) <= 2
    assert np.mean(np.array(excess) > 1e-9) <= 0.1


def test_a_widening_beam_finds_every_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "BEAM", 8)
    space = space_of(SKEWED, ["d <= a", "(a + b + c) % 4 == 0", "b <= c"], max_rows=300)
    size, exact = space.size
    rows = [tuple(row) for row in space._by_distance(space._costs(dict.fromkeys(SKEWED, 4.2)))]
    assert not exact
    assert len(rows) == len(set(rows)) == size


def test_the_rules_of_a_family_are_bound_to_problem_and_device() -> None:
    families = load_families()
    for problem in (Problem(512, 512, 512), Problem(127, 129, 131, dtype="float64", trans_a=True, align=8)):
        for family in families.values():
            space = family.space(problem, GPU)
            assert not space.size[0] or space.contains(family.default(problem, GPU))
            for config in space.sample(np.random.default_rng(0), 30):
                assert family.broken_rule(config, problem, GPU) is None
                for other in space.neighbours(config):
                    assert family.broken_rule(other, problem, GPU) is None
                assert family.render(config, problem, GPU).steps


def test_four_trillion_raw_combinations() -> None:
    family = load_family(WIDE)
    problem = Problem(4096, 4096, 4096)
    space = family.space(problem, GPU)
    raw = math.prod(len(axis.values) for axis in family.axes)
    assert raw > 4e12
    size, exact = space.size
    assert not exact
    assert size == pytest.approx(raw * legal_share(family, problem), rel=0.15)
    found = space.sample(np.random.default_rng(0), 300)
    assert len(set(found)) == 300
    rng = np.random.default_rng(1)
    excluded: set[Config] = set()
    for config in found[:100]:
        assert family.broken_rule(config, problem, GPU) is None
        assert all(family.broken_rule(other, problem, GPU) is None for other in space.neighbours(config))
        point = {name: index + rng.normal(0, 0.2) for name, index in space.indices(config).items()}
        snapped = space.snap(point, excluded)
        assert snapped is not None
        assert family.broken_rule(snapped, problem, GPU) is None
        assert snapped not in excluded
        assert distance(space, point, snapped) <= distance(space, point, config) + 1e-9
        excluded |= {snapped, config}
    with pytest.raises(ValueError, match="too large to enumerate"):
        space.enumerate()


def legal_share(family: Any, problem: Problem) -> float:
    """The share of legal ones in raw combinations drawn at random, by the rules as loaded."""
    count = 400_000
    rng = np.random.default_rng(2)
    env: dict[str, Any] = {
        axis.name: np.array(axis.values)[rng.integers(len(axis.values), size=count)] for axis in family.axes
    }
    env |= facts_of(problem, GPU)
    for name, expression in family.derived.items():
        env[name] = expression.columns(env)
    legal = np.ones(count, dtype=bool)
    for one in family.rules:
        legal &= one.test.columns(env)
    return float(legal.mean())


FIRST_HUNDRED = """
import sys
from pathlib import Path
import numpy as np
sys.path[:0] = [{root!r}, {root!r} + "/tests"]
from test_space import GPU, WIDE
from tuner.family import load_family
from tuner.model import Problem
space = load_family(WIDE).space(Problem(4096, 4096, 4096), GPU)
assert len(space.sample(np.random.default_rng(0), 100)) == 100
# Of this process alone: getrusage also counts what its parent held when it was started.
status = Path("/proc/self/status").read_text()
print(status.split("VmHWM:")[1].split()[0])
"""


def test_the_first_hundred_proposals_take_little_memory() -> None:
    code = FIRST_HUNDRED.format(root=str(ROOT))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 500e6
