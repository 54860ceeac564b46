"""One thread for the search's algebra: its matrices are small, and the compilers want the other cores.

The idle threads of numpy's BLAS spin while they wait for each other; beside a busy compile pool that was seen to make
proposals five times slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS uses the caller's thread alone until the block ends; children that are started are not affected."""
    with threadpool_limits(limits=1, user_api="blas"):
        yield
