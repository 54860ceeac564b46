"""Our own format: one JSON object a line, a heading first and a count last; `docs/interchange.md` describes it."""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, TextIO

from tuner.model import Champion, Record, Silicon, Software, canonical_json
from tuner.store import Foreign, Miss, Store

FORMAT = 1
HEADING, END = "gemm-tuner", "end"
TRIAL, CHAMPION, CERTIFICATE, PORTFOLIO, MISS = "trial", "champion", "certificate", "portfolio", "miss"
INFINITE = "infinite"
"""How an error ratio without bound is written: JSON has no word for it."""

Wanted = Callable[[Silicon, Software], bool]


def write_lines(store: Store, out: TextIO, wanted: Wanted) -> int:
    """Write everything about the devices `wanted`; returns the number of lines between heading and end."""
    heading = {"kind": HEADING, "format": FORMAT, "from": socket.gethostname(), "when": datetime.now(UTC).isoformat()}
    out.write(f"{canonical_json(heading)}\n")
    count = 0
    for row in _rows(store, wanted):
        out.write(f"{canonical_json(row)}\n")
        count += 1
    out.write(f"{canonical_json({'kind': END, 'lines': count})}\n")
    return count


def _rows(store: Store, wanted: Wanted) -> Iterator[dict[str, Any]]:
    for record in store.records():
        if wanted(record.silicon, record.software):
            yield trial_row(record)
    for champion in store.champions():
        if wanted(champion.silicon, champion.software):
            yield {"kind": CHAMPION, **champion_row(champion)}
    for (silicon, software, problem), held in store.certificates().items():
        if wanted(silicon, software):
            key = {"silicon": vars(silicon), "software": vars(software), "problem": vars(problem)}
            for source_hash, one in held.items():
                about = {"source_hash": source_hash, "checks": list(one.checks), "when": one.when}
                yield {"kind": CERTIFICATE, **key, **about}
    for found in store.foreign():
        if wanted(found.silicon, found.software):
            yield {**json.loads(found.body), "kind": found.kind, "imported_from": found.imported_from}
    for missed in store.misses():
        if wanted(missed.silicon, missed.software):
            times = {"count": missed.count, "first": missed.first, "last": missed.last}
            yield {"kind": MISS, **key_row(missed), "origin": missed.origin, **times}


def key_row(about: Record | Champion | Miss | Foreign) -> dict[str, Any]:
    """Silicon, software and problem, field by field."""
    return {"silicon": vars(about.silicon), "software": vars(about.software), "problem": vars(about.problem)}


def trial_row(record: Record) -> dict[str, Any]:
    """A trial, with the fields that a newer gemm-tuner gave it."""
    found = record.measurement
    ratio = found.error_ratio
    return {
        **(json.loads(record.extra) if record.extra else {}),
        "kind": TRIAL,
        **key_row(record),
        "family": record.config.family,
        "config": record.config.as_dict(),
        "verdict": found.verdict.value,
        "samples_ms": list(found.samples_ms),
        "compile_ms": found.compile_ms,
        "verify_ms": found.verify_ms,
        "error_ratio": INFINITE if ratio is not None and math.isinf(ratio) else ratio,
        "message": found.message,
        "registers": found.compiler.registers,
        "spill_bytes": found.compiler.spill_bytes,
        "local_bytes": found.compiler.local_bytes,
        "log": found.compiler.log,
        "source_hash": record.source_hash,
        "family_hash": record.family_hash,
        "run": record.run,
        "when": record.when,
        **({} if record.imported_from is None else {"imported_from": record.imported_from}),
    }


def champion_row(champion: Champion) -> dict[str, Any]:
    """A champion with its source and launch plan, and with its certificate if it has one."""
    held = champion.certificate
    return {
        **key_row(champion),
        "family": champion.config.family,
        "config": champion.config.as_dict(),
        "rendered": champion.rendered.to_json(),
        "source_hash": champion.rendered.source_hash,
        "time_ms": champion.time_ms,
        "noise": champion.noise,
        "certificate": None if held is None else {"checks": list(held.checks), "when": held.when},
        "reason": champion.reason,
        "when": champion.when,
        "pinned": champion.pinned,
    }
