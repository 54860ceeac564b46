"""What a right C looks like for given operands: computed once on the host, asked about every candidate's result."""

from __future__ import annotations

from collections import OrderedDict

from tuner.model import Problem
from tuner.verify.accept import CheckResult, guards_untouched
from tuner.verify.checks import WHOLE_FLOP, Close, Freivalds, Whole
from tuner.verify.layout import Array, Layout
from tuner.verify.operands import Operands, Values, make_operands


class Reference:
    """Operands and the check of what a kernel makes of them."""

    def __init__(self, problem: Problem, seed: int, values: Values = "integers", kind: str = "plain") -> None:
        """Choose and prepare the check that the problem's size affords."""
        self._key = (problem, seed, values, kind)
        self._operands: Operands | None = None
        operands, p = self.operands, problem
        self.kind = operands.kind
        """What alpha and beta are; the operands need not be made again for them."""
        self.check: Whole | Freivalds | Close
        if operands.values != "integers" and operands.kind.reads_ab:
            self.check = Close(operands, seed)
        elif p.flop <= WHOLE_FLOP or not operands.kind.reads_ab:
            self.check = Whole(operands)
        else:
            self.check = Freivalds(operands, seed)

    @property
    def operands(self) -> Operands:
        """What the kernel is given; made again if it was let go."""
        if self._operands is None:
            self._operands = make_operands(*self._key)
        return self._operands

    def let_operands_go(self) -> None:
        """Free the operands' memory; the check stays."""
        self._operands = None

    @property
    def bytes(self) -> int:
        """Host memory held."""
        return self.check.bytes + (self._operands.bytes if self._operands else 0)

    @property
    def rows(self) -> tuple[tuple[int, int], ...] | None:
        """(batch index, row) of the rows of C that `accept_rows` wants, or None if the check needs all of C."""
        return self.check.rows if isinstance(self.check, Close) else None

    def accept(self, flat: Array, layout: Layout) -> CheckResult:
        """Judge C's whole buffer after a run: guards untouched, values right."""
        guards = guards_untouched(flat, layout)
        return self.check.accept(layout.c.view(flat)) if guards.ok else guards

    def accept_rows(self, c: Array) -> CheckResult:
        """Judge the rows named by `rows`, (rows, n), read without the rest of C. Raises ValueError without `rows`."""
        if not isinstance(self.check, Close) or self.check.rows is None:
            raise ValueError("this check needs all of C")
        return self.check.accept_rows(c)

    def expected_flat(self, layout: Layout) -> Array | None:
        """C's whole buffer as a right kernel leaves it, but for the sign of zeros; None if not all of C is known."""
        if not isinstance(self.check, Whole):
            return None
        flat = layout.filled("c")
        layout.c.view(flat)[...] = self.check.expected
        return flat


class References:
    """References kept while they fit in `max_bytes`, so that each is computed once for all candidates.

    When they do not fit, operands go first (the device has its copy, and they are quick to make), the oldest before
    the others; then whole references. The newest reference stays whatever it takes.
    """

    def __init__(self, max_bytes: int = 2**30) -> None:
        """Start with none."""
        self._max_bytes = max_bytes
        self._kept: OrderedDict[tuple[Problem, int, Values, str], Reference] = OrderedDict()

    def get(self, problem: Problem, seed: int, values: Values = "integers", kind: str = "plain") -> Reference:
        """The reference of these operands."""
        key = (problem, seed, values, kind)
        if key not in self._kept:
            self._kept[key] = Reference(*key)
        self._kept.move_to_end(key)
        *older, newest = self._kept.values()
        for reference in older:
            if self._too_much():
                reference.let_operands_go()
        while len(self._kept) > 1 and self._too_much():
            self._kept.popitem(last=False)
        return newest

    def _too_much(self) -> bool:
        return sum(reference.bytes for reference in self._kept.values()) > self._max_bytes
