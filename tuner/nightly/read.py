"""A night's TOML file: read, checked against what can be asked, and refused with file and line."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from tuner.family.lines import Lines
from tuner.model import DTYPES, Problem, UserError
from tuner.nightly.settings import (
    ALL,
    BEST,
    MachineLimits,
    NightBudget,
    NightSettings,
    Outputs,
    Retune,
)

MOST_PROBLEMS = 100_000
"""More are a slip in a range, not a plan."""
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"\s*(?:\d+(?:\.\d+)?\s*[smhd]\s*)+")
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")
_SHAPE = re.compile(r"\s*(\d+)(?:\s*[x×]\s*(\d+)\s*[x×]\s*(\d+))?\s*")
_RANGE = re.compile(r"\s*(\d+)\s*:\s*(\d+)\s*(?::\s*(\d+)\s*)?")
_SIZES = ("m", "n", "k")
_TRANSPOSES = {"nn": (False, False), "nt": (False, True), "tn": (True, False), "tt": (True, True)}

Place = str | int
Table = Mapping[str, Any]


def read_settings(path: Path) -> NightSettings:
    """The night that `path` describes. Raises UserError with `file:line` for whatever cannot be meant."""
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is no UTF-8 text; a night is described by a TOML file.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; name a night's TOML file.") from error
    return parse_settings(text, str(path), path.resolve().parent)


def parse_settings(text: str, file: str, folder: Path) -> NightSettings:
    """As `read_settings`, from text; relative paths are taken from `folder`."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at line (\d+)", str(error))
        where = f"{file}:{place[1]}" if place else f"{file}:{len(text.splitlines())}"
        raise UserError(f"{where}: this is no TOML: {str(error).partition(' (at')[0]}.") from error
    return _Reader(text, file, folder, data).settings()


def seconds_of(text: str) -> float:
    """Seconds in a time such as 90, 9m or 1h30m. Raises UserError."""
    if re.fullmatch(r"\s*\d+(\.\d+)?\s*", text):
        return float(text)
    if not _DURATION.fullmatch(text):
        raise UserError(f"{text!r} is no time; write 90, 9m or 1h30m.")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


class _Reader:
    def __init__(self, text: str, file: str, folder: Path, data: Table) -> None:
        self._file, self._folder, self._data = file, folder, data
        self._places, self._lines = Lines(file, text), text.splitlines()
        self.names: dict[Problem, str] = {}

    def settings(self) -> NightSettings:
        known = "database devices families family_dirs seed budget problems retune machine regression"
        self._only(self._data, (), f"{known} baselines cross_measure report")
        budget, retune, machine = self._table("budget"), self._table("retune"), self._table("machine")
        regression, baselines = self._table("regression"), self._table("baselines")
        cross = self._table("cross_measure")
        self._only(budget, ("budget",), "total problem evaluations")
        self._only(retune, ("retune",), "older_than exhaust most_misses")
        self._only(machine, ("machine",), "wait slow noisy")
        self._only(regression, ("regression",), "threshold")
        self._only(baselines, ("baselines",), "libraries")
        self._only(cross, ("cross_measure",), "share")
        defaults = NightSettings(())
        return NightSettings(
            problems=self._problems(),
            names=self.names,
            database=self._text(self._data, (), "database") or None,
            devices=tuple(self._texts(self._data, (), "devices") or (BEST,)),
            families=tuple(self._texts(self._data, (), "families")),
            family_dirs=tuple(self._folder / name for name in self._texts(self._data, (), "family_dirs")),
            budget=self._budget(budget),
            retune=self._retune(retune),
            machine=self._machine(machine),
            threshold=self._fraction(regression, ("regression",), "threshold", defaults.threshold, 0.01),
            libraries=self._libraries(baselines),
            cross_share=self._fraction(cross, ("cross_measure",), "share", defaults.cross_share, 0.0),
            seed=self._whole(self._data, (), "seed", None, 0),
            outputs=self._outputs(self._table("report")),
        )

    def _budget(self, data: Table) -> NightBudget:
        usual, at = NightBudget(), ("budget",)
        total = self._seconds(data, at, "total", usual.total_s)
        problem = self._seconds(data, at, "problem", usual.problem_s)
        if total < 10:
            raise self._error((*at, "total"), "a night needs 10 seconds at least")
        return NightBudget(total, problem, self._whole(data, at, "evaluations", None, 1))

    def _retune(self, data: Table) -> Retune:
        usual, at = Retune(), ("retune",)
        exhaust = data.get("exhaust", usual.exhaust)
        if not isinstance(exhaust, bool):
            raise self._error((*at, "exhaust"), f"exhaust must be true or false, not {exhaust!r}")
        misses = self._whole(data, at, "most_misses", usual.most_misses, 0)
        assert misses is not None
        return Retune(self._seconds(data, at, "older_than", usual.older_than_s), exhaust, misses)

    def _machine(self, data: Table) -> MachineLimits:
        usual, at = MachineLimits(), ("machine",)
        slow = self._fraction(data, at, "slow", usual.slow, 0.01)
        noisy = self._fraction(data, at, "noisy", usual.noisy, 0.01)
        return MachineLimits(self._seconds(data, at, "wait", usual.wait_s), slow, noisy)

    def _outputs(self, data: Table) -> Outputs:
        at = ("report",)
        self._only(data, at, "json markdown html on_finish on_failure")
        paths = {name: self._text(data, at, name) for name in ("json", "markdown", "html")}
        found = {name: self._folder / Path(text).expanduser() if text else None for name, text in paths.items()}
        hooks = (self._text(data, at, "on_finish"), self._text(data, at, "on_failure"))
        return Outputs(found["json"], found["markdown"], found["html"], *hooks)

    def _libraries(self, data: Table) -> tuple[str, ...] | None:
        if data.get("libraries", ALL) == ALL:
            return None
        if data["libraries"] == "none":
            return ()
        return tuple(self._texts(data, ("baselines",), "libraries"))

    # Problems

    def _problems(self) -> tuple[Problem, ...]:
        tables = self._data.get("problems", [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise self._error(("problems",), "write problems as [[problems]] tables")
        found: dict[Problem, None] = {}
        for number, table in enumerate(tables):
            found |= dict.fromkeys(self._list(table, ("problems", number)))
            if len(found) > MOST_PROBLEMS:
                raise self._error(("problems", number), f"that makes more than {MOST_PROBLEMS} problems")
        return tuple(found)

    def _list(self, table: Table, at: tuple[Place, ...]) -> list[Problem]:
        self._only(table, at, "name shapes m n k batch layers dtype transpose math")
        ways = {"shapes": "shapes" in table, "layers": "layers" in table}
        sized = any(size in table for size in _SIZES)
        if ways["shapes"] and (ways["layers"] or sized):
            raise self._error(at, "give shapes, or m, n and k, or layers")
        if ways["shapes"]:
            shapes = [(*self._shape(text, (*at, "shapes")), "") for text in self._texts(table, at, "shapes")]
        elif ways["layers"]:
            shapes = self._layers(table, at)
        else:
            shapes = self._ranges(table, at)
        if not shapes:
            raise self._error(at, "that is no problem; give shapes, or m, n and k, or layers")
        return self._variants(table, at, shapes)

    def _shape(self, text: str, at: tuple[Place, ...]) -> tuple[int, int, int]:
        match = _SHAPE.fullmatch(text)
        if match is None:
            raise self._error(at, f"{text!r} is no shape; write 1024 or 1001x1003x1007", text)
        m = int(match[1])
        return m, int(match[2] or m), int(match[3] or m)

    def _layers(self, table: Table, at: tuple[Place, ...]) -> list[tuple[int, int, int, str]]:
        layers, name = table["layers"], self._text(table, at, "name")
        if not isinstance(layers, list) or not layers or not all(isinstance(layer, dict) for layer in layers):
            raise self._error((*at, "layers"), "write layers as [{ name = ..., n = ..., k = ... }, ...]")
        found = []
        for layer in layers:
            said = next((str(value) for value in layer.values()), "")
            for key in layer.keys() - {"name", *_SIZES}:
                raise self._error((*at, "layers"), f"a layer has name, m, n and k, no {key!r}", key)
            sizes = {size: layer.get(size, table.get(size)) for size in _SIZES}
            for size, value in sizes.items():
                if value is None:
                    raise self._error((*at, "layers"), f"the layer {said!r} has no {size}", said)
            label = " ".join(filter(None, (name, str(layer.get("name", "")))))
            found += [(*shape, label) for shape in self._sizes(sizes, (*at, "layers"), said)]
        return found

    def _ranges(self, table: Table, at: tuple[Place, ...]) -> list[tuple[int, int, int, str]]:
        if not any(size in table for size in _SIZES):
            return []
        for size in _SIZES:
            if size not in table:
                raise self._error(at, f"{size} is missing; give m, n and k")
        name = self._text(table, at, "name")
        return [(*shape, name) for shape in self._sizes({size: table[size] for size in _SIZES}, at)]

    def _sizes(self, sizes: Table, at: tuple[Place, ...], text: str = "") -> list[tuple[int, int, int]]:
        """Every combination; a size that names another one, such as n = "m", follows it."""
        free = {name: value for name, value in sizes.items() if value not in _SIZES}
        for name, value in sizes.items():
            if name not in free and value not in free:
                raise self._error((*at, name), f"{name} = {value!r} follows a size that is no number itself", text)
        values = {name: self._range(value, (*at, name), text) for name, value in free.items()}
        combinations = [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]
        followed = {name: name if name in values else str(sizes[name]) for name in _SIZES}
        return [(c[followed["m"]], c[followed["n"]], c[followed["k"]]) for c in combinations]

    def _range(self, value: Any, at: tuple[Place, ...], text: str = "") -> list[int]:
        if isinstance(value, int) and not isinstance(value, bool):
            value = [value]
        if isinstance(value, str) and (match := _RANGE.fullmatch(value)):
            first, last, step = int(match[1]), int(match[2]), int(match[3] or 1)
            if step < 1 or last < first or (last - first) // step >= MOST_PROBLEMS:
                raise self._error(at, f"{value!r} is no range; write FIRST:LAST or FIRST:LAST:STEP", value)
            return list(range(first, last + 1, step))
        if isinstance(value, list) and value and all(isinstance(x, int) and not isinstance(x, bool) for x in value):
            return value
        said = f"{value!r} is no size; write a number, a list of numbers, 256:1024:256, or the name of another size"
        raise self._error(at, said, text or str(value))

    def _variants(
        self, table: Table, at: tuple[Place, ...], shapes: Sequence[tuple[int, int, int, str]]
    ) -> list[Problem]:
        dtypes = self._choices(table, at, "dtype", ("float32",), tuple(DTYPES))
        transposes = self._choices(table, at, "transpose", ("nn",), tuple(_TRANSPOSES))
        maths = self._texts(table, at, "math") or ["strict"]
        batches = self._range(table.get("batch", 1), (*at, "batch"))
        found = []
        for (m, n, k, label), dtype, way, mathematics, batch in product(shapes, dtypes, transposes, maths, batches):
            trans_a, trans_b = _TRANSPOSES[way]
            rest = {"dtype": dtype, "trans_a": trans_a, "trans_b": trans_b, "math": mathematics, "batch": batch}
            try:
                problem = Problem.packed(m, n, k, **rest)
            except UserError as error:
                said = mathematics if mathematics in str(error) else str(m)
                raise self._error(at, str(error).rstrip("."), said) from error
            if problem.is_empty or problem.k == 0:
                raise self._error(at, f"{problem} is an empty product", str(m))
            if label:
                self.names.setdefault(problem, label)
            found.append(problem)
        return found

    # Values

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
