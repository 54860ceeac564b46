"""A kernel family: a template and its space, loaded from two files that lie side by side.

The template's engine and the space's tables are imported when they are used: a look-up needs the rules alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.data import template_folder
from tuner.expr import Expression, Value
from tuner.family.declare import Axis, Launch, Rule, read_declaration
from tuner.family.facts import DOMAINS, facts_of, namespaces
from tuner.family.source import rendered
from tuner.model import (
    CompilerInfo,
    Config,
    Device,
    Facts,
    Problem,
    Rendered,
    Scalar,
    Silicon,
    Software,
    Step,
    UserError,
)

if TYPE_CHECKING:
    from tuner.family.render import Template
    from tuner.family.space import Space


class Family:
    """A family as loaded; every configuration it is given may lack axes that declare `before`."""

    def __init__(self, toml_path: Path, *, trial: bool = True) -> None:
        """Load `toml_path`, and with `trial` the template beside it, of which a default is rendered at once."""
        declared = read_declaration(toml_path)
        self.name = toml_path.name.removesuffix(".toml")
        self.path = toml_path
        self.summary = declared.summary
        self._rank = declared.rank
        self.build_options = declared.build_options
        self.most_spill_bytes = declared.most_spill_bytes
        self.axes: tuple[Axis, ...] = declared.axes
        self.derived: Mapping[str, Expression] = declared.derived
        self.rules: tuple[Rule, ...] = declared.rules
        self.launches: tuple[Launch, ...] = declared.launches
        self.scratch = declared.scratch
        self._axis_by_name = {axis.name: axis for axis in self.axes}
        self.defaults = tuple(self._default(values, where) for values, where in declared.defaults)
        if trial:
            self._try_rendering()

    @cached_property
    def hash(self) -> str:
        """Of the family's files: while it is the same, so is whatever they render."""
        texts = [self.path.read_text(encoding="utf-8"), *self._template.texts]
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]

    @cached_property
    def _template(self) -> Template:
        from tuner.family.render import Template

        names = [*self._axis_by_name, *self.derived, "problem", "device"]
        return Template(self.path.with_name(f"{self.name}.cl.j2"), [template_folder()], names)

    def __repr__(self) -> str:
        return f"load_family({str(self.path)!r})"

    def complete(self, values: Mapping[str, Any]) -> Config:
        """The configuration of these axis values, axes added since filled with their `before`.

        Raises UserError for an unknown axis, a value that is none of its choices, or a missing axis without `before`.
        """
        for name in values:
            if name not in self._axis_by_name:
                raise UserError(f"{self.name} has no axis {name}; its axes are: {', '.join(self._axis_by_name)}.")
        full: dict[str, Scalar] = {}
        for axis in self.axes:
            value = values.get(axis.name, axis.before)
            if value is None:
                raise UserError(f"{self.name} needs a value for {axis.name}: {_choices(axis)}.")
            if type(value) is not type(axis.values[0]) or value not in axis.values:
                raise UserError(f"{axis.name} = {value!r} is none of the choices of {self.name}: {_choices(axis)}.")
            full[axis.name] = value
        return Config.of(self.name, full)

    def broken_rule(self, config: Config, problem: Problem, device: Device) -> str | None:
        """The sentence of the first rule the configuration breaks, or None if it is legal."""
        return self._broken_rule(self._environment(config, problem, device))

    def refused_build(self, said: CompilerInfo) -> str | None:
        """Why a build is not worth running, by what its compiler said; None if it is, or if that says nothing."""
        if self.most_spill_bytes is None or (said.spill_bytes or 0) <= self.most_spill_bytes:
            return None
        return f"{said.spill_bytes} bytes of registers spill, {self.name} allows {self.most_spill_bytes}"

    def default(self, problem: Problem, device: Device) -> Config:
        """The first declared default that is legal here; a UserError if none is."""
        broken = ""
        for config in self.defaults:
            sentence = self.broken_rule(config, problem, device)
            if sentence is None:
                return config
            broken = sentence
        what = f"no default of {self.name} is legal for {problem} on {device.name}"
        raise UserError(f"{what}; the last breaks: {broken}.")

    def rank(self, problem: Problem, device: Device) -> int:
        """How promising it is before anything was measured: of several families the highest is tried first."""
        return 0 if self._rank is None else int(self._rank.scalar(facts_of(problem, device)))

    def derive(self, config: Config, problem: Problem, device: Device) -> dict[str, Value]:
        """Every derived size by name."""
        env = self._environment(config, problem, device)
        return {name: env[name] for name in self.derived}

    def render(self, config: Config, problem: Problem, device: Device) -> Rendered:
        """Source and launch plan; a UserError if the configuration is illegal or the family's files are at fault."""
        env = self._environment(config, problem, device)
        if broken := self._broken_rule(env):
            raise UserError(f"{config} is illegal for {problem} on {device.name}; it breaks: {broken}.")
        facts = {name: env[name] for name in DOMAINS}
        variables = {name: value for name, value in env.items() if name not in facts} | namespaces(facts)
        scratch = tuple(self._scratch(env))
        steps = tuple(self._step(launch, env, dict(scratch)) for launch in self.launches if _applies(launch.when, env))
        if not steps:
            raise UserError(f"{self.path.name}: no [[launch]] applies to {config} for {problem}.")
        zeroed = tuple(buffer.name for buffer in self.scratch if buffer.zeroed and buffer.name in dict(scratch))
        return rendered(self._template.render(variables), self.build_options, steps, scratch, zeroed)

    def space(self, problem: Problem, device: Device) -> Space:
        """The legal configurations for this problem on this device."""
        from tuner.family.space import Space

        return Space(self.name, self.axes, self.derived, self.rules, facts_of(problem, device))

    def _environment(self, config: Config, problem: Problem, device: Device) -> dict[str, Value]:
        if config.family != self.name:
            raise UserError(f"{config} is a configuration of {config.family}, not of {self.name}.")
        env: dict[str, Value] = {**facts_of(problem, device), **self.complete(config.as_dict()).as_dict()}
        for name, expression in self.derived.items():
            env[name] = expression.scalar(env)
        return env

    def _broken_rule(self, env: Mapping[str, Value]) -> str | None:
        return next((rule.says for rule in self.rules if not rule.test.scalar(env)), None)

    def _scratch(self, env: Mapping[str, Value]) -> list[tuple[str, int]]:
        buffers = [(s.name, s.bytes.scalar(env)) for s in self.scratch if _applies(s.when, env)]
        for name, size in buffers:
            if size < 1:
                raise UserError(f"{self.path.name}: scratch buffer {name} would have {size} bytes.")
        return buffers

    def _step(self, launch: Launch, env: Mapping[str, Value], scratch: Mapping[str, int]) -> Step:
        global_size = tuple(size.scalar(env) for size in launch.global_size)
        local_size = tuple(size.scalar(env) for size in launch.local_size)
        if any(low < 1 or high < 1 or high % low for high, low in zip(global_size, local_size, strict=True)):
            raise UserError(
                f"{launch.where}: {launch.kernel} would run {global_size} work-items in groups of {local_size}; "
                "each global size must be a whole multiple of its local size."
            )
        return Step(launch.kernel, global_size, local_size, tuple(name for name in launch.scratch if name in scratch))

    def _default(self, values: Mapping[str, Any], where: str) -> Config:
        try:
            return self.complete(values)
        except UserError as error:
            raise UserError(f"{where}: in this default, {error}") from None

    def _try_rendering(self) -> None:
        """Render the first default that is legal on some ordinary device, so that errors show at load."""
        _ = self.hash
        for device in _TRIAL_DEVICES:
            for problem in _TRIAL_PROBLEMS:
                legal = (config for config in self.defaults if not self.broken_rule(config, problem, device))
                for config in legal:
                    self._check_kernels(self.render(config, problem, device))
                    return

    def _check_kernels(self, trial: Rendered) -> None:
        for step in trial.steps:
            if step.kernel not in trial.source:
                raise UserError(f"{self.path.name}: a [[launch]] names {step.kernel}, no kernel of its template.")


def _choices(axis: Axis) -> str:
    return ", ".join(map(str, axis.values))


def _applies(when: Expression | None, env: Mapping[str, Value]) -> bool:
    return when is None or bool(when.scalar(env))


def _trial_device(kind: str, facts: Facts) -> Device:
    silicon = Silicon("any", "any", kind, 1, 1)
    return Device(silicon, Software("any", "any", "OpenCL C 1.2", "any"), "trial", facts)


_TRIAL_DEVICES = (
    _trial_device("gpu", Facts()),
    _trial_device("cpu", Facts(shares_cores=True)),
    _trial_device("gpu", Facts(49152, 1024, (1024, 1024, 64), 2**34, 2**32, fp64=True, c_level=300)),
)
_TRIAL_PROBLEMS = (
    Problem(256, 256, 256),
    Problem(256, 256, 256, dtype="float64"),
    Problem(8, 256, 256),
    Problem(1, 256, 256),
)


def load_family(toml_path: Path) -> Family:
    """The family declared by `toml_path` and the template `<name>.cl.j2` beside it; a UserError says what is wrong."""
    return Family(toml_path)


def load_families(extra_dirs: Sequence[Path] = ()) -> dict[str, Family]:
    """The built-in families and those of `extra_dirs`, by name; a UserError if two have the same name."""
    families: dict[str, Family] = {}
    for folder in (template_folder(), *extra_dirs):
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder}; give one with families in it.")
        paths = sorted(folder.glob("*.toml"))
        if not paths:
            raise UserError(f"there is no kernel family (a .toml beside a .cl.j2) in {folder}.")
        for path in paths:
            family = load_family(path)
            if family.name in families:
                other = families[family.name].path.parent
                raise UserError(f"the family {family.name} of {folder} is also in {other}; rename its two files.")
            families[family.name] = family
    return families


class BuiltIn(Mapping[str, Family]):
    """The built-in families, each loaded when it is asked for and believed without a trial: our tests try them."""

    def __init__(self) -> None:
        """Load nothing yet."""
        self._paths = {path.name.removesuffix(".toml"): path for path in sorted(template_folder().glob("*.toml"))}
        self._loaded: dict[str, Family] = {}

    def __getitem__(self, name: str) -> Family:
        if name not in self._loaded:
            self._loaded[name] = Family(self._paths[name], trial=False)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)
