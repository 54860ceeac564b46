"""How fast a driver's code for this processor is: a few milliseconds of multiply-adds in vectors, out of registers."""

from __future__ import annotations

import time

import numpy as np
import pyopencl as cl

_CHAINS = 8
"""Sums that do not wait for each other: as many as two units of four cycles each have under way."""
_WIDTH = 16
_STEPS = 100_000
_RUNS = 12
_SOURCE = f"""
__kernel void rate(__global float* x, const int steps)
{{
    const float{_WIDTH} a = x[0], b = x[1];
    float{_WIDTH} sum[{_CHAINS}];
    #pragma unroll
    for (int c = 0; c < {_CHAINS}; c++)
        sum[c] = c + x[2];
    for (int i = 0; i < steps; i++)
        #pragma unroll
        for (int c = 0; c < {_CHAINS}; c++)
            sum[c] = sum[c] * a + b;
    float{_WIDTH} all = 0;
    #pragma unroll
    for (int c = 0; c < {_CHAINS}; c++)
        all += sum[c];
    vstore{_WIDTH}(all, get_global_id(0), x + {_WIDTH});
}}
"""


def rate_gflops(handle: cl.Device) -> float:
    """GFLOP/s of one work-item that does nothing but multiply-add float16 vectors: the best of a dozen runs.

    One work-item, so that it does not matter what else the processor does. A compiler that knows the processor reaches
    its peak; one that does not, or that splits vectors, reaches a fraction of it. Raises pyopencl.Error.
    """
    context = cl.Context([handle])
    queue = cl.CommandQueue(context)
    kernel = cl.Kernel(cl.Program(context, _SOURCE).build(), "rate")
    x = np.full(2 * _WIDTH, 0.5, np.float32)
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=x)
    kernel.set_args(buffer, np.int32(_STEPS))
    best = float("inf")
    for _ in range(_RUNS):
        before = time.perf_counter()
        cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,))
        queue.finish()
        best = min(best, time.perf_counter() - before)
    return 2 * _CHAINS * _WIDTH * _STEPS / best / 1e9
