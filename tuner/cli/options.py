"""The options that commands share."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from tuner.model import DTYPES, MATHS, Problem, UserError

DbOption = Annotated[
    str | None,
    typer.Option(
        "--db",
        envvar="GEMM_TUNER_DB",
        metavar="URL",
        help="Where results are kept: a file or a database URL. [default: tuner.db in your data folder]",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object to standard output.")]
DeviceOption = Annotated[
    str | None,
    typer.Option("--device", metavar="NAME", help="Part of a device's name or driver, or its address such as 0:0."),
]
FamilyDirOption = Annotated[
    list[Path] | None,
    typer.Option("--family-dir", metavar="DIR", help="A folder with families of your own; may be repeated."),
]
WaitOption = Annotated[
    float,
    typer.Option("--wait", min=0, metavar="SECONDS", help="Wait so long for a device that another job measures on."),
]
M = Annotated[int, typer.Argument(metavar="M", help="Rows of C.")]
N = Annotated[int, typer.Argument(metavar="N", help="Columns of C.")]
K = Annotated[int, typer.Argument(metavar="K", help="Length of the sums.")]
DTypeOption = Annotated[str, typer.Option("--dtype", help=f"Element type: {', '.join(DTYPES)}.")]
TransAOption = Annotated[bool, typer.Option("--trans-a", help="A lies in memory as K x M.")]
TransBOption = Annotated[bool, typer.Option("--trans-b", help="B lies in memory as N x K.")]
BatchOption = Annotated[int, typer.Option("--batch", help="Products computed at once.")]
_MATHS = "; ".join(f"{name}: {promise}" for name, promise in MATHS.items())
MathOption = Annotated[str, typer.Option("--math", help=f"Arithmetic. {_MATHS}.")]


def the_moment(text: str) -> datetime:
    """The moment a date names, in the machine's time zone unless it says another; raises UserError if it is no date."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise UserError(f"{text!r} is no date; write it as 2026-11-29 or 2026-11-29T06:00.") from None


def the_problem(m: int, n: int, k: int, dtype: str, trans_a: bool, trans_b: bool, batch: int, math: str) -> Problem:
    """The packed product the arguments name; raises UserError for a size, type or arithmetic that does not exist."""
    return Problem.packed(m, n, k, dtype=dtype, trans_a=trans_a, trans_b=trans_b, batch=batch, math=math)
