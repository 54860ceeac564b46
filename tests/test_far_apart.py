"""Operands of more than 2^31 elements are indexed right, by every family: along rows, batches and offsets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from tests.test_templates import as_gpu
from tuner.family import load_families
from tuner.model import Config, Device, Problem

ROOT = Path(__file__).parents[1]
FAMILIES = load_families()
NEEDED_BYTES = 2 * (2**31 + 2**20)


RANDOM = np.random.default_rng(6)


def few_registers(configs: list[Config]) -> Config:
    """Those are built soonest."""
    return min(configs, key=lambda c: int(c.as_dict().get("wptm", 1)) * int(c.as_dict().get("wptn", 1)))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_every_operand_of_every_family(name: str, device: Device, tmp_path: Path) -> None:
    if device.facts.max_alloc_bytes < NEEDED_BYTES:
        pytest.skip("this device has no buffers of that size")
    family, of = FAMILIES[name], as_gpu(device)
    jobs = []
    for trans in (False, True):
        problem = Problem.packed(3, 3, 3, batch=2, dtype="float16", trans_a=trans, trans_b=trans, align=2)
        if family.space(problem, of).size[0] == 0:
            pytest.skip(f"{name} is not for such a device or product")
        configs = [family.default(problem, of), few_registers(family.space(problem, of).sample(RANDOM, 30))]
        for config in configs:
            rendered = family.render(config, problem, of).to_json()
            jobs += [
                {"problem": asdict(problem), "rendered": rendered, "operand": operand, "apart": apart}
                for operand in "abc"
                for apart in ("rows", "batch", "offset")
            ]
    listing = tmp_path / "jobs.json"
    listing.write_text(json.dumps(jobs))
    command = [sys.executable, str(ROOT / "tests" / "far_apart.py"), device.address, str(listing)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    found = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(found) == len(jobs), run.stderr
    wrong = [
        f"{job['operand']} {job['apart']} {job['problem']}" for job, right in zip(jobs, found, strict=True) if not right
    ]
    assert not wrong
