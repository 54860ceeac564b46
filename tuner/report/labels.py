"""Names of things for people and for files: problems, devices, configurations; safe whatever they are called."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection, Sequence
from functools import cache

from tuner.family import BuiltIn, brief
from tuner.model import Config, Problem
from tuner.report.blocks import Cell
from tuner.report.gather import DeviceId

LONGEST = 80
"""Characters of a name that a heading or a table shows; the whole name stands on the device's page."""


def plain(text: str) -> str:
    """Foreign text on one line, without control characters or what turns the direction of writing."""
    return "".join(" " if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text).strip()


def short(text: str, most: int = LONGEST) -> str:
    """At most so many characters of a name."""
    text = plain(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def slug(text: str, key: str) -> str:
    """A name for files and anchors: what is plain of `text`, and a hash of `key` that tells it from others."""
    kept = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40].strip("-")
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{kept}-{digest}" if kept else digest


def device_name(device: DeviceId) -> str:
    """For headings and tables."""
    return short(device.name)


def device_page(device: DeviceId) -> str:
    """The path of a device's page."""
    return f"device-{slug(device.name, device.silicon.key + device.platform)}"


def regret_page(device: DeviceId) -> str:
    """The path of the page about its shape regret."""
    return device_page(device).replace("device-", "regret-", 1)


def problem_page(problem: Problem) -> str:
    """The path of a problem's page."""
    return f"problem-{slug(str(problem), repr(problem))}"


def problem_name(problem: Problem) -> str:
    """`1024×1024×64 float32`."""
    sizes, _, rest = str(problem).partition(" ")
    return f"{sizes.replace('x', '×')} {rest}"


def drawn_names(problems: Collection[Problem]) -> tuple[dict[Problem, str], str]:
    """Names short enough for a figure, and a sentence with what they leave out, for they have that in common."""
    types = {problem.dtype for problem in problems}
    if len(types) != 1:
        return {problem: problem_name(problem) for problem in problems}, ""
    (alike,) = types
    return {problem: problem_name(problem).replace(f" {alike}", "", 1) for problem in problems}, f" All are {alike}."


@cache
def _families() -> BuiltIn:
    return BuiltIn()


def settings(config: Config) -> Cell:
    """A configuration in short, with the whole of it."""
    whole, said = short(str(config), 1000), short(brief(config, _families()), 300)
    return Cell(said, whole="" if whole == said else whole)


def in_order(axes: Collection[str], families: Collection[str]) -> list[str]:
    """Axes as their families declare them, what matters most first; those that none declares come last."""
    known = [axis.name for family in sorted(families) if family in _families() for axis in _families()[family].axes]
    return [*(axis for axis in dict.fromkeys(known) if axis in axes), *sorted(set(axes) - set(known))]


def apart(configs: Sequence[Config]) -> list[str]:
    """A short name for each of several configurations: what tells it from the others."""
    told = [brief(config, _families()).split(" ") for config in configs]
    alike = set.intersection(*map(set, told)) if told else set()
    words = [[word for word in words if word not in alike] for words in told]
    return [short(f"{number}: {' '.join(some or told[number - 1][:1])}", 60) for number, some in enumerate(words, 1)]
