"""The declaration of a kernel family: its TOML file, read and checked, every error with its line."""

from __future__ import annotations

import difflib
import keyword
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.expr import Domain, Expression, compile_expression
from tuner.family.facts import DOMAINS
from tuner.family.lines import Lines, Place
from tuner.model import Scalar, UserError

MAX_CHOICES = 256
"""Choices of one axis; tables of configurations keep one byte for each axis."""
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_KERNEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = frozenset(
    (
        *("problem", "device", "min", "max", "ceil_div"),
        *("range", "dict", "lipsum", "cycler", "joiner", "namespace", "loop", "self", "caller", "varargs", "kwargs"),
        *("true", "false", "none", "set", "block", "macro"),
    )
)


@dataclass(frozen=True)
class Axis:
    """A tunable: its choices in order, one line of meaning, and the choice that older configurations imply."""

    name: str
    values: tuple[Scalar, ...]
    meaning: str
    before: Scalar | None = None


@dataclass(frozen=True)
class Rule:
    """A sentence that holds for every legal configuration, and its test."""

    says: str
    test: Expression


@dataclass(frozen=True)
class Launch:
    """One kernel to run: global and local size along each dimension, scratch buffers, and whether it runs at all."""

    kernel: str
    global_size: tuple[Expression, ...]
    local_size: tuple[Expression, ...]
    scratch: tuple[str, ...]
    when: Expression | None
    where: str


@dataclass(frozen=True)
class Scratch:
    """A buffer of the family's own in global memory."""

    name: str
    bytes: Expression
    when: Expression | None
    zeroed: bool
    """It is all zeros before the first product, and every product leaves it so."""


@dataclass(frozen=True)
class Declaration:
    """All that a family's TOML file says."""

    summary: str
    rank: Expression | None
    build_options: str
    most_spill_bytes: int | None
    """A build whose work-items spill more than this is not worth a launch; None: every one is."""
    axes: tuple[Axis, ...]
    derived: Mapping[str, Expression]
    rules: tuple[Rule, ...]
    launches: tuple[Launch, ...]
    scratch: tuple[Scratch, ...]
    defaults: tuple[tuple[Mapping[str, Any], str], ...]
    """Axis values of each default, with the place they stand at; not yet checked against the axes."""


def read_declaration(path: Path) -> Declaration:
    """Read and check the TOML file at `path`; a UserError names file and line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot read this family: {error}.") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(_syntax_error(path.name, str(error))) from None
    return _Reader(Lines(path.name, text), data).declaration()


def _syntax_error(file: str, message: str) -> str:
    # Before Python 3.14 the line is only in the message.
    place = re.search(r" \(at line (\d+), column (\d+)\)$", message)
    line = place[1] if place else "1"
    return f"{file}:{line}: this is not TOML: {message[: place.start()] if place else message}."


class _Reader:
    """Walks the parsed file once; `names` grows from the facts by axes and then derived sizes."""

    def __init__(self, lines: Lines, data: dict[str, Any]) -> None:
        self.lines = lines
        self.data = data
        self.names: dict[str, Domain] = dict(DOMAINS)

    def refuse(self, what: str, *path: Place) -> UserError:
        return UserError(f"{self.lines.where(*path)}: {what}.")

    def declaration(self) -> Declaration:
        known = (
            "summary",
            "rank",
            "build_options",
            "most_spill_bytes",
            "axes",
            "derived",
            "rules",
            "scratch",
            "launch",
            "default",
        )
        self._keys(self.data, known, ("summary", "launch", "default"), ())
        rank = self._expression(self.data["rank"], "int", "rank") if "rank" in self.data else None
        axes = tuple(self._axis(name, data) for name, data in self._table("axes").items())
        derived = {name: self._derived(name, text) for name, text in self._table("derived").items()}
        rules = tuple(self._rule(index, data) for index, data in self._tables("rules"))
        scratch = tuple(self._scratch(index, data) for index, data in self._tables("scratch"))
        launches = tuple(self._launch(index, data, scratch) for index, data in self._tables("launch"))
        defaults = tuple((data, self.lines.where("default", index)) for index, data in self._tables("default"))
        options = self._text(self.data, "build_options") if "build_options" in self.data else ""
        summary = self._text(self.data, "summary")
        spills = self._spills()
        return Declaration(summary, rank, options, spills, axes, derived, rules, launches, scratch, defaults)

    def _spills(self) -> int | None:
        most = self.data.get("most_spill_bytes")
        if most is not None and (type(most) is not int or most < 0):
            raise self.refuse("`most_spill_bytes` is a whole number of bytes, 0 or more", "most_spill_bytes")
        return most

    def _table(self, name: str) -> dict[str, Any]:
        table = self.data.get(name, {})
        if not isinstance(table, dict):
            raise self.refuse(f"`{name}` is a table: write [{name}]", name)
        return table

    def _tables(self, name: str) -> list[tuple[int, dict[str, Any]]]:
        tables = self.data.get(name, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise self.refuse(f"`{name}` is an array of tables: write [[{name}]]", name)
        if name in ("launch", "default") and not tables:
            raise self.refuse(f"a family needs a [[{name}]]", name)
        return list(enumerate(tables))

    def _keys(self, table: Any, known: Sequence[str], required: Sequence[str], path: tuple[Place, ...]) -> None:
        if not isinstance(table, dict):
            raise self.refuse(f"`{path[-1]}` is a table with the keys {', '.join(known)}", *path)
        for key in table:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                hint = f"did you mean `{near[0]}`? The known ones are" if near else "the known ones are"
                raise self.refuse(f"unknown key `{key}`: {hint} {', '.join(known)}", *path, key)
        for key in required:
            if key not in table:
                raise self.refuse(f"the key `{key}` is missing", *path)

    def _text(self, table: Mapping[str, Any], key: str, *path: Place) -> str:
        value = table[key]
        if not isinstance(value, str) or not (value.strip() or key == "build_options"):
            raise self.refuse(f"`{key}` is a string that is not empty", *path, key)
        return value

    def _expression(self, text: Any, kind: str, *path: Place) -> Expression:
        if not isinstance(text, str):
            raise self.refuse(f"an expression is a string, not {text!r}", *path)
        expression = compile_expression(text, self.names, self.lines.where(*path))
        if kind and expression.domain.kind != kind:
            wanted = {"int": "a whole number", "bool": "true or false"}[kind]
            raise self.refuse(f"`{text}` gives a value of type {expression.domain.kind}; {wanted} is needed", *path)
        return expression

    def _new_name(self, name: str, *path: Place) -> None:
        if not _NAME.fullmatch(name) or keyword.iskeyword(name) or name in _RESERVED:
            raise self.refuse(f"`{name}` cannot be a name here: use a-z, 0-9 and _, and no reserved word", *path)
        if name in self.names:
            raise self.refuse(f"`{name}` is already an axis", *path)

    def _axis(self, name: str, data: Any) -> Axis:
        path = ("axes", name)
        self._new_name(name, *path)
        self._keys(data, ("values", "meaning", "before"), ("values", "meaning"), path)
        values = data["values"]
        if not isinstance(values, list) or not 1 <= len(values) <= MAX_CHOICES:
            raise self.refuse(f"`values` of `{name}` is a list of 1 to {MAX_CHOICES} choices", *path, "values")
        kinds = {type(value) for value in values}
        if kinds not in ({int}, {str}) or len(set(values)) < len(values):
            raise self.refuse(f"the choices of `{name}` are distinct whole numbers or strings", *path, "values")
        if any(isinstance(value, int) and abs(value) >= 2**31 for value in values):
            raise self.refuse(f"a choice of `{name}` is too large: they stay below 2^31", *path, "values")
        before = data.get("before")
        if "before" in data and (type(before) is not type(values[0]) or before not in values):
            raise self.refuse(f"`before` of `{name}` is {before!r}, which is none of its choices", *path, "before")
        self.names[name] = Domain.of(values)
        return Axis(name, tuple(values), self._text(data, "meaning", *path), before)

    def _derived(self, name: str, text: Any) -> Expression:
        self._new_name(name, "derived", name)
        expression = self._expression(text, "", "derived", name)
        self.names[name] = expression.domain
        return expression

    def _rule(self, index: int, data: dict[str, Any]) -> Rule:
        path = ("rules", index)
        self._keys(data, ("says", "test"), ("says", "test"), path)
        return Rule(self._text(data, "says", *path), self._expression(data["test"], "bool", *path, "test"))

    def _when(self, data: Mapping[str, Any], *path: Place) -> Expression | None:
        return self._expression(data["when"], "bool", *path, "when") if "when" in data else None

    def _scratch(self, index: int, data: dict[str, Any]) -> Scratch:
        path = ("scratch", index)
        self._keys(data, ("name", "bytes", "when", "zeroed"), ("name", "bytes"), path)
        if data["name"] in [other.get("name") for other in self.data["scratch"][:index]]:
            raise self.refuse(f"there is already a scratch buffer `{data['name']}`", *path, "name")
        size = self._expression(data["bytes"], "int", *path, "bytes")
        zeroed = data.get("zeroed", False)
        if not isinstance(zeroed, bool):
            raise self.refuse("`zeroed` is true or false", *path, "zeroed")
        return Scratch(self._text(data, "name", *path), size, self._when(data, *path), zeroed)

    def _launch(self, index: int, data: dict[str, Any], scratch: Sequence[Scratch]) -> Launch:
        path = ("launch", index)
        required = ("kernel", "global", "local")
        self._keys(data, (*required, "scratch", "when"), required, path)
        kernel = self._text(data, "kernel", *path)
        if not _KERNEL.fullmatch(kernel):
            raise self.refuse(f"`{kernel}` cannot be the name of a kernel", *path, "kernel")
        global_size, local_size = (self._sizes(data[key], *path, key) for key in ("global", "local"))
        if len(global_size) != len(local_size):
            raise self.refuse("`global` and `local` have the same number of dimensions", *path, "local")
        buffers = data.get("scratch", [])
        names = [buffer.name for buffer in scratch]
        if not isinstance(buffers, list) or any(buffer not in names for buffer in buffers):
            raise self.refuse("`scratch` of a launch is a list of names of [[scratch]] buffers", *path, "scratch")
        return Launch(kernel, global_size, local_size, tuple(buffers), self._when(data, *path), self.lines.where(*path))

    def _sizes(self, texts: Any, *path: Place) -> tuple[Expression, ...]:
        if not isinstance(texts, list) or not 1 <= len(texts) <= 3:
            raise self.refuse("a size is a list of one to three expressions", *path)
        return tuple(self._expression(text, "int", *path) for text in texts)
