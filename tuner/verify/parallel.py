"""Blocks of large arrays worked on by all cores: numpy lets go of the interpreter while it computes."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Found = TypeVar("Found")

MOST_THREADS = 16
"""More only wait for memory."""


def each(work: Callable[[Item], Found], items: Iterable[Item]) -> list[Found]:
    """`work` of every item, in order; by several threads, in each of which BLAS has one thread. They have all ended.

    Raises what `work` raises for the first item that it fails for.
    """
    every = list(items)
    threads = min(MOST_THREADS, len(every), _cores())
    if threads < 2:
        return [work(item) for item in every]
    with _controller().limit(limits=1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, every))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
