"""gemm-tuner: find, prove and remember the fastest GEMM kernel configuration for each OpenCL device.

`gemm` multiplies PyOpenCL arrays; `lookup` says which configuration is best for a product, and why; `describe` makes a
`Device` of PyOpenCL's; `tune` searches; `open_store` opens what was found. Each loads on first use: importing `tuner`
imports nothing else.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.api import open_store, tune
    from tuner.gemm.call import gemm
    from tuner.gemm.choose import describe
    from tuner.lookup.answer import Answer, Origin
    from tuner.lookup.api import lookup
    from tuner.model import Config, Device, MachineError, Problem, UserError

_HOMES = {
    "Answer": "tuner.lookup.answer",
    "Config": "tuner.model",
    "Device": "tuner.model",
    "MachineError": "tuner.model",
    "Origin": "tuner.lookup.answer",
    "Problem": "tuner.model",
    "UserError": "tuner.model",
    "describe": "tuner.gemm.choose",
    "gemm": "tuner.gemm.call",
    "lookup": "tuner.lookup.api",
    "open_store": "tuner.api",
    "tune": "tuner.api",
}

__all__ = [
    "Answer",
    "Config",
    "Device",
    "MachineError",
    "Origin",
    "Problem",
    "UserError",
    "describe",
    "gemm",
    "lookup",
    "open_store",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """Importing the subpackage `tuner.gemm` or `tuner.lookup` must not hide the function of that name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
