"""Kernel Tuner's strategies on a recorded space, in its own simulation mode (`pip install gemm-tuner[benchmark]`)."""

from __future__ import annotations

import contextlib
import io
import json
import math
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tuner.search.recorded import RecordedSpace
from tuner.search.replay import Replayed, Settings

STRATEGIES = (
    "random_sample",
    "genetic_algorithm",
    "diff_evo",
    "pso",
    "firefly_algorithm",
    "simulated_annealing",
    "dual_annealing",
    "basinhopping",
    "mls",
    "greedy_mls",
    "ordered_greedy_mls",
    "greedy_ils",
    "bayes_opt",
    "hybrid_vndx",
    "adaptive_tabu_greywolf",
)
"""Those that take a budget of evaluations, by Kernel Tuner's names."""


def write_cache(space: RecordedSpace, path: Path) -> None:
    """`space` as a cache file of Kernel Tuner; what failed is an error there."""
    names = [axis.name for axis in space.axes]
    entries = {}
    for config, time_ms in space.times.items():
        values = config.as_dict()
        key = ",".join(str(values[name]) for name in names)
        took = {"compile_time": 0, "verification_time": 0, "benchmark_time": 0}
        entries[key] = {**values, "time": "RuntimeFailedConfig" if time_ms is None else time_ms, **took}
    cache = {
        "device_name": space.name,
        "kernel_name": "gemm",
        "problem_size": [1],
        "tune_params_keys": names,
        "tune_params": {axis.name: list(axis.values) for axis in space.axes},
        "cache": entries,
    }
    path.write_text(json.dumps(cache, indent=0))


def replay_strategy(space: RecordedSpace, cache: Path, strategy: str, settings: Settings) -> Replayed:
    """As `tuner.search.replay.replay`, by one of Kernel Tuner's strategies; `seconds` are all that it took itself."""
    runs = [_run(space, cache, strategy, settings.evaluations, settings.seed + r) for r in range(settings.repeats)]
    return Replayed(np.array([fractions for fractions, _ in runs]), np.array([seconds for _, seconds in runs]))


def _run(space: RecordedSpace, cache: Path, strategy: str, evaluations: int, seed: int) -> tuple[list[float], float]:
    from kernel_tuner import tune_cache

    np.random.seed(seed)
    began = time.perf_counter()
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        results, environment = tune_cache(
            str(cache),
            strategy=strategy,
            strategy_options={"max_fevals": evaluations},
            seed=seed,
            verbose=False,
            quiet=True,
        )
    spent = time.perf_counter() - began
    return _fractions(space, results, evaluations), min(spent, _own_seconds(environment, spent))


def _own_seconds(environment: dict[str, Any], otherwise: float) -> float:
    """What the strategy itself took, without reading the file and building the space."""
    return float(environment.get("total_strategy_time", otherwise * 1e3)) / 1e3


def _fractions(space: RecordedSpace, results: list[dict[str, Any]], evaluations: int) -> list[float]:
    """Optimum ÷ best so far, after each distinct configuration."""
    best, fractions, seen = math.inf, [], set()
    for result in results:
        key = tuple(result[axis.name] for axis in space.axes)
        if key in seen:
            continue
        seen.add(key)
        if isinstance(result.get("time"), int | float):
            best = min(best, float(result["time"]))
        fractions.append(space.best_ms / best)
    return (fractions + fractions[-1:] * evaluations)[:evaluations]
