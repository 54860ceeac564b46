"""What CLBlast's own tuner found: the files it writes, or {"float32": {"Xgemm": {"GEMMK": 0, "MWG": 64, ...}}}."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuner.baselines.adapter import WIDE, Parameters
from tuner.model import UserError

_OF_PRECISION = {"32": "float32", "64": "float64"}
_NO_PARAMETER = "PRECISION"
"""Stands among the parameters of the tuner's results, and is none."""

_TRANSPOSITIONS = re.compile(r"(?<=XgemmDirect)[NT]{2}$")
"""A result names the kernel that was timed; its parameters are set for all of the four at once."""

Timed = dict[str, dict[str, tuple[float, Mapping[str, int]]]]
"""dtype -> kernel -> (ms, parameters)."""


def read_parameters(path: Path) -> Parameters:
    """Read our own form, a result of a tuner (clblast_xgemm_1_32.json), or a folder of such.

    Of several results for one kernel the fastest counts. Raises UserError if something can't be read, or is none of
    these.
    """
    found: Timed = {}
    for file in sorted(path.glob("clblast_*.json")) if path.is_dir() else [path]:
        for dtype, kernels in _timed(file).items():
            held = found.setdefault(dtype, {})
            for kernel, best in kernels.items():
                held[kernel] = min(held.get(kernel, best), best, key=lambda pair: pair[0])
    if not found:
        raise UserError(f"{path} has no results of CLBlast's tuners (clblast_*.json).")
    return {dtype: {kernel: best[1] for kernel, best in kernels.items()} for dtype, kernels in found.items()}


def _timed(file: Path) -> Timed:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{file} can't be read as JSON: {error}") from error
    if _fits(data):
        return {dtype: {kernel: (0.0, values) for kernel, values in of.items()} for dtype, of in data.items()}
    if result := _result(data):
        return result
    raise UserError(
        f"{file} does not hold CLBlast's parameters; give what its tuners write (clblast_xgemm_1_32.json), or "
        '{"float32": {"Xgemm": {"MWG": 64, ...}, "XgemmDirect": {...}}}.'
    )


def _result(data: Any) -> Timed:
    """The best of a tuner's result; nothing if it is none, or none of float32 or float64."""
    if not isinstance(data, dict):
        return {}
    texts = [data.get(name) for name in ("precision", "best_kernel", "best_time", "best_parameters")]
    precision, kernel, time_ms, parameters = (text if isinstance(text, str) else "" for text in texts)
    if precision not in _OF_PRECISION or not re.fullmatch(r"\d+(\.\d+)?", time_ms):
        return {}
    kernel = _TRANSPOSITIONS.sub("", kernel)
    pairs = re.findall(r"(\w+)=(\d+)", parameters)
    values = {name: int(value) for name, value in pairs if name != _NO_PARAMETER}
    return {_OF_PRECISION[precision]: {kernel: (float(time_ms), values)}} if kernel and values else {}


def _fits(data: Any) -> bool:
    if not isinstance(data, dict) or not data or not data.keys() <= WIDE:
        return False
    return all(
        isinstance(kernels, dict) and kernels and all(_numbers(values) for values in kernels.values())
        for kernels in data.values()
    )


def _numbers(values: Any) -> bool:
    return isinstance(values, dict) and all(type(value) is int and value >= 0 for value in values.values())
