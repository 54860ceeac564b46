"""Errors planted into a right C, with which a comparison on the device proves that it would see them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.array_utils import byte_bounds

from tuner.verify.layout import Array, Layout

COMPARE_SOURCE = "check/compare.cl"
"""The comparison kernel, below the templates folder."""


@dataclass(frozen=True)
class PlantedError:
    """One element to overwrite in a flat C; afterwards exactly one element differs."""

    place: str
    index: int
    """Element of the flat buffer."""
    data: bytes
    """What to write there: one element."""


def planted_errors(flat: Array, layout: Layout) -> tuple[PlantedError, ...]:
    """Errors for `flat`, a right C in `layout`: a lowest bit changed, inside and in each guard zone, and a NaN."""
    words = flat.view(f"u{flat.itemsize}")
    slab = layout.c
    middle = slab.batch // 2 * slab.stride + slab.rows // 2 * slab.ld + slab.columns // 2
    last = (slab.batch - 1) * slab.stride + (slab.rows - 1) * slab.ld + slab.columns - 1
    places = {"first element": slab.base, "middle element": slab.base + middle, "last element": slab.base + last}
    for place, zone in slab.outside(words):
        low, high = (address - words.ctypes.data for address in byte_bounds(zone))
        places |= {f"{place}, first": low // words.itemsize, f"{place}, last": high // words.itemsize - 1}
    flipped = [
        PlantedError(place, index, (words[index] ^ words.dtype.type(1)).tobytes()) for place, index in places.items()
    ]
    nan = PlantedError("NaN", slab.base, np.full(1, np.nan).astype(flat.dtype).tobytes())
    return (*flipped, nan)
