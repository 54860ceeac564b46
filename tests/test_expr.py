"""The expression language: both forms agree, domains hold, and what is unsound is refused with its place."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.expr import ANY_BOOL, ANY_STR, Domain, ceil_div, compile_expression
from tuner.model import UserError

SIZE = 2**31 - 1
CHOICES: dict[str, list[Any]] = {
    "tsm": [16, 32, 96, 256],
    "wptm": [1, 2, 3, 8],
    "pad": [0, 1, 4],
    "shift": [-5, -1, 1, 7],
}
NAMES = {
    **{name: Domain.of(values) for name, values in CHOICES.items()},
    "order": Domain.of(["rows", "z"]),
    "problem.m": Domain.between(1, SIZE),
    "problem.n": Domain.between(1, SIZE),
    "problem.trans_a": ANY_BOOL,
    "device.kind": ANY_STR,
}


def compiled(text: str) -> Any:
    return compile_expression(text, NAMES, "f.toml:3")


def row(draw: Any) -> dict[str, Any]:
    size = st.one_of(st.integers(1, 5), st.integers(1, SIZE), st.just(SIZE))
    return {
        **{name: draw(st.sampled_from(values)) for name, values in CHOICES.items()},
        "order": draw(st.sampled_from(["rows", "z"])),
        "problem.m": draw(size),
        "problem.n": draw(size),
        "problem.trans_a": draw(st.booleans()),
        "device.kind": draw(st.sampled_from(["cpu", "gpu"])),
    }


NUMBERS = st.sampled_from([*CHOICES, "problem.m", "problem.n", "0", "1", "3", "64"])
FLOATS = st.sampled_from(["0.5", "-1.25", "7.0"])
TRUTHS = st.sampled_from(["problem.trans_a", "order == 'z'", "device.kind != 'gpu'", "tsm in (16, 96)", "True"])


@st.composite
def numbers(draw: Any, depth: int = 3, floats: bool = True) -> str:
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return str(draw(st.one_of(NUMBERS, FLOATS) if floats else NUMBERS))
    a, b = draw(numbers(depth - 1, floats)), draw(numbers(depth - 1, floats))
    whole = [f"({a}) // max(1, {b})", f"({a}) % max(1, {b})", f"ceil_div({a}, max(1, {b}))", f"({a}) // ({b})"]
    shapes = [
        f"({a}) + ({b})",
        f"({a}) - ({b})",
        f"({a}) * ({b})",
        f"min({a}, {b})",
        f"max({a}, {b}, 2)",
        f"-({a})",
        *whole,
    ]
    if floats:
        shapes += [f"({a}) / max(1, {b})", f"({a}) / ({b})"]
    if draw(st.integers(0, 4)) == 0:
        return f"({a}) if ({draw(truths(depth - 1, floats))}) else ({b})"
    return str(draw(st.sampled_from(shapes)))


@st.composite
def truths(draw: Any, depth: int = 3, floats: bool = True) -> str:
    if depth <= 0 or draw(st.integers(0, 4)) == 0:
        return str(draw(TRUTHS))
    a, b, c = (draw(numbers(depth - 1, floats)) for _ in range(3))
    p, q = draw(truths(depth - 1, floats)), draw(truths(depth - 1, floats))
    sign, other = (draw(st.sampled_from(["<", "<=", ">", ">=", "==", "!="])) for _ in range(2))
    shapes = [f"({a}) {sign} ({b})", f"({a}) {sign} ({b}) {other} ({c})", f"({p}) and ({q})", f"({p}) or ({q})"]
    shapes += [f"not ({p})", f"({a}) in (0, 1, -3)", f"({a}) not in (2, 16)"]
    return str(draw(st.sampled_from(shapes)))


def holds_in(domain: Domain, value: Any) -> bool:
    if domain.values is not None:
        return value in domain.values
    return domain.kind in ("str", "bool") or domain.low <= value <= domain.high


@settings(max_examples=400, deadline=None)
@given(st.data(), st.one_of(numbers(), truths()))
def test_column_form_equals_scalar_form(data: st.DataObject, text: str) -> None:
    try:
        expression = compiled(text)
    except UserError:  # such as a divisor that may be 0
        return
    rows = [row(data.draw) for _ in range(3)]
    alone = [expression.scalar({name: one[name] for name in expression.names}) for one in rows]
    columns = {name: np.array([one[name] for one in rows]) for name in NAMES}
    together = np.broadcast_to(expression.columns(columns), (3,)).tolist()
    assert together == alone
    assert all(holds_in(expression.domain, value) for value in alone)
    assert {type(value).__name__ for value in alone} == {expression.domain.kind}


@settings(max_examples=200, deadline=None)
@given(st.data(), st.one_of(numbers(floats=False), truths(floats=False)))
def test_means_what_python_means(data: st.DataObject, text: str) -> None:
    try:
        expression = compiled(text)
    except UserError:
        return
    env = row(data.draw)
    spaces = {"problem": SimpleNamespace(), "device": SimpleNamespace(), "ceil_div": ceil_div}
    for name, value in env.items():
        if "." in name:
            setattr(spaces[name.partition(".")[0]], name.partition(".")[2], value)
    assert expression.scalar(env) == eval(text, {}, {**env, **spaces})


@settings(max_examples=100, deadline=None)
@given(st.data(), numbers())
def test_a_column_may_meet_a_plain_value(data: st.DataObject, text: str) -> None:
    try:
        expression = compiled(text)
    except UserError:
        return
    env = row(data.draw)
    sizes = [1, 7, SIZE]
    mixed = np.broadcast_to(expression.columns({**env, "problem.m": np.array(sizes)}), (3,)).tolist()
    assert mixed == [expression.scalar({**env, "problem.m": size}) for size in sizes]


def test_products_beyond_64_bits_are_exact() -> None:
    expression = compiled("problem.m * problem.n * problem.m // 3 % 1000")
    columns = {"problem.m": np.array([SIZE, 5]), "problem.n": np.array([SIZE, 7])}
    result = expression.columns(columns)
    assert result.tolist() == [SIZE**3 // 3 % 1000, 58]
    assert result.dtype == np.int64


def test_finite_sets_show_that_a_quotient_is_never_zero() -> None:
    assert compiled("256 // (tsm // wptm)").domain.low >= 1


def test_division_by_what_may_be_zero_is_refused() -> None:
    with pytest.raises(UserError, match=r"f\.toml:3: .*`wptm // tsm` may be 0.*write max\(1, wptm // tsm\)"):
        compiled("tsm % (wptm // tsm)")


def test_a_divisor_on_both_sides_of_zero_is_allowed_and_bounded() -> None:
    expression = compiled("problem.m // shift")
    assert (expression.domain.low, expression.domain.high) == (-SIZE, SIZE)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("problem.m % tsm", 0, 255),
        ("problem.m % problem.n", 0, SIZE - 1),
        ("problem.m % -problem.n", 1 - SIZE, 0),
        ("tsm % (problem.m + 256)", 16, 256),
        ("-problem.m % shift", -4, 6),
        ("ceil_div(problem.m, tsm)", 1, 2**27),
        ("problem.m - problem.n", 1 - SIZE, SIZE - 1),
        ("problem.m * shift", -5 * SIZE, 7 * SIZE),
        ("min(problem.m, tsm)", 1, 256),
        ("problem.m / 4", 0.25, SIZE / 4),
        ("problem.m if problem.trans_a else -3", -3, SIZE),
    ],
)
def test_bounds_are_tight(text: str, low: float, high: float) -> None:
    domain = compiled(text).domain
    assert (domain.low, domain.high) == (low, high)


def test_what_is_known_rests_on_no_name() -> None:
    assert compiled("tsm < 1000 and wptm > 2").names == {"wptm"}
    assert compiled("tsm < 1000 or wptm > 2").domain.single == (True,)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tsn + 1", "unknown name `tsn` (did you mean `tsm`?)"),
        ("problem.q", "unknown name `problem.q`"),
        ("tsm ** 2", "`tsm ** 2` is not part of the expression language"),
        ("tsm & 1 == 0", "not part of the expression language"),
        ("abs(tsm)", "min, max and ceil_div are"),
        ("max(tsm, key=tsm)", "not part of the expression language"),
        ("__import__('os').system('true')", "not part of the expression language"),
        ("[tsm][0]", "not part of the expression language"),
        ("tsm.real", "unknown name `tsm.real`"),
        ("tsm.a.b", "not part of the expression language"),
        ("lambda: tsm", "not part of the expression language"),
        ("f'{tsm}'", "not part of the expression language"),
        ("None", "not part of the expression language"),
        ("1e999", "not part of the expression language"),
        ("tsm is 1", "not part of the expression language"),
        ("tsm and wptm", "`tsm` is a whole number where a boolean is needed"),
        ("not tsm", "`tsm` is a whole number where a boolean is needed"),
        ("(tsm > 1) + 1", "is a boolean where a whole number is needed"),
        ("-order", "`order` is a string where a whole number is needed"),
        ("order < 'z'", "`<` cannot compare"),
        ("order == 1", "`==` cannot compare a string `order` with a whole number `1`"),
        ("problem.trans_a == 1", "`==` cannot compare a boolean"),
        ("tsm if order == 'z' else order", "of different types"),
        ("tsm if tsm else 1", "where a boolean is needed"),
        ("tsm in (wptm, 2)", "a tuple of literals"),
        ("tsm in [1, 2]", "a tuple of literals"),
        ("tsm in ()", "a tuple of literals"),
        ("tsm // 0.5", "`//` takes whole numbers"),
        ("tsm / pad", "`pad` may be 0"),
        ("ceil_div(tsm, pad)", "`pad` may be 0"),
        ("1 // 0", "`0` may be 0"),
        ("min(tsm)", "two or more arguments"),
        ("ceil_div(tsm, 1, 2)", "takes two arguments"),
        ("*".join(["problem.m"] * 20), "may grow too large"),
        ("9" * 200, "may grow too large"),
        ("-" * 80 + "tsm", "nested too deeply"),
        ("(" * 5000 + "1" + ")" * 5000, "not a Python expression"),
        ("tsm +", "not a Python expression"),
        ("tsm; wptm", "not a Python expression"),
        ("", "not a Python expression"),
    ],
)
def test_refused(text: str, complaint: str) -> None:
    with pytest.raises(UserError) as refusal:
        compiled(text)
    assert str(refusal.value).startswith("f.toml:3: in `")
    assert complaint in str(refusal.value)


def test_a_text_may_span_lines() -> None:
    assert compiled("\n  tsm +\n  wptm\n").scalar({"tsm": 16, "wptm": 2}) == 18


def test_a_domain_has_one_type() -> None:
    with pytest.raises(TypeError):
        Domain.of([1, "a"])
