"""A child of scripts/bench_throughput: Kernel Tuner on the configurations that our pipeline judged, on the same device.

Reads a pickled job from standard input, writes JSON to standard output. Kernel Tuner gets the rendered source of each
configuration, and its own ways from there on: it builds, checks (numpy.allclose with a reference) and times, one after
the other.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tuner.opencl import drivers

AXES = ("x", "y", "z")


def main() -> None:
    """Tune until the time is up, first with a check of every result, then without."""
    job = pickle.load(sys.stdin.buffer)
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        contextlib.redirect_stdout(sys.stderr),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        _see_the_same_drivers(Path(folder))
        half = len(job["kernels"]) // 2
        checked = _tune(job, job["kernels"][:half], checked=True)
        unchecked = _tune(job, job["kernels"][half:], checked=False)
    print(json.dumps({"checked": checked, "unchecked": unchecked}))


def _see_the_same_drivers(folder: Path) -> None:
    """As our measuring process does, before pyopencl is imported: the same platforms in the same order, a new cache."""
    drivers.write_icd_files(folder / "drivers")
    drivers.install(folder / "drivers")
    os.environ["POCL_CACHE_DIR"] = str(folder)
    os.chdir(folder)  # a build that fails leaves its source in the working directory


def _tune(job: dict[str, Any], kernels: list[dict[str, Any]], *, checked: bool) -> dict[str, Any]:
    from constraint import FunctionConstraint
    from kernel_tuner import tune_kernel

    if not kernels:
        return {"configurations": 0}
    arguments, answer = _arguments(job)
    blocks = {f"block_size_{axis}": sorted({k["local"][place] for k in kernels}) for place, axis in enumerate(AXES)}
    began = time.perf_counter()
    results, _ = tune_kernel(
        kernels[0]["kernel"],
        lambda values: kernels[values["number"]]["source"],
        lambda values: tuple(
            whole // part
            for whole, part in zip(kernels[values["number"]]["global"], kernels[values["number"]]["local"], strict=True)
        ),
        arguments,
        {"number": list(range(len(kernels))), **blocks},
        grid_div_x=[],
        grid_div_y=[],
        grid_div_z=[],
        restrictions=[FunctionConstraint(lambda number, *block: block == kernels[number]["local"])],
        answer=answer if checked else None,
        atol=1e-2,
        lang="OpenCL",
        platform=job["platform"],
        device=job["device"],
        compiler_options=job["options"].split(),
        defines={},
        strategy="random_sample",
        strategy_options={"max_fevals": len(kernels), "time_limit": job["seconds"] / 2},
        quiet=True,
    )
    seconds = time.perf_counter() - began
    good = [result for result in results if isinstance(result.get("time"), int | float)]
    parts = [f"{part}_time" for part in ("compile", "verification", "benchmark")]
    busy_s = sum(result.get(part) or 0.0 for result in results for part in parts) / 1e3
    return {
        "configurations": len(results),
        "correct": len(good),
        "seconds": round(seconds, 2),
        "seconds_at_configurations": round(busy_s, 2),
        "per_second": round(len(results) / seconds, 3),
        "per_second_at_configurations": round(len(results) / busy_s, 3) if busy_s else None,
        "best_ms": min((float(result["time"]) for result in good), default=None),
    }


def _arguments(job: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """The kernels' common arguments, alpha = 1 and beta = 0, and what C must be."""
    m, n, k = job["shape"]
    dtype = np.dtype(job["dtype"])
    rng = np.random.default_rng(0)
    a, b = rng.random((m, k)).astype(dtype), rng.random((k, n)).astype(dtype)
    c = np.zeros((m, n), dtype)
    sizes = [np.int32(size) for size in (m, n, k)]

    def place(columns: int, rows: int) -> list[Any]:
        return [np.int64(0), np.int32(columns), np.int64(rows * columns)]

    given = [*sizes, dtype.type(1), a, *place(k, m), b, *place(n, k), dtype.type(0), c, *place(n, m)]
    expected: list[Any] = [None] * len(given)
    expected[-4] = a @ b
    return given, expected


if __name__ == "__main__":
    main()
