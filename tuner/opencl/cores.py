"""The host's cores that this process may use: what a CPU device computes on and what compilers run on."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Cores this process may run on; fewer than the machine has under taskset, Slurm or a container."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
