"""The built-in families on every device: legal configurations are right on whatever shape, layout and type."""

from __future__ import annotations

import dataclasses
import zlib
from typing import Any

import numpy as np
import pytest

from tuner.bench import Bench, Case
from tuner.family import Family, load_families
from tuner.model import DTYPES, MATHS, Config, Device, Problem, Silicon, Software, Verdict
from tuner.search.certify import EVERY_KIND

FAMILIES = load_families()
WEAKEST = Device(Silicon("any", "any", "gpu", 1, 1), Software("", "", "", ""), "any")
EVERYWHERE = sorted(name for name, family in FAMILIES.items() if family.space(Problem(8, 8, 8), WEAKEST).size[0])
"""Families that ask nothing special of a device; those that do have test files of their own."""


def as_gpu(device: Device) -> Device:
    """The device as a large one with sub-groups of 32, so that what only such devices need is tried on all."""
    facts = dataclasses.replace(device.facts, sub_group_size=max(32, device.facts.sub_group_size))
    return dataclasses.replace(device, silicon=dataclasses.replace(device.silicon, compute_units=64), facts=facts)


def dtypes_of(device: Device) -> list[str]:
    return [name for name in DTYPES if device.has(name)]


def random_problem(rng: np.random.Generator, device: Device, family: str = "register_tiled") -> Problem:
    """One that the family takes."""
    if rng.random() < 0.3:  # sizes that tiles divide
        m, n, k = (int(size) for size in rng.choice([64, 96, 128, 192], 3))
    else:
        m, n, k = (int(size) for size in rng.integers(1, 150, 3))
    if family == "skinny":
        short = int(rng.integers(1, 17))
        m, n = (short, n) if rng.random() < 0.5 else (m, short)
    trans_a, trans_b = (bool(flag) for flag in rng.integers(0, 2, 2))
    return Problem.packed(
        m,
        n,
        k,
        batch=int(rng.integers(1, 4)),
        dtype=str(rng.choice(dtypes_of(device))),
        trans_a=trans_a,
        trans_b=trans_b,
    )


def random_config(rng: np.random.Generator, family: Family, problem: Problem, device: Device) -> Config:
    """CPU compilers take half a minute for the conversions of very large register tiles."""
    drawn = family.space(problem, device).sample(rng, 20 if DTYPES[problem.dtype].is_narrow else 1)
    small = (c for c in drawn if int(c.as_dict().get("wptm", 1)) * int(c.as_dict().get("wptn", 1)) <= 32)
    return next(small, drawn[0])


def check(bench: Bench, family: Family, every: list[tuple[Config, Problem]], device: Device) -> None:
    """In one certificate, so that its builds use all cores."""
    cases = [
        Case(problem, family.render(config, problem, device), ("plain", "alpha_beta")) for config, problem in every
    ]
    outcome = bench.check(cases)
    suspects = [config for config, problem in every if str(problem) in outcome.message]
    assert outcome.verdict is Verdict.CORRECT, f"{outcome.message}; one of {suspects or every}"


def specialises_at_launch(device: Device) -> bool:
    """Such a driver compiles again for every launch of another size, which takes most of the time here."""
    return "Portable Computing Language" in device.software.platform


@pytest.mark.parametrize("name", EVERYWHERE)
def test_random_configurations_on_random_problems(bench: Bench, name: str) -> None:
    family, device = FAMILIES[name], as_gpu(bench.device)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    every = []
    for _ in range((12 if name == "register_tiled" else 6) // (3 if specialises_at_launch(device) else 1)):
        problem = random_problem(rng, device, name)
        config = random_config(rng, family, problem, device)
        every.append((config, problem))
    check(bench, family, every, device)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_random_configurations(bench: Bench) -> None:
    family, device = FAMILIES["register_tiled"], as_gpu(bench.device)
    rng = np.random.default_rng(20)
    for _ in range(150):
        problem = random_problem(rng, device)
        config = random_config(rng, family, problem, device)
        check(bench, family, [(config, problem)], device)


BASE = {
    **{"tsm": 32, "tsn": 32, "tsk": 8, "wptm": 4, "wptn": 4, "vw": 4, "chunk": 4, "pad_a": 0, "pad_b": 0},
    **{"turn_a": 1, "stages": 2, "async_copy": 0, "ahead": 0, "unroll": 1},
    **{"lanes_m": 0, "swizzle": 1, "split_k": 1},
}


@pytest.mark.parametrize(
    "change",
    [
        {"turn_a": 0, "pad_a": 1},
        {"stages": 1, "pad_b": 4, "unroll": 4},
        {"ahead": 1},
        {"lanes_m": 4, "tsm": 64, "tsk": 16},
        {"lanes_m": 8, "ahead": 1, "tsm": 64, "tsk": 16},
        {"swizzle": 2},
        {"split_k": 4},
        {"split_k": 3, "swizzle": 2, "vw": 2, "chunk": 2},
        {"wptm": 2, "wptn": 8, "chunk": 8, "vw": 2},
        {"pre_a": 1},
        {"pre_a": 1, "turn_a": 0, "pad_a": 2, "split_k": 2},
        {"fragments": 0, "stages": 1, "vw": 1, "chunk": 1},
        {"vw": 1, "vw_b": 4},
        {"vw": 4, "vw_b": 1, "turn_a": 0},
        {"slices": 2, "unroll": 4, "tsk": 16},
        {"slices": 4, "stages": 1, "split_k": 2, "pad_b": 1, "tsk": 32},
        {"slices": 2, "ahead": 1, "lanes_m": 4, "tsm": 64, "tsk": 16, "order": "z", "vw": 2},
        {"order": "columns", "lanes_m": 8, "tsm": 64, "tsk": 16},
        {"order": "z", "lanes_m": 2, "tsn": 64, "tsk": 16},
    ],
    ids=str,
)
def test_each_axis_of_register_tiled(bench: Bench, change: dict[str, int]) -> None:
    family, device = FAMILIES["register_tiled"], as_gpu(bench.device)
    shapes = [(67, 45, 51)] if specialises_at_launch(device) else [(96, 64, 80), (67, 45, 51), (37, 130, 97)]
    config = family.complete({**BASE, **change})
    check(bench, family, [(config, Problem.packed(*shape)) for shape in shapes], device)


@pytest.mark.parametrize(
    "change",
    [
        {"split_k": 4},
        {"split_k": 3, "slices": 2, "unroll": 4, "tsk": 16, "swizzle": 2},
        {"split_k": 2, "lanes_m": 4, "tsm": 64, "tsk": 16, "pre_a": 1, "chunk": 2, "vw": 2},
    ],
    ids=str,
)
def test_the_last_group_adds_up_what_others_left(bench: Bench, change: dict[str, int]) -> None:
    family, device = FAMILIES["register_tiled"], as_gpu(bench.device)
    config = family.complete({**BASE, **change, "join": "last"})
    problems = [Problem.packed(67, 45, 75, batch=2), Problem.packed(64, 96, 80, dtype="float16", trans_b=True)]
    if broken := family.broken_rule(config, problems[0], device):
        pytest.skip(broken)
    check(bench, family, [(config, problem) for problem in problems], device)


def test_a_group_that_leaves_the_count_as_it_is_is_found_out(bench: Bench) -> None:
    """Its first product is right: the count was zero then."""
    family, device = FAMILIES["register_tiled"], as_gpu(bench.device)
    config, problem = family.complete({**BASE, "split_k": 4, "join": "last"}), Problem.packed(67, 45, 51)
    if broken := family.broken_rule(config, problem, device):
        pytest.skip(broken)
    right = family.render(config, problem, device)
    assert right.zeroed == ("arrivals",)
    wrong = dataclasses.replace(right, source=right.source.replace("arrivals[tile] = 0;", ";"), source_hash="wrong")
    assert wrong.source != right.source
    trial = bench.measure(problem, wrong, bench.build(wrong).result(), best_ms=None)
    assert trial.verdict is Verdict.WRONG_RESULT, trial.message
    certificate = bench.check([Case(problem, wrong, ("plain",), repeats=2)])
    assert certificate.verdict is Verdict.WRONG_RESULT, certificate.message


@pytest.mark.parametrize("trans", [(False, False), (True, False), (False, True), (True, True)])
def test_operands_copied_by_launches_before(bench: Bench, trans: tuple[bool, bool]) -> None:
    """Badly aligned ones are, whichever way they lie."""
    family, device = FAMILIES["register_tiled"], as_gpu(bench.device)
    trans_a, trans_b = trans
    config = family.complete({**BASE, "pre_a": 1, "pre_b": 1})
    problem = Problem.packed(67, 45, 51, trans_a=trans_a, trans_b=trans_b, batch=2)
    narrow = Problem.packed(35, 33, 37, dtype="float16", trans_a=trans_a, trans_b=trans_b)
    check(bench, family, [(config, problem), (config, narrow)], device)


@pytest.mark.parametrize("name", EVERYWHERE)
def test_every_kind_of_alpha_and_beta(bench: Bench, name: str) -> None:
    family, device = FAMILIES[name], bench.device
    problem = Problem.packed(7 if name == "skinny" else 37, 41, 29)
    config = family.default(problem, device)
    outcome = bench.check([Case(problem, family.render(config, problem, device), EVERY_KIND)])
    assert outcome.verdict is Verdict.CORRECT, outcome.message


@pytest.mark.parametrize("name", EVERYWHERE)
def test_the_smallest_shapes(bench: Bench, name: str) -> None:
    family, device = FAMILIES[name], bench.device
    problems = [Problem.packed(*shape) for shape in [(1, 1, 1), (1, 50, 3), (50, 1, 3), (2, 3, 200)]]
    check(bench, family, [(family.default(problem, device), problem) for problem in problems], device)


TILES = {
    **{"wptm": 4, "wptn": 2, "vw": 4, "mc": 16, "nc": 32, "kc": 64, "pack_a": 0, "pack_b": 2},
    **{"rows_outside": 1, "prefetch_b": 0, "prefetch_c": 0, "split_k": 1, "unroll": 1},
}
"""Of 4 x 8 elements, in blocks of 16 x 32."""
ASKING = {"prefetch_b": 1, "prefetch_c": 1}
VECTOR_CASES: list[tuple[dict[str, int], dict[str, Any]]] = [
    ({}, {"m": 7, "n": 7, "k": 1}),
    ({"rows_outside": 0}, {"m": 5, "n": 9, "k": 130, "trans_b": True}),
    ({"pack_b": 0}, {"m": 1, "n": 64, "k": 65, "batch": 2}),
    ({"pack_b": 0, "rows_outside": 0}, {"m": 33, "n": 64, "k": 70, "trans_a": True}),
    ({"pack_b": 0, "wptn": 1, "vw": 1, "wptm": 16}, {"m": 17, "n": 7, "k": 66, "trans_b": True}),
    ({"pack_a": 1, "pack_b": 1}, {"m": 15, "n": 31, "k": 300, "batch": 2}),
    ({"pack_a": 1, "pack_b": 1}, {"m": 63, "n": 65, "k": 20, "trans_a": True, "trans_b": True}),
    ({"pack_a": 2}, {"m": 50, "n": 40, "k": 129}),
    ({"pack_a": 2, "pack_b": 1, "unroll": 4}, {"m": 47, "n": 33, "k": 67, "trans_a": True}),
    ({"pack_a": 2, "pack_b": 0, "wptm": 3}, {"m": 31, "n": 32, "k": 64}),
    ({"wptm": 7, "wptn": 3}, {"m": 43, "n": 71, "k": 31, "dtype": "float64"}),
    ({"mc": 4096, "nc": 2048, "kc": 192}, {"m": 40, "n": 56, "k": 200, "batch": 2, "dtype": "float64"}),
    (ASKING, {"m": 37, "n": 75, "k": 141}),
    ({"split_k": 4}, {"m": 13, "n": 27, "k": 515, "batch": 2}),
    ({"split_k": 2, "pack_a": 1, "pack_b": 1}, {"m": 9, "n": 8, "k": 300, "dtype": "bfloat16", "trans_a": True}),
    ({"kc": 192}, {"m": 33, "n": 39, "k": 70, "dtype": "float16"}),
    ({"kc": 192, "pack_b": 0, "rows_outside": 0, **ASKING}, {"m": 11, "n": 40, "k": 190, "dtype": "bfloat16"}),
    ({"kc": 192, "pack_a": 1, "pack_b": 1}, {"m": 23, "n": 41, "k": 65, "dtype": "float16", "trans_b": True}),
    ({"pack_b": 0, "rows_outside": 0, "wptn": 4, **ASKING}, {"m": 9, "n": 96, "k": 70}),
]
"""Every way of having both operands, with each layout and type, at sizes of 1, 7, and one beside whole tiles."""


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.soak), 5])
def test_each_axis_of_vector(bench: Bench, step: int) -> None:
    family, device = FAMILIES["vector"], bench.device
    every = [(family.complete({**TILES, **change}), Problem.packed(**shape)) for change, shape in VECTOR_CASES]
    legal = [(config, problem) for config, problem in every if family.broken_rule(config, problem, device) is None]
    check(bench, family, legal[:: max(3, step) if specialises_at_launch(device) else step], device)
    assert len(legal) == len(every) or device.silicon.kind != "cpu" or not device.facts.fp64


def test_vector_shares_panels_evenly() -> None:
    """17 panels for 3 work-items are 6, 6 and 5: no work-item has a crumb, and none more than mc and nc allow."""
    family, device = FAMILIES["vector"], Device(Silicon("any", "any", "cpu", 3, 0), Software("", "", "", ""), "any")
    config = family.complete({**TILES, "pack_b": 1, "nc": 48, "mc": 64})
    sizes = family.derive(config, Problem.packed(64, 136, 64), device)
    assert (sizes["columns_of_items"], sizes["block_columns"]) == (3, 48)
    assert (sizes["rows_of_items"], sizes["block_rows"]) == (1, 64)


SKINNY = {
    **{
        "lanes": 1,
        "slices": 1,
        "vw": 4,
        "wpt": 1,
        "rows": 4,
        "unroll": 1,
        "staged": 0,
        "reduce": "local",
        "split_k": 1,
    },
}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"lanes": 8, "slices": 4, "staged": 1, "unroll": 2},
        {"lanes": 4, "slices": 8, "rows": 3, "wpt": 2, "split_k": 2},
        {"slices": 16, "rows": 2, "vw": 2, "staged": 1, "split_k": 2},
        {"lanes": 4, "rows": 6, "vw": 8, "wpt": 2, "unroll": 2},
    ],
    ids=str,
)
def test_each_way_of_skinny(bench: Bench, change: dict[str, Any]) -> None:
    """Few rows and few columns, the large operand along its long side and along k, with edges and without."""
    family, device = FAMILIES["skinny"], as_gpu(bench.device)
    config = family.complete({**SKINNY, **change})
    shapes = [(5, 67, 83)] if specialises_at_launch(device) else [(4, 128, 64), (5, 67, 83), (67, 16, 96)]
    every = [
        (config, Problem.packed(*shape, trans_a=trans_a, trans_b=trans_b))
        for shape in shapes
        for trans_a, trans_b in [(False, False), (True, True)]
    ]
    legal = [(config, problem) for config, problem in every if family.broken_rule(config, problem, device) is None]
    assert len(legal) > len(every) / 2, [family.broken_rule(config, problem, device) for config, problem in every]
    check(bench, family, legal, device)


def test_sub_groups_add_up_sums(bench: Bench) -> None:
    """Where the device has shuffles or functions for it: sums over all lanes, over some, over several sub-groups."""
    family, device = FAMILIES["skinny"], bench.device
    choices = [{"lanes": 32}, {"lanes": 64, "rows": 1}, {"lanes": 16, "slices": 4}, {"lanes": 8, "slices": 64, "vw": 1}]
    every = [
        (family.complete({**SKINNY, "reduce": "sub_group", **choice}), Problem.packed(*shape, dtype=dtype))
        for choice in choices
        for shape in [(3, 70, 300), (70, 3, 300)]
        for dtype in dtypes_of(device)[::2]
    ]
    legal = [(config, problem) for config, problem in every if family.broken_rule(config, problem, device) is None]
    check(bench, family, legal, device)
    assert bool(legal) == bool(device.facts.sub_group_reduce)


def test_skinny_is_for_few_rows_or_columns_alone(any_device: Device) -> None:
    """So that no search of another product spends anything on it."""
    sizes = {
        shape: FAMILIES["skinny"].space(Problem.packed(*shape), any_device).size[0]
        for shape in [(17, 17, 512), (4096, 4096, 4096), (16, 4096, 4096), (4096, 1, 4096)]
    }
    assert [bool(size) for size in sizes.values()] == [False, False, True, True]


def test_every_default_of_skinny_is_legal_somewhere(any_device: Device) -> None:
    """On a GPU with shuffles, on one without, or on a CPU; and each kind of device has one for every row count."""
    family = FAMILIES["skinny"]
    facts = dataclasses.replace(
        any_device.facts, sub_group_size=32, max_group_size=1024, max_item_sizes=(1024, 1024, 64), local_mem_bytes=49152
    )
    large = dataclasses.replace(facts, local_mem_bytes=262144)
    gpu = Silicon("Acme", "Anvil 9", "gpu", 132, 141)
    shuffling = Device(gpu, any_device.software, "gpu", dataclasses.replace(facts, sub_group_reduce="ptx"))
    plain = Device(gpu, any_device.software, "gpu", dataclasses.replace(facts, sub_group_reduce=""))
    cpu = Device(dataclasses.replace(gpu, kind="cpu", compute_units=2), any_device.software, "cpu", large)
    used = set()
    for device in (shuffling, plain, cpu):
        for short in range(1, 17):
            for shape in [(short, 4096, 4096), (4096, short, 4096)]:
                for trans_b in (False, True):
                    problem = Problem.packed(*shape, trans_b=trans_b)
                    used |= {c for c in family.defaults if family.broken_rule(c, problem, device) is None}
                    first = family.default(problem, device)
                    assert (int(first["lanes"]) * int(first["slices"]) >= 32) == (device is not cpu)
    assert used == set(family.defaults)


def test_asynchronous_copies(bench: Bench) -> None:
    """Where the device has them: every operand layout, with edges and without, in two to four stages."""
    family, device = FAMILIES["register_tiled"], bench.device
    choices = [{"stages": s, "ahead": a, "turn_a": t} for s in (2, 3, 4) for a in (0, 1) for t in (0, 1)]
    configs = [
        family.complete({**BASE, "async_copy": 1, "lanes_m": 4, "tsm": 64, "tsk": 16, **choice}) for choice in choices
    ]
    rng = np.random.default_rng(4)
    every = [(config, random_problem(rng, device)) for config in configs]
    legal = [(config, problem) for config, problem in every if family.broken_rule(config, problem, device) is None]
    check(bench, family, legal, device)
    assert bool(legal) == device.facts.async_copy


@pytest.mark.parametrize("math", [math for math in MATHS if math != "strict"])
def test_strict_families_serve_every_math(bench: Bench, math: str) -> None:
    device = bench.device
    problem = Problem.packed(70, 66, 130, math=math)
    here = [family for family in FAMILIES.values() if family.space(problem, device).size[0] > 0]
    cases = [Case(problem, family.render(family.default(problem, device), problem, device)) for family in here]
    outcome = bench.check(cases)
    assert len(cases) >= 4 and outcome.verdict is Verdict.CORRECT, outcome.message
    said = [check for check in outcome.checks if "RMS error" in check]
    assert len(said) == (5 * len(cases) if math == "fp32_equivalent" else 0)
