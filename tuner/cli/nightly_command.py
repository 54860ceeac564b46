"""`gemm-tuner nightly`: a night's work from one file, how the last nights went, and what a person has accepted."""

from __future__ import annotations

import contextlib
import copy
import functools
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from tuner.baselines import Library, open_libraries
from tuner.bench import Bench, choose, device_lock, list_devices
from tuner.cli import options as o
from tuner.cli.output import console, percent, print_json, problem_json, table
from tuner.cli.wiring import stored, the_families, the_locks, the_seeds, the_store
from tuner.model import Device, MachineError
from tuner.nightly.device_night import plan_json
from tuner.nightly.entries import seconds_of
from tuner.nightly.finish import finish
from tuner.nightly.morning import lines
from tuner.nightly.night import run_night
from tuner.nightly.plan import Plan, allot
from tuner.nightly.ports import Collaborators
from tuner.nightly.read import read_settings
from tuner.nightly.search_step import plan_for
from tuner.nightly.sensors import open_sensors
from tuner.nightly.settings import ALL, BEST, NightSettings
from tuner.nightly.words import driver, span
from tuner.store import Night, Store, vigil

LEAST_FREE_BYTES = 200 * 2**20
"""Free on the store's disk before a night begins: a long one writes some tens of MB."""
CONFIRM_S = 1.0
"""A confirmation is taken to last, in a plan that nothing was measured for."""

_COMMANDS = ("run", "status", "ack")


class _Group(typer.core.TyperGroup):
    """`nightly FILE` is `nightly run FILE`, also in its help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*_COMMANDS, "--help", "-h"):
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        shown, run = copy.copy(self), self.get_command(ctx, "run")
        shown.params = [] if run is None else run.params
        typer.core.TyperGroup.format_help(shown, ctx, formatter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["FILE [OPTIONS] | status [OPTIONS] | ack REGRESSION --reason TEXT"]


app = typer.Typer(
    cls=_Group,
    help="Do a night's work: measure what is due within the budget, and say what got faster, what got slower, and what "
    "needs a person.",
    no_args_is_help=True,
)


@app.command("run", hidden=True)
def nightly(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The night, a TOML file.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, why, and for how long.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not go on with a night that was cut short.")] = False,
    device: Annotated[
        list[str] | None, typer.Option("--device", metavar="NAME", help="In place of the file's; may be repeated.")
    ] = None,
    db: o.DbOption = None,
    json_output: o.JsonOption = False,
) -> int:
    """Measure what is due within the budget, and say what got faster, what got slower, and what needs a person."""
    began = time.monotonic()
    settings = read_settings(file)
    families = the_families(settings.families, settings.family_dirs)
    devices = chosen_devices(device or settings.devices)
    where = db or settings.database
    if dry_run:
        return _dry_run(settings, families, devices, where, json_output)
    with the_store(where, upgrade=True) as store:
        check_first(store)
        beside = Collaborators(
            devices=devices,
            families=families,
            open_bench=_open_bench,
            open_libraries=functools.partial(_open_libraries, settings),
            open_sensors=open_sensors,
            seeds=the_seeds(),
            say=_say,
        )
        stop = threading.Event()
        with signals_stop(stop):
            spent = time.monotonic() - began
            summary = run_night(settings, file.stem, store, beside, stop, fresh=fresh, spent_s=spent)
        finish(settings, summary, where, _say)
    if json_output:
        print_json(summary)
    else:
        out = console()
        for line in lines(summary):
            out.print(line)
    return 130 if stop.is_set() else int(summary["status"])


def chosen_devices(selectors: tuple[str, ...] | list[str]) -> tuple[Device, ...]:
    """The devices that `selectors` mean: `best`, `all` that work, or as `--device`. Raises as `choose`."""
    reports = list_devices()
    found: dict[Device, None] = {}
    for selector in selectors:
        if selector == ALL:
            found |= dict.fromkeys(report.device for report in reports if report.works)
        found[choose(reports, None if selector in (ALL, BEST) else selector)] = None
    return tuple(found)


@contextmanager
def _open_bench(device: Device, compilers: int | None, wait_s: float) -> Iterator[Bench]:
    def say(holder: str) -> None:
        _say(f"waiting for {device.name}, in use by {holder}")

    with (
        device_lock(device, the_locks(), wait_s=wait_s, waiting=say),
        Bench.open(device, compilers=compilers) as bench,
    ):
        yield bench


@contextmanager
def _open_libraries(settings: NightSettings, device: Device, seconds_left: Any) -> Iterator[list[Library]]:
    with open_libraries(device, settings.libraries, seconds_left=seconds_left) as libraries:
        yield libraries


def check_first(store: Store) -> None:
    """Raise MachineError if there is no room for a night's results, or if the store is damaged."""
    place = store.snapshot.parent
    place.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(place).free
    if free < LEAST_FREE_BYTES:
        raise MachineError(
            f"only {free / 2**20:.0f} MiB are free in {place}, a night needs {LEAST_FREE_BYTES / 2**20:.0f}; make room."
        )
    if found := store.check():
        raise MachineError(f"{store.url} is damaged: {found[0]}; see gemm-tuner db check.")


@contextmanager
def signals_stop(stop: threading.Event) -> Iterator[None]:
    """SIGTERM and Ctrl-C end the night in order; a second one ends it at once."""

    def handle(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        _say("told to stop; what is being measured is finished first")
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(line: str) -> None:
    with contextlib.suppress(OSError):
        print(f"{time.strftime('%H:%M:%S')}  {line}", file=sys.stderr, flush=True)


# What would be done


def _dry_run(
    settings: NightSettings, families: Any, devices: tuple[Device, ...], db: str | None, json_output: bool
) -> int:
    with the_store(db, upgrade=False) as store:
        plans = [(device, planned(settings, plan_for(settings, store, device, families))) for device in devices]
    if json_output:
        print_json({"budget_s": settings.budget.total_s, "plans": [plan_json(plan, device) for device, plan in plans]})
        return 0
    for device, plan in plans:
        console().print(f"{device.name} ({driver(device)}), {span(settings.budget.total_s)} in all")
        rows = [(str(p), "driver changed: certified and raced again", "", "") for p in plan.renew]
        rows += [(str(p), "confirmed: its champion is measured again", "", span(CONFIRM_S)) for p in plan.confirm]
        rows += [
            (str(due.problem), f"{due.reason.value}: {due.why}", percent(due.gain), span(due.seconds))
            for due in plan.due
        ]
        rows += [(str(p), "exhausted: nothing is left to measure", "", "0 s") for p in plan.exhausted]
        rows += [(str(p), "left out: the device lacks its type, or memory for it", "", "") for p in plan.lacking]
        table("", ("problem", "why", "expected gain", "time"), rows)
    return 0


def planned(settings: NightSettings, plan: Plan) -> Plan:
    """The plan with the time each search would get."""
    shared = settings.cross_share * settings.budget.total_s + CONFIRM_S * len(plan.confirm)
    due = allot(plan.due, settings.budget.total_s - shared, settings.budget.problem_s)
    return replace(plan, due=tuple(due))


# How it went


@app.command()
def status(
    max_age: Annotated[
        str | None, typer.Option("--max-age", metavar="TIME", help="Status 1 if the last night is older, such as 26h.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Only nights of this file (its name, no suffix).")] = None,
    db: o.DbOption = None,
    json_output: o.JsonOption = False,
) -> int:
    """Say how the last night went; status 1 if it failed, died or is too long ago, 3 with an open regression."""
    seconds = None if max_age is None else seconds_of(max_age)
    with stored(db) as store:
        nights, regressions = store.nights(10, name), store.regressions()
    found = vigil.judge(nights, seconds)
    if json_output:
        print_json(
            {
                "ok": found.ok,
                "message": found.message,
                "nights": [_night_json(night) for night in nights],
                "regressions": [
                    {"id": r.id, "problem": problem_json(r.problem), "opened": r.opened} for r in regressions
                ],
            }
        )
    else:
        console().print(found.message)
        for one in regressions:
            slower = percent(one.now_ms / one.before_ms - 1)
            console().print(f"open regression {one.id}: {one.problem} slower by {slower}, since {one.opened[:10]}")
    if not found.ok:
        return 1
    return 3 if regressions else 0


@app.command()
def ack(
    number: Annotated[int, typer.Argument(metavar="REGRESSION", help="Its number, as the summary shows it.")],
    reason: Annotated[str, typer.Option("--reason", help="Why it is accepted; who says so.")],
    db: o.DbOption = None,
) -> None:
    """Accept a regression: from now on its champion is compared with what it is now."""
    with the_store(db, upgrade=True) as store:
        store.acknowledge_regression(number, reason)
    console().print(f"regression {number} is acknowledged: {reason}")


def _night_json(night: Night) -> dict[str, Any]:
    summary = night.summary or {}
    return {
        "id": night.id,
        "name": night.name,
        "host": night.host,
        "started": night.started,
        "finished": night.finished,
        "state": night.state.value,
        "status": summary.get("status"),
        "attention": summary.get("attention", []),
    }
