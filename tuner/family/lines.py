"""Where each entry of a TOML file stands, since Python's parser does not say: errors name file and line."""

import re
from collections.abc import Iterator

Place = str | int
_HEADER = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]")
_KEY = re.compile(r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")


class Lines:
    """Line numbers of a TOML text's tables and keys, counted from 1."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self._lines = dict(_places(text))

    def where(self, *path: Place) -> str:
        """`file:line` of the entry at `path`, such as ("rules", 2, "test"), or of the nearest table around it."""
        while path and path not in self._lines:
            path = path[:-1]
        return f"{self.file}:{self._lines.get(path, 1)}"


def _places(text: str) -> Iterator[tuple[tuple[Place, ...], int]]:
    table: tuple[Place, ...] = ()
    counts: dict[tuple[Place, ...], int] = {}
    quote = ""
    for number, line in enumerate(text.splitlines(), 1):
        inside, quote = quote, _open_quote(line, quote)
        if inside:
            continue
        if header := _HEADER.match(line):
            table = _split(header[2])
            if header[1] == "[[":
                if table not in counts:
                    yield table, number
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            yield table, number
        elif key := _KEY.match(line):
            yield (*table, *_split(key[1])), number


def _split(dotted: str) -> tuple[Place, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _open_quote(line: str, quote: str) -> str:
    """The multi-line string that is still open after `line`, given the one open before it ("" for none)."""
    for found in re.findall(r'"""|\'\'\'', line):
        if not quote:
            quote = found
        elif found == quote:
            quote = ""
    return quote
