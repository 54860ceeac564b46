"""What a child and its drivers print: kept out of the user's terminal, and the last of it told when the child dies."""

from __future__ import annotations

import os
from pathlib import Path

MAX_CHARACTERS = 300
_TAIL_BYTES = 4096

_caught = False


def words_file(cache: Path) -> Path:
    """Where the child with that cache folder prints to."""
    return cache.with_name(f"{cache.name}.words")


def catch_words(file: Path) -> None:
    """In a child: from here on all that it prints, C libraries included, goes to the end of `file`."""
    global _caught
    try:
        target = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        return  # no room for words is no reason not to work
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)
    _caught = True


def forget_words() -> None:
    """In a child, before each piece of work: what was printed so far explains no death to come."""
    if _caught:
        os.ftruncate(2, 0)


def last_words(file: Path) -> str:
    """In the parent, after a death: the last lines printed, ready to stand behind a message; or nothing."""
    try:
        with file.open("rb") as words:
            words.seek(max(0, os.fstat(words.fileno()).st_size - _TAIL_BYTES))
            text = words.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    lines = [line for raw in text.splitlines() if (line := _printable(raw))]
    said = ""
    for line in reversed(lines):
        longer = f"{line}; {said}" if said else line
        if said and len(longer) > MAX_CHARACTERS:
            break
        said = longer
    return f": {said[:MAX_CHARACTERS]}" if said else ""


def _printable(line: str) -> str:
    return " ".join("".join(character if character.isprintable() else " " for character in line).split())
