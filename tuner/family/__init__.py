"""Kernel families: what is tunable, which configurations are legal, and the source each one renders to.

Names load on first use, so that a look-up, which checks rules, imports neither numpy nor a template engine.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.data import template_folder
    from tuner.family.brevity import brief
    from tuner.family.declare import Axis, Rule
    from tuner.family.family import BuiltIn, Family, load_families, load_family
    from tuner.family.source import is_sound, rendered
    from tuner.family.space import Space

_HOMES = {
    "Axis": "tuner.family.declare",
    "BuiltIn": "tuner.family.family",
    "Family": "tuner.family.family",
    "Rule": "tuner.family.declare",
    "Space": "tuner.family.space",
    "brief": "tuner.family.brevity",
    "is_sound": "tuner.family.source",
    "load_families": "tuner.family.family",
    "load_family": "tuner.family.family",
    "rendered": "tuner.family.source",
    "template_folder": "tuner.data",
}

__all__ = [
    "Axis",
    "BuiltIn",
    "Family",
    "Rule",
    "Space",
    "brief",
    "is_sound",
    "load_families",
    "load_family",
    "rendered",
    "template_folder",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
