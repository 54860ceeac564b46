"""Entries of a TOML file, each checked as it is read, and refused with file and line."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuner.family.lines import Lines
from tuner.model import UserError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"\s*(?:\d+(?:\.\d+)?\s*[smhd]\s*)+")
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")

Place = str | int
Table = Mapping[str, Any]


def seconds_of(text: str) -> float:
    """Seconds in a time such as 90, 9m or 1h30m. Raises UserError."""
    if re.fullmatch(r"\s*\d+(\.\d+)?\s*", text):
        return float(text)
    if not _DURATION.fullmatch(text):
        raise UserError(f"{text!r} is no time; write 90, 9m or 1h30m.")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


class Entries:
    """The whole of a file's data, with readers for each kind of value; `at` is the path of the table around it."""

    def __init__(self, text: str, file: str, folder: Path, data: Table) -> None:
        self._file, self._folder, self._data = file, folder, data
        self._places, self._lines = Lines(file, text), text.splitlines()

    def _table(self, name: str) -> Table:
        found = self._data.get(name, {})
        if not isinstance(found, dict):
            raise self._error((name,), f"{name} must be a table: [{name}]")
        return found

    def _only(self, table: Table, at: tuple[Place, ...], known: str) -> None:
        for key in table:
            if key not in known.split():
                raise self._error((*at, key), f"there is no {key!r} here; there is: {', '.join(known.split())}")

    def _text(self, table: Table, at: tuple[Place, ...], key: str) -> str:
        value = table.get(key, "")
        if not isinstance(value, str):
            raise self._error((*at, key), f"{key} must be text, not {value!r}")
        return value

    def _texts(self, table: Table, at: tuple[Place, ...], key: str) -> list[str]:
        value = table.get(key, [])
        value = [value] if isinstance(value, str) else value
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._error((*at, key), f"{key} must be text or a list of texts, not {value!r}")
        return value

    def _choices(
        self, table: Table, at: tuple[Place, ...], key: str, usual: tuple[str, ...], known: tuple[str, ...]
    ) -> list[str]:
        chosen = self._texts(table, at, key) or list(usual)
        for text in chosen:
            if text not in known:
                raise self._error((*at, key), f"there is no {key} {text!r}; use: {', '.join(known)}", text)
        return chosen

    def _whole(self, table: Table, at: tuple[Place, ...], key: str, usual: int | None, least: int) -> int | None:
        value = table.get(key, usual)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self._error((*at, key), f"{key} must be a whole number from {least}, not {value!r}")
        return value

    def _fraction(self, table: Table, at: tuple[Place, ...], key: str, usual: float, least: float) -> float:
        value = table.get(key, usual)
        if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= 1:
            raise self._error((*at, key), f"{key} must be a fraction from {least:g} to 1, not {value!r}")
        return float(value)

    def _seconds(self, table: Table, at: tuple[Place, ...], key: str, usual: float) -> float:
        value = table.get(key, usual)
        if isinstance(value, str) and _DURATION.fullmatch(value):
            return seconds_of(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 and math.isfinite(value):
            return float(value)
        raise self._error((*at, key), f"{key} must be a time such as 90, '9m' or '1h30m', not {value!r}", str(value))

    def _error(self, path: tuple[Place, ...], what: str, text: str = "") -> UserError:
        """The line of the entry at `path`, or the first from there on that has `text` in it."""
        where = self._places.where(*path)
        first = int(where.rpartition(":")[2])
        for number in range(first, len(self._lines) + 1) if text else ():
            if re.search(rf"(?<!\w){re.escape(text)}(?!\w)", self._lines[number - 1]):
                return UserError(f"{self._file}:{number}: {what}.")
        return UserError(f"{where}: {what}.")
