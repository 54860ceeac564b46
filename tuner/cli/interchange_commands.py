"""`export` and `import`: what is known, for other stores and other programs."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TextIO

import typer

from tuner import interchange
from tuner.cli import options as o
from tuner.cli.output import console, plain, print_json
from tuner.cli.wiring import stored, the_store
from tuner.model import MachineError, Silicon, Software, UserError

_WRITERS = {"lines": interchange.write_lines, "t4": interchange.write_t4, "seeds": interchange.write_seeds}
_WHAT = {"lines": "lines", "t4": "trials", "seeds": "seeds"}
_ONE = {
    "trials": "trial",
    "champions": "champion",
    "certificates": "certificate",
    "portfolio_entries": "portfolio entry",
    "misses": "miss",
}
FORMATS = (*_WRITERS, "header")


def export(
    format: Annotated[str, typer.Option("--format", help=f"One of: {', '.join(FORMATS)}.")] = "lines",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="PATH", help="A file, or a folder for a header. [default: standard output]"),
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", metavar="NAME", help="Only devices with this in their name or driver.")
    ] = None,
    db: o.DbOption = None,
    json_output: o.JsonOption = False,
) -> None:
    """Write what is known: all of it as JSON lines, trials in T4, champions as a C header with kernels or as seeds."""
    if format not in FORMATS:
        raise UserError(f"unknown format {format!r}; use one of: {', '.join(FORMATS)}.")
    if out is None and (format == "header" or json_output):
        raise UserError(f"--format {format} needs --out." if format == "header" else "--json needs --out.")

    def wanted(silicon: Silicon, software: Software) -> bool:
        return device is None or any(device.casefold() in key.casefold() for key in (silicon.key, software.key))

    with stored(db) as store:
        if format == "header":
            assert out is not None
            count, left_out = interchange.write_header(store, out, wanted)
            _say(json_output, out, format, count, f"{count} champions", left_out)
            return
        with _opened(out) as file:
            count = _WRITERS[format](store, file, wanted)
    if out is not None:
        _say(json_output, out, format, count, f"{count} {_WHAT[format]}", 0)


def _say(json_output: bool, out: Path, format: str, count: int, what: str, left_out: int) -> None:
    if json_output:
        print_json({"out": str(out), "format": format, "written": count, "left_out": left_out})
        return
    rest = f"; {left_out} without a certificate were left out, gemm-tuner verify --all tries them" if left_out else ""
    console().print(f"{out}: {what}{rest}.")


@contextmanager
def _opened(out: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that appears when it is whole."""
    if out is None:
        yield sys.stdout
        return
    unfinished = out.with_name(f".{out.name}.unfinished")
    try:
        with unfinished.open("w", encoding="utf-8") as file:
            yield file
        unfinished.replace(out)
    except OSError as error:
        raise MachineError(f"{out} cannot be written: {error.strerror}.") from error
    finally:
        unfinished.unlink(missing_ok=True)


def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="An export, or a result of CLBlast's tuners; - reads a pipe.")
    ],
    db: o.DbOption = None,
    json_output: o.JsonOption = False,
) -> None:
    """Take in what another store knows, beside our own; nothing of it runs before it is certified and raced here."""
    with _regular(file) as regular, the_store(db, upgrade=True) as store:
        found = interchange.load(regular, store)
        pending = sum(nominee.pending for nominee in store.nominees())
    if json_output:
        added = vars(found.added)
        print_json({"from": found.origin, **added, "left_out": dict(found.left_out), "pending": pending})
        return
    for sentence in _sentences(found, pending):
        console().print(plain(sentence))


@contextmanager
def _regular(file: Path) -> Iterator[interchange.File]:
    """A file that can be read twice."""
    if file.is_file():
        yield interchange.File(file, str(file))
        return
    if str(file) != "-" and not file.exists():
        raise UserError(f"{file} does not exist.")
    if file.is_dir():
        raise UserError(f"{file} is a folder; give a file.")
    with tempfile.NamedTemporaryFile(prefix="gemm-tuner-", suffix=".jsonl") as copy:
        source = sys.stdin.buffer if str(file) == "-" else file.open("rb")
        with os.fdopen(os.dup(source.fileno()), "rb") as pipe:
            while block := pipe.read(2**20):
                copy.write(block)
        copy.flush()
        yield interchange.File(Path(copy.name), "standard input" if str(file) == "-" else str(file))


def _sentences(found: interchange.Imported, pending: int) -> Iterator[str]:
    added: dict[str, int] = vars(found.added)
    counts = [
        f"{count} {_ONE[kind] if count == 1 else kind.replace('_', ' ')}" for kind, count in added.items() if count
    ]
    yield f"From {found.origin}: {', '.join(counts) or 'nothing new'}."
    for what, count in found.left_out.items():
        yield f"Left out: {count} x {what}."
    if added["trials"]:
        yield "Imported times stay apart: none of them is raced against or published here."
    if pending:
        yield (
            f"Imported champions to be certified and raced on their devices: {pending}. "
            "gemm-tuner tune tries them first; nothing runs them before."
        )
