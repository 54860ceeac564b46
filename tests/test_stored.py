"""Elements of 16 bits: what stands between storage and arithmetic on every device, and what checks make of both."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fakes import DEVICE
from tuner.family import load_families
from tuner.family.source import without_comments
from tuner.model import DTYPES, Config, Device, Facts, Problem
from tuner.verify import Layout, Reference, element_type

ROOT = Path(__file__).parents[1]
NARROW = [name for name, dtype in DTYPES.items() if dtype.is_narrow]
FAMILIES = load_families()
Array = np.ndarray[Any, Any]

CONVERT = """
__kernel void convert(__global const ushort* bits, __global float* reals, __global const float* values,
                      __global ushort* rounded)
{
    const int i = get_global_id(0);
    reals[i] = to_real(bits[i]);
    rounded[i] = to_stored(values[i]);
    if (i % 8 == 0) { // vectors give the same; where they don't, what is written here does not pass
        const float8 wide = to_real8(vload8(0, bits + i)), alone = (float8)(to_real(bits[i]), to_real(bits[i + 1]),
            to_real(bits[i + 2]), to_real(bits[i + 3]), to_real(bits[i + 4]), to_real(bits[i + 5]),
            to_real(bits[i + 6]), to_real(bits[i + 7]));
        const ushort4 narrow = to_stored4(vload4(0, values + i));
        if (any(as_int8(wide) != as_int8(alone)) || (narrow.s3 != to_stored(values[i + 3]) && !isnan(values[i + 3])))
            reals[i] = 12345;
    }
}
"""

ON_DEVICE = """
import sys, tempfile
from pathlib import Path
import numpy as np
from tuner.bench import choose, list_devices
from tuner.opencl import drivers

if __name__ == "__main__":
    device = choose(list_devices(), sys.argv[1])
    with tempfile.TemporaryDirectory() as vendors:
        drivers.write_icd_files(Path(vendors, "icd"))
        drivers.install(Path(vendors, "icd"))
        import pyopencl as cl
        from tuner.opencl.describe import find
        context = cl.Context([find(device)])
        queue = cl.CommandQueue(context)
        for path in sys.argv[2:]:
            given = np.load(path)
            kernel = cl.Kernel(cl.Program(context, Path(path).with_suffix(".cl").read_text()).build(), "convert")
            bits, values = given["bits"], given["values"]
            reals, rounded = np.empty_like(values), np.empty_like(bits)
            copy = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
            buffers = [cl.Buffer(context, copy, hostbuf=x) for x in (bits, reals, values, rounded)]
            kernel(queue, bits.shape, None, *buffers)
            cl.enqueue_copy(queue, reals, buffers[1])
            cl.enqueue_copy(queue, rounded, buffers[3])
            np.savez(Path(path).with_suffix(".out.npz"), reals=reals, rounded=rounded)
"""


def floats_to_round(count: int) -> Array:
    """Any bits at all, and values on, just below and just above the middle between two stored ones."""
    rng = np.random.default_rng(3)
    anything = rng.integers(0, 2**32, count // 2, dtype=np.uint32)
    near = rng.integers(0, 2**16, count // 2, dtype=np.uint32) << np.uint32(16)
    middle = np.where(rng.random(count // 2) < 0.5, np.uint32(0x8000), np.uint32(0x1000))
    near += middle + rng.integers(-1, 2, count // 2).astype(np.uint32)
    small = rng.random(count // 8).astype(np.float32) * np.float32(2.0**-14)
    found = np.concatenate([anything, near]).view(np.float32)
    found[: len(small)] = small
    return found


def test_every_element_is_read_and_rounded_as_numpy_does(device: Device, tmp_path: Path) -> None:
    values = floats_to_round(2**16)
    bits = np.arange(2**16, dtype=np.uint16)
    problem = Problem.packed(8, 8, 8)
    paths = []
    for dtype in NARROW:
        narrow = replace(problem, dtype=dtype)
        family = FAMILIES["naive"]
        source = family.render(family.default(narrow, device), narrow, device).source
        path = tmp_path / f"{dtype}.npz"
        np.savez(path, bits=bits, values=values)
        path.with_suffix(".cl").write_text(source + CONVERT)
        paths.append(path)
    script = tmp_path / "convert.py"
    script.write_text(ON_DEVICE)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, str(script), device.address, *map(str, paths)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    for dtype, path in zip(NARROW, paths, strict=True):
        found = np.load(path.with_suffix(".out.npz"))
        stored = element_type(dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            expected = values.astype(stored)
            reals = bits.view(stored).astype(np.float32)
        assert np.array_equal(found["reals"], reals, equal_nan=True), dtype
        number = ~np.isnan(values)
        assert np.array_equal(found["rounded"][number], expected.view(np.uint16)[number]), dtype
        assert np.isnan(found["rounded"].view(stored)[~number]).all(), f"{dtype}: NaN stays NaN"


# Checks


def rounded_product(problem: Problem, seed: int, accumulate: Any, lost: int = 0) -> tuple[Reference, Layout, Array]:
    """C's buffer after a kernel that accumulates in `accumulate`, and forgets the last `lost` steps of k."""
    reference, layout = Reference(problem, seed, "floats"), Layout(problem)
    given = reference.operands
    left, right = given.left[0].astype(np.float32), given.right[0].astype(np.float32)
    total = np.zeros((problem.m, problem.n), np.float32)
    for p in range(problem.k - lost):
        total = (total + left[:, p, None] * right[p]).astype(accumulate).astype(np.float32)
    flat = given.flat_c(layout)
    layout.c.view(flat)[0] = total.astype(element_type(problem.dtype))
    return reference, layout, flat


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("k", [64, 1024, 4096, 16384])
def test_the_bound_of_16_bit_types_scales_with_k(dtype: str, k: int) -> None:
    problem = Problem(24, 40, k, dtype=dtype)
    reference, layout, right = rounded_product(problem, 7, np.float32)
    accepted = reference.accept(right, layout)
    assert accepted.ok and accepted.error_ratio is not None and accepted.error_ratio < 0.5, accepted.message
    _, _, without_a_tile = rounded_product(problem, 7, np.float32, lost=16)
    assert not reference.accept(without_a_tile, layout).ok
    _, _, in_16_bits = rounded_product(problem, 7, element_type(dtype))
    assert not reference.accept(in_16_bits, layout).ok


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_integers_of_16_bit_types_see_every_part_of_k(dtype: str, rows: int) -> None:
    given = Reference(Problem(rows, 5, 8192, dtype=dtype), 3).operands
    counts = given.left[0] != 0
    blocks = counts.reshape(rows, -1, 8192 // given.terms).any(axis=2)
    assert blocks.all(), "each part of k counts in each row"
    lanes = counts.any(axis=0).reshape(-1, 8).any(axis=0)
    assert lanes.all(), "and so does each lane of a vector"


# Templates


def gpu() -> Device:
    facts = Facts(49152, 1024, (1024, 1024, 64), 2**36, 2**34, fp64=True, c_level=300, sub_group_size=32)
    return replace(DEVICE, facts=replace(facts, async_copy=True), silicon=replace(DEVICE.silicon, compute_units=132))


def test_sources_are_what_they_were_when_last_changed_on_purpose() -> None:
    """A change of a source makes everything that was measured of it count for nothing, so none happens by chance."""
    stored = json.loads((ROOT / "tests/data/source_hashes.json").read_text(encoding="utf-8"))
    for line, digest in stored.items():
        name, dtype, values = line.split(" ", 2)
        problem = Problem.packed(130, 77, 256, trans_b=True, dtype=dtype)
        config = FAMILIES[name].complete(json.loads(values))
        assert FAMILIES[name].render(config, problem, gpu()).source_hash == digest, line


@pytest.mark.parametrize("name", sorted(FAMILIES))
@pytest.mark.parametrize("dtype", NARROW)
def test_no_extension_is_asked_for(name: str, dtype: str) -> None:
    family, problem = FAMILIES[name], Problem.packed(64, 64, 64, dtype=dtype)
    for config in family.space(problem, gpu()).sample(np.random.default_rng(2), 20):
        source = without_comments(family.render(config, problem, gpu()).source)
        assert "EXTENSION" not in source and not re.search(r"(?<!_)\bhalf\d* \w", source)


def test_tiles_are_as_wide_as_what_is_copied_to_them() -> None:
    family, problem = FAMILIES["register_tiled"], Problem.packed(256, 256, 256, dtype="float16")
    base = {**family.defaults[1].as_dict(), "pad_a": 0}
    copied = family.derive(Config.of(family.name, base), problem, gpu())
    converted = family.derive(Config.of(family.name, base, async_copy=0), problem, gpu())
    assert 2 * int(copied["local_bytes"]) == int(converted["local_bytes"])
