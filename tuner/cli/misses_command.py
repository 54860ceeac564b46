"""`gemm-tuner misses`: what was asked for and not tuned, most asked first."""

from __future__ import annotations

from typing import Any

from tuner.cli import options as o
from tuner.cli.output import console, print_json, problem_json, silicon_json, table
from tuner.cli.wiring import stored
from tuner.store import Miss


def misses(device: o.DeviceOption = None, db: o.DbOption = None, json_output: o.JsonOption = False) -> None:
    """List what look-ups had no certified champion for; --device narrows it to part of a device's name."""
    with stored(db, upgrade=True) as store:
        found = [miss for miss in store.misses() if _matches(device, miss)]
        where = store.url
    if json_output:
        print_json({"misses": [miss_json(miss) for miss in found], "store": where})
    elif not found:
        console().print(f"Nothing was asked for in vain, as far as {where} knows.")
    else:
        table(f"Misses in {where}", _COLUMNS, [_row(miss) for miss in found])


def miss_json(miss: Miss) -> dict[str, Any]:
    """A miss as plain values."""
    return {
        "silicon": silicon_json(miss.silicon),
        "software": dict(vars(miss.software)),
        "problem": problem_json(miss.problem),
        "origin": miss.origin,
        "count": miss.count,
        "first": miss.first,
        "last": miss.last,
    }


_COLUMNS = ("count", "device", "driver", "problem", "answered from", "last")


def _row(miss: Miss) -> list[str]:
    return [
        str(miss.count),
        miss.silicon.name,
        miss.software.driver,
        str(miss.problem),
        miss.origin,
        miss.last[:19],
    ]


def _matches(text: str | None, miss: Miss) -> bool:
    keys = (miss.silicon.key, miss.software.key)
    return text is None or any(text.casefold() in key.casefold() for key in keys)
