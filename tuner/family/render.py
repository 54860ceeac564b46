"""Templates: a family's kernel source from its Jinja2 file, in the sandbox, every error with file and line."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tuner.model import UserError

MOST_STEPS = 1_000_000
"""Of all loops over `range` in one rendering, and characters or elements that `*` may repeat."""


class _Sandbox(ImmutableSandboxedEnvironment):
    """The sandbox, in which nothing can be repeated without end: a template is rendered in the caller's process."""

    intercepted_binops = frozenset(["*", "**"])

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Refuse what would grow beyond any kernel."""
        for repeated, count in ((left, right), (right, left)):
            if isinstance(repeated, (str, list, tuple)) and len(repeated) * int(count) > MOST_STEPS:
                raise SecurityError(f"a repetition of more than {MOST_STEPS:,} elements")
        if operator == "**" and abs(int(right)) > 64:
            raise SecurityError("a power above 64")
        return super().call_binop(context, operator, left, right)


class _Steps:
    """`range` for one rendering, which all its loops together may draw MOST_STEPS from."""

    def __init__(self) -> None:
        self._left = MOST_STEPS

    def __call__(self, *arguments: int) -> range:
        steps = range(*arguments)
        self._left -= len(steps)
        if self._left < 0:
            raise SecurityError(f"its loops take more than {MOST_STEPS:,} steps")
        return steps


class Template:
    """A compiled template and what it includes; files come from its own folder, then from the shared ones."""

    def __init__(self, path: Path, shared: Sequence[Path], names: Collection[str]) -> None:
        """Check the template at `path`, which may use the variables `names`; a UserError names file and line."""
        self._path = path
        self._environment = _Sandbox(
            loader=jinja2.FileSystemLoader([path.parent, *shared]),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            auto_reload=False,
        )
        self.texts = tuple(self._check(path.name, f"{path.name}:1", frozenset(names), set()))
        self._template = self._environment.get_template(path.name)

    def render(self, variables: Mapping[str, Any]) -> str:
        """The source; whatever goes wrong inside the template is a UserError with its line."""
        try:
            return self._template.render({**variables, "range": _Steps()})
        except Exception as error:  # the template is its author's program: any error in it is theirs to mend
            raise UserError(f"{self._line_of(error)}: {_sentence(error)}") from error

    def _check(self, name: str, asked_at: str, names: frozenset[str] | None, seen: set[str]) -> Iterator[str]:
        """Yield the text of `name` and of every file it includes, each once."""
        seen.add(name)
        try:
            text, _, _ = self._environment.loader.get_source(self._environment, name)  # type: ignore[union-attr]
            tree = self._environment.parse(text)
            self._environment.get_template(name)  # compiles it: unknown filters show only then
        except jinja2.TemplateSyntaxError as error:
            raise UserError(f"{name}:{error.lineno}: {_sentence(error)}") from None
        except jinja2.TemplateNotFound:
            raise UserError(f"{asked_at}: there is no template `{name}` in {self._path.parent}.") from None
        except UnicodeDecodeError as error:
            raise UserError(f"{name}:1: this is not UTF-8: {error}.") from None
        self._check_names(name, tree, names)
        yield text
        for node in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)):
            target = node.template  # type: ignore[attr-defined]
            if not isinstance(target, nodes.Const) or not isinstance(target.value, str):
                raise UserError(f"{name}:{node.lineno}: include files by their literal name.")
            if target.value not in seen:
                yield from self._check(target.value, f"{name}:{node.lineno}", None, seen)

    def _check_names(self, name: str, tree: nodes.Template, names: frozenset[str] | None) -> None:
        for attribute in tree.find_all(nodes.Getattr):
            if attribute.attr.startswith("_"):
                raise UserError(f"{name}:{attribute.lineno}: a template must not use `{attribute.attr}`.")
        if names is None:  # an included file also sees what its includer has set
            return
        unknown = meta.find_undeclared_variables(tree) - names - self._environment.globals.keys()
        for variable in tree.find_all(nodes.Name):
            if variable.name in unknown and variable.ctx == "load":
                raise UserError(f"{name}:{variable.lineno}: `{variable.name}` is no axis or derived size.")

    def _line_of(self, error: Exception) -> str:
        """`file:line` of the innermost template line the error passed through; Jinja2 rewrites tracebacks so."""
        place = f"{self._path.name}:{getattr(error, 'lineno', None) or 1}"
        trace = error.__traceback__
        while trace is not None:
            file = Path(trace.tb_frame.f_code.co_filename)
            if file.name.endswith(".j2"):
                place = f"{file.name}:{trace.tb_lineno}"
            trace = trace.tb_next
        return place


def _sentence(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return text if text.endswith(".") else f"{text}."
