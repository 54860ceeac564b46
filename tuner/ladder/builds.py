"""Builds that are shared by all sizes whose kernels have the same source."""

from __future__ import annotations

from concurrent.futures import Future

from tuner.ladder.ports import Bench
from tuner.model import Built, Rendered


class Builds:
    """Each source is built once."""

    def __init__(self, bench: Bench) -> None:
        """Start with none."""
        self._bench = bench
        self._kept: dict[tuple[str, str], Future[Built]] = {}

    def ask(self, rendered: Rendered) -> Future[Built]:
        """Begin to build it, unless that was done for another size."""
        key = (rendered.source, rendered.build_options)
        if key not in self._kept:
            self._kept[key] = self._bench.build(rendered)
        return self._kept[key]
