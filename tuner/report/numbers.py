"""Numbers as a report shows them: rounded once, before anything is rendered, so that every rendering shows the same."""

from __future__ import annotations

import math
from datetime import datetime
from enum import StrEnum

UNKNOWN = "–"
"""What stands where nothing was measured."""


class Kind(StrEnum):
    """What a column holds, and so how it is rounded, written and sorted."""

    TEXT = "text"
    DATE = "date"
    COUNT = "count"
    RATE = "rate"
    """Four significant digits, as times."""
    TIME = "time"
    RATIO = "ratio"
    """Three significant digits."""
    PERCENT = "percent"
    """Given as a fraction, shown and stored in percent with one decimal; more where that would say 0 or 100."""

    @property
    def is_number(self) -> bool:
        """Whether its values are numbers."""
        return self not in (Kind.TEXT, Kind.DATE)


_DIGITS = {Kind.RATE: 4, Kind.TIME: 4, Kind.RATIO: 3}


def rounded(value: float | int | None, kind: Kind) -> float | int | None:
    """The number that is shown for `value`; None for one that is unknown or not finite."""
    if value is None or not math.isfinite(value):
        return None
    if kind is Kind.COUNT:
        return int(value)
    if kind is Kind.PERCENT:
        return _percent(100 * value)
    return significant(float(value), _DIGITS[kind])


def _percent(value: float) -> float:
    """Only what is 0 or 100 says so: one failure in thousands leaves less than all of them correct."""
    found = round(value, 1)
    if found not in (0, 100) or found == value:
        return found + 0.0
    if found:
        return min(round(value, 2), 99.99) if value < 100 else round(value, 2)
    return math.copysign(max(significant(abs(value), 1), 1e-4), value)


def significant(value: float, digits: int) -> float:
    """`value` with so many significant digits."""
    return float(f"{value:.{digits - 1}e}")


def text_of(value: float | int | None, kind: Kind) -> str:
    """A number that is `rounded` already, in figures without an exponent, so that it reads and parses alike."""
    if value is None:
        return UNKNOWN
    if kind is Kind.COUNT:
        return str(value)
    if kind is Kind.PERCENT:
        return f"{value:.1f}" if value == round(value, 1) else f"{value:.4f}".rstrip("0")
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(float(f"{value:.{_DIGITS[kind] - 1}e}"))))
    return f"{value:.{max(0, _DIGITS[kind] - 1 - exponent)}f}"


def date_of(when: str | None) -> str:
    """A stored moment to the minute, UTC."""
    return UNKNOWN if not when else when[:16].replace("T", " ")


def age_of(when: str, now: str) -> float | None:
    """Whole days from one stored moment to another; None if either is no moment."""
    try:
        return (datetime.fromisoformat(now) - datetime.fromisoformat(when)).days
    except (ValueError, TypeError):
        return None
