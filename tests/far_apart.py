"""Run in a process of its own: products whose rows, matrices or first elements lie more than 2^31 elements apart.

Usage: python far_apart.py ADDRESS JOBS; JOBS is a JSON list, and a line of JSON answers each. Only the pages that are
touched take memory, as long as the driver reserves address space alone.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tuner.bench import choose, list_devices
from tuner.model import Problem, Rendered, operand_shapes
from tuner.opencl import drivers
from tuner.verify import element_type, make_operands, real_type

FAR = 2**31 + 16
"""Elements: beyond what an int, or a uint times two bytes, counts."""

LARGEST = 2 * (FAR + 2**20)
"""Bytes of the one large buffer."""


def main(address: str, jobs: Path) -> None:
    device = choose(list_devices(), address)
    with tempfile.TemporaryDirectory() as folder:
        drivers.write_icd_files(Path(folder, "icd"))
        drivers.install(Path(folder, "icd"))
        import pyopencl as cl

        from tuner.opencl.describe import find

        context = cl.Context([find(device)])
        queue = cl.CommandQueue(context)
        buffers: dict[str, Any] = {}
        for job in json.loads(jobs.read_text()):
            problem, rendered = Problem(**job["problem"]), Rendered.from_json(job["rendered"])
            right = product(cl, context, queue, problem, rendered, (job["operand"], job["apart"]), buffers)
            print(json.dumps(right), flush=True)


def product(
    cl: Any, context: Any, queue: Any, problem: Problem, rendered: Rendered, far: tuple[str, str], buffers: Any
) -> bool:
    """Whether C is right, with the operand `far[0]` spread out along `far[1]`: its rows, its batch or its offset."""
    operands = make_operands(problem, 1)
    element, real = element_type(problem.dtype), real_type(problem.dtype).type
    arguments: list[Any] = [np.int32(problem.m), np.int32(problem.n), np.int32(problem.k)]
    places = {}
    for name, shape, scalar in zip("abc", operand_shapes(problem), (1, None, 0), strict=True):
        rows, columns = shape
        offset, ld = 0, -(-columns // 8) * 8
        if name == far[0]:
            offset, ld = (FAR, ld) if far[1] == "offset" else (0, ld)
            ld = FAR // (rows - 1) // 8 * 8 + 8 if far[1] == "rows" else ld
        stride = (
            FAR if (name, "batch") == far else min(rows * ld, 1024)
        )  # between rows that are far apart there is room
        size = (offset + (problem.batch - 1) * stride + (rows - 1) * ld + columns) * problem.element_bytes
        key = "far" if name == far[0] else name
        if key not in buffers:
            buffers[key] = cl.Buffer(context, cl.mem_flags.READ_WRITE, LARGEST if key == "far" else 2**20)
        assert size <= buffers[key].size
        values = getattr(operands, name)
        places[name] = (buffers[key], offset, stride, ld, rows, columns)
        arguments += [] if scalar is None else [real(scalar)]
        arguments += [buffers[key], np.int64(offset), np.int32(ld), np.int64(stride)]
        for index in range(problem.batch):
            for row in range(rows):
                at = (offset + index * stride + row * ld) * problem.element_bytes
                given = np.full(columns, np.nan) if values is None else values[index, row]
                cl.enqueue_copy(queue, buffers[key], given.astype(element).view(np.uint8), dst_offset=at)
    if rendered.source_hash not in buffers:
        buffers[rendered.source_hash] = cl.Program(context, rendered.source).build(rendered.build_options)
    program = buffers[rendered.source_hash]
    scratch = {name: cl.Buffer(context, cl.mem_flags.READ_WRITE, size) for name, size in rendered.scratch}
    for step in rendered.steps:
        kernel = cl.Kernel(program, step.kernel)
        kernel.set_args(*arguments, *(scratch[name] for name in step.scratch))
        cl.enqueue_nd_range_kernel(queue, kernel, step.global_size, step.local_size)
    queue.finish()
    c, offset, stride, ld, rows, columns = places["c"]
    exact = operands.left.astype(np.int64) @ operands.right.astype(np.int64)
    found = np.empty(columns, element)
    for index in range(problem.batch):
        for row in range(rows):
            at = (offset + index * stride + row * ld) * problem.element_bytes
            cl.enqueue_copy(queue, found.view(np.uint8), c, src_offset=at)
            if not np.array_equal(found.astype(np.float64), exact[index, row]):
                return False
    return True


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
