"""Kernel families: what is tunable, which configurations are legal, and the source each one renders to."""

from tuner.data import template_folder
from tuner.family.declare import Axis, Rule
from tuner.family.family import Family, load_families, load_family
from tuner.family.space import Space

__all__ = ["Axis", "Family", "Rule", "Space", "load_families", "load_family", "template_folder"]
