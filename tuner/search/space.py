"""What the search asks of a space, be it a family's on a device or a recorded one."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tuner.model import Config, Scalar


class Axis(Protocol):
    """What the search needs to know of an axis."""

    @property
    def name(self) -> str:
        """The axis's name."""

    @property
    def values(self) -> tuple[Scalar, ...]:
        """Its choices, ordered."""


class Space(Protocol):
    """The legal configurations of one family for one problem on one device."""

    @property
    def size(self) -> tuple[int, bool]:
        """How many there are, and whether that is exact."""

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of the family."""

    def sample(self, rng: np.random.Generator, count: int) -> list[Config]:
        """At most `count` distinct legal configurations."""

    def neighbours(self, *configs: Config) -> list[Config]:
        """The legal configurations that differ from one of these in a single axis, in the order of these."""

    def snap(self, point: Mapping[str, float], exclude: Container[Config] = ()) -> Config | None:
        """The nearest legal configuration outside `exclude`; None when there is none."""

    def indices(self, config: Config) -> dict[str, int]:
        """The index of each axis's value."""

    def columns(self, configs: Sequence[Config]) -> Mapping[str, NDArray[np.float64]]:
        """By name what the model may learn from: each axis and derived size as a column of numbers."""
