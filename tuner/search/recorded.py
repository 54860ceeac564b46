"""A recorded space: every configuration somebody measured, from a CSV file, in place of a device."""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tuner.model import Config, Scalar, UserError

TIME = "time_ms"
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class RecordedAxis:
    """A parameter of a recorded space and the values it took, in order."""

    name: str
    values: tuple[Scalar, ...]


class RecordedSpace:
    """The configurations of a file and their times; a `tuner.search.space.Space`.

    What was not recorded is illegal. `times` has the milliseconds of each configuration, None where it failed.
    """

    def __init__(self, name: str, columns: Mapping[str, Sequence[Scalar]], times_ms: Sequence[float | None]) -> None:
        """`columns` are the parameters, one value for each configuration; these must be distinct."""
        self.name = name
        self.axes = tuple(
            RecordedAxis(axis, tuple(sorted(set(values), key=_order))) for axis, values in columns.items()
        )
        choices = [{value: index for index, value in enumerate(axis.values)} for axis in self.axes]
        places = [
            [choice[value] for value in columns[axis.name]] for axis, choice in zip(self.axes, choices, strict=True)
        ]
        self._rows = np.array(places, dtype=np.int64).reshape(len(self.axes), -1).T
        names = list(columns)
        self._configs = [
            Config.of(name, dict(zip(names, row, strict=True))) for row in zip(*columns.values(), strict=True)
        ]
        self._number = {config: number for number, config in enumerate(self._configs)}
        self.times: dict[Config, float | None] = dict(zip(self._configs, times_ms, strict=True))
        self._radix = np.cumprod([1, *(len(axis.values) for axis in self.axes[:-1])])
        self._codes = self._rows @ self._radix
        self._by_code = np.argsort(self._codes)
        self._columns = self._derived()
        self.size = (len(self._configs), True)
        self.best_ms = min(time for time in times_ms if time is not None)

    def contains(self, config: Config) -> bool:
        """The configuration was recorded."""
        return config in self._number

    def fastest(self, count: int) -> list[Config]:
        """The best `count` configurations, the best first."""
        timed = [config for config in self._configs if self.times[config] is not None]
        return sorted(timed, key=lambda config: self.times[config] or math.inf)[:count]

    def sample(self, rng: np.random.Generator, count: int) -> list[Config]:
        """At most `count` distinct configurations, each equally likely."""
        total = len(self._configs)
        return [self._configs[number] for number in rng.choice(total, size=min(count, total), replace=False).tolist()]

    def indices(self, config: Config) -> dict[str, int]:
        """For each axis the index of the configuration's value."""
        row = self._rows[self._number[config]].tolist()
        return {axis.name: index for axis, index in zip(self.axes, row, strict=True)}

    def neighbours(self, *configs: Config) -> list[Config]:
        """The configurations that differ from one of these in a single axis, in the order of these."""
        return [other for config in configs for other in self._near(config)]

    def _near(self, config: Config) -> list[Config]:
        number = self._number[config]
        row, code = self._rows[number], self._codes[number]
        near = [
            code + (choice - row[position]) * self._radix[position]
            for position, axis in enumerate(self.axes)
            for choice in range(len(axis.values))
            if choice != row[position]
        ]
        wanted = np.array(near, dtype=np.int64)
        places = np.searchsorted(self._codes, wanted, sorter=self._by_code)
        found = self._by_code[np.minimum(places, len(self._codes) - 1)]
        return [self._configs[number] for number in found[self._codes[found] == wanted].tolist()]

    def snap(self, point: Mapping[str, float], exclude: Container[Config] = ()) -> Config | None:
        """The configuration nearest to `point` (L1 over indices) that is not in `exclude`; None if there is none."""
        target = np.array([point[axis.name] for axis in self.axes])
        distances = np.abs(self._rows - target).sum(axis=1)
        ordered = (self._configs[number] for number in np.argsort(distances, kind="stable").tolist())
        return next((config for config in ordered if config not in exclude), None)

    def columns(self, configs: Sequence[Config]) -> dict[str, NDArray[np.float64]]:
        """Every parameter as a column of numbers, words by their index; and the quotients that are always whole.

        A file declares no derived sizes, but where one parameter is a multiple of another throughout, the rules of the
        kernel made it so, and the quotient is a size that it works with: the loads of a work-item, say.
        """
        chosen = [self._number[config] for config in configs]
        return {name: column[chosen] for name, column in self._columns.items()}

    def _derived(self) -> dict[str, NDArray[np.float64]]:
        columns = {axis.name: self._numbers(place) for place, axis in enumerate(self.axes)}
        sizes = {name: column for name, column in columns.items() if column.min() >= 1 and np.ptp(column) > 0}
        quotients = {
            f"{one} / {other}": sizes[one] / sizes[other]
            for one in sizes
            for other in sizes
            if one != other and not (sizes[one] % sizes[other]).any()
        }
        return {**columns, **quotients}

    def _numbers(self, place: int) -> NDArray[np.float64]:
        values = self.axes[place].values
        numbers = [number for value in values if (number := _number(value)) is not None]
        scale = numbers if len(numbers) == len(values) else range(len(values))
        return np.array(scale, dtype=np.float64)[self._rows[:, place]]


def read_space(path: Path) -> RecordedSpace:
    """The space in a CSV file, which may be compressed with gzip: parameters, then `time_ms` and what else there is.

    An empty time is a failure. Raises UserError, with the line, for what cannot be read.
    """
    lines = csv.reader(_text(path).splitlines())
    header = next(lines, [])
    if TIME not in header or not header.index(TIME):
        raise UserError(f"{path}, line 1: it must name the parameters and then {TIME}.")
    names = header[: header.index(TIME)]
    if len(set(names)) < len(names) or "" in names:
        raise UserError(f"{path}, line 1: each parameter needs a name of its own.")
    rows: dict[tuple[str, ...], float | None] = {}
    for number, cells in _rows(lines):
        if len(cells) != len(header):
            raise UserError(f"{path}, line {number}: {len(cells)} fields, but line 1 has {len(header)}.")
        key = tuple(cell.strip() for cell in cells[: len(names)])
        if key in rows:
            raise UserError(f"{path}, line {number}: this configuration stands on an earlier line too.")
        rows[key] = _time(cells[len(names)].strip(), path, number)
    if not any(time is not None for time in rows.values()):
        raise UserError(f"{path} has no configuration with a time.")
    columns = {name: _values(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}
    return RecordedSpace(path.name.partition(".")[0], columns, list(rows.values()))


def _rows(lines: Iterator[list[str]]) -> Iterator[tuple[int, list[str]]]:
    return ((number, cells) for number, cells in enumerate(lines, 2) if cells)


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if data.startswith(_GZIP) else data).decode("utf-8-sig")
    except (OSError, EOFError) as error:
        raise UserError(f"{path} cannot be read: {error}.") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is no text; give a CSV file, as it is or compressed with gzip.") from None


def _time(text: str, path: Path, line: int) -> float | None:
    if not text:
        return None
    try:
        time_ms = float(text)
    except ValueError:
        time_ms = math.nan
    if not 0.0 < time_ms < math.inf:
        raise UserError(f"{path}, line {line}: {text!r} is no time in milliseconds; leave it empty for a failure.")
    return time_ms


def _values(texts: Sequence[str]) -> list[Scalar]:
    """Whole numbers if all are; texts otherwise."""
    try:
        return [int(text) for text in texts]
    except ValueError:
        return list(texts)


def _number(value: Scalar) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _order(value: Scalar) -> tuple[bool, float, str]:
    """Numbers by size, before words by the alphabet."""
    number = _number(value)
    return (number is None, number or 0.0, str(value))
