"""A night's TOML file: read, checked against what can be asked, and refused with file and line."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tuner.baselines import LIBRARIES
from tuner.model import UserError
from tuner.nightly.entries import Table
from tuner.nightly.problem_lists import ProblemLists
from tuner.nightly.settings import (
    ALL,
    BEST,
    MachineLimits,
    NightBudget,
    NightSettings,
    Outputs,
    Retune,
)


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


class _Reader(ProblemLists):
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
            database=self._database(),
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
        """As they are spelled where they are known; which of them are here turns out on the device."""
        if data.get("libraries", ALL) == ALL:
            return None
        if data["libraries"] == "none":
            return ()
        at, known = ("baselines", "libraries"), {entry.name.casefold(): entry.name for entry in LIBRARIES}
        found: list[str] = []
        for text in self._texts(data, ("baselines",), "libraries"):
            name = known.get(text.casefold())
            if name is None:
                words = f'there is no library {text!r}; use "all", "none", or names: {", ".join(known.values())}'
                raise self._error(at, words, text)
            if name in found:
                raise self._error(at, f"{name} is named twice", text)
            found.append(name)
        return tuple(found)

    def _database(self) -> str | None:
        """A URL, or a file: a relative one, as every path, from the folder of the night's file."""
        text = self._text(self._data, (), "database")
        return str(self._folder / Path(text).expanduser()) if text and "://" not in text else text or None
