"""A big store from a seed, for reports to be measured and tested on: every number in it is made up, by fixed rules.

Four devices of vendors that do not exist, problems of many shapes, nights of searching with races, champions, drivers
that change, baselines, peaks, misses, a regression, and failures with what a compiler might have said.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert

from tuner.family import load_families
from tuner.model import Config, Problem, Silicon, Software, Verdict, canonical_json
from tuner.store import Miss, Store, open_store, rows, schema
from tuner.store.keys import text_hash

FIRST_NIGHT = datetime(2026, 8, 1, 22, tzinfo=UTC)
DEVICES = (
    (Silicon("Acme", "Anvil 9000", "gpu", 96, 48), "Acme OpenCL", 21000.0, 1800.0),
    (Silicon("Acme", "Anvil 5000", "gpu", 40, 16), "Acme OpenCL", 9000.0, 700.0),
    (Silicon("Bolt", "Bolt Server (family 7)", "cpu", 32, 0), "Bolt Runtime", 1900.0, 180.0),
    (Silicon("Bolt", "Bolt Desktop (family 7)", "cpu", 8, 0), "Bolt Runtime", 640.0, 60.0),
)
"""Silicon, platform, peak GFLOP/s in float32, GB/s."""
FAMILIES = {"gpu": "register_tiled", "cpu": "vector"}
LIBRARIES = {"gpu": "cublas", "cpu": "openblas"}
CHANGE = 0.66
"""Share of the nights after which the first device's driver is another one."""


@dataclass(frozen=True)
class Size:
    """How much there is."""

    trials: int = 200_000
    problems: int = 500
    devices: int = 4
    nights: int = 90


def make(place: Path, size: Size = Size(), seed: int = 0) -> None:
    """Write the store to a file that must not exist."""
    with open_store(str(place), upgrade=True) as store:
        _Maker(store, size, random.Random(seed)).make()
        store.publish()


def problems(count: int) -> list[Problem]:
    """Distinct products: cubes first, then thin, flat, long, transposed and batched ones, some in float64."""
    rng = random.Random(1)
    found = dict.fromkeys(Problem(n, n, n) for n in range(256, 256 * (1 + min(24, count)), 256))
    sizes = [1, 8, 16, 64, 128, 197, 256, 512, 768, 1000, 1024, 2048, 3136, 4096, 8192]
    while len(found) < count:
        m, n, k = (rng.choice(sizes) for _ in range(3))
        batch, flags = rng.choice([1, 1, 1, 1, 8]), rng.choice([(False, False)] * 3 + [(False, True), (True, False)])
        dtype = rng.choice(["float32"] * 4 + ["float64"])
        found[Problem(m, n, k, batch, dtype, *flags)] = None
    return list(found)[:count]


class _Maker:
    def __init__(self, store: Store, size: Size, rng: random.Random) -> None:
        self.store, self.size, self.rng = store, size, rng
        self.devices = DEVICES[: size.devices]
        self.problems = problems(size.problems)
        self.axes = {name: {axis.name: axis.values for axis in family.axes} for name, family in load_families().items()}
        self.defaults = {name: family.defaults[0] for name, family in load_families().items()}
        self.hashes = {name: family.hash for name, family in load_families().items()}
        self.texts: set[str] = set()
        self.trial, self.run = 0, 0
        self.good: dict[str, list[Config]] = {"gpu": [], "cpu": []}
        self.rows: dict[str, list[dict[str, Any]]] = {}

    def make(self) -> None:
        """Everything, in one transaction, then what the store's own verbs add."""
        self.store._writes(self._fill)
        self._rest()

    def _fill(self, connection: Connection) -> None:
        keys = [(device, problem) for problem in self.problems for device in range(len(self.devices))]
        self.rng.shuffle(keys)
        nights = self._nights()
        each = self.size.trials / max(1, len(keys))
        self.connection = connection
        for number, (device, problem) in enumerate(keys):
            count = round((number + 1) * each) - round(number * each)
            night = number * self.size.nights // max(1, len(keys))
            self._search(device, problem, count, night, nights[night] if nights else FIRST_NIGHT)
            if len(self.rows.get("trial", ())) > 5000:
                self._flush()
        self._flush()

    def _nights(self) -> list[datetime]:
        return [FIRST_NIGHT + timedelta(days=night) for night in range(self.size.nights)]

    def software(self, device: int, night: int) -> Software:
        """The driver of a night."""
        _, platform, _, _ = self.devices[device]
        changed = device == 0 and night >= CHANGE * self.size.nights
        driver = "2.1.0" if changed else "2.0.3"
        return Software(f"{platform} OpenCL 3.0", driver, "OpenCL C 3.0", self.devices[device][0].name)

    def _search(self, device: int, problem: Problem, count: int, night: int, began: datetime) -> None:
        silicon, _, peak, _ = self.devices[device]
        family = FAMILIES[silicon.kind]
        software = self.software(device, night)
        ids = rows.key_ids(self.connection, silicon, software, problem)
        self.run += 1
        moment = began + timedelta(seconds=self.rng.uniform(0, 6 * 3600))
        best: tuple[float, Config, str] | None = None
        seen = []
        for number, config in enumerate(self._proposals(family, silicon.kind, count)):
            when = moment + timedelta(seconds=1.5 * (number + 1))
            ms, verdict, message = self._outcome(device, problem, config, peak)
            source = hashlib.sha256(f"{family}{config}{problem}".encode()).hexdigest()[:32]
            samples = [ms * math.exp(self.rng.gauss(0, 0.01)) for _ in range(5)] if verdict is Verdict.CORRECT else []
            self._add_trial(ids, config, verdict, message, source, samples, when)
            if samples:
                middle = sorted(samples)[2]
                seen.append((middle, config))
                if best is None or middle < best[0]:
                    best = (middle, config, source)
        seen.sort(key=lambda pair: (pair[0], pair[1]))
        self._end(ids, count, moment, seen[:5], device, problem, best)

    def _proposals(self, family: str, kind: str, count: int) -> Iterator[Config]:
        """The default, what won elsewhere, then at random."""
        first = [self.defaults[family], *self.rng.sample(self.good[kind], min(7, len(self.good[kind])))]
        axes = self.axes[family]
        for number in range(count):
            if number < len(first):
                yield first[number]
            else:
                yield Config.of(family, {axis: self.rng.choice(values) for axis, values in axes.items()})

    def _outcome(self, device: int, problem: Problem, config: Config, peak: float) -> tuple[float, Verdict, str]:
        values = config.as_dict()
        if device == 1 and values.get("vw") == 8:
            return 0.0, Verdict.COMPILE_FAILED, "error: too many vector registers"
        if values.get("unroll") == 16 and self.rng.random() < 0.6:
            return 0.0, Verdict.COMPILE_TIMED_OUT, "the build did not finish by the deadline of 60 s"
        if self.rng.random() < 0.03:
            verdict = self.rng.choice([Verdict.WRONG_RESULT, Verdict.CRASHED, Verdict.TIMED_OUT, Verdict.LAUNCH_FAILED])
            return 0.0, verdict, f"{verdict.value}: as a synthetic store has it"
        efficiency = 0.9
        for axis, value in config.values:
            digest = hashlib.md5(f"{axis}={value} {device} {problem.m < 64} {problem.dtype}".encode()).digest()
            efficiency *= 1 - 0.25 * (digest[0] / 255) ** 3
        half = 2 if problem.dtype == "float64" else 1
        fill = min(1.0, (problem.m * problem.n * problem.batch) / (4096 * self.devices[device][0].compute_units))
        rate = peak / half * efficiency * fill**0.5
        moved = problem.element_bytes * (problem.m * problem.k + problem.k * problem.n + problem.m * problem.n)
        floor = problem.batch * moved / self.devices[device][3] / 1e6
        return max(problem.flop / rate / 1e6, floor) + 0.004, Verdict.CORRECT, ""

    def _add_trial(
        self,
        ids: dict[str, int],
        config: Config,
        verdict: Verdict,
        message: str,
        source: str,
        samples: list[float],
        when: datetime,
    ) -> None:
        log = None
        if verdict is Verdict.COMPILE_FAILED:
            text = f"kernel.cl:{40 + self.trial % 30}: {message}\n" + "note: in expansion of macro\n" * 40
            log = text_hash(text)
            self._text("compile_log", log, text)
        self.trial += 1
        self.rows.setdefault("trial", []).append(
            {
                "run_id": self.run,
                **ids,
                **rows.config_columns(config),
                "family_hash": self.hashes.get(config.family, ""),
                "source_hash": source,
                "verdict": verdict.value,
                "samples": struct.pack(f"<{len(samples)}d", *samples),
                "compile_ms": 400.0,
                "verify_ms": 5.0,
                "error_ratio": 0.1 if samples else None,
                "message": message,
                "log_hash": log,
                "when": rows.moment(when),
                "time_ms": sorted(samples)[len(samples) // 2] if samples else None,
                **({"extra": None, "imported_from": None}),
            }
        )

    def _text(self, table: str, key: str, text: str) -> None:
        if key not in self.texts:
            self.texts.add(key)
            self.rows.setdefault(table, []).append({"hash": key, "text": text})

    def _end(
        self,
        ids: dict[str, int],
        count: int,
        moment: datetime,
        fastest: list[tuple[float, Config]],
        device: int,
        problem: Problem,
        best: tuple[float, Config, str] | None,
    ) -> None:
        """The run with its races, the champion, its certificate, and a library beside it."""
        ended = rows.moment(moment + timedelta(seconds=1.5 * count + 20))
        rounds = [[ms * math.exp(self.rng.gauss(0, 0.01)) for ms, _ in fastest] for _ in range(7)]
        contenders = [{"family": config.family, "config": config.as_dict()} for _, config in fastest]
        summary = {
            "evaluated": count,
            "stopped_by": "evaluations",
            "races": [{"contenders": contenders, "rounds_ms": rounds, "decided": None}] if fastest else [],
        }
        run = {
            **ids,
            "settings": canonical_json({"budget": {"evaluations": count, "seconds": None}}),
            "summary": canonical_json(summary),
            "started": rows.moment(moment),
            "finished": ended,
        }
        self.rows.setdefault("run", []).append({"id": self.run, **run})
        if best is None:
            return
        ms, config, source = best
        self.good[self.devices[device][0].kind].append(config)
        text = f"__kernel void k() {{ /* {config} */ }}\n" * 20
        self._text("source", text_hash(text), text)
        steps = [{"kernel": "k", "global_size": [1], "local_size": [1], "scratch": []}]
        entry = {**ids, **rows.config_columns(config), "source_hash": source, "when": ended}
        self.rows.setdefault("champion_log", []).append(
            {
                **entry,
                "action": "promote",
                "text_hash": text_hash(text),
                "build_options": "",
                "plan": canonical_json({"steps": steps, "scratch": []}),
                "time_ms": ms,
                "noise": 0.006,
                "run_id": self.run,
                "checks": canonical_json(["shape", "beta"]),
                "reason": "the first champion here",
            }
        )
        self.rows.setdefault("certificate", []).append({**entry, "checks": canonical_json(["shape", "beta"])})
        self._beside(ids, device, ms, config, source, moment)

    def _beside(
        self, ids: dict[str, int], device: int, ms: float, config: Config, source: str, moment: datetime
    ) -> None:
        name = LIBRARIES[self.devices[device][0].kind]
        ratio = 0.75 + 0.5 * self.rng.random()
        ours = [ms * math.exp(self.rng.gauss(0, 0.01)) for _ in range(9)]
        theirs = [one * ratio * math.exp(self.rng.gauss(0, 0.01)) for one in ours]
        library = Config.of(f"lib:{name}", version="1.0")
        self._add_trial(ids, library, Verdict.CORRECT, "", text_hash(name)[:32], theirs, moment)
        against = {"family": config.family, "config": config.as_dict()}
        extra = {"ours_ms": ours, "against": against, "source_hash": source}
        self.rows["trial"][-1]["extra"] = json.dumps(extra)

    def _flush(self) -> None:
        for table in ("run", "source", "compile_log", "trial", "champion_log", "certificate"):
            waiting = self.rows.pop(table, [])
            if waiting:
                self.connection.execute(insert(schema.metadata.tables[table]), waiting)

    def _rest(self) -> None:
        """Peaks, misses, nights, calibrations, a regression: by the store's own verbs where they need no other date."""
        last = self.size.nights - 1
        for device, (silicon, _, peak, bandwidth) in enumerate(self.devices):
            software = self.software(device, last)
            for dtype, rate in (("float32", peak), ("float64", peak / 2)):
                self.store.set_peak(silicon, software, dtype, "strict", rate, 0.004, "fused multiply-adds in registers")
            self.store.set_bandwidth(silicon, software, bandwidth, 0.01, "a copy of 1 GiB")
        self._misses(last)
        self.store._writes(self._fill_nights)
        for champion in self.store.champions()[:1]:
            key = (champion.silicon, champion.software, champion.problem)
            ms = champion.time_ms or 1.0
            source = champion.rendered.source_hash
            self.store.open_regression(*key, champion.config, source, None, ms, 1.08 * ms, 0.01, "made up")

    def _fill_nights(self, connection: Connection) -> None:
        nights = range(self.size.nights)
        if nights:
            connection.execute(insert(schema.night), [self._night(night) for night in nights])
            connection.execute(insert(schema.calibration), [self._calibration(connection, night) for night in nights])

    def _misses(self, night: int) -> None:
        when = rows.moment(FIRST_NIGHT + timedelta(days=night))
        silicon, software = self.devices[0][0], self.software(0, night)
        shapes = [Problem(24 * n, 4096, 1024) for n in range(1, min(30, 2 + self.size.problems))]
        origins = ("nearest", "default")
        self.store.add_misses(
            Miss(silicon, software, shape, origins[n % 2], 1 + (7 * n) % 40, when, when)
            for n, shape in enumerate(shapes)
        )

    def _night(self, night: int) -> dict[str, Any]:
        began = FIRST_NIGHT + timedelta(days=night)
        device = {
            "promoted": [{}] * (3 * night % 7),
            "withdrawn": [],
            "regressions": {"new": [{}] * (night % 30 == 29), "open": []},
            "failures": {"verdicts": {"wrong_result": night % 3}},
            "evaluated": 100 + night,
        }
        summary = {"devices": [device]}
        return {
            "name": "nightly",
            "host": "synthetic",
            "boot": "none",
            "pid": 1,
            "process_started": "0",
            "started": rows.moment(began),
            "finished": rows.moment(began + timedelta(hours=7)),
            "state": "complete",
            "plan": "{}",
            "progress": "{}",
            "summary": canonical_json(summary),
        }

    def _calibration(self, connection: Any, night: int) -> dict[str, Any]:
        ids = rows.key_ids(connection, self.devices[0][0], self.software(0, night), self.problems[0])
        reading = {"kernel_ms": 2.0 * math.exp(self.rng.gauss(0, 0.004)), "copy_gb_per_s": self.rng.gauss(1800, 9)}
        return {
            "instance": "synthetic:0",
            "silicon_id": ids["silicon_id"],
            "software_id": ids["software_id"],
            "night_id": night + 1,
            "stage": "start",
            "reading": canonical_json(reading),
            "when": rows.moment(FIRST_NIGHT + timedelta(days=night)),
        }
