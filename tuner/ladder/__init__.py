"""The ladder: from the naive kernel to the champion, each rung verified and timed over sizes beside the libraries."""

from tuner.ladder.climb import LIMIT_S, ROUNDS, Climb, Settings
from tuner.ladder.level import Level, Taken
from tuner.ladder.page import ladder_json, markdown, reference, size_name
from tuner.ladder.plot import html, speed_svg, time_svg
from tuner.ladder.rungs import Rung, chosen, fit, read_rungs
from tuner.ladder.sizes import Layout, column_major, parse_sizes

__all__ = [
    "LIMIT_S",
    "ROUNDS",
    "Climb",
    "Layout",
    "Level",
    "Rung",
    "Settings",
    "Taken",
    "chosen",
    "column_major",
    "fit",
    "html",
    "ladder_json",
    "markdown",
    "parse_sizes",
    "read_rungs",
    "reference",
    "size_name",
    "speed_svg",
    "time_svg",
]
