"""`replay`: judge the search on recorded spaces, without a device."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tuner.cli import options as o
from tuner.cli.output import console, percent, print_json, table
from tuner.search.recorded import read_space
from tuner.search.replay import Replayed, Settings, portfolio_from
from tuner.search.replay import replay as run_replay
from tuner.search.rivals import SAMPLERS


def replay(
    space: Annotated[
        Path, typer.Argument(metavar="SPACE.csv.gz", help="Parameters, then time_ms; an empty time is a failure.")
    ],
    evals: Annotated[int, typer.Option("--evals", help="Evaluations of each repeat.")] = 200,
    repeats: Annotated[int, typer.Option("--repeats", help="Searches, each with a seed of its own.")] = 20,
    seed: Annotated[int, typer.Option("--seed", help="Of the first repeat; the next have the numbers after it.")] = 0,
    ahead: Annotated[int, typer.Option("--ahead", help="Proposals made before the one in turn is measured.")] = 0,
    noise: Annotated[
        float, typer.Option("--noise", help="Of a measured time, as a fraction of it, such as 0.03.")
    ] = 0.0,
    portfolio: Annotated[
        list[Path] | None,
        typer.Option("--portfolio", metavar="FILE", help="Its best eight are tried first; may be repeated."),
    ] = None,
    sampler: Annotated[str, typer.Option("--sampler", help=f"One of: {', '.join(SAMPLERS)}.")] = "ours",
    json_output: o.JsonOption = False,
) -> int:
    """Search a recorded space again and again, and compare what is found with its optimum."""
    settings = Settings(evals, repeats, seed, ahead, noise, sampler)
    recorded = read_space(space)
    first = portfolio_from([read_space(path) for path in portfolio or []], recorded)
    replayed = run_replay(recorded, settings, first)
    described = {
        "space": {"file": str(space), "size": recorded.size[0], "best_ms": recorded.best_ms},
        "settings": {**vars(settings), "portfolio": [config.as_dict() for config in first]},
        **replayed.to_json(),
    }
    if json_output:
        print_json(described)
    else:
        _print(replayed, described)
    return 0


def _print(replayed: Replayed, described: dict[str, Any]) -> None:
    out = console()
    size, settings = described["space"]["size"], described["settings"]
    out.print(f"{described['space']['file']}: {size:,} configurations, the best {described['space']['best_ms']:.3f} ms")
    out.print(
        f"{settings['sampler']}, {settings['repeats']} searches of {settings['evaluations']} evaluations, "
        f"{settings['ahead']} ahead, {percent(settings['noise'])} noise, {len(settings['portfolio'])} tried first; "
        "95 % intervals in brackets"
    )
    fractions = described["fraction_of_optimum"].items()
    rows = [
        [f"of the optimum after {count}", *(_cell(found, name, percent) for name in ("median", "p10"))]
        for count, found in fractions
    ]
    table("Found", ["", "median", "10th percentile"], rows)
    rows = [
        [f"to {goal} % of the optimum", *(_cell(described[f"evaluations_to_{goal}"], name, _count) for name in names)]
        for goal, names in ((95, ("median", "p90")), (99, ("median", "p90")))
    ]
    table("Evaluations", ["", "median", "90th percentile"], rows)
    out.print(f"proposing and learning took {described['seconds']:.2f} s a search")


def _cell(found: dict[str, Any], name: str, shown: Any) -> str:
    low, high = found[f"{name}_interval"]
    return f"{shown(found[name])} [{shown(low)}, {shown(high)}]"


def _count(value: float | None) -> str:
    return "never" if value is None else f"{value:.0f}"
