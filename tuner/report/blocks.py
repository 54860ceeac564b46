"""What a report is made of, before it is HTML, Markdown or JSON: pages of sections of tables, figures and words.

Numbers are rounded when a table is made (`numbers.rounded`), so that the three renderings cannot differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tuner.report.numbers import Kind, rounded, text_of


@dataclass(frozen=True)
class Column:
    """One column: `key` names it for programs, `title` and `unit` for people."""

    key: str
    title: str
    kind: Kind = Kind.TEXT
    unit: str = ""

    @property
    def heading(self) -> str:
        """Title with unit."""
        unit = "%" if self.kind is Kind.PERCENT else self.unit
        return f"{self.title} ({unit})" if unit else self.title


@dataclass(frozen=True)
class Cell:
    """One value, rounded; `noise` is the half-width of its 95 % interval in percent of it."""

    value: str | float | int | None
    noise: float | None = None
    link: str = ""
    """A page of the report, or a place on one: `device-x.html#roofline`."""
    note: str = ""
    """A word that stands beside the value: `open`, say."""
    whole: str = ""
    """What the value is short for: a click away on a page, beside it in JSON."""

    def text(self, kind: Kind) -> str:
        """What is shown, without noise and note."""
        if isinstance(self.value, str):
            return self.value
        return text_of(self.value, kind)


@dataclass(frozen=True)
class Table:
    """Rows under columns. `caption` says what is compared, by which statistic and from when."""

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    left_out: int = 0
    """Rows that are not shown, after those that are."""

    @classmethod
    def of(
        cls, id: str, caption: str, columns: Sequence[Column], rows: Iterable[Sequence[object]], most: int | None = None
    ) -> Table:
        """A table from unrounded values, cells, texts and numbers (a fraction for a percentage); at most `most` rows.

        Raises TypeError for anything else.
        """
        made = tuple(tuple(_cell(value, column) for value, column in zip(row, columns, strict=True)) for row in rows)
        shown = made if most is None else made[:most]
        return cls(id, caption, tuple(columns), shown, len(made) - len(shown))

    def first(self, count: int) -> Table:
        """The same table with no more than `count` rows."""
        left_out = max(0, len(self.rows) - count)
        return Table(self.id, self.caption, self.columns, self.rows[:count], self.left_out + left_out)


def _cell(given: object, column: Column) -> Cell:
    if not isinstance(given, Cell | str | float | int | None):
        raise TypeError(f"{given!r} is no value for {column.key}")
    cell = given if isinstance(given, Cell) else Cell(given)
    noise = None if cell.noise is None else rounded(cell.noise, Kind.PERCENT)
    value = cell.value
    if column.kind.is_number and not isinstance(value, str):
        value = rounded(value, column.kind)
    return replace(cell, value=value, noise=noise)


@dataclass(frozen=True)
class Figure:
    """A plot, as Plotly's traces and layout; the page's theme adds colours and fonts."""

    id: str
    title: str
    caption: str
    """What is drawn, and what it says: it stands in for the picture where none can be seen."""
    data: Sequence[Mapping[str, Any]] = field(hash=False)
    layout: Mapping[str, Any] = field(hash=False)
    height: int = 320
    wide: bool = False
    """Takes the whole width of the page instead of half."""


@dataclass(frozen=True)
class Prose:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Log:
    """A text that is opened by hand: what a compiler said."""

    id: str
    title: str
    text: str


Block = Table | Figure | Prose | Log


@dataclass(frozen=True)
class Section:
    """A part of a page under a heading of its own."""

    id: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Page:
    """One page. `path` is its file's name without the ending."""

    path: str
    title: str
    lead: str
    """One or two sentences under the title."""
    sections: tuple[Section, ...]

    def tables(self) -> Iterable[Table]:
        """Every table, in order."""
        return (block for section in self.sections for block in section.blocks if isinstance(block, Table))
