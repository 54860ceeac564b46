"""A report as one text: a self-contained HTML file, Markdown, or JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.model import MachineError
from tuner.report.blocks import Page
from tuner.report.changes import manifest_of, read_manifest
from tuner.report.contents import Contents, problem_model, read_contents, read_logs
from tuner.report.html import Html
from tuner.report.markdown import markdown
from tuner.report.plain import plain_values
from tuner.report.rungs import Ladder
from tuner.report.site import replace_file
from tuner.store import Store

FORMATS = ("html", "md", "json")


def whole(
    store: Store, format: str, before: Mapping[str, Any] | None, picture: str = "", ladders: Sequence[Ladder] = ()
) -> tuple[bytes, Contents]:
    """The report in one of FORMATS, and what it was made from."""
    contents = read_contents(store, before, ladders)
    pages = pages_of(store, contents, brief=format == "md")
    if format == "md":
        return markdown(pages, picture).encode("utf-8", "replace"), contents
    if format == "json":
        text = json.dumps(plain_values(pages), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return f"{text}\n".encode("utf-8", "replace"), contents
    made = contents.facts.now[:16].replace("T", " ")
    return Html(contents.navigation, made).single(pages), contents


def pages_of(store: Store, contents: Contents, *, brief: bool = False) -> list[Page]:
    """Overview, devices, failures, regret and misses, then the problems that matter most; `brief`: without those."""
    front = contents.front(read_logs(store, contents.facts), log_link=False, regrets=not brief)
    if brief:
        return front
    return [*front, *(problem_model(store, one, contents.devices_of(one)) for one in contents.important())]


def write(store: Store, out: Path, format: str, picture: str = "", ladders: Sequence[Ladder] = ()) -> Contents:
    """Write the report to a file, and beside it a manifest for the next. Raises MachineError if that fails."""
    manifest = manifest_beside(out)
    data, contents = whole(store, format, read_manifest(manifest), picture, ladders)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        replace_file(out, data)
        replace_file(manifest, json.dumps(manifest_of(contents.facts)).encode())
    except OSError as error:
        raise MachineError(f"{out} cannot be written: {error.strerror or error}.") from error
    return contents


def manifest_beside(out: Path) -> Path:
    """Where the manifest of a report in one file lies."""
    return out.with_name(f"{out.stem}.manifest.json")
