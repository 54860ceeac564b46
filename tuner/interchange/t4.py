"""Trials in T4, the auto-tuning community's schema for results.

Version 1.0.0, https://github.com/odgaard/TuningSchema, as Kernel Tuner 1.5 ships it. The
schema leaves room for more: each result also has its `device` and `problem`.
"""

from __future__ import annotations

import json
from typing import Any, TextIO

from tuner.interchange.lines import Wanted
from tuner.model import Record, Verdict, canonical_json
from tuner.store import Store

SCHEMA_VERSION = "1.0.0"

INVALIDITY = {
    Verdict.CORRECT: "correct",
    Verdict.ILLEGAL: "constraints",
    Verdict.COMPILE_FAILED: "compile",
    Verdict.COMPILE_TIMED_OUT: "timeout",
    Verdict.LAUNCH_FAILED: "runtime",
    Verdict.WRONG_RESULT: "correctness",
    Verdict.TIMED_OUT: "timeout",
    Verdict.CRASHED: "runtime",
    Verdict.BAD_CLOCK: "runtime",
    Verdict.UNSUPPORTED: "constraints",
}
"""Our verdicts in the schema's words."""


def write_t4(store: Store, out: TextIO, wanted: Wanted) -> int:
    """Write the trials on the devices `wanted`, as they stream; returns how many."""
    head = {"schema_version": SCHEMA_VERSION, "metadata": {"timeunit": "milliseconds"}}
    out.write(f'{json.dumps(head)[:-1]}, "results": [')
    count = 0
    for record in store.records():
        if wanted(record.silicon, record.software):
            out.write(f"{',' if count else ''}\n{canonical_json(result(record))}")
            count += 1
    out.write("\n]}\n")
    return count


def result(record: Record) -> dict[str, Any]:
    """One trial as a result of the schema; durations in ms. What was not measured apart is 0, as the schema has it."""
    found = record.measurement
    times = {
        "compilation_time": found.compile_ms,
        "runtimes": list(found.samples_ms),
        "framework": 0.0,
        "search_algorithm": 0.0,
        "validation": found.verify_ms,
    }
    measurements: list[dict[str, Any]] = []
    if found.time_ms is not None:
        measurements = [
            {"name": "time", "value": found.time_ms, "unit": "ms"},
            {"name": "rate", "value": record.problem.gflops(found.time_ms), "unit": "GFLOP/s"},
        ]
    return {
        "timestamp": record.when,
        "configuration": {"family": record.config.family, **record.config.as_dict()},
        "objectives": ["time"],
        "times": times,
        "invalidity": INVALIDITY[found.verdict],
        "correctness": int(found.verdict is Verdict.CORRECT),
        "measurements": measurements,
        "device": {"silicon": vars(record.silicon), "software": vars(record.software)},
        "problem": vars(record.problem),
    }
