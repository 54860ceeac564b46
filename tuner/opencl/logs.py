"""What a compiler's log says, in numbers and in one line."""

from __future__ import annotations

import re

from tuner.model import CompilerInfo

MAX_LOG_CHARACTERS = 16 * 1024
MAX_LINE_CHARACTERS = 500


def read_compiler_log(log: str, local_bytes: int | None = None) -> CompilerInfo:
    """Registers, spilled and local bytes, the largest over all kernels, as NVIDIA's `-cl-nv-verbose` prints them.

    `local_bytes`, as the driver's API tells it, stands in where the log does not.
    """

    def largest(pattern: str) -> int | None:
        return max((int(number) for number in re.findall(pattern, log)), default=None)

    said = largest(r"(\d+) bytes smem")
    return CompilerInfo(
        registers=largest(r"Used (\d+) registers"),
        spill_bytes=largest(r"(\d+) bytes spill stores"),
        local_bytes=local_bytes if said is None else said,
        log=trim(log),
    )


def trim(log: str) -> str:
    """The log without padding, cut at 16 K characters: its first errors matter most."""
    return log.replace("\0", "").strip()[:MAX_LOG_CHARACTERS]


def first_error(log: str) -> str:
    """The first line that speaks of an error, else the first line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    telling = (line for line in lines if re.search(r"\berror:", line, re.IGNORECASE))
    return next(telling, lines[0] if lines else "no reason was given")[:MAX_LINE_CHARACTERS]


def one_line(text: str) -> str:
    """Any text on one line of bounded length."""
    return " ".join(text.replace("\0", "").split())[:MAX_LINE_CHARACTERS]
