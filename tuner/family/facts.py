"""What expressions and templates may know of a problem and a device: `problem.m`, `device.local_mem_bytes`, ..."""

from collections.abc import Mapping

from tuner.expr import ANY_BOOL, ANY_STR, INT64_MAX, Domain, Value
from tuner.model import DTYPES, MATHS, Device, Problem, UserError

_SIZE = Domain.between(1, 2**31 - 1)
_POSITIVE = Domain.between(1, INT64_MAX)

DOMAINS: Mapping[str, Domain] = {
    "problem.m": _SIZE,
    "problem.n": _SIZE,
    "problem.k": _SIZE,
    "problem.batch": _SIZE,
    "problem.dtype": Domain.of(DTYPES),
    "problem.trans_a": ANY_BOOL,
    "problem.trans_b": ANY_BOOL,
    "problem.math": Domain.of(MATHS),
    "problem.align": Domain.of([1, 2, 4, 8, 16]),
    "problem.element_bytes": Domain.of(dtype.bytes for dtype in DTYPES.values()),
    "problem.real_bytes": Domain.of([4, 8]),
    "device.local_mem_bytes": _POSITIVE,
    "device.max_group_size": _POSITIVE,
    "device.max_item_size_0": _POSITIVE,
    "device.max_item_size_1": _POSITIVE,
    "device.max_item_size_2": _POSITIVE,
    "device.compute_units": _POSITIVE,
    "device.global_mem_bytes": _POSITIVE,
    "device.max_alloc_bytes": _POSITIVE,
    "device.c_level": _POSITIVE,
    "device.kind": ANY_STR,
    "device.fp64": ANY_BOOL,
    "device.sub_group_size": _POSITIVE,
    "device.async_copy": ANY_BOOL,
    "device.matrix_unit": ANY_STR,
    "device.sub_group_reduce": ANY_STR,
    "device.shares_cores": ANY_BOOL,
}
"""Every name beside a family's own axes and derived sizes."""


def facts_of(problem: Problem, device: Device) -> dict[str, Value]:
    """The value of each of those names; a UserError if the product is empty, for nothing is ever tuned for that."""
    if 0 in (problem.m, problem.n, problem.k, problem.batch):
        raise UserError(f"{problem} multiplies nothing, so no kernel is tuned or chosen for it.")
    facts = device.facts
    sizes = (*facts.max_item_sizes, 1, 1, 1)
    values: dict[str, Value] = {
        "problem.m": problem.m,
        "problem.n": problem.n,
        "problem.k": problem.k,
        "problem.batch": problem.batch,
        "problem.dtype": problem.dtype,
        "problem.trans_a": problem.trans_a,
        "problem.trans_b": problem.trans_b,
        "problem.math": problem.math,
        "problem.align": problem.align,
        "problem.element_bytes": problem.element_bytes,
        "problem.real_bytes": problem.real_bytes,
        "device.local_mem_bytes": _positive(facts.local_mem_bytes),
        "device.max_group_size": _positive(facts.max_group_size),
        "device.max_item_size_0": _positive(sizes[0]),
        "device.max_item_size_1": _positive(sizes[1]),
        "device.max_item_size_2": _positive(sizes[2]),
        "device.compute_units": _positive(device.silicon.compute_units),
        "device.global_mem_bytes": _positive(facts.global_mem_bytes),
        "device.max_alloc_bytes": _positive(facts.max_alloc_bytes),
        "device.c_level": _positive(facts.c_level),
        "device.kind": device.silicon.kind,
        "device.fp64": facts.fp64,
        "device.sub_group_size": _positive(facts.sub_group_size),
        "device.async_copy": facts.async_copy,
        "device.matrix_unit": facts.matrix_unit,
        "device.sub_group_reduce": facts.sub_group_reduce,
        "device.shares_cores": facts.shares_cores,
    }
    return values


def _positive(fact: int) -> int:
    """A fact as expressions are promised it: drivers say 0 for what they do not know and 2^64 - 1 for "no limit"."""
    return min(max(1, fact), INT64_MAX)


def namespaces(facts: Mapping[str, Value]) -> dict[str, dict[str, Value]]:
    """The facts as templates see them: {"problem": {"m": ...}, "device": {...}}."""
    spaces: dict[str, dict[str, Value]] = {"problem": {}, "device": {}}
    for name, value in facts.items():
        space, _, key = name.partition(".")
        spaces[space][key] = value
    return spaces
