"""Names of things for people and for files: problems, devices, configurations; safe whatever they are called."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence

from tuner.model import Config, Problem
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


def settings(config: Config) -> str:
    """A configuration on one line."""
    return short(str(config), 300)


def apart(configs: Sequence[Config]) -> list[str]:
    """A short name for each of several configurations: the family and the values in which they differ."""
    alike = {
        axis
        for axis in {axis for config in configs for axis, _ in config.values}
        if len({config.as_dict().get(axis) for config in configs}) == 1
    }
    families = {config.family for config in configs}
    names = []
    for number, config in enumerate(configs, 1):
        values = [f"{axis}={value}" for axis, value in config.values if axis not in alike]
        words = values if len(families) == 1 and values else [config.family, *values]
        names.append(short(f"{number}: {' '.join(words)}", 60))
    return names
