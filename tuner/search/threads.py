"""What makes proposals slow beside their own work: algebra's threads that spin, and the collector of garbage.

The idle threads of numpy's BLAS spin while they wait for each other, and the matrices are small; beside a busy pool of
compilers that was seen to make proposals five times slower. Candidates are many small objects without cycles, for
which the collector looks through all that the process has imported again and again: a sixth of a proposal's time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits


@contextmanager
def undisturbed() -> Iterator[None]:
    """Until the block ends BLAS uses the caller's thread alone, and the collector leaves older objects alone.

    Children that are started are not affected.
    """
    gc.freeze()
    try:
        with threadpool_limits(limits=1, user_api="blas"):
            yield
    finally:
        gc.unfreeze()
