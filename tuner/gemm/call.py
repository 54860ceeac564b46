"""The call itself: recognise the product, take the kernels kept for it, enqueue them."""

from __future__ import annotations

import math as mathematics
import threading
from collections.abc import Sequence
from typing import Any

import pyopencl as cl
import pyopencl.array as cla

from tuner.gemm.choose import Chooser, chooser, describe
from tuner.gemm.launcher import Launcher, Programs, Queues
from tuner.gemm.operands import Call, Home, describe_call, overlap, shape_of
from tuner.lookup.misses import Counter
from tuner.lookup.snapshot import Index
from tuner.model import UserError

MOST_PRODUCTS = 512
"""Products that one thread keeps kernels for; the one made first goes first."""

_programs = Programs()
_queues = Queues()


class _Kept(threading.local):
    """What one thread has ready: kernels by what a product looks like."""

    def __init__(self) -> None:
        self.ready: dict[Any, tuple[Index, Launcher, Call, Counter | None]] = {}


_kept = _Kept()


def gemm(
    queue: cl.CommandQueue,
    a: cla.Array,
    b: cla.Array,
    c: cla.Array | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    trans_a: bool = False,
    trans_b: bool = False,
    math: str = "strict",
    wait_for: Sequence[cl.Event] | None = None,
    db: str | None = None,
) -> cla.Array:
    """Enqueue C = alpha·op(A)·op(B) + beta·C and return C, whose `events` then end with the product's event.

    Arrays are 2-D, or 3-D with the batch first, of one dtype, op(A) m×k, op(B) k×n and C m×n; views with strides and
    offsets are taken as they are as long as rows or columns are contiguous. Without `c` a new array is made. It waits
    for `wait_for` and for the `events` of all three arrays, and for nothing on the host, except that the first product
    of a kind builds its kernel and, if that has no certificate on this driver, has it checked in another process first.
    With k = 0 or alpha = 0 neither A nor B is read, with beta = 0 C is not. Safe to call from several threads.

    Raises UserError for arrays that do not fit or are not served, for a C that overlaps A or B, and for beta ≠ 0
    without `c`; MachineError if no kernel gives a right result.
    """
    _refuse_strangers(queue, a, b, c, math, wait_for)
    if c is None:
        if beta != 0:
            raise UserError("beta is not 0, so there must be a c to begin with.")
        c = cla.empty(queue, shape_of(a, b, trans_a, trans_b), a.dtype)
    if c.size == 0:
        return _nothing(a, b, c, trans_a, trans_b)
    if not a.context == b.context == c.context == queue.context:
        raise UserError("a, b, c and the queue must be of one context.")
    homes = _homes(a, b, c)
    alignment = mathematics.gcd(16, homes[0].start, homes[1].start, homes[2].start)
    chosen = chooser(db)
    index = chosen.finder.snapshot.index
    key = (
        queue, a.shape, a.strides, a.offset, a.dtype, b.shape, b.strides, b.offset, b.dtype,
        c.shape, c.strides, c.offset, c.dtype, trans_a, trans_b, math, alignment, db,
    )  # fmt: skip
    found = _kept.ready.get(key)
    if found is None or found[0] is not index:
        call = found[2] if found else describe_call(a, b, c, trans_a, trans_b, math, alignment)
        found = _made_ready(key, chosen, call, found and found[1])
    _, launcher, call, counter = found
    _refuse_short_buffers((a, b, c), call.ends)
    _refuse_overlap(a, b, c, homes)
    waits = [*(wait_for or ()), *a.events, *b.events, *c.events]
    if call.no_sum:
        event = _scale(queue, launcher, call, c, beta, waits)
    else:
        buffers = (b.base_data, a.base_data, c.base_data) if call.swapped else (a.base_data, b.base_data, c.base_data)
        event = launcher.enqueue(queue, buffers, alpha, beta, waits or None)
    if counter is not None:
        counter.count()
    c.events[:] = [event]  # it has waited for all that were there
    return c


def _refuse_strangers(queue: Any, a: Any, b: Any, c: Any, math: Any, wait_for: Any) -> None:
    """One sentence for what is no array, queue, name or sequence at all."""
    if not isinstance(queue, cl.CommandQueue):
        raise UserError(f"the queue must be a pyopencl.CommandQueue, not {type(queue).__name__}.")
    for name, array in (("a", a), ("b", b), ("c", c)):
        if not isinstance(array, cla.Array) and not (array is None and name == "c"):
            what = type(array).__name__
            raise UserError(f"{name} must be a pyopencl.array.Array, not {what}; see pyopencl.array.to_device.")
    if not isinstance(math, str):
        raise UserError(f"math must be a name such as 'strict', not {math!r}.")
    if wait_for is not None and not isinstance(wait_for, Sequence):
        raise UserError(f"wait_for must be a list of events, not {type(wait_for).__name__}.")


def _refuse_short_buffers(arrays: tuple[cla.Array, ...], ends: tuple[int, ...]) -> None:
    for name, array, end in zip("abc", arrays, ends, strict=True):
        memory: Any = array.base_data
        if end and memory.size < end:
            raise UserError(f"{name} ends {end} bytes into a buffer of {memory.size}; make the buffer larger.")


def _homes(a: cla.Array, b: cla.Array, c: cla.Array) -> tuple[Home, Home, Home]:
    home = Home.of(c.base_data)
    return (Home.of(a.base_data) if a.size else home, Home.of(b.base_data) if b.size else home, home)


def _refuse_overlap(a: cla.Array, b: cla.Array, c: cla.Array, homes: tuple[Home, Home, Home]) -> None:
    for name, one, home in (("a", a, homes[0]), ("b", b, homes[1])):
        if home.root == homes[2].root and overlap(c, homes[2], one, home):
            raise UserError(f"c overlaps {name}: the product would overwrite what it still reads; use another c.")


def _nothing(a: cla.Array, b: cla.Array, c: cla.Array, trans_a: bool, trans_b: bool) -> cla.Array:
    """C has no element; only whether the arrays fit is left to say."""
    shape = shape_of(a, b, trans_a, trans_b)
    if c.shape != shape or c.dtype != a.dtype:
        expected = "x".join(map(str, shape))
        raise UserError(f"c must be {expected} of {a.dtype.name}, like op(a)·op(b).")
    return c


def _made_ready(
    key: Any, chosen: Chooser, call: Call, before: Launcher | None
) -> tuple[Index, Launcher, Call, Counter | None]:
    """Kernels for a product not seen before in this thread, or not since another snapshot was published."""
    queue = key[0]
    device = describe(queue.device)
    answer = chosen.choose(device, call.problem)
    launcher = before
    if launcher is None or launcher.source_hash != answer.rendered.source_hash:
        launcher = Launcher(_programs.get(queue, answer.rendered), answer.rendered, call, _queues.state(queue))
    counter = chosen.finder.counter(device, call.problem, answer)
    ready = _kept.ready
    if len(ready) >= MOST_PRODUCTS:
        del ready[next(iter(ready))]
    # the snapshot as of now: a proof has just published another one
    found = ready[key] = (chosen.finder.snapshot.index, launcher, call, counter)
    return found


def _scale(
    queue: cl.CommandQueue, launcher: Launcher, call: Call, c: cla.Array, beta: float, waits: list[cl.Event]
) -> cl.Event:
    """C = beta·C by a product that reads nothing: A and B are stand-ins of the size it could read."""
    size = c.dtype.itemsize * max(call.problem.m, call.problem.n)
    unread = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size)
    return launcher.enqueue(queue, (unread, unread, c.base_data), 0.0, beta, waits or None)
