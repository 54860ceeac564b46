"""Seeds: configurations that the package knows to be good, from measurements that came with it."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path

from tuner.data import data_folder
from tuner.lookup.snapshot import Index, index_of
from tuner.model import Champion, Rendered
from tuner.store import valid
from tuner.store.keys import checked_config
from tuner.store.published import Entry, Published

NOTHING = Rendered("", "", ())
"""A seed is rendered for what is asked; the source that was measured is not kept."""


@functools.cache
def seed_index() -> Index:
    """The seeds of `db/seeds`, read once."""
    return index_of(Published(tuple(read_seeds(data_folder("db") / "seeds"))))


def read_seeds(folder: Path) -> Iterator[Entry]:
    """The seeds of every `.jsonl` file in `folder`, one a line. Raises one of `valid.UNREADABLE` for a bad line."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            row = json.loads(line)
            champion = Champion(
                *valid.key(row),
                config=checked_config(valid.text(row["family"], "the family"), row["config"]),
                rendered=NOTHING,
                time_ms=valid.positive(row["time_ms"]),
                noise=valid.positive(row["noise"]),
                certificate=None,
                reason=valid.text(row["source"], "its source"),
                when=valid.text(row["when"], "its date"),
            )
            yield Entry(champion)
