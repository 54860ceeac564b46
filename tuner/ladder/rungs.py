"""The rungs as `templates/ladder/rungs.toml` declares them, and the configuration each one is on a device."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tuner.data import template_folder
from tuner.model import Config, Device, Problem, Scalar, UserError


@dataclass(frozen=True)
class Rung:
    """One rung: what it adds to the one it builds on."""

    name: str
    adds: str
    builds_on: str = ""
    family: str = ""
    """Empty for the champion, which is whatever is stored."""
    fits: tuple[Mapping[str, Scalar], ...] = ()
    """Axis values in addition to those of `builds_on`; the first that are legal are taken."""


class Family(Protocol):
    """What a rung needs of a kernel family."""

    def complete(self, values: Mapping[str, Any]) -> Config:
        """The configuration of these axis values. Raises UserError."""

    def broken_rule(self, config: Config, problem: Problem, device: Device) -> str | None:
        """The sentence of the first rule it breaks, or None if it is legal."""


def read_rungs(path: Path | None = None) -> tuple[Rung, ...]:
    """The rungs in their order, lowest first; of the built-in ladder without `path`."""
    source = path or template_folder() / "ladder" / "rungs.toml"
    declared = tomllib.loads(source.read_text(encoding="utf-8"))["rung"]
    return tuple(Rung(**{**data, "fits": tuple(data.get("fits", ()))}) for data in declared)


def chosen(rungs: Sequence[Rung], names: Sequence[str]) -> tuple[Rung, ...]:
    """The rungs of these names in the ladder's order, all without names. Raises UserError for an unknown one."""
    known = [rung.name for rung in rungs]
    for name in names:
        if name not in known:
            raise UserError(f"there is no rung {name!r}; there is: {', '.join(known)}.")
    return tuple(rung for rung in rungs if not names or rung.name in names)


def fit(
    rung: Rung, rungs: Sequence[Rung], families: Mapping[str, Family], problem: Problem, device: Device
) -> Config | str:
    """The rung's configuration for this problem and device, or the rule that each of them breaks, as a sentence."""
    below: Mapping[str, Scalar] = {}
    base = next((other for other in rungs if other.name == rung.builds_on), None)
    if base is not None and base.family == rung.family:
        found = fit(base, rungs, families, problem, device)
        if isinstance(found, str):
            return found
        below = found.as_dict()
    family, broken = families[rung.family], ""
    for values in rung.fits:
        config = family.complete({**below, **values})
        rule = family.broken_rule(config, problem, device)
        if rule is None:
            return config
        broken = rule
    return f"no configuration of it is legal; the last breaks: {broken}"
