"""The comparison on the device: planted errors, and the kernel against its twin on the host."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tuner.model import DTYPES, Problem
from tuner.verify import (
    COMPARE_SOURCE,
    Layout,
    Reference,
    count_differences,
    element_type,
    guards_untouched,
    planted_errors,
)
from tuner.verify.accept import accept_equal

Array = np.ndarray[Any, Any]
ROOT = Path(__file__).parents[1]

ODD = Problem(37, 41, 43, align=4)
PROBLEMS = [
    ODD,
    Problem(20, 28, 12, batch=3),
    Problem(19, 23, 17, batch=2, dtype="float64", align=8),
    Problem(19, 23, 17, batch=2, dtype="bfloat16", align=2),
    Problem(9, 1, 5),
    Problem(1, 1, 1),
]

# Zeros


def test_negative_zero_equals_zero_on_every_path() -> None:
    for dtype in DTYPES:
        zeros = np.zeros((1, 2, 2), element_type(dtype))
        assert accept_equal(-zeros, zeros).ok
        assert count_differences(zeros.ravel(), -zeros.ravel()) == 0
        tiny = np.ones(4, f"u{zeros.itemsize}").view(zeros.dtype)
        assert count_differences(zeros.ravel(), tiny) == 4
        assert count_differences(-zeros.ravel(), tiny) == 4
        assert count_differences(tiny, -tiny) == 4


# The comparison on the device


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("pad", [False, True])
def test_every_planted_error_is_one_difference(problem: Problem, pad: bool) -> None:
    layout = Layout(problem, pad)
    flat = Reference(problem, 0).expected_flat(layout)
    assert flat is not None and guards_untouched(flat, layout).ok
    errors = planted_errors(flat, layout)
    places = {error.place: error.index for error in errors}
    assert {"first element", "middle element", "NaN"} <= set(places)
    assert places["last element"] == np.max(layout.c.view(np.arange(layout.c.elements)))
    assert places["before the first element, first"] == 0
    assert places["before the first element, last"] == layout.c.base - 1
    assert places["after the last element, first"] == places["last element"] + 1
    assert places["after the last element, last"] == layout.c.elements - 1
    assert ("between rows, last" in places) == (layout.c.ld > layout.c.columns and problem.m > 1)
    for error in errors:
        spoiled = flat.copy()
        spoiled[error.index] = np.frombuffer(error.data, flat.dtype)[0]
        assert count_differences(flat, spoiled) == 1, error.place
        inside = layout.c.view(np.arange(layout.c.elements))
        assert guards_untouched(spoiled, layout).ok == (error.index in inside), error.place


ON_DEVICES = """
import json, sys
import numpy as np, pyopencl as cl
source = open(sys.argv[1]).read()
data = np.load(sys.argv[2])
counts, refused = {}, []
for platform in cl.get_platforms():
    for device in platform.get_devices():
        context = cl.Context([device])
        try:
            cl.Program(context, "__kernel void k(__global int* x) { x[0] = 1; }").build()
        except cl.Error:
            refused.append(device.name)
            continue
        queue = cl.CommandQueue(context)
        for name in {key.split("/")[0] for key in data}:
            word = min(4, data[f"{name}/e"].itemsize)
            buffers = [cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=data[f"{name}/{i}"]) for i in "ef"]
            size = data[f"{name}/e"].size
            words = data[f"{name}/e"].itemsize // word
            for signed in ("", " -DSIGN=0u"):
                kernel = cl.Program(context, source).build(("-DWORD=ushort" if word == 2 else "") + signed)
                kernel = kernel.count_differences
                counter = np.zeros(1, np.uint32)
                result = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=counter)
                kernel(queue, (256,), None, *buffers, np.uint64(3), np.uint64(size - 3), np.uint32(words), result)
                cl.enqueue_copy(queue, counter, result)
                counts.setdefault(f"{platform.name} {platform.version}", {})[name + signed] = int(counter[0])
print(json.dumps(counts))
"""


def test_the_kernel_counts_as_its_twin_on_the_host(tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    cases: dict[str, tuple[Array, Array]] = {}
    for dtype in DTYPES:
        problem = replace(ODD, dtype=dtype, align=8)
        layout = Layout(problem, True)
        flat = Reference(problem, 0).expected_flat(layout)
        assert flat is not None
        layout.c.view(flat)[0, 0, :4] = (0.0, -0.0, 0.0, -0.0)
        zeros = flat.copy()
        layout.c.view(zeros)[0, 0, :4] *= -1
        cases[f"{dtype} signs of zeros"] = (flat, zeros)
        for error in planted_errors(flat, layout):
            spoiled = zeros.copy()
            spoiled[error.index] = np.frombuffer(error.data, flat.dtype)[0]
            cases[f"{dtype} {error.place}"] = (flat, spoiled)
        rng = np.random.default_rng(1)
        noise = np.where(rng.random(flat.size) < 0.3, rng.random(flat.size), flat.astype(np.float64)).astype(flat.dtype)
        cases[f"{dtype} many"] = (flat, noise)
        upper = flat.copy()
        word = min(4, flat.itemsize)
        upper.view(f"u{word}")[flat.itemsize // word - 1 :: flat.itemsize // word] ^= 0x100
        cases[f"{dtype} upper words"] = (flat, upper)
    path = tmp_path / "cases.npz"
    arrays: dict[str, Any] = {}
    for name, (flat, spoiled) in cases.items():
        arrays |= {f"{name}/e": flat.view(f"u{flat.itemsize}"), f"{name}/f": spoiled.view(f"u{flat.itemsize}")}
    np.savez(path, **arrays)
    command = [sys.executable, "-c", ON_DEVICES, str(ROOT / "templates" / COMPARE_SOURCE), str(path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if "PLATFORM_NOT_FOUND" in run.stderr:
        pytest.skip("no OpenCL platform here")
    assert run.returncode == 0, run.stderr
    counts = json.loads(run.stdout)
    if not counts:
        pytest.skip("no OpenCL device here can build a kernel")
    for device, found in counts.items():
        for name, (flat, spoiled) in cases.items():
            assert found[name] == count_differences(flat[3:], spoiled[3:]), (device, name)
            bits = (part[3:].view(f"u{flat.itemsize}") for part in (flat, spoiled))
            assert found[name + " -DSIGN=0u"] == np.count_nonzero(np.not_equal(*bits)), (device, name)
