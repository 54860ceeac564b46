"""A configuration in short: its family, and only the axes at which it does something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tuner.family.declare import Axis
from tuner.model import Config, Scalar


class Axes(Protocol):
    """A family, as far as its axes go."""

    @property
    def axes(self) -> Sequence[Axis]:
        """In the order of its declaration: what matters most comes first."""


def neutral(axis: Axis) -> Scalar | None:
    """The choice at which an axis does nothing: its `before`, else 0, else 1, if that is a choice; None without any."""
    if axis.before is not None:
        return axis.before
    return next((nothing for nothing in (0, 1) if nothing in axis.values), None)


def brief(config: Config, families: Mapping[str, Axes]) -> str:
    """`register_tiled tsm=64 tsn=64 turn_a …`: without axes at their neutral choice, a switch that is on as its name.

    All of the configuration if its family is not known; an axis that the family does not declare comes last, as it is.
    """
    if config.family not in families:
        return str(config)
    axes = {axis.name: axis for axis in families[config.family].axes}
    values = config.as_dict()
    ordered = [*(name for name in axes if name in values), *(name for name in values if name not in axes)]
    words = [_word(name, values[name], axes.get(name)) for name in ordered]
    return " ".join([config.family, *filter(None, words)])


def _word(name: str, value: Scalar, axis: Axis | None) -> str:
    if axis is not None and value == neutral(axis):
        return ""
    switch = axis is not None and value == 1 and set(axis.values) == {0, 1}
    return name if switch else f"{name}={value}"
