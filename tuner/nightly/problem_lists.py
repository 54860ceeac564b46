"""The problems of a night: shapes as they are, ranges, and a model's layers as a small table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from tuner.model import DTYPES, Problem, UserError
from tuner.nightly.entries import Entries, Place, Table

MOST_PROBLEMS = 100_000
"""More are a slip in a range, not a plan."""
_SHAPE = re.compile(r"\s*(\d+)(?:\s*[x×]\s*(\d+)\s*[x×]\s*(\d+))?\s*")
_RANGE = re.compile(r"\s*(\d+)\s*:\s*(\d+)\s*(?::\s*(\d+)\s*)?")
_SIZES = ("m", "n", "k")
_TRANSPOSES = {"nn": (False, False), "nt": (False, True), "tn": (True, False), "tt": (True, True)}


class ProblemLists(Entries):
    """Reads `[[problems]]`; `names` are what people call some of them."""

    def __init__(self, text: str, file: str, folder: Path, data: Table) -> None:
        super().__init__(text, file, folder, data)
        self.names: dict[Problem, str] = {}

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
            if step < 1 or last < first:
                raise self._error(at, f"{value!r} is no range; write FIRST:LAST or FIRST:LAST:STEP", value)
            if (count := (last - first) // step + 1) > MOST_PROBLEMS:
                said = f"{value!r} is too long: {count:,} sizes, and there may be at most {MOST_PROBLEMS:,} problems"
                raise self._error(at, said, value)
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
        texts = {self._shape(text, at): text for text in self._texts(table, at, "shapes")}
        found = []
        for (m, n, k, label), dtype, way, mathematics, batch in product(shapes, dtypes, transposes, maths, batches):
            trans_a, trans_b = _TRANSPOSES[way]
            rest = {"dtype": dtype, "trans_a": trans_a, "trans_b": trans_b, "math": mathematics, "batch": batch}
            try:
                problem = Problem.packed(m, n, k, **rest)
            except UserError as error:
                said = mathematics if mathematics in str(error) else texts.get((m, n, k), str(m))
                raise self._error(at, str(error).rstrip("."), said) from error
            if problem.is_empty or problem.k == 0:
                raise self._error(at, f"{problem} is an empty product", texts.get((m, n, k), str(m)))
            if label:
                self.names.setdefault(problem, label)
            found.append(problem)
        return found
