"""Reading values that a file claims to hold: each is what a look-up may rely on, or a ValueError says what it is not.

JSON has types of its own, and a flipped bit may give any of them, so that every type and range is checked.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from tuner.model import Certificate, Problem, Rendered, Silicon, Software
from tuner.store.keys import Key

UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
"""What reading a damaged row raises."""

_MOST_DIMENSIONS = 3


def text(value: Any, what: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise ValueError(f"{what} is {value!r:.40}, no text")
    return value


def whole(value: Any, what: str, least: int = 0) -> int:
    """A whole number, at least `least`; a boolean is none."""
    if type(value) is not int or value < least:
        raise ValueError(f"{what} is {value!r:.40}, no whole number from {least}")
    return value


def flag(value: Any, what: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{what} is {value!r:.40}, neither true nor false")
    return value


def several(value: Any, what: str) -> list[Any]:
    """A list of anything."""
    if not isinstance(value, list):
        raise ValueError(f"{what} is {value!r:.40}, no list")
    return value


def positive(value: Any) -> float | None:
    """A time, or a noise as a fraction, or None."""
    if value is None:
        return None
    if type(value) not in (int, float) or not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{value!r:.40} is no time or noise")
    return float(value)


def key(row: Mapping[str, Any]) -> Key:
    """Silicon, software and a problem with something to compute, every field given."""
    silicon = Silicon(**_fields(Silicon, row["silicon"]))
    software = Software(**_fields(Software, row["software"]))
    problem = Problem(**_fields(Problem, row["problem"]))
    for name in ("m", "n", "k", "batch"):
        whole(getattr(problem, name), name, 1)
    return silicon, software, problem


_FIELDS: Mapping[str, Callable[[Any, str], Any]] = {"str": text, "int": whole, "bool": flag}


def _fields(noun: type[Silicon] | type[Software] | type[Problem], values: Any) -> dict[str, Any]:
    """The fields of a noun, none missing and none more, each of its declared type."""
    wanted = {field.name: _FIELDS[str(field.type)] for field in dataclasses.fields(noun)}
    if not isinstance(values, dict) or values.keys() != wanted.keys():
        raise ValueError(f"{values!r:.80} is no {noun.__name__.lower()}")
    return {name: read(values[name], name) for name, read in wanted.items()}


def certificate(row: Mapping[str, Any]) -> Certificate:
    """The checks passed and when."""
    checks = several(row["checks"], "the list of checks")
    return Certificate(tuple(text(check, "a check") for check in checks), text(row["when"], "its date"))


def rendered(row: Mapping[str, Any], sources: Mapping[str, str]) -> Rendered:
    """A source, known by its hash, with options and a launch plan that OpenCL could carry out."""
    scratch = {text(name, "a buffer"): whole(size, "its size") for name, size in several(row["scratch"], "scratch")}
    steps = several(row["steps"], "the launch plan")
    if not steps:
        raise ValueError("the launch plan is empty")
    for step in steps:
        _check_step(step, scratch)
    for name in several(row.get("zeroed", []), "zeroed"):
        if name not in scratch:
            raise ValueError(f"the launch plan has no buffer {name!r:.40}")
    text(row["build_options"], "build options")
    text(row["source_hash"], "source_hash")
    return Rendered.from_json({**row, "source": sources[text(row["source"], "the source's hash")]})


def _check_step(step: Mapping[str, Any], scratch: Mapping[str, int]) -> None:
    text(step["kernel"], "a kernel")
    sizes = [several(step[name], name) for name in ("global_size", "local_size")]
    for size in (*sizes[0], *sizes[1]):
        whole(size, "a size", 1)
    if len(sizes[0]) != len(sizes[1]) or not 1 <= len(sizes[0]) <= _MOST_DIMENSIONS:
        raise ValueError("the launch plan is impossible")
    for name in several(step["scratch"], "a step's scratch"):
        if name not in scratch:
            raise ValueError(f"the launch plan has no buffer {name!r:.40}")
