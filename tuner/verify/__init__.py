"""Whether a kernel's result is right: operands, references on the host, error bounds and guard zones."""

from tuner.verify.accept import ERROR_BOUND, CheckResult, count_differences, guards_untouched
from tuner.verify.layout import GUARD_ROWS, Layout, Name, Slab, element_type, nan_bits, real_type
from tuner.verify.operands import (
    DRAWN,
    FAR,
    KINDS,
    LEFT_IN_C,
    Kind,
    Operands,
    Shared,
    Values,
    kind_named,
    make_operands,
)
from tuner.verify.planted import COMPARE_SOURCE, PlantedError, planted_errors
from tuner.verify.references import Reference, References

__all__ = [
    "COMPARE_SOURCE",
    "DRAWN",
    "ERROR_BOUND",
    "FAR",
    "GUARD_ROWS",
    "KINDS",
    "LEFT_IN_C",
    "CheckResult",
    "Kind",
    "Layout",
    "Name",
    "Operands",
    "PlantedError",
    "Reference",
    "References",
    "Shared",
    "Slab",
    "Values",
    "count_differences",
    "element_type",
    "guards_untouched",
    "kind_named",
    "make_operands",
    "nan_bits",
    "planted_errors",
    "real_type",
]
