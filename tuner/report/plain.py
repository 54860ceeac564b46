"""Pages as plain values for JSON: the same numbers under the names of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuner.report.blocks import Block, Cell, Column, Figure, Page, Prose, Table
from tuner.report.numbers import Kind


def plain_values(pages: Sequence[Page]) -> dict[str, Any]:
    """All pages by path. A cell is its value; its noise, in percent of it, is beside it under the key with `_noise`,
    what it is short for under that with `_whole`.
    """
    return {"format": 1, "pages": {page.path: _page(page) for page in pages}}


def _page(page: Page) -> dict[str, Any]:
    sections = {section.id: [_block(block) for block in section.blocks] for section in page.sections}
    return {"title": page.title, "lead": page.lead, "sections": sections}


def _block(block: Block) -> dict[str, Any]:
    if isinstance(block, Table):
        return {
            "table": block.id,
            "caption": block.caption,
            "columns": [_column(column) for column in block.columns],
            "rows": [_row(block.columns, row) for row in block.rows],
            "left_out": block.left_out,
        }
    if isinstance(block, Figure):
        drawn = {"data": block.data, "layout": block.layout}
        return {"figure": block.id, "title": block.title, "caption": block.caption, **drawn}
    if isinstance(block, Prose):
        return {"text": block.text}
    return {"log": block.id, "title": block.title, "text": block.text}


def _column(column: Column) -> dict[str, str]:
    unit = "%" if column.kind is Kind.PERCENT else column.unit
    return {"key": column.key, "title": column.title, "unit": unit, "kind": column.kind.value}


def _row(columns: Sequence[Column], row: Sequence[Cell]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for column, cell in zip(columns, row, strict=True):
        values[column.key] = cell.value
        if cell.noise is not None and cell.value is not None:
            values[f"{column.key}_noise"] = cell.noise
        if cell.whole:
            values[f"{column.key}_whole"] = cell.whole
    return values
