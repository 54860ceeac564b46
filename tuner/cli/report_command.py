"""`gemm-tuner report` and `gemm-tuner study`: what was found, for people to read and for Optuna's dashboard."""

from __future__ import annotations

import os
import shlex
import sys
import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli import options as o
from tuner.cli.output import console, print_json
from tuner.cli.wiring import stored
from tuner.model import Problem, Record, UserError
from tuner.report import FORMATS, Ladder, build, read_ladder, whole, write
from tuner.search.rebuilt import write_storage

SUFFIXES = {".html": "html", ".htm": "html", ".md": "md", ".json": "json"}
DEFAULT_FOLDER = Path("gemm-tuner-report")


def report(
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE|DIR", help="One self-contained file, or a folder of pages."),
    ] = None,
    format: Annotated[
        str | None, typer.Option("--format", help="html, md or json. [default: by the name of --out, else html]")
    ] = None,
    picture: Annotated[
        str, typer.Option("--picture", metavar="PATH", help="A picture that Markdown shows below its title.")
    ] = "",
    ladder: Annotated[
        list[Path] | None,
        typer.Option("--ladder", metavar="FILE", help="A ladder.json to show with its device; may be repeated."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, help="Processes that build pages. [default: cores, at most 4]"),
    ] = None,
    db: o.DbOption = None,
    json_output: o.JsonOption = False,
) -> None:
    """Report what was tuned, from the store alone: overview, devices, problems, failures, regret, misses."""
    chosen = _format(out, format)
    began = time.monotonic()
    ladders = [read_ladder(path) for path in ladder or []]
    if out is None and (chosen != "html" or (json_output and format is None)):
        _print_whole(db, "json" if json_output and format is None else chosen, ladders)
        return
    where = out or DEFAULT_FOLDER
    if chosen == "html" and where.suffix.lower() not in SUFFIXES:
        many = workers or min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)
        done = build(partial(stored, db), where, workers=many, ladders=ladders, told=_told)
        counts = {"pages": done.pages, "built": done.built, "index_seconds": round(done.index_seconds, 2)}
        said = {"report": str(where / "index.html"), **counts}
        words = f"{where / 'index.html'}: {done.pages} pages, {done.built} of the problems' built now"
    else:
        with stored(db) as store:
            contents = write(store, where, chosen, picture, ladders)
        said = {"report": str(where), "bytes": where.stat().st_size, "problems": len(contents.facts.problems)}
        words = f"{where}: {where.stat().st_size / 1e6:.1f} MB"
    seconds = time.monotonic() - began
    if json_output:
        print_json({**said, "seconds": round(seconds, 2)})
    else:
        console().print(f"{words}, {seconds:.1f} s")


def _format(out: Path | None, format: str | None) -> str:
    if format is not None and format not in FORMATS:
        raise UserError(f"there is no format {format!r}; use one of: {', '.join(FORMATS)}.")
    if format is not None:
        return format
    return "html" if out is None else SUFFIXES.get(out.suffix.lower(), "html")


def _print_whole(db: str | None, format: str, ladders: list[Ladder]) -> None:
    with stored(db) as store:
        data, _ = whole(store, format, None, ladders=ladders)
    sys.stdout.write(data.decode())


def _told(done: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done} of {total} problems' pages", end="\n" if done == total else "", file=sys.stderr, flush=True)


def study(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The Optuna storage to write, SQLite.")],
    m: Annotated[int | None, typer.Argument(metavar="[M", help="Only this product: rows of C.")] = None,
    n: Annotated[int | None, typer.Argument(metavar="N", help="Columns of C.")] = None,
    k: Annotated[int | None, typer.Argument(metavar="K]", help="Length of the sums.")] = None,
    dtype: o.DTypeOption = "float32",
    trans_a: o.TransAOption = False,
    trans_b: o.TransBOption = False,
    batch: o.BatchOption = 1,
    math: o.MathOption = "strict",
    device: o.DeviceOption = None,
    db: o.DbOption = None,
    json_output: o.JsonOption = False,
) -> None:
    """Write the stored trials as Optuna studies, for optuna-dashboard and the like: one for each search space."""
    problem = _problem(m, n, k, (dtype, trans_a, trans_b, batch, math))
    with stored(db) as store:
        groups = _groups(store.history(problem=problem), device)
        where = store.url
    if not groups:
        raise UserError(f"there are no such trials in {where}; gemm-tuner champions lists what was tuned.")
    write_storage(out, sorted(groups.items()))
    trials = sum(len(records) for records in groups.values())
    if json_output:
        print_json({"storage": str(out), "studies": sorted(groups), "trials": trials})
    else:
        look = f"optuna-dashboard {shlex.quote(f'sqlite:///{out}')}"
        console().print(f"{out}: {len(groups)} studies, {trials} trials; look at them with: {look}")


def _problem(m: int | None, n: int | None, k: int | None, rest: tuple[str, bool, bool, int, str]) -> Problem | None:
    if m is None:
        return None
    if n is None or k is None:
        raise UserError("a product is M N K; give all three, or none for every product.")
    return o.the_problem(m, n, k, *rest)


def _groups(records: list[Record], device: str | None) -> dict[str, list[Record]]:
    """Records by the name of their study: device, driver, problem, family."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        keys = (record.silicon.key, record.software.key)
        if device is None or any(device.casefold() in key.casefold() for key in keys):
            name = f"{record.problem} | {record.config.family} | {record.silicon.name} | {record.software.driver}"
            groups.setdefault(name, []).append(record)
    return groups
