"""`gemm-tuner db`: bringing the store up to date, checking it, what it holds, and making room in it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tuner.cli.options import DbOption, JsonOption, the_moment
from tuner.cli.output import console, print_json
from tuner.cli.wiring import stored, the_store

app = typer.Typer(help="Upgrade, check, count and prune the store.", no_args_is_help=True)


@app.command()
def upgrade(db: DbOption = None, json_output: JsonOption = False) -> None:
    """Create the store or bring its schema up to date, after a copy; renew the snapshot."""
    with the_store(db, upgrade=True) as store:
        store.publish()
        where, version, snapshot = store.url, store.version, store.snapshot
    if json_output:
        print_json({"store": where, "schema": version, "snapshot": str(snapshot)})
    else:
        console().print(f"{where} has schema {version}; its snapshot is {snapshot}.")


@app.command()
def check(db: DbOption = None, json_output: JsonOption = False) -> int:
    """Look for damage in the store; status 1 if there is any."""
    with stored(db) as store:
        found, where = store.check(), store.url
    if json_output:
        print_json({"store": where, "problems": found})
    else:
        for sentence in found:
            console().print(sentence)
        if not found:
            console().print(f"{where} is in order.")
    return 1 if found else 0


@app.command()
def stats(db: DbOption = None, json_output: JsonOption = False) -> None:
    """Count what the store holds."""
    with stored(db) as store:
        found, where = store.stats(), store.url
    if json_output:
        print_json({"store": where, **found})
    else:
        console().print(where)
        _print_nested(found, 1)


@app.command()
def prune(
    nights: Annotated[int, typer.Option(min=1, help="Keep all raw samples of the last so many nights.")] = 30,
    before: Annotated[
        str | None, typer.Option(metavar="DATE", help="Instead: keep them of what is not older than this date.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    db: DbOption = None,
    json_output: JsonOption = False,
) -> None:
    """Make room: of old trials keep the median time, not the raw samples; everything else stays."""
    moment = None if before is None else the_moment(before)
    with stored(db) as store:
        found, where = store.prune(nights, moment, dry_run=dry_run), store.url
    if json_output:
        print_json({"store": where, "dry_run": dry_run, **vars(found)})
    elif found.before is None:
        console().print(f"{where} has not seen {nights} nights yet; nothing goes.")
    else:
        verb = "would go" if dry_run else "are gone, their medians stay"
        what = f"the raw samples of {found.trials} trials from before {found.before} ({found.bytes} bytes)"
        console().print(f"{where}: {what} {verb}.")


def _print_nested(values: dict[str, Any], depth: int) -> None:
    for name, value in values.items():
        if isinstance(value, dict):
            console().print("  " * depth + name)
            _print_nested(value, depth + 1)
        else:
            console().print(f"{'  ' * depth}{name:<24} {value}")
