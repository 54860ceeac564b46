"""What came from other stores: kept beside our own, never in its place, and at most once.

An imported trial is in no search's history. An imported champion is a nominee: it stands nowhere, and its certificate,
which another machine issued, lets nothing run here.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import Connection, insert, select, update

from tuner.model import Champion, Record, Rendered, Silicon
from tuner.store import misses, rows, valid
from tuner.store.keys import Key, checked_config, text_hash
from tuner.store.nouns import Foreign, Miss, Nominee, TakenIn
from tuner.store.schema import certificate, champion_log, imported, miss, run, trial

CHAMPION, CERTIFICATE, PORTFOLIO = "champion", "certificate", "portfolio"

Item = Record | Foreign | Miss
Read = Callable[[], Iterable[Item]]
"""Gives the items anew each time: a transaction may have to be done again."""

_CHUNK = 500
"""Rows inserted by one statement."""

Ids = tuple[int, int, int]


def take_in(connection: Connection, items: Iterable[Item]) -> TakenIn:
    """Add what is not there yet; an error in `items` passes through, and nothing is added."""
    taking = _Taking(connection)
    for item in items:
        taking.add(item)
    taking.flush()
    count = taking.count
    return TakenIn(count["trial"], count[CHAMPION], count[CERTIFICATE], count[PORTFOLIO], count["miss"])


class _Taking:
    """One import under way: ids and what is known are looked up once, rows are inserted in chunks."""

    def __init__(self, connection: Connection) -> None:
        self.count: Counter[str] = Counter()
        self._connection = connection
        self._ids: dict[Any, dict[str, int]] = {}
        self._known: defaultdict[str, dict[Ids, set[tuple[str, str]]]] = defaultdict(dict)
        self._runs: dict[tuple[Ids, str], int] = {}
        self._rows: list[dict[str, Any]] = []

    def add(self, item: Item) -> None:
        match item:
            case Record():
                self._add_trial(item)
            case Foreign():
                self._add_foreign(item)
            case Miss():
                self._add_miss(item)

    def flush(self) -> None:
        if self._rows:
            self._connection.execute(insert(trial), self._rows)
            self._rows = []

    def _add_trial(self, record: Record) -> None:
        ids = self._key(record)
        if not self._is_new("trial", ids, (record.source_hash, record.when)):
            return
        number = self._run(ids, record)
        values = rows.measured_columns(self._connection, record)
        self._rows.append({**ids, **values, "run_id": number})
        self.count["trial"] += 1
        if len(self._rows) >= _CHUNK:
            self.flush()

    def _add_foreign(self, found: Foreign) -> None:
        ids = self._key(found)
        when = str(json.loads(found.body).get("when", ""))
        if found.kind != PORTFOLIO and not self._is_new(found.kind, ids, (found.source_hash, when)):
            return
        values = {
            **ids,
            "kind": found.kind,
            "source_hash": found.source_hash,
            "body": found.body,
            "body_hash": text_hash(found.body),
            "imported_from": found.imported_from,
            "when": rows.now(),
        }
        self.count[found.kind] += rows.insert_new(self._connection, imported, values)

    def _add_miss(self, found: Miss) -> None:
        """Raise the count to at least theirs: the same file once more adds nothing."""
        same = [miss.c[name] == value for name, value in self._key(found).items()]
        present = self._connection.execute(select(miss).where(*same)).first()
        if present is None:
            misses.add(self._connection, [found])
        elif found.count > present.asked:
            change = update(miss).where(miss.c.id == present.id).values(asked=found.count)
            self._connection.execute(change)
        else:
            return
        self.count["miss"] += 1

    def _key(self, about: Item) -> dict[str, int]:
        key = (about.silicon, about.software, about.problem)
        if key not in self._ids:
            self._ids[key] = rows.key_ids(self._connection, *key)
        return self._ids[key]

    def _is_new(self, kind: str, ids: dict[str, int], identity: tuple[str, str]) -> bool:
        """A source and a moment to the microsecond are one measurement, one promotion, one certificate."""
        where = (ids["problem_id"], ids["silicon_id"], ids["software_id"])
        if where not in self._known[kind]:
            table = {"trial": trial, CHAMPION: champion_log, CERTIFICATE: certificate}[kind]
            same = [table.c[name] == value for name, value in ids.items()]
            found = self._connection.execute(select(table.c.source_hash, table.c.when).where(*same))
            self._known[kind][where] = {(row.source_hash, row.when) for row in found}
        known = self._known[kind][where]
        if identity in known:
            return False
        known.add(identity)
        return True

    def _run(self, ids: dict[str, int], record: Record) -> int:
        """Our number for a run of theirs, which is made unless an earlier import did."""
        settings = rows.json_text({"imported_from": record.imported_from, "run": record.run})
        where = (ids["problem_id"], ids["silicon_id"], ids["software_id"])
        if (where, settings) not in self._runs:
            same = [run.c[name] == value for name, value in ids.items()]
            present = self._connection.execute(select(run.c.id).where(*same, run.c.settings == settings)).scalar()
            if present is None:
                moments = {"started": record.when, "finished": record.when, "summary": "{}"}
                made = insert(run).values(**ids, settings=settings, **moments).returning(run.c.id)
                present = self._connection.execute(made).scalar_one()
            self._runs[where, settings] = int(present)
        return self._runs[where, settings]


def foreign(connection: Connection, kind: str | None = None, silicon: Silicon | None = None) -> list[Foreign]:
    """What was imported beside trials, in the order in which it was."""
    about = rows.conditions(connection, imported, silicon=silicon)
    if kind is not None:
        about.append(imported.c.kind == kind)
    nouns = rows.Nouns(connection)

    def read(row: Any) -> Foreign:
        if text_hash(row.body) != row.body_hash:
            raise ValueError("the body is not what it was")
        return Foreign(row.kind, *nouns.key(row), row.source_hash, row.body, row.imported_from)

    found = connection.execute(select(imported).where(*about).order_by(imported.c.id))
    return rows.readable(found, read, "imported champions and certificates")


def nominees(connection: Connection, silicon: Silicon | None = None) -> list[Nominee]:
    """Imported champions and portfolio entries on a silicon (None: any), in the order of their import."""
    measured: dict[Key, set[str]] = {}

    def read(one: Foreign) -> Nominee:
        champion = champion_of(one)
        key = (one.silicon, one.software, one.problem)
        if key not in measured:
            measured[key] = _measured(connection, key)
        ours = {one.source_hash, str(champion.config)} & measured[key]
        return Nominee(champion, one.imported_from, one.kind == CHAMPION and not ours)

    candidates = (one for one in foreign(connection, None, silicon) if one.kind in (CHAMPION, PORTFOLIO))
    return rows.readable(candidates, read, "imported champions")


def _measured(connection: Connection, key: Key) -> set[str]:
    """Source hashes and configurations that we have tried ourselves: a family may have changed its source since."""
    about = rows.conditions(connection, trial, silicon=key[0], software=key[1], problem=key[2])
    query = select(trial.c.source_hash, trial.c.family, trial.c.config).where(*about, trial.c.imported_from.is_(None))
    found: set[str] = set()
    for row in connection.execute(query):
        found |= {row.source_hash, str(rows.config_of(row._mapping))}
    return found


def champion_of(found: Foreign) -> Champion:
    """The champion in a body. Raises one of `valid.UNREADABLE` if it is none."""
    row = json.loads(found.body)
    return champion_in(row, (found.silicon, found.software, found.problem))


def champion_in(row: dict[str, Any], key: Key) -> Champion:
    """The champion that a JSON object describes, source and all. Raises one of `valid.UNREADABLE` if it is none."""
    held = row.get("certificate")
    return Champion(
        *key,
        config=checked_config(valid.text(row["family"], "the family"), row["config"]),
        rendered=_rendered_in(row.get("rendered")),
        time_ms=valid.positive(row["time_ms"]),
        noise=valid.positive(row["noise"]),
        certificate=None if held is None else valid.certificate(held),
        reason=valid.text(row["reason"], "the reason"),
        when=valid.text(row["when"], "its date"),
        pinned=valid.flag(row.get("pinned", False), "pinned"),
    )


def _rendered_in(row: Any) -> Rendered:
    """What is to be built; nothing for a portfolio entry, which is rendered where it is tried."""
    if row is None:
        return Rendered("", "", ())
    source = valid.text(row["source"], "the source")
    key = text_hash(source)
    return valid.rendered({**row, "source": key}, {key: source})
