"""Run under Oclgrind: launches kernels on buffers without a byte to spare, and says what the simulator reports.

Usage: oclgrind [options] --log LOG python simulated.py JOBS LOG; JOBS is a JSON list, a line of JSON answers each.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

from tuner.model import Problem, Rendered, operand_shapes
from tuner.verify import element_type, make_operands, real_type

Array = np.ndarray[Any, Any]

KEPT: list[Any] = []
"""Buffers are never given back: where another one comes to lie, the simulator takes written for unwritten."""

NO_PREFETCH = "#define __builtin_prefetch(...)\n"
"""Which changes no result, and which the simulator does not know."""


def main(jobs: Path, log: Path) -> None:
    [platform] = cl.get_platforms()
    context = cl.Context(platform.get_devices())
    queue = cl.CommandQueue(context)
    for job in json.loads(jobs.read_text()):
        before = log.stat().st_size if log.exists() else 0
        problem, rendered = Problem(**job["problem"]), Rendered.from_json(job["rendered"])
        right = run(context, queue, problem, rendered)
        said = log.read_bytes()[before:].decode(errors="replace") if log.exists() else ""
        print(json.dumps({"right": right, "said": said}), flush=True)


def run(context: cl.Context, queue: cl.CommandQueue, problem: Problem, rendered: Rendered) -> bool:
    """One product with alpha = 1 and beta = 0, C and scratch not written before: their content may not be read."""
    program = cl.Program(context, NO_PREFETCH + rendered.source).build(f"{rendered.build_options} -cl-opt-disable")
    operands = make_operands(problem, 1)
    flags, element, real = cl.mem_flags, element_type(problem.dtype), real_type(problem.dtype).type
    given = [np.ascontiguousarray(x.astype(element)).view(np.uint8) for x in (operands.a, operands.b) if x is not None]
    a, b = (cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=x) for x in given)
    c = cl.Buffer(context, flags.READ_WRITE, problem.batch * problem.m * problem.n * problem.element_bytes)
    scratch = {name: cl.Buffer(context, flags.READ_WRITE, size) for name, size in rendered.scratch}
    arguments: list[Any] = [np.int32(problem.m), np.int32(problem.n), np.int32(problem.k)]
    for scalar, buffer, (rows, columns) in zip((1, None, 0), (a, b, c), operand_shapes(problem), strict=True):
        arguments += [] if scalar is None else [real(scalar)]
        arguments += [buffer, np.int64(0), np.int32(columns), np.int64(rows * columns)]
    KEPT.extend([a, b, c, *scratch.values()])
    for step in rendered.steps:
        kernel = cl.Kernel(program, step.kernel)
        kernel.set_args(*arguments, *(scratch[name] for name in step.scratch))
        cl.enqueue_nd_range_kernel(queue, kernel, step.global_size, step.local_size)
    queue.finish()
    found = np.empty((problem.batch, problem.m, problem.n), element)
    cl.enqueue_copy(queue, found.view(np.uint8), c)
    queue.finish()
    left, right = operands.left.astype(np.int64), operands.right.astype(np.int64)
    return bool(np.array_equal(found.astype(np.float64), left @ right))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
