"""What a look-up answers: a configuration, where it came from, what speaks for it, and the kernel to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from tuner.model import Config, Rendered


class Origin(StrEnum):
    """Where an answer came from, best first."""

    PINNED = "pinned"
    EXACT = "exact"
    OTHER_DRIVER = "other_driver"
    NEAREST = "nearest"
    SIMILAR_DEVICE = "similar_device"
    SEED = "seed"
    DEFAULT = "default"

    @property
    def is_miss(self) -> bool:
        """Nothing was tuned or pinned for precisely what was asked."""
        return self not in (Origin.PINNED, Origin.EXACT)


@dataclass(frozen=True)
class Answer:
    """A configuration for one problem on one device, and why that one."""

    config: Config
    origin: Origin
    certified: bool
    """This very source passed a certificate's checks for this problem on this silicon and software."""
    gflops: float | None
    """Measured for this problem on this silicon and software, or None."""
    distance: float | None
    """Of the problem (and silicon) it was tuned for, in doublings; 0 for the same, None for a default."""
    tell: Callable[[], Mapping[str, Any]] = field(compare=False, repr=False)
    """Makes `evidence`, which few callers read."""
    render: Callable[[], Rendered] = field(compare=False, repr=False)

    @property
    def family(self) -> str:
        """Name of the configuration's family."""
        return self.config.family

    @property
    def evidence(self) -> Mapping[str, Any]:
        """What speaks for it and what was passed over, its age as of now: plain values for JSON."""
        return self.tell()

    @cached_property
    def rendered(self) -> Rendered:
        """Source and launch plan: as they were stored for this problem, or rendered now for the asked one."""
        return self.render()

    @property
    def build_options(self) -> str:
        """What the driver's compiler is to be given with the source."""
        return self.rendered.build_options

    def source(self) -> str:
        """The kernels, OpenCL C."""
        return self.rendered.source

    def launches(self) -> list[dict[str, Any]]:
        """The kernels to run in order, each with its `global_size` and `local_size` in work-items.

        `scratch` names the buffers, with their bytes, that a kernel takes after the common arguments, in order. A name
        that returns in a later launch is the same buffer. One that is `zeroed` must be all zeros before the first
        product; every product leaves it so.
        """
        sizes, zeroed = dict(self.rendered.scratch), self.rendered.zeroed
        return [
            {
                "kernel": step.kernel,
                "global_size": list(step.global_size),
                "local_size": list(step.local_size),
                "scratch": [{"name": name, "bytes": sizes[name], "zeroed": name in zeroed} for name in step.scratch],
            }
            for step in self.rendered.steps
        ]

    def to_json(self) -> dict[str, Any]:
        """What `lookup --json` prints."""
        return {
            "family": self.family,
            "config": self.config.as_dict(),
            "origin": self.origin.value,
            "certified": self.certified,
            "gflops": self.gflops,
            "distance": self.distance,
            "evidence": dict(self.evidence),
            "launches": self.launches(),
            "build_options": self.build_options,
        }
