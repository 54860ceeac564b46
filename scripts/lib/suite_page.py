"""What scripts/bench_suite shows of its rows: one line each, geometric means, and a page of Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tuner.cli.output import duration, percent, rate

Row = dict[str, Any]
"""One product: how it was tuned, and how it came off beside the libraries."""

_LEGEND = (
    "Ratios are library's time / ours (above 1 ours is faster): the median over rounds ± half of its 95 % interval."
    " All times by one clock, the slope of the host's time between N and 2N back-to-back calls, in turns."
)


class Described(Protocol):
    """A library as the page describes it."""

    name: str
    version: str
    how: str
    absent: str


def summarise(rows: Sequence[Row], library: str) -> Row | None:
    """Geometric mean and worst of library's time / ours over the rows that have both."""
    ratios = [
        (ratio, f"{row['m']}x{row['n']}x{row['k']}")
        for row in rows
        if (ratio := row.get("libraries", {}).get(library, {}).get("ratio")) is not None
    ]
    if not ratios:
        return None
    product = 1.0
    for ratio, _ in ratios:
        product *= ratio ** (1 / len(ratios))
    worst, where = min(ratios)
    faster = sum(ratio >= 1 for ratio, _ in ratios)
    return {"geometric_mean": product, "worst": worst, "worst_shape": where, "faster": faster, "shapes": len(ratios)}


def one_line(row: Row) -> str:
    """One row in short."""
    if "failed" in row:
        return f"FAILED: {row['failed']}"
    tuned = f"{row['evaluated']} evaluated in {row['seconds']:.0f} s  {rate(row['gflops'])}"
    return "  ".join([tuned, *(f"{name} {_ratio(found)}" for name, found in row["libraries"].items() if _raced(found))])


def _raced(found: Row) -> bool:
    return not found["absent"]


def _ratio(found: Row | None) -> str:
    if found is None or found["ratio"] is None:
        return f"failed: {found['failed']}" if found is not None and found["failed"] else "-"
    return f"{found['ratio']:.2f} ± {percent(found['noise'])}"


def page(name: str, data: Row, libraries: Sequence[Described]) -> list[str]:
    """The page's lines; `data` is what the JSON file holds."""
    present = [library for library in libraries if not library.absent]
    device, software = data["device"]["silicon"]["name"], data["device"]["software"]
    lines = [f"# {name}", "", f"{device}, {software['platform']}, driver {software['driver']}; host: {data['host']}."]
    kind = data["dtype"] + ("" if data["math"] == "strict" else f", {data['math']}")
    lines += [f"{kind}; {data['when']}; gemm-tuner {data['version']}; `{data['command']}`", ""]
    titles = [title for library in present for title in (library.name, f"{library.name} / ours")]
    columns = ["m×n×k", "ours", *titles, "configuration", "evaluated", "seconds"]
    lines += [_line(columns), _line(["---"] * len(columns))]
    lines += [_line(_cells(row, present)) for row in data["shapes"]]
    lines += ["", _LEGEND, ""]
    if data.get("launch_ms"):
        lines.append(f"- a launch that does next to nothing takes {duration(data['launch_ms'])}")
    for library, found in data["summary"].items():
        lines.append(
            f"- {library}: geometric mean {found['geometric_mean']:.3f} over {found['shapes']} products, at least 1 in"
            f" {found['faster']}; worst {found['worst']:.3f} at {found['worst_shape']}"
        )
    return lines + [described(library) for library in libraries]


def described(library: Described) -> str:
    """A library in one line."""
    if library.absent:
        return f"- {library.name} is absent: {library.absent}"
    return f"- {library.name} {library.version}: {library.how}"


def _cells(row: Row, libraries: Sequence[Described]) -> list[str]:
    shape = f"{row['m']}×{row['n']}×{row['k']}"
    if "failed" in row:
        return [shape, f"failed: {row['failed']}", *[""] * (2 * len(libraries) + 3)]
    cells = [shape, rate(row["gflops"])]
    for library in libraries:
        found = row["libraries"].get(library.name)
        cells += [rate(found["gflops"]) if found else "-", _ratio(found)]
    config = " ".join([row["config"]["family"], *(f"{a}={v}" for a, v in row["config"].items() if a != "family")])
    return [*cells, config, str(row["evaluated"]), f"{row['seconds']:.0f}"]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
