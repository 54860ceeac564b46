"""`gemm-tuner ladder`: every rung from naive to champion over sizes, beside the libraries that are here."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.status import Status

from tuner.baselines import open_libraries
from tuner.cli import options as o
from tuner.cli.output import console, device_json, print_json, rate, table
from tuner.cli.wiring import measuring, require_room, the_device, the_families
from tuner.ladder import (
    LIMIT_S,
    ROUNDS,
    Climb,
    Layout,
    Level,
    Rung,
    Settings,
    chosen,
    html,
    ladder_json,
    markdown,
    parse_sizes,
    read_rungs,
    reference,
    size_name,
    speed_svg,
    time_svg,
)
from tuner.lookup import Snapshot, lookup, snapshot_path
from tuner.model import Device, MachineError, Problem, UserError

SIZES = "256:6144:256"
LAYOUTS = ("row", "column")


def ladder(
    sizes: Annotated[
        str, typer.Option("--sizes", metavar="LIST", help="FIRST:LAST:STEP, N or MxNxK, separated by commas.")
    ] = SIZES,
    rungs: Annotated[
        str, typer.Option("--rungs", metavar="LIST", help="Only these rungs, separated by commas. [default: all]")
    ] = "",
    layout: Annotated[str, typer.Option("--layout", help="row or column: how all three matrices lie.")] = "row",
    dtype: o.DTypeOption = "float32",
    library: Annotated[
        list[str] | None, typer.Option("--library", help="Only this library; may be repeated. [default: all]")
    ] = None,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Rounds in which all take their turns.")] = ROUNDS,
    limit: Annotated[
        float, typer.Option("--limit", min=0.001, help="Seconds that one product of a rung may take.")
    ] = LIMIT_S,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where tables and pictures are written.")
    ] = None,
    device: o.DeviceOption = None,
    wait: o.WaitOption = 0.0,
    db: o.DbOption = None,
    json_output: o.JsonOption = False,
) -> None:
    """Time every rung of the ladder, each proven right at each size, beside the vendors' libraries."""
    if layout not in LAYOUTS:
        raise UserError(f"there is no layout {layout!r}; use one of: {', '.join(LAYOUTS)}.")
    lie: Layout = "column" if layout == "column" else "row"
    products = parse_sizes(sizes, dtype, lie)
    every = read_rungs()
    taken = chosen(every, [name.strip() for name in rungs.split(",") if name.strip()])
    on = the_device(device)
    if not on.has(dtype):
        raise UserError(f"{on.name} does not support {dtype}; use another device or float32.")
    fitting, beyond = _fitting(products, on)
    if out is not None:
        _make(out)
    head = _head(on, layout, dtype, rounds, limit, beyond)
    families = the_families([], [])
    snapshot = Snapshot(snapshot_path(db))
    levels: list[Level] = []
    with measuring(on, wait) as bench, open_libraries(on, library) as libraries, _progress() as say:
        climb = Climb(
            (every, taken),
            families,
            bench,
            libraries,
            lambda problem: lookup(snapshot, on, problem, families),
            Settings(limit, rounds),
            say=say,
        )
        for number, problem in enumerate(fitting, 1):
            levels.append(climb.level(problem))
            print(f"[{number}/{len(fitting)}] {_summary(levels[-1])}", file=sys.stderr, flush=True)
            if out is not None:
                _write(out, head, taken, levels)
    if json_output:
        print_json(ladder_json(head, taken, levels))
    else:
        _print(head, taken, levels)


def _fitting(products: Sequence[Problem], device: Device) -> tuple[list[Problem], list[Problem]]:
    """Those the device holds, and those it does not. Raises UserError if it holds none."""
    fitting: list[Problem] = []
    beyond: list[Problem] = []
    for problem in products:
        try:
            require_room(problem, device)
            fitting.append(problem)
        except UserError:
            if not fitting and problem == products[-1]:
                raise
            beyond.append(problem)
    return fitting, beyond


def _head(
    device: Device, layout: str, dtype: str, rounds: int, limit_s: float, beyond: Sequence[Problem]
) -> dict[str, Any]:
    return {
        "device": device_json(device),
        "layout": layout,
        "dtype": dtype,
        "rounds": rounds,
        "limit_s": limit_s,
        "beyond_memory": [str(problem) for problem in beyond],
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["gemm-tuner", *sys.argv[1:]]),
    }


@contextmanager
def _progress() -> Iterator[Any]:
    """What goes on at the moment: a line that changes on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    with Status("starting", console=console(stderr=True)) as status:
        yield status.update


def _summary(level: Level) -> str:
    best = max((taken for taken in level.rungs if taken.ms), key=lambda t: level.gflops(t) or 0.0, default=None)
    fastest = "no rung has a time" if best is None else f"{best.name} {rate(level.gflops(best))}"
    beside = [f"{taken.name} {rate(level.gflops(taken))}" for taken in level.libraries if taken.ms]
    return f"{level.problem}: {', '.join([fastest, *beside])}"


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(f"{folder} cannot be made: {error.strerror}; give another --out.") from error


def _write(folder: Path, head: dict[str, Any], rungs: Sequence[Rung], levels: Sequence[Level]) -> None:
    """All files anew after each size, so that whoever ends the run keeps what is done."""
    title = f"The ladder on {head['device']['silicon']['name']}, {head['dtype']}, {head['layout']}-major"
    pictures = {"ladder-speed.svg": speed_svg(title, levels), "ladder-time.svg": time_svg(title, levels)}
    texts = {
        "ladder.json": json.dumps(ladder_json(head, rungs, levels), indent=1, ensure_ascii=False) + "\n",
        "ladder.md": markdown(title, _about(head), rungs, levels, list(pictures)),
        **pictures,
    }
    if page := html(title, levels):
        texts["ladder.html"] = page
    for name, text in texts.items():
        new = folder / f".{name}.new"
        try:
            new.write_text(text, encoding="utf-8")
            new.replace(folder / name)
        except OSError as error:
            raise MachineError(f"{folder / name} cannot be written: {error.strerror}.") from error


def _about(head: dict[str, Any]) -> list[str]:
    software = head["device"]["software"]
    beyond = f" Beyond the device's memory: {', '.join(head['beyond_memory'])}." if head["beyond_memory"] else ""
    return [
        f"{head['device']['silicon']['key']}; {software['platform']}, driver {software['driver']}; {head['when']};",
        f"`{head['command']}`. Each rung was proven right at each size before it was timed. Medians of"
        f" {head['rounds']} rounds in turns, by the slope of the host's time; a rung or library that has used two"
        " seconds at one size sits out the rounds left.",
        f"A rung of which one product would take more than {head['limit_s']:g} s is not run.{beyond}",
    ]


def _print(head: dict[str, Any], rungs: Sequence[Rung], levels: Sequence[Level]) -> None:
    library = reference(levels)
    rows = []
    for level in levels:
        for taken in (*level.rungs, *(found for found in level.libraries if found.ms)):
            beside = level.find(library) if library else None
            ratio = taken.speed_over(beside) if beside else None
            rows.append(
                (
                    *(size_name(level), taken.name, rate(level.gflops(taken))),
                    "-" if ratio is None else f"{ratio[0]:.1%}",
                    taken.message or taken.note or (taken.verdict.value if taken.verdict else ""),
                )
            )
    title = f"{head['device']['silicon']['name']}, {head['dtype']}, {head['layout']}-major"
    table(title, ("size", "rung", "speed", f"of {library or 'a library'}", "notes"), rows)
