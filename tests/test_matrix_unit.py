"""The family for matrix units: offered where there is one, right there, and its pieces as exact as it says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.test_templates import check
from tuner.bench import Bench
from tuner.family import load_families
from tuner.model import Device, Facts, Problem, Silicon, Software, UserError

FAMILY = load_families()["matrix_unit"]
FACTS = Facts(
    local_mem_bytes=48 * 1024,
    max_group_size=1024,
    max_item_sizes=(1024, 1024, 64),
    global_mem_bytes=2**37,
    max_alloc_bytes=2**35,
    sub_group_size=32,
    async_copy=True,
    matrix_unit="mma",
)
WITH_UNIT = Device(Silicon("any", "any", "gpu", 132, 140), Software("", "", "", ""), "any", FACTS)
KINDS = [
    *(("float16", "strict"), ("bfloat16", "strict")),
    *(("float32", "fp32_equivalent"), ("float32", "tf32")),
]
LAYOUTS = [(False, False), (True, False), (False, True), (True, True)]


def test_a_device_without_a_unit_is_not_offered_the_family() -> None:
    without = replace(WITH_UNIT, facts=replace(FACTS, matrix_unit=""))
    problem = Problem.packed(512, 512, 512, dtype="float16")
    assert FAMILY.space(problem, without).size == (0, True)
    assert FAMILY.rank(problem, without) == 0
    with pytest.raises(UserError, match="the device has a matrix unit that we can program"):
        FAMILY.default(problem, without)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_strict_arithmetic_is_never_given_up(dtype: str) -> None:
    problem = Problem.packed(512, 512, 512, dtype=dtype)
    assert FAMILY.space(problem, WITH_UNIT).size == (0, True) and FAMILY.rank(problem, WITH_UNIT) == 0


@pytest.mark.parametrize(("dtype", "math"), KINDS)
def test_every_layout_has_a_default_and_renders(dtype: str, math: str) -> None:
    rng = np.random.default_rng(3)
    for trans_a, trans_b in LAYOUTS:
        for m, n, k in ((512, 512, 512), (301, 263, 131), (65, 1000, 70)):
            problem = Problem.packed(m, n, k, dtype=dtype, math=math, trans_a=trans_a, trans_b=trans_b)
            configs = [FAMILY.default(problem, WITH_UNIT), *FAMILY.space(problem, WITH_UNIT).sample(rng, 5)]
            for config in configs:
                rendered = FAMILY.render(config, problem, WITH_UNIT)
                assert "mma.sync" in rendered.source
                assert (rendered.steps[-1].scratch == ("parts",)) == (config["split_k"] != 1)
                assert dict(rendered.scratch).keys() == {name for step in rendered.steps for name in step.scratch}


def test_short_sums_are_not_offered_as_float32() -> None:
    """Below 64 products strict arithmetic's own error is as small."""
    problem = Problem.packed(512, 512, 63, math="fp32_equivalent")
    assert FAMILY.space(problem, WITH_UNIT).size == (0, True)


@pytest.mark.parametrize(("dtype", "math"), KINDS)
def test_random_configurations_are_right(bench: Bench, dtype: str, math: str) -> None:
    device = bench.device
    rng = np.random.default_rng(5)
    every = []
    for trans_a, trans_b in LAYOUTS:
        for m, n, k in ((301, 263, 131), (128, 256, 512)):
            problem = Problem.packed(m, n, k, dtype=dtype, math=math, trans_a=trans_a, trans_b=trans_b, batch=2)
            every += [(config, problem) for config in FAMILY.space(problem, device).sample(rng, 3)]
    assert bool(every) == (device.facts.matrix_unit == "mma")
    if every:
        check(bench, FAMILY, every, device)


def pieces(x: np.ndarray, largest: float) -> tuple[np.ndarray, np.ndarray]:
    """HIGH and LOW as the pre-passes make them, scaled back; the largest magnitude is brought to [2^14, 2^15)."""
    scale = np.exp2(14.0 - np.floor(np.log2(largest)))
    scaled = x.astype(np.float64) * scale
    high = scaled.astype(np.float16).astype(np.float64)
    low = ((scaled - high) * 2.0**12).astype(np.float16).astype(np.float64) * 2.0**-12
    return high / scale, low / scale


def test_two_pieces_hold_a_float32_nearly_to_its_own_precision() -> None:
    """Down to 2^-27 of the largest magnitude of a panel, beyond which the pre-passes give a panel up."""
    rng = np.random.default_rng(7)
    for exponent in range(-27, 1):
        x = (rng.uniform(1, 2, 20_000) * 2.0**exponent * rng.choice([-1, 1], 20_000)).astype(np.float32)
        high, low = pieces(x, 1.5)
        assert np.all(np.abs(high + low - x) <= 1.001 * 2.0**-23 * np.abs(x.astype(np.float64)))
        assert np.all(np.abs(low) <= 2.0**-11 * np.abs(x.astype(np.float64)))
    beyond = (rng.uniform(1, 2, 20_000) * 2.0**-34).astype(np.float32)
    high, low = pieces(beyond, 1.5)
    assert np.any(np.abs(high + low - beyond) > 2.0**-22 * beyond), "the limit is there for a reason"
