"""The vendors' libraries, each in a process of its own, measured by the rules our kernels are measured by."""

from tuner.baselines.compare import Comparison, Standing, compare
from tuner.baselines.library import LIBRARIES, Entry, Library, LibraryFailed, open_libraries
from tuner.baselines.parameters import read_parameters

__all__ = [
    "LIBRARIES",
    "Comparison",
    "Entry",
    "Library",
    "LibraryFailed",
    "Standing",
    "compare",
    "open_libraries",
    "read_parameters",
]
