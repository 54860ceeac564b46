"""What the model may choose from: random legal configurations, and the neighbours of the best."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tuner.model import Config
from tuner.search.features import Features
from tuner.search.space import Space

AT_FIRST, EACH_TIME = 1500, 48
"""Random configurations the choice begins with, and those that join it for each proposal."""
MOST = 4000
"""When there are more, all but the most promising half of this go."""


class Candidates:
    """Distinct configurations with their points, none of them `taken`."""

    def __init__(self, space: Space, features: Features, first: Iterable[Config], taken: set[Config]) -> None:
        """Begin with the configurations `first`; `taken` is shared, and grows."""
        self._space, self._features, self._taken = space, features, taken
        self._known: set[Config] = set()
        self._expanded: set[Config] = set()
        self._leaving: set[int] = set()
        self.configs: list[Config] = []
        self.points = np.zeros((0, features.count))
        self.add(first)

    def add(self, configs: Iterable[Config]) -> None:
        """Let these join."""
        new = []
        for config in configs:
            if config not in self._known:
                self._known.add(config)  # a hash costs as much as all else here
                if config not in self._taken:
                    new.append(config)
        if not new:
            return
        self.configs += new
        self.points = np.vstack([self.points, self._features.points(new)])

    def add_neighbours(self, configs: Iterable[Config]) -> None:
        """Let every configuration join that differs from one of these in a single axis."""
        new = [config for config in configs if config not in self._expanded]
        self._expanded.update(new)
        self.add(self._space.neighbours(*new))

    def choose(self, promise: NDArray[np.float64]) -> int | None:
        """Index of the most promising that is free, None if none is; `promise` is in the order of `points`.

        It is not chosen again, but stays until the next `thin`.
        """
        for index in np.argsort(-promise, kind="stable").tolist():
            if index not in self._leaving:
                self._leaving.add(index)
                if self.configs[index] not in self._taken:
                    return int(index)
        return None

    def thin(self, promise: NDArray[np.float64]) -> None:
        """Let go of what was chosen or found to be taken; where there are many, of all but the most promising."""
        order = np.argsort(-promise, kind="stable")
        kept = order if len(order) <= MOST else order[: MOST // 2]
        self._keep(np.setdiff1d(kept, list(self._leaving)))
        self._leaving.clear()

    def _keep(self, chosen: NDArray[np.intp]) -> None:
        if len(chosen) < len(self.configs) // 2:  # thinned out: what goes may come back as a neighbour or by chance
            self._known = {self.configs[index] for index in chosen.tolist()}
            self._expanded.clear()
        self.configs = [self.configs[index] for index in chosen.tolist()]
        self.points = self.points[chosen]
