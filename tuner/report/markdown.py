"""Pages as Markdown for a chat or a pull request: words and the first rows of tables, no plots."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.report.blocks import Cell, Column, Figure, Log, Page, Prose, Table
from tuner.report.numbers import Kind, text_of

ROWS = 25
"""Of each table; how many more there are is said below it."""

_ESCAPED = str.maketrans({**{c: f"\\{c}" for c in "\\`*_[]|#"}, "<": "&lt;", ">": "&gt;", "&": "&amp;", "\n": " "})


def markdown(pages: Sequence[Page], picture: str = "") -> str:
    """All pages, one after another; `picture` is the path of one that stands below the first title."""
    lines: list[str] = []
    for number, page in enumerate(pages):
        lines += [f"{'#' if number == 0 else '##'} {escaped(page.title)}", "", escaped(page.lead), ""]
        if picture and number == 0:
            lines += [f"![What the report shows first]({picture})", ""]
        for section in page.sections:
            kept = [block for block in section.blocks if not isinstance(block, Figure | Log)]
            if not kept:
                continue
            lines += [f"{'##' if number == 0 else '###'} {escaped(section.title)}", ""]
            for block in kept:
                lines += _table(block) if isinstance(block, Table) else [_words(block), ""]
    return "\n".join(lines).rstrip() + "\n"


def escaped(text: str) -> str:
    """Text that Markdown takes as it is."""
    return text.translate(_ESCAPED)


def _words(block: Prose) -> str:
    return escaped(block.text)


def _table(table: Table) -> list[str]:
    shown = table.first(ROWS)
    head = [escaped(column.heading) for column in shown.columns]
    rule = ["---:" if column.kind.is_number else "---" for column in shown.columns]
    rows = [[_cell(cell, column) for cell, column in zip(row, shown.columns, strict=True)] for row in shown.rows]
    lines = [escaped(table.caption), "", *(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)), ""]
    return [*lines, f"{shown.left_out} further rows are not shown.", ""] if shown.left_out else lines


def _cell(cell: Cell, column: Column) -> str:
    noise = f" ± {text_of(cell.noise, Kind.PERCENT)} %" if cell.noise is not None and cell.value is not None else ""
    note = f" {escaped(cell.note)}" if cell.note else ""
    return f"{escaped(cell.text(column.kind))}{noise}{note}"
