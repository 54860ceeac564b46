"""Copies of operands on the device, by which it is seen there that no kernel has written to the operands."""

from __future__ import annotations

import numpy as np

from tuner.data import template_folder
from tuner.opencl.refusal import Refused
from tuner.opencl.run import Buffer, Comparison, Machine, word_bytes
from tuner.verify import COMPARE_SOURCE

COPIED_SHARE = 1 / 16
"""An operand that takes more of the device's memory is not copied there."""

PROOF_ELEMENTS = 4096
"""In a part of an operand this large the comparison must find every bit that is turned."""


def built_comparison(machine: Machine, word: int, *, signed_zeros: bool = False) -> Comparison:
    """The comparison of buffers for words of `word` bytes, not proved yet; see `Machine.comparison`."""
    source = (template_folder() / COMPARE_SOURCE).read_text(encoding="utf-8")
    return machine.comparison(source, word, signed_zeros=signed_zeros)


class Copies:
    """Makes copies on one machine, before any kernel runs, and compares with them after."""

    def __init__(self, machine: Machine) -> None:
        """Without any copy yet."""
        self._machine = machine
        self._comparisons: dict[int, Comparison] = {}

    def of(self, buffer: Buffer, size: int) -> Buffer | None:
        """A copy of `size` bytes, or None where memory is the host's own or short."""
        facts = self._machine.device.facts
        if facts.shares_cores or size > COPIED_SHARE * facts.global_mem_bytes:
            return None
        try:
            return self._machine.duplicate(buffer, size)
        except Refused:
            return None

    def same(self, copy: Buffer, buffer: Buffer, elements: int, element_bytes: int) -> bool:
        """Both have the very same bits. Raises RuntimeError if the comparison proves to be blind."""
        word = word_bytes(element_bytes)
        if word not in self._comparisons:
            self._comparisons[word] = built_comparison(self._machine, word, signed_zeros=True)
            self._prove(self._comparisons[word], copy, min(elements, PROOF_ELEMENTS), element_bytes)
        return self._comparisons[word].count(copy, buffer, elements, element_bytes) == 0

    def _prove(self, comparison: Comparison, copy: Buffer, elements: int, element_bytes: int) -> None:
        other = self._machine.duplicate(copy, elements * element_bytes)
        for element in (0, elements // 2, elements - 1):
            for bit in (0, 8 * element_bytes - 1):
                place = element * element_bytes + bit // 8
                byte = np.zeros(1, np.uint8)
                self._machine.read(other, byte, byte_offset=place)
                self._machine.write(other, byte ^ np.uint8(1 << bit % 8), byte_offset=place)
                found = comparison.count(copy, other, elements, element_bytes)
                self._machine.write(other, byte, byte_offset=place)
                if found != 1:
                    raise RuntimeError(f"the comparison on the device counts {found} differences for a turned bit")
