"""The page of the search on recorded spaces: which rows it has, and its tables, made from what each row found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

FIRST_SEED = 5000
"""No setting of the search was chosen by a seed from here on."""
MARKS = "<!-- tables: scripts/bench_search --page -->", "<!-- end of tables -->"
KERNEL_TUNER = "kernel-tuner:"


@dataclass(frozen=True)
class Row:
    """One row: a way to search one space, again and again."""

    space: str
    label: str
    sampler: str = "ours"
    repeats: int = 100
    evaluations: int = 100
    ahead: int = 0
    noise: float = 0.0
    first: str = ""
    """What is tried first: "elsewhere" (the best of the other spaces given), "misleading", or nothing."""
    seed: int = FIRST_SEED

    @property
    def key(self) -> str:
        """By which a row that was measured is found again."""
        return " ".join(str(value) for value in asdict(self).values())


OURS = (
    Row("", "plain", evaluations=120),
    Row("", "16 ahead", ahead=16),
    Row("", "portfolio of another architecture", first="elsewhere", evaluations=80),
    Row("", "misleading portfolio", first="misleading", evaluations=120),
    Row("", "3 % noise, final race", noise=0.03),
)
"""For each space."""


def plan(spaces: Sequence[str], samplers: Sequence[str], strategies: Sequence[str], repeats: int) -> list[Row]:
    """Every row of the page, the more important ones first; opponents get `repeats`."""
    ours = [replace(row, space=space) for row in OURS for space in spaces]
    names = [*(KERNEL_TUNER + strategy for strategy in strategies), *(name for name in samplers if name != "ours")]
    return ours + [Row(space, name, name, repeats) for name in names for space in spaces]


def tables(rows: Sequence[Row], found: dict[str, dict[str, Any]], made_by: str) -> str:
    """Both tables in Markdown, of those rows that were measured."""
    measured = [row for row in rows if row.key in found]
    columns = ("search", "repeats, evaluations", "at 25", "at 50", "at 100", "to 95 %", "to 99 %", "seconds")
    head = f"| {' | '.join(columns)} |\n" + "|---" * len(columns) + "|"
    lines = [made_by, "", head]
    for space in dict.fromkeys(row.space for row in measured):
        lines.append(f"| **{space}** |{' |' * 7}")
        here = [row for row in measured if row.space == space]
        ours = [row for row in here if row.sampler == "ours"]
        others = sorted((row for row in here if row.sampler != "ours"), key=lambda row: _rank(found[row.key]))
        lines += [line(row, found[row.key]) for row in ours + others]
    return "\n".join(lines)


def _rank(found: dict[str, Any]) -> float:
    at = found["fraction_of_optimum"]
    return -float(at["100"]["median"] + at["50"]["median"])


def line(row: Row, found: dict[str, Any]) -> str:
    """One line of the table: median / 10th percentile of the fraction, median / 90th percentile of evaluations."""
    cells = [row.label, f"{row.repeats}, {row.evaluations}", *figures(found)]
    return f"| {' | '.join(cells)} |"


def figures(found: dict[str, Any]) -> list[str]:
    """The cells from "at 25" on."""
    reached = [
        f"{at['median']:.3f} / {at['p10']:.3f}" if (at := found["fraction_of_optimum"].get(count)) else "-"
        for count in ("25", "50", "100")
    ]
    goals = [
        " / ".join("never" if at[name] is None else f"{at[name]:.0f}" for name in ("median", "p90"))
        for at in (found["evaluations_to_95"], found["evaluations_to_99"])
    ]
    return [*reached, *goals, f"{found['seconds']:.2f}"]


def put_between_marks(page: str, inside: str) -> str:
    """`page` with what stands between its marks replaced. Raises ValueError if it lacks them."""
    before, first, rest = page.partition(MARKS[0])
    _, last, after = rest.partition(MARKS[1])
    if not first or not last:
        raise ValueError(f"the page needs the two lines {MARKS[0]} and {MARKS[1]}")
    return f"{before}{first}\n\n{inside}\n\n{last}{after}"
