"""`gemm-tuner lookup`: the best configuration known for a product, where it comes from, and its kernel."""

from __future__ import annotations

from typing import Annotated

import typer

from tuner.cli import options as o
from tuner.cli.output import console, duration, percent, plain, print_json, rate, settings
from tuner.cli.wiring import the_device, the_families, the_place
from tuner.lookup import Answer, Finder, Misses, Snapshot, seed_index


def lookup(
    m: o.M,
    n: o.N,
    k: o.K,
    dtype: o.DTypeOption = "float32",
    trans_a: o.TransAOption = False,
    trans_b: o.TransBOption = False,
    batch: o.BatchOption = 1,
    math: o.MathOption = "strict",
    source: Annotated[bool, typer.Option("--source", help="Print the kernel's source and nothing else.")] = False,
    family_dir: o.FamilyDirOption = None,
    device: o.DeviceOption = None,
    db: o.DbOption = None,
    json_output: o.JsonOption = False,
) -> None:
    """Answer which configuration to use for a product, how it is known, and how to launch it."""
    problem = o.the_problem(m, n, k, dtype, trans_a, trans_b, batch, math)
    families = the_families([], family_dir or [])
    chosen = the_device(device)
    place = the_place(db)
    finder = Finder(Snapshot(place.snapshot), families, seeds=seed_index, misses=Misses(place.spool))
    answer = finder.lookup(chosen, problem)
    if source:
        print(answer.rendered.source)
    elif json_output:
        print_json(answer.to_json())
    else:
        _print_answer(answer, f"{problem} on {chosen.name}")


def _print_answer(answer: Answer, title: str) -> None:
    out = console()
    evidence = answer.evidence
    out.print(title)
    out.print(f"origin     {answer.origin.value}: {evidence['why']}")
    out.print(f"           {'certified on this driver' if answer.certified else 'not certified on this driver'}")
    out.print(f"config     {answer.family} {settings(answer.config)}")
    if answer.gflops is not None:
        noise = percent(evidence.get("noise"))
        out.print(f"speed      {rate(answer.gflops)}, {duration(evidence.get('time_ms'))} ± {noise}")
    elif evidence.get("gflops"):
        where = evidence["problem"] if evidence["same_device"] else f"{evidence['problem']} on {evidence['device']}"
        out.print(f"speed      not measured here; {rate(evidence['gflops'])} for {where}")
    if answer.distance:
        out.print(f"distance   {answer.distance:.2f} doublings from {evidence['problem']}")
    for launch in answer.launches():
        buffers = "".join(
            f"  {buffer['name']} ({buffer['bytes']:,} bytes{', zeros' if buffer['zeroed'] else ''})"
            for buffer in launch["scratch"]
        )
        out.print(
            f"launch     {launch['kernel']}  global {launch['global_size']}  local {launch['local_size']}{buffers}"
        )
    if answer.rendered.build_options:
        out.print(f"build      {answer.rendered.build_options}")
    if evidence.get("when"):
        out.print(f"since      {evidence['when']}  ({plain(evidence['reason'])})")
    for reason in evidence.get("skipped", []):
        out.print(f"skipped    {plain(reason)}")
