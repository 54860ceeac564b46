"""Every family in Oclgrind's simulation: nothing outside a buffer, no race, nothing read that was not written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fakes import DEVICE
from tuner.family import Family, load_families
from tuner.model import DTYPES, Config, Device, Facts, Problem, Rendered, Silicon, Step

ROOT = Path(__file__).parents[1]
FAMILIES = load_families()
OPTIONS = ("--data-races", "--uninitialized", "--max-errors", "20", "--num-threads", "1", "--local-mem-size", "65536")
"""Twice what `simulated` has: the simulator counts the local memory of all kernels of a program for each of them."""
Job = tuple[Problem, Rendered]

pytestmark = pytest.mark.skipif(shutil.which("oclgrind") is None, reason="oclgrind is not installed")


def simulated(kind: str) -> Device:
    """A device of Oclgrind's limits, as a GPU or a CPU; it knows no asynchronous copies."""
    facts = Facts(32768, 256, (256, 256, 256), fp64=True, sub_group_size=32 if kind == "gpu" else 1)
    return replace(DEVICE, silicon=Silicon("Oclgrind", "Simulator", kind, 4, 4), facts=facts)


JOINED = ", *(__global const"
"""The second piece of a vector that is read in several: the simulator's watch for what was never written dies of it."""


def reports(jobs: list[Job], folder: Path) -> list[dict[str, Any]]:
    """What came of each job: whether C is right, and what Oclgrind said."""
    joined = [JOINED in rendered.source for _, rendered in jobs]
    found: list[dict[str, Any] | None] = [None] * len(jobs)
    for flag, options in ((False, OPTIONS), (True, tuple(o for o in OPTIONS if o != "--uninitialized"))):
        here = [number for number, is_joined in enumerate(joined) if is_joined is flag]
        part = folder / f"joined-{flag}"
        part.mkdir(exist_ok=True)
        for number, report in zip(here, _simulate([jobs[n] for n in here], options, part), strict=True):
            found[number] = report
    return [report for report in found if report is not None]


def _simulate(jobs: list[Job], options: tuple[str, ...], folder: Path) -> list[dict[str, Any]]:
    if not jobs:
        return []
    listing, log = folder / "jobs.json", folder / "oclgrind.log"
    listing.write_text(json.dumps([{"problem": asdict(p), "rendered": r.to_json()} for p, r in jobs]))
    python = [sys.executable, str(ROOT / "tests" / "simulated.py"), str(listing), str(log)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "PYOPENCL_NO_CACHE": "1"}
    run = subprocess.run(
        ["oclgrind", *options, "--log", str(log), *python], env=environment, capture_output=True, text=True
    )
    found = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    assert len(found) == len(jobs), (
        f"status {run.returncode}: {run.stderr[-2000:]}{log.read_text()[-2000:] if log.exists() else ''}"
    )
    return found


def assert_clean(jobs: list[tuple[Config, Job]], folder: Path) -> None:
    for (config, (problem, _)), found in zip(jobs, reports([job for _, job in jobs], folder), strict=True):
        assert found == {"right": True, "said": ""}, f"{config} for {problem}: {found['said'][:3000]}"


def sample(family: Family, kind: str, rng: np.random.Generator, count: int, shapes: list[tuple[int, int, int]]) -> Any:
    """`count` random configurations, each for one of the shapes, in types, transposes and batches by turns."""
    device = simulated(kind)
    for number in range(count):
        dtype = list(DTYPES)[(number + 2) % len(DTYPES)]
        trans_a, trans_b = (bool(flag) for flag in rng.integers(0, 2, 2))
        shape = shapes[number % len(shapes)]
        batch = 1 + number % 2
        problem = Problem.packed(*shape, batch=batch, dtype=dtype, trans_a=trans_a, trans_b=trans_b)
        drawn = family.space(problem, device).sample(rng, 30)
        if not drawn:  # a family for some shapes or types only
            continue
        # Of few work-items and small tiles: a simulator takes a microsecond for each instruction of each.
        config = min(drawn, key=lambda c: items(family, c, problem, device))
        yield config, (problem, family.render(config, problem, device))


def items(family: Family, config: Config, problem: Problem, device: Device) -> int:
    """Work-items, and with them how long a simulation takes; a register tile's elements are as many instructions."""
    side = {**family.derive(config, problem, device), **config.as_dict()}
    each = int(side.get("wptm", 1)) * int(side.get("wptn", 1)) * int(side.get("tsk", side.get("ts", 1)))
    return each * sum(int(np.prod(step.global_size)) for step in family.render(config, problem, device).steps)


def kind_of(name: str) -> str:
    return "cpu" if name == "vector" else "gpu"


SIMULATED = [
    name
    for name, family in sorted(FAMILIES.items())
    if any(
        family.space(Problem.packed(*shape), simulated(kind_of(name))).size[0] > 0
        for shape in ((33, 20, 17), (9, 17, 8))
    )
]
"""Without those that need what no simulator has, such as a vendor's matrix unit."""

SMALL = [(1, 1, 1), (7, 5, 3), (9, 17, 8), (1, 33, 20), (15, 16, 17)]


@pytest.mark.parametrize("name", SIMULATED)
def test_a_sample_of_each_family(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    kind = kind_of(name)
    assert_clean(list(sample(FAMILIES[name], kind, rng, 5, SMALL)), tmp_path)


def edges(family: Family, rng: np.random.Generator, kind: str, count: int) -> Any:
    """Shapes one below and one above a configuration's own tile."""
    device = simulated(kind)
    for number in range(count):
        dtype = list(DTYPES)[number % len(DTYPES)]
        trans_a, trans_b = (bool(flag) for flag in rng.integers(0, 2, 2))
        near = Problem.packed(64, 64, 32, dtype=dtype, trans_a=trans_a, trans_b=trans_b)
        drawn = family.space(near, device).sample(rng, 1)
        if not drawn:
            continue
        config = drawn[0]
        side = {**family.derive(config, near, device), **config.as_dict()}
        m = int(side.get("tsm", side.get("ts", side.get("group_m", side.get("wptm", 8)))))
        n = int(side.get("tsn", side.get("ts", side.get("group_n", side.get("nr", 8)))))
        k = int(side.get("tsk", side.get("ts", 8)))
        step = -1 if number % 2 else 1
        m, n, k = (max(1, length + step) for length in (m, n, k))
        problem = Problem.packed(m, n, k, dtype=dtype, trans_a=trans_a, trans_b=trans_b)
        if family.broken_rule(config, problem, device) is None:
            yield config, (problem, family.render(config, problem, device))


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", SIMULATED)
def test_many_of_each_family(name: str, tmp_path: Path) -> None:
    """Tile ± 1, then 127x129x131, which takes a simulator about a minute each."""
    rng = np.random.default_rng(zlib.crc32(name.encode()) + 1)
    kind = kind_of(name)
    assert_clean(list(edges(FAMILIES[name], rng, kind, 40)), tmp_path)
    assert_clean(list(sample(FAMILIES[name], kind, rng, 8, [*SMALL, (7, 7, 7)])), tmp_path)
    assert_clean(list(sample(FAMILIES[name], kind, rng, 2, [(127, 129, 131)])), tmp_path)


# The simulator itself: it sees what it is trusted to see.

BROKEN = {
    "outside": ("out[0] = a[m * k];", "Invalid read"),
    "written": ("out[1000] = 0;", "Invalid write"),
    "uninitialised": ("out[0] = c[0] > 0 ? 1 : 0;", "ninitialized"),
    "race": ("__local float x[1]; x[0] = get_local_id(0); barrier(1); out[0] = x[0];", "race"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_the_simulator_sees(what: str, tmp_path: Path) -> None:
    body, expected = BROKEN[what]
    arguments = "const int m, const int n, const int k"
    for scalar, name in (("alpha", "a"), ("", "b"), ("beta", "c")):
        first = f", const float {scalar}" if scalar else ""
        arguments += (
            f"{first}, __global float* {name}, const long {name}_offset, const int ld{name}, const long s{name}"
        )
    source = f"__kernel void k({arguments}) {{ __global float* out = c; {body} }}"
    rendered = Rendered(source, "", (Step("k", (4, 1, 1), (4, 1, 1)),))
    [found] = reports([(Problem.packed(2, 2, 2), rendered)], tmp_path)
    assert expected in found["said"]


def test_every_family_of_plain_opencl_is_simulated() -> None:
    assert {"naive", "tiled", "register_tiled", "vector"} <= set(SIMULATED)
