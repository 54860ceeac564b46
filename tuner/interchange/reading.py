"""Lines of a file that anybody may have written: bounded, in UTF-8, without NaN; each error names its line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.model import UserError

MAX_LINE_BYTES = 16 * 2**20
"""A champion's line, the longest, holds a kernel's source of some hundred kilobytes at most."""

MOST_INT = 2**31
"""Whole numbers are below this, in both databases."""


@dataclass(frozen=True)
class File:
    """A regular file, and what people call it."""

    path: Path
    name: str

    def __str__(self) -> str:
        return self.name


class Malformed(UserError):
    """A line that is not what it has to be; the message says where and why."""

    def __init__(self, file: File, number: int, why: str) -> None:
        super().__init__(f"{file}, line {number}: {why}. Nothing was imported.")


def objects(file: File) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each line's number and JSON object. Raises Malformed; UserError if the file cannot be read."""
    try:
        with file.path.open("rb") as lines:
            number = 0
            while line := lines.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    raise Malformed(file, number, f"it is longer than {MAX_LINE_BYTES // 2**20} MiB")
                if line.strip():
                    yield number, _object(file, number, line)
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}.") from error


def _object(file: File, number: int, line: bytes) -> dict[str, Any]:
    try:
        found = parsed(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise Malformed(file, number, "it is no UTF-8") from None
    except json.JSONDecodeError as error:
        raise Malformed(file, number, f"it is no JSON ({error.msg} at character {error.pos + 1})") from None
    except RecursionError:
        raise Malformed(file, number, "it is nested too deeply") from None
    except ValueError as error:
        raise Malformed(file, number, str(error)) from None
    if not isinstance(found, dict):
        raise Malformed(file, number, "it is no JSON object")
    return found


def parsed(text: str) -> Any:
    """A JSON value without NaN, infinities, and what no database stores. Raises ValueError or RecursionError."""
    found = json.loads(text, parse_constant=_refuse, parse_float=_finite, parse_int=_bounded)
    if "\\u" in text.lower():
        _check_texts(found)
    return found


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text:.40} is too large a number")
    return value


def _bounded(text: str) -> int:
    if len(text) > 20:
        raise ValueError(f"{text:.20}... is too large a number")
    return int(text)


def _check_texts(value: Any) -> None:
    """Escapes can spell what UTF-8 cannot."""
    match value:
        case str():
            if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
                raise ValueError(f"{value!r:.40} holds characters that cannot be stored")
        case list():
            for one in value:
                _check_texts(one)
        case dict():
            for name, one in value.items():
                _check_texts(name)
                _check_texts(one)
