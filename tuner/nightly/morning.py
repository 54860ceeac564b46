"""The summary in words: plain lines for a terminal, Markdown for a chat or a page; withdrawals first."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tuner.family import BuiltIn, brief
from tuner.model import Config, Problem
from tuner.nightly.words import rate, span

Values = Mapping[str, Any]
_FAMILIES = BuiltIn()
MOST_LINES = 20
"""Of one kind on the terminal; the rest is in JSON and Markdown."""


def lines(summary: Values) -> list[str]:
    """The morning's summary for a terminal."""
    night = summary["night"]
    took = f"{span(night['seconds'])} of {span(night['budget_s'])}"
    said = [f"night {night['id']} ({night['name']}): {_ending(summary)}, {took}"]
    for device in summary["devices"]:
        said.append(f"{device['device']['name']} ({device['device']['software']['driver']})")
        for title, rows in _sections(device):
            shown = rows[:MOST_LINES]
            said += [f"  {title:<12} {row}" if number == 0 else f"{'':15}{row}" for number, row in enumerate(shown)]
            if len(rows) > len(shown):
                said.append(f"{'':15}and {len(rows) - len(shown)} more")
    said += [f"needs a person: {sentence}" for sentence in summary["attention"]] or ["nothing needs a person"]
    if summary.get("report"):
        said.append(f"report: {summary['report']}")
    return said


def markdown(summary: Values) -> str:
    """The morning's summary as Markdown."""
    night = summary["night"]
    parts = [f"# Night {night['id']}: {night['name']}", ""]
    parts += [f"{_ending(summary).capitalize()}; {span(night['seconds'])} of {span(night['budget_s'])}, begun "]
    parts[-1] += f"{night['started'][:16].replace('T', ' ')} UTC. Status {summary['status']}."
    parts += ["", "**Needs a person:**", "", *(f"- {_safe(sentence)}" for sentence in summary["attention"])]
    if not summary["attention"]:
        parts[-2:] = ["Nothing needs a person."]
    for device in summary["devices"]:
        parts += ["", f"## {_safe(device['device']['name'])}", "", _safe(_driver(device)), ""]
        for title, rows in _sections(device):
            parts += [f"- **{title}**: {_safe(rows[0])}" if len(rows) == 1 else f"- **{title}**:"]
            parts += [f"  - {_safe(row)}" for row in rows] if len(rows) > 1 else []
        if device["champions"]:
            parts += ["", *_table(device["champions"])]
    if summary.get("report"):
        parts += ["", f"Report: {summary['report']}"]
    return "\n".join(parts) + "\n"


def _ending(summary: Values) -> str:
    if summary["night"]["interrupted"]:
        return "interrupted"
    return {0: "done", 1: "failed", 3: "done, with a regression"}[summary["status"]]


def _driver(device: Values) -> str:
    software = device["device"]["software"]
    return f"{software['platform']}, {software['driver']}"


def _sections(device: Values) -> Iterator[tuple[str, list[str]]]:
    """(title, lines) in the order in which they matter; empty ones are left out."""
    found = {
        "skipped": [device["skipped"]] if device["skipped"] else [],
        "failed": [device["failed"]] if device["failed"] else [],
        "withdrawn": [f"{_problem(one)}: {one['reason']}" for one in device["withdrawn"]],
        "software": _software(device["software"]),
        "promoted": [_promoted(one) for one in device["promoted"]],
        "regressions": [_regression(one, "new") for one in device["regressions"]["new"]]
        + [_regression(one, f"open since {one['opened'][:10]}") for one in device["regressions"]["open"]],
        "looks slower": [_looks_slower(one) for one in device.get("looks_slower", ())],
        "recovered": [f"{_problem(one)}: {one['reason']}" for one in device["regressions"]["recovered"]],
        "proven again": _renewed(device["renewed"]),
        "confirmed": [f"{device['confirmed']} champions measured again"] if device["confirmed"] else [],
        "searched": _searched(device),
        "failures": _failures(device["failures"]),
        "libraries": _libraries(device["champions"]),
        "defaults": _defaults(device.get("defaults")),
        "machine": [
            f"{when}: {condition['state']}{': ' + condition['words'] if condition['words'] else ''}"
            for when, condition in device["conditions"].items()
        ],
        "still due": [f"{_problem(one)}: {one['reason']}, {one['why']}" for one in device["due"]],
    }
    for title, rows in found.items():
        if rows:
            yield title, rows


def _problem(one: Values) -> str:
    return str(Problem(**one["problem"]))


def _promoted(one: Values) -> str:
    new, gain = one["new"], one["gain"]
    what = one["reason"] if gain is None else f"{gain:+.1%} [{one['low']:+.1%}, {one['high']:+.1%}]"
    before = "" if one["old"] is None else f"{_config(one['old'])} → "
    return f"{_problem(one)}: {what}, {rate(one['gflops'])}: {before}{_config(new)}"


def _config(one: Values) -> str:
    return brief(Config.of(one["family"], one["config"]), _FAMILIES)


def _regression(one: Values, since: str) -> str:
    detail = f", {one['detail']}" if one["detail"] else ""
    times = f"{one['before_ms']:.4g} → {one['now_ms']:.4g} ms"
    return f"#{one['id']} {_problem(one)}: {one['slower']:+.1%} ± {one['noise']:.1%} slower ({times}; {since}{detail})"


def _looks_slower(one: Values) -> str:
    nights = f"{one['nights']} night{'s' if one['nights'] > 1 else ''}"
    why = f"a history of {nights} is too short to tell" if one["too_few_nights"] else f"within the noise of {nights}"
    if not one["settled"]:
        why = "not looked at again"
    return f"{_problem(one)}: {one['factor'] - 1:+.1%} ± {one['noise']:.1%}, no regression yet: {why}"


def _software(found: Values | None) -> list[str]:
    if found is None:
        return []
    said = found["words"]
    if found["median_factor"] is not None:
        said += f"; {found['compared']} champions compared, median {found['median_factor'] - 1:+.1%}"
        said += f", {found['slower']} slower" if found["slower"] else ""
    return [said + ("; a regression of the software" if found["regression"] else "")]


def _renewed(found: Sequence[Values]) -> list[str]:
    proven = sum(one["proven"] for one in found)
    failed = [f"{_problem(one)}: not: {one['reason']}" for one in found if not one["proven"]]
    return [f"{proven} champions of another driver", *failed] if found else []


def _searched(device: Values) -> list[str]:
    if not device["searched"]:
        return []
    seconds = sum(one["seconds"] for one in device["searched"])
    count = len(device["searched"])
    return [f"{count} problems, {device['evaluated']} configurations, {span(seconds)}"]


def _failures(found: Values) -> list[str]:
    said = [f"{count} {verdict}: {found['examples'].get(verdict, '')}" for verdict, count in found["verdicts"].items()]
    for one in found["axes"]:
        said.append(f"{one['family']} {one['axis']} = {one['value']}: 0 of {one['trials']} correct")
    return said


def _libraries(champions: Sequence[Values]) -> list[str]:
    said = []
    for name in _raced_with(champions):
        beside = [champion["libraries"][name] for champion in champions if name in champion["libraries"]]
        paired = [one for one in beside if one["ratio"] is not None]
        if not paired:
            continue
        mean = statistics.geometric_mean([one["ratio"] for one in paired])
        before = sum(not one["of_champion"] for one in paired)
        with_before = f", {before} of them with the champion before" if before else ""
        said.append(f"{name}: {mean:.2f} times its rate in turns, geometric mean of {len(paired)}{with_before}")
    return said


def _raced_with(champions: Sequence[Values]) -> list[str]:
    return sorted({name for champion in champions for name in champion["libraries"]})


def _defaults(found: Values | None) -> list[str]:
    if found is None:
        return []
    share, median, most = found["over_10_percent_slower"], found["median_gain"], found["largest_gain"]
    return [
        f"over 10 % slower than the champion on {share:.0%} of {found['problems']} problems; "
        f"gain {median:.2f} times (median), at most {most:.1f}"
    ]


def _table(champions: Sequence[Values]) -> list[str]:
    names = _raced_with(champions)
    head = ["problem", "rate", "noise", *(f"× {name}" for name in names), "configuration"]
    rows = [f"| {' | '.join(map(_safe, head))} |", f"|{'---|' * len(head)}"]
    for champion in champions:
        label = f" ({champion['name']})" if champion["name"] else ""
        noise = "-" if champion["noise"] is None else f"{champion['noise']:.1%}"
        ratios = [_ratio(champion, name) for name in names]
        cells = [f"{_problem(champion)}{label}", rate(champion["gflops"]), noise, *ratios, _config(champion)]
        rows.append(f"| {' | '.join(map(_safe, cells))} |")
    return rows


def _ratio(champion: Values, name: str) -> str:
    """Library's time / ours within rounds; rates may be of two clocks, and say nothing beside one another."""
    beside = champion["libraries"].get(name)
    if beside is None or beside["ratio"] is None:
        return "-"
    return f"{beside['ratio']:.2f}{'' if beside['of_champion'] else ' (champion before)'}"


def _safe(text: str) -> str:
    """Stored or foreign text as it is, on one line, in no table's way."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    for character in "\\`*_<|[":
        plain = plain.replace(character, f"\\{character}")
    return plain
