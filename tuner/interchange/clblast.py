"""CLBlast's tuning results (clblast_xgemm_*.json) as configurations of `register_tiled`, where axes have a counterpart.

CLBlast's matrices lie by columns, ours by rows, so that its M, along which its elements neighbour each other, is our n.
Names: Cedric Nugteren, "CLBlast: A Tuned OpenCL BLAS Library", IWOCL 2018, and the comments of its kernels.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tuner.family import Family, load_families
from tuner.interchange.parse import number, short_text
from tuner.interchange.reading import File, parsed
from tuner.model import Config, Problem, Silicon, Software, UserError, canonical_json
from tuner.opencl.naming import device_name, vendor_name
from tuner.store import Foreign, valid

MAX_BYTES = 64 * 2**20
MOST = 8
"""Entries kept of one file: as many as a search starts from."""

FAMILY = "register_tiled"
_DTYPES = {"16": "float16", "32": "float32", "64": "float64"}
_NO_LOCAL_MEMORY = "configuration that reads from global memory only"
_OTHER_KERNEL = "configuration of another kernel"
_NOT_WHOLE = "configuration whose sizes do not divide"
_NO_SUCH_SIZE = "configuration of a size that our axes do not have"


@dataclass(frozen=True)
class Results:
    """What a file has for us."""

    origin: str
    entries: tuple[Foreign, ...]
    left_out: Counter[str] = field(default_factory=Counter)


def is_one(file: File) -> bool:
    """Whether a file looks like a tuner's result: such a file names its kernel's family first. Raises UserError."""
    try:
        with file.path.open("rb") as stream:
            return re.match(rb'\s*\{\s*"kernel_family"', stream.read(256)) is not None
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}.") from error


def read(file: File) -> Results:
    """The best of a file's configurations in our axes. Raises UserError for a file that is not what it looks like."""
    try:
        data = file.path.read_bytes() if file.path.stat().st_size <= MAX_BYTES else None
        if data is None:
            raise ValueError(f"it is larger than {MAX_BYTES // 2**20} MiB")
        document = parsed(data.decode("utf-8"))
        return _results(document)
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}.") from error
    except (*valid.UNREADABLE, RecursionError) as error:
        why = f"it has no {error.args[0]!r}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise UserError(f"{file} is no result of CLBlast's tuners: {why}. Nothing was imported.") from None


def _results(document: Mapping[str, Any]) -> Results:
    family = valid.text(document["kernel_family"], "kernel_family")
    if not re.fullmatch(r"xgemm(_\d+)?", family):
        raise ValueError(f"it is of {family!r:.40}; only those of xgemm have a counterpart")
    about = (_silicon(document), _software(document), _problem(document))
    left_out: Counter[str] = Counter()
    times: dict[Config, float] = {}
    for result in valid.several(document["results"], "results"):
        time_ms = valid.positive(result["time"])
        config = _config(result["parameters"])
        if not time_ms or not math.isfinite(about[2].gflops(time_ms)):
            left_out["configuration without a time"] += 1
        elif isinstance(config, str):
            left_out[config] += 1
        else:
            times[config] = min(time_ms, times.get(config, math.inf))
    best = sorted(times, key=lambda config: times[config])[:MOST]
    if len(times) > MOST:
        left_out[f"configuration slower than the best {MOST}"] += len(times) - MOST
    origin = f"CLBlast on {about[0].name}"
    return Results(origin, tuple(_entry(about, config, times[config], origin) for config in best), left_out)


@functools.cache
def _family() -> Family:
    return load_families()[FAMILY]


def _silicon(document: Mapping[str, Any]) -> Silicon:
    """As our own naming has it; the tuner does not say how much memory the device has."""
    vendor = vendor_name(valid.text(document["device_vendor"], "device_vendor"))
    name = device_name(valid.text(document["device"], "device"), vendor)
    kind = valid.text(document["device_type"], "device_type").lower()
    kind = kind if kind in ("gpu", "cpu") else "accelerator"
    return Silicon(vendor, name, kind, number(int(document["device_compute_units"]), "device_compute_units"), 0)


def _software(document: Mapping[str, Any]) -> Software:
    platform = valid.text(document["platform_vendor"], "platform_vendor")
    version = valid.text(document["platform_version"], "platform_version")
    return Software(platform, version, "", valid.text(document["device"], "device"))


def _problem(document: Mapping[str, Any]) -> Problem:
    precision = valid.text(document["precision"], "precision")
    if precision not in _DTYPES:
        raise ValueError(f"it is of precision {precision!r:.10}; complex numbers have no counterpart")
    n, m, k = (number(int(document[name]), name, 1) for name in ("arg_m", "arg_n", "arg_k"))
    return Problem.packed(m, n, k, dtype=_DTYPES[precision])


def _config(parameters: Any) -> Config | str:
    """A configuration in our axes, or why there is none."""
    p = {short_text(name, "a parameter", 32): number(value, name) for name, value in parameters.items()}
    if p.get("GEMMK", 0) != 0:
        return _OTHER_KERNEL
    if (p["SA"], p["SB"]) != (1, 1):
        return _NO_LOCAL_MEMORY
    tsn, tsm, tsk, rtsn, rtsm = (p[name] for name in ("MWG", "NWG", "KWG", "MDIMC", "NDIMC"))
    if 0 in (tsn, tsm, tsk, rtsn, rtsm) or tsn % rtsn or tsm % rtsm:
        return _NOT_WHOLE
    wptm, wptn = tsm // rtsm, tsn // rtsn
    values = {
        **{"tsm": tsm, "tsn": tsn, "tsk": tsk, "wptm": wptm, "wptn": wptn},
        "vw": _widest(min(p["VWM"], p["VWN"]), tsm, tsn, tsk, rtsm * rtsn),
        "chunk": _chunk(1 if p["STRM"] else p["VWM"], 1 if p["STRN"] else p["VWN"], wptm, wptn),
        "unroll": max(one for one in (1, 4, 8, 16) if one <= max(1, p["KWI"]) and tsk % one == 0),
        **{"pad_a": 0, "pad_b": 0, "turn_a": 1, "pre_a": 0, "stages": 1, "async_copy": 0, "ahead": 0},
        **{"fragments": 1, "lanes_m": 0, "swizzle": 1, "split_k": 1},
    }
    try:
        return _family().complete(values)
    except UserError:
        return _NO_SUCH_SIZE


def _widest(most: int, tsm: int, tsn: int, tsk: int, group_size: int) -> int:
    """The widest vector up to `most` with which each work-item loads the same number of whole ones."""
    for width in (8, 4, 2):
        whole_rows = tsk % width == 0 and tsn % width == 0
        if width <= most and whole_rows and all(tile * tsk % (group_size * width) == 0 for tile in (tsm, tsn)):
            return width
    return 1


def _chunk(along_n: int, along_m: int, wptm: int, wptn: int) -> int:
    """The wider of both vectors that an operand's elements of a work-item fill."""
    return max(one for one in (1, 2, 4, 8) if one <= max(along_n, along_m, 1) and (wptm % one == 0 or wptn % one == 0))


def _entry(about: tuple[Silicon, Software, Problem], config: Config, time_ms: float, origin: str) -> Foreign:
    body = {
        **dict(zip(("silicon", "software", "problem"), map(vars, about), strict=True)),
        "family": config.family,
        "config": config.as_dict(),
        "source_hash": "",
        "time_ms": time_ms,
        "noise": None,
        "certificate": None,
        "reason": "among the best of CLBlast's own kernel with the same sizes",
        "when": "",
    }
    return Foreign("portfolio", *about, "", canonical_json(body), origin)
