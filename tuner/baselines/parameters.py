"""A file with what CLBlast's own tuner found: {"float32": {"Xgemm": {"GEMMK": 0, "MWG": 64, ...}}}."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tuner.baselines.adapter import Parameters
from tuner.model import UserError

_DTYPES = ("float32", "float64")


def read_parameters(path: Path) -> Parameters:
    """Read such a file. Raises UserError if it cannot be read or says something else."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} can't be read as JSON: {error}") from error
    if not _fits(data):
        raise UserError(
            f"{path} does not hold CLBlast's parameters; write them as "
            '{"float32": {"Xgemm": {"MWG": 64, ...}, "XgemmDirect": {...}}}.'
        )
    parameters: Parameters = data
    return parameters


def _fits(data: Any) -> bool:
    if not isinstance(data, dict) or not data or not data.keys() <= set(_DTYPES):
        return False
    return all(
        isinstance(kernels, dict) and kernels and all(_numbers(values) for values in kernels.values())
        for kernels in data.values()
    )


def _numbers(values: Any) -> bool:
    return isinstance(values, dict) and all(type(value) is int and value >= 0 for value in values.values())
