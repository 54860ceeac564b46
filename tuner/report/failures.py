"""What failed: by verdict, by reason, by the value of an axis; what compilers said is one click away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuner.model import Verdict
from tuner.report.blocks import Block, Cell, Column, Log, Page, Prose, Section, Table
from tuner.report.gather import DeviceFacts, Facts, FailureFacts
from tuner.report.labels import device_name, device_page, plain, settings, short
from tuner.report.numbers import Kind, date_of
from tuner.report.statistics import AxisValue, by_axis_value

FEWEST = 5
"""Trials with a value below which nothing is said about it."""
HARMLESS = 0.95
"""Share of correct trials from which on a value is not told of."""
REASONS = 25
VALUES = 40
LOGS = 10
"""Compile logs of one device that are shown, those of most failures."""
LOG_BYTES = 16 * 1024


def logs_wanted(facts: Facts) -> list[str]:
    """Hashes of the compile logs that the page shows."""
    return [hash for device in facts.devices for hash in _top(device.failures)]


def _top(failures: FailureFacts) -> list[str]:
    return sorted(failures.logs, key=lambda hash: (-failures.logs[hash][0], hash))[:LOGS]


def page(facts: Facts, logs: Mapping[str, str], log_link: bool) -> Page:
    """The page. With `log_link` logs are files of their own (`logs/HASH.txt`), else they stand on the page."""
    sections = [_verdicts(facts)]
    for device in facts.devices:
        blocks = _device(device, logs, log_link)
        if blocks:
            sections.append(Section(device_page(device.id), device_name(device.id), tuple(blocks)))
    lead = (
        "Every trial that gave no correct result, on all drivers. A wrong or failed configuration has no time, and no"
        " search ever sees one."
    )
    return Page("failures", "Failures", lead, tuple(sections))


def _verdicts(facts: Facts) -> Section:
    rows = []
    for device in facts.devices:
        total = sum(device.failures.verdicts.values())
        for verdict in Verdict:
            count = device.failures.verdicts.get(verdict, 0)
            if count:
                name = Cell(device_name(device.id), link=f"#{device_page(device.id)}")
                rows.append([name, verdict.value, count, count / total, verdict.meaning])
    columns = [
        Column("device", "device"),
        Column("verdict", "verdict"),
        Column("trials", "trials", Kind.COUNT),
        Column("share", "of the device's trials", Kind.PERCENT),
        Column("meaning", "meaning"),
    ]
    if not rows:
        return Section("verdicts", "By verdict", (Prose("Nothing was measured yet."),))
    return Section("verdicts", "By verdict", (Table.of("verdicts", "Trials by verdict.", columns, rows),))


def _device(device: DeviceFacts, logs: Mapping[str, str], log_link: bool) -> list[Block]:
    failures = device.failures
    if not failures.reasons:
        return []
    id = device_page(device.id)
    rows = [
        [verdict.value, short(reason, 200) or "no message", count]
        for (verdict, reason), count in sorted(failures.reasons.items(), key=lambda pair: (-pair[1], pair[0]))
    ]
    columns = [
        Column("verdict", "verdict"),
        Column("reason", "rule or message"),
        Column("trials", "trials", Kind.COUNT),
    ]
    caption = "Failures by verdict and first line of the message; for illegal ones that is the rule."
    blocks: list[Block] = [Table.of(f"reasons-{id}", caption, columns, rows, REASONS), _by_value(id, failures)]
    return [*blocks, *_logs(id, failures, logs, log_link)]


def _by_value(id: str, failures: FailureFacts) -> Block:
    found = [one for one in by_axis_value(failures.configs) if _fails(one)]
    rows = [
        [
            one.family,
            f"{one.axis} = {one.value}",
            one.correct,
            one.trials,
            one.correct / one.trials,
            "fails every time" if one.correct == 0 else "",
        ]
        for one in found
    ]
    columns = [
        Column("family", "family"),
        Column("value", "axis value"),
        Column("correct", "correct", Kind.COUNT),
        Column("trials", "of trials", Kind.COUNT),
        Column("share", "correct", Kind.PERCENT),
        Column("remark", "remark"),
    ]
    caption = (
        f"Axis values of which less than {100 * HARMLESS:.0f} % are correct, those that fail most first; values with"
        f" fewer than {FEWEST} trials are left out."
    )
    if not rows:
        rare = f"{100 - 100 * HARMLESS:.0f} %"
        return Prose(f"No value of an axis that was tried {FEWEST} times fails in more than {rare} of its trials.")
    return Table.of(f"values-{id}", caption, columns, rows, VALUES)


def _fails(one: AxisValue) -> bool:
    return one.trials >= FEWEST and one.correct < HARMLESS * one.trials


def _logs(id: str, failures: FailureFacts, logs: Mapping[str, str], log_link: bool) -> Sequence[Block]:
    wanted = [hash for hash in _top(failures) if hash in logs]
    if not wanted:
        return []
    left_out = len(failures.logs) - len(wanted)
    rows, texts = [], []
    for hash in wanted:
        count, line = failures.logs[hash]
        link = f"logs/{hash[:16]}.txt" if log_link else f"#log-{id}-{hash[:16]}"
        rows.append([Cell(hash[:16], link=link), line.verdict.value, count, settings(line.config), date_of(line.when)])
        if not log_link:
            texts.append(Log(f"log-{id}-{hash[:16]}", f"Compile log {hash[:16]}", log_text(logs[hash])))
    columns = [
        Column("log", "compile log"),
        Column("verdict", "verdict"),
        Column("trials", "failures with it", Kind.COUNT),
        Column("config", "the last of them"),
        Column("when", "when", Kind.DATE, "UTC"),
    ]
    more = f" {left_out} logs of fewer failures are left out." if left_out else ""
    caption = f"What the compiler said about failures, each log once.{more}"
    return [Table.of(f"logs-{id}", caption, columns, rows), *texts]


def log_text(text: str) -> str:
    """A log without what could steer a terminal or a browser."""
    return "\n".join(plain(one) for one in text.splitlines()[:2000])
