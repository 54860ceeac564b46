"""Pages as HTML: one template, everything escaped, no request to anywhere."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from tuner.model import UserError
from tuner.report.blocks import Block, Cell, Figure, Page
from tuner.report.numbers import Kind, text_of

UNFOLDED = 100
"""Rows of a table up to which every configuration can be unfolded; in longer ones the problem's page has it whole."""
TEMPLATES = Path(__file__).parent / "templates"

Navigation = Sequence[tuple[str, str]]
"""(name, path of the page without ending)."""


@dataclass(frozen=True)
class Group:
    """Figures that stand side by side, or one other block."""

    figures: tuple[Figure, ...] = ()
    block: Block | None = None


def grouped(blocks: Iterable[Block]) -> list[Group]:
    """Neighbouring figures together."""
    groups: list[Group] = []
    for block in blocks:
        if not isinstance(block, Figure):
            groups.append(Group(block=block))
        elif groups and groups[-1].figures:
            groups[-1] = Group((*groups[-1].figures, block))
        else:
            groups.append(Group((block,)))
    return groups


class Html:
    """Renders pages, each as a file of its own or many as one."""

    def __init__(self, navigation: Navigation, made: str, *, live: bool = False) -> None:
        """`made`: the moment shown at the foot. With `live` pages ask their own server for searches in progress."""
        self._navigation, self._made, self._live = navigation, made, live
        self._template = _environment().get_template("page.html.j2")

    def page(self, page: Page) -> bytes:
        """One page as a file beside `report.css`, `report.js` and `plotly.min.js`."""
        navigation = [(name, f"{path}.html", path == page.path) for name, path in self._navigation]
        return self._render(
            [page],
            navigation,
            policy=_policy("'self' file:", self._live),
            anchor=lambda page, id: id or page.path,
            href=lambda page, link: link,
            inline=False,
        )

    def single(self, pages: Sequence[Page]) -> bytes:
        """All pages in one self-contained file; links to pages that are not among them are left out."""
        here = {page.path for page in pages}
        navigation = [(name, f"#{path}", False) for name, path in self._navigation if path in here]
        style, script, plotly = asset("report.css"), asset("report.js"), plotly_script()
        hashes = " ".join(_hash(text) for text in (script, plotly))

        def anchor(page: Page, id: str) -> str:
            return f"{page.path}--{id}" if id else page.path

        def href(page: Page, link: str) -> str:
            target, _, place = link.partition("#")
            path = target.removesuffix(".html") or page.path
            if path not in here:
                return ""
            return f"#{path}--{place}" if place else f"#{path}"

        return self._render(
            list(pages),
            navigation,
            policy=_policy(hashes, live=False),
            anchor=anchor,
            href=href,
            inline=True,
            style=Markup(style),
            script=Markup(script),
            plotly=Markup(plotly),
        )

    def _render(self, pages: list[Page], navigation: Sequence[Any], **more: Any) -> bytes:
        drawn = any(isinstance(block, Figure) for page in pages for s in page.sections for block in s.blocks)
        title = pages[0].title if pages[0].path == "index" else f"{pages[0].title} – GEMM tuning report"
        text = self._template.render(
            pages=pages,
            navigation=navigation,
            title=title,
            version=version(),
            made=self._made,
            live=self._live and not more["inline"],
            drawn=drawn,
            grouped=grouped,
            drawing=drawing,
            noise=_noise,
            kind=lambda block: type(block).__name__,
            unfolded=UNFOLDED,
            **more,
        )
        return re.sub(r"\n\s*\n+", "\n", text).encode("utf-8", "replace") if not more["inline"] else text.encode()


def _noise(cell: Cell) -> str:
    return text_of(cell.noise, Kind.PERCENT)


def drawing(figure: Figure) -> Markup:
    """A figure's data for a script element: no text in it can end the element."""
    text = json.dumps({"data": figure.data, "layout": figure.layout}, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _policy(scripts: str, live: bool) -> str:
    connect = "'self'" if live else "'none'"
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'self' file: 'unsafe-inline'; img-src data:;"
        f" connect-src {connect}; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def asset(name: str) -> str:
    """A file that pages share."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


@cache
def plotly_script() -> str:
    """Plotly's own script. Raises UserError if the extra that brings it is not installed."""
    try:
        found: str = import_module("plotly.offline").get_plotlyjs()
    except ModuleNotFoundError as error:
        raise UserError("a report in HTML needs plotly; install it: pip install 'gemm-tuner[report]'.") from error
    return found.replace("</script", "<\\/script")


@cache
def version() -> str:
    """Of gemm-tuner."""
    try:
        return metadata.version("gemm-tuner")
    except metadata.PackageNotFoundError:
        return "from a checkout"


def shared() -> Mapping[str, bytes]:
    """The files that all pages of a folder share."""
    return {
        "report.css": asset("report.css").encode(),
        "report.js": asset("report.js").encode(),
        "plotly.min.js": plotly_script().encode(),
    }
