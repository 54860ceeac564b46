"""`gemm-tuner db`: bringing the store up to date, checking it, and what it holds."""

from __future__ import annotations

from typing import Any

import typer

from tuner.cli.options import DbOption, JsonOption
from tuner.cli.output import console, print_json
from tuner.cli.wiring import the_store

app = typer.Typer(help="Upgrade, check and count the store.", no_args_is_help=True)


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
    with the_store(db, upgrade=False) as store:
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
    with the_store(db, upgrade=False) as store:
        found, where = store.stats(), store.url
    if json_output:
        print_json({"store": where, **found})
    else:
        console().print(where)
        _print_nested(found, 1)


def _print_nested(values: dict[str, Any], depth: int) -> None:
    for name, value in values.items():
        if isinstance(value, dict):
            console().print("  " * depth + name)
            _print_nested(value, depth + 1)
        else:
            console().print(f"{'  ' * depth}{name:<24} {value}")
