"""Configurations as points: every axis and derived size of a family as a number between 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tuner.model import Config
from tuner.search.space import Space

SAME = 0.9999
"""Features correlated like this say the same."""


class Features:
    """The map from configurations of a space to points; what never varies, and what repeats another, is left out.

    Sizes act by their ratios, so positive numbers are taken as logarithms.
    """

    def __init__(self, space: Space, reference: Sequence[Config]) -> None:
        """`reference` are legal configurations drawn at random: the features span [0, 1] over them."""
        self._space = space
        self._least: dict[str, float] = {}
        """Of each feature the smallest number, if all are positive; 0 otherwise."""
        kept: list[NDArray[np.float64]] = []
        for name, column in space.columns(reference).items():
            least = max(0.0, float(column.min()))
            scaled = _scaled(column, least)
            if np.ptp(scaled) > 0 and not any(abs(np.corrcoef(scaled, other)[0, 1]) > SAME for other in kept):
                self._least[name] = least
                kept.append(scaled)
        self._low = np.array([column.min() for column in kept])
        self._range = np.array([np.ptp(column) for column in kept])

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._least)

    def points(self, configs: Sequence[Config]) -> NDArray[np.float64]:
        """One row for each configuration."""
        if not self._least or not configs:
            return np.zeros((len(configs), self.count))
        columns = self._space.columns(configs)
        found = np.column_stack([_scaled(columns[name], least) for name, least in self._least.items()])
        return np.asarray((found - self._low) / self._range)


def _scaled(column: NDArray[np.float64], least: float) -> NDArray[np.float64]:
    """Positive numbers as logarithms; where there is a 0, the logarithm begins at 1."""
    if least > 0:
        return np.asarray(np.log2(np.maximum(column, least)))
    return np.asarray(np.sign(column) * np.log2(1.0 + np.abs(column)))
