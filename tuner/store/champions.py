"""Champions, derived from a log that is only ever appended to.

The champion of a key is what is pinned, else what was promoted last. A withdrawal takes one source away, wherever it
stands, and revokes its certificate; the promotion before it that is still certified is then promoted again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Row, insert, select

from tuner.model import (
    Certificate,
    Champion,
    Config,
    Problem,
    Rendered,
    Silicon,
    Software,
    UserError,
    canonical_json,
)
from tuner.store import certificates, rows
from tuner.store.keys import Key, text_hash
from tuner.store.schema import champion_log, source

PROMOTE, WITHDRAW, PIN, UNPIN = "promote", "withdraw", "pin", "unpin"


_MANY = 500
"""Values bound in one statement, well below every database's limit."""


class Superseded(Exception):
    """What a promotion was decided against no longer stands: another tuner was faster, so race again."""


@dataclass(frozen=True)
class Event:
    """One line of the champions' log."""

    action: str
    """`promote`, `withdraw`, `pin` or `unpin`."""
    silicon: Silicon
    software: Software
    problem: Problem
    config: Config
    rendered: Rendered
    time_ms: float | None
    noise: float | None
    run: int | None
    checks: tuple[str, ...] | None
    """Certified when the line was written; None without a certificate."""
    reason: str
    when: str

    @property
    def key(self) -> Key:
        """What it is about."""
        return self.silicon, self.software, self.problem


@dataclass(frozen=True)
class Standing:
    """What stands for one key at one moment."""

    promoted: Event | None = None
    pinned: Event | None = None

    @property
    def champion(self) -> Event | None:
        """The one that is served."""
        return self.pinned or self.promoted

    def after(self, event: Event) -> Standing:
        """What stands when one more line was written."""
        match event.action:
            case "promote":
                return replace(self, promoted=event)
            case "pin":
                return replace(self, pinned=event)
            case "unpin":
                return replace(self, pinned=None)
        return Standing(_unless_same(self.promoted, event), _unless_same(self.pinned, event))


def _unless_same(standing: Event | None, gone: Event) -> Event | None:
    same = standing is not None and standing.rendered.source_hash == gone.rendered.source_hash
    return None if same else standing


def standings(events: Iterable[Event]) -> dict[Key, Standing]:
    """What stands for each key after these lines, given oldest first."""
    found: dict[Key, Standing] = {}
    for event in events:
        found[event.key] = found.get(event.key, Standing()).after(event)
    return found


def log(
    connection: Connection,
    silicon: Silicon | None = None,
    software: Software | None = None,
    problem: Problem | None = None,
) -> list[Event]:
    """Every line about the nouns given, oldest first."""
    return with_sources(connection, lines(connection, silicon, software, problem))


def lines(
    connection: Connection,
    silicon: Silicon | None = None,
    software: Software | None = None,
    problem: Problem | None = None,
) -> list[Event]:
    """As `log`, but with the hash of the text where the source belongs: texts are large and mostly of the past."""
    about = rows.conditions(connection, champion_log, silicon=silicon, software=software, problem=problem)
    query = select(champion_log).where(*about).order_by(champion_log.c.id)
    nouns = rows.Nouns(connection, silicon, software, problem)
    return rows.readable(
        connection.execute(query), lambda row: _event_of(row, nouns.key(row)), "lines of the champions' log"
    )


def with_sources(connection: Connection, events: Sequence[Event]) -> list[Event]:
    """The same lines with their sources; one whose source is lost or damaged is left out."""
    wanted = sorted({event.rendered.source for event in events})
    texts: dict[str, str] = {}
    for start in range(0, len(wanted), _MANY):
        query = select(source).where(source.c.hash.in_(wanted[start : start + _MANY]))
        texts.update((row.hash, row.text) for row in connection.execute(query) if text_hash(row.text) == row.hash)
    return [
        replace(event, rendered=replace(event.rendered, source=texts[event.rendered.source]))
        for event in events
        if event.rendered.source in texts
    ]


def append(connection: Connection, event: Event) -> Event:
    """Write one line; returns it with the checks certified now and the moment."""
    held = certificates.of_key(connection, event.key).get(event.rendered.source_hash)
    reason = rows.clean(event.reason, rows.MESSAGE_BYTES)
    event = replace(event, checks=held.checks if held else None, when=rows.now(), reason=reason)
    rendered = event.rendered.to_json()
    text = rendered.pop("source")
    values = {
        **rows.key_ids(connection, *event.key),
        **rows.config_columns(event.config),
        "action": event.action,
        "source_hash": rendered.pop("source_hash"),
        "text_hash": rows.keep_text(connection, source, text),
        "build_options": rendered.pop("build_options"),
        "plan": canonical_json(rendered),
        "time_ms": event.time_ms,
        "noise": event.noise,
        "run_id": event.run,
        "checks": None if event.checks is None else canonical_json(event.checks),
        "reason": event.reason,
        "when": event.when,
    }
    connection.execute(insert(champion_log).values(**values))
    return event


def _event_of(row: Row[Any], key: Key) -> Event:
    plan = {**json.loads(row.plan), "source": row.text_hash, "build_options": row.build_options}
    return Event(
        row.action,
        *key,
        rows.config_of(row),
        Rendered.from_json({**plan, "source_hash": row.source_hash}),
        row.time_ms,
        row.noise,
        row.run_id,
        None if row.checks is None else tuple(json.loads(row.checks)),
        row.reason,
        row.when,
    )


def require(connection: Connection, key: Key, expected: str | None, source_hash: str) -> None:
    """Raise Superseded unless the source `expected` (None: none) is what is promoted, and `source_hash` not withdrawn.

    A withdrawn source that was certified again since may come back, as the one before it does after a withdrawal.
    """
    events = lines(connection, *key)
    promoted = standings(events).get(key, Standing()).promoted
    if (promoted.rendered.source_hash if promoted else None) != expected:
        raise Superseded
    last = _last_with(events, source_hash)
    if last is not None and last.action == WITHDRAW and source_hash not in certificates.of_key(connection, key):
        raise Superseded


def withdraw(connection: Connection, key: Key, reason: str, source_hash: str | None) -> list[Event]:
    """Take away a source (by default the champion's) and its certificate; returns the lines written.

    If no promotion is left, the last one that is still certified returns. A source that stands no more gets its line
    too; one that never stood only loses its certificate. Raises UserError if there is no champion to take by default.
    """
    events = log(connection, *key)
    standing = standings(events).get(key, Standing())
    gone = standing.champion if source_hash is None else _last_with(events, source_hash)
    if gone is None and source_hash is None:
        raise UserError(f"{key[2]} has no champion on {key[0].name}; there is nothing to withdraw.")
    certificates.revoke(connection, key, source_hash or (gone.rendered.source_hash if gone else ""))
    if gone is None:
        return []
    written = [append(connection, replace(gone, action=WITHDRAW, reason=reason))]
    if standing.after(written[0]).promoted is None and standing.promoted is not None:
        written += _bring_back(connection, key, events, written[0])
    return written


def _last_with(events: Sequence[Event], source_hash: str) -> Event | None:
    """The last line of a source, if it has one; where it stands, the line that it stands by."""
    return next((event for event in reversed(events) if event.rendered.source_hash == source_hash), None)


def _bring_back(connection: Connection, key: Key, events: list[Event], gone: Event) -> Iterator[Event]:
    held = certificates.of_key(connection, key)
    for event in reversed(events):
        if event.action == PROMOTE and event.rendered.source_hash in held:
            reason = f"still certified, and its successor was withdrawn: {gone.config}"
            yield append(connection, replace(event, reason=reason))
            return


def roll_back(connection: Connection, to: str) -> list[Event]:
    """Write the lines that make every key stand as it did at moment `to`; certificates stay as they are now."""
    events = log(connection)
    present = standings(events)
    past = standings(event for event in events if event.when <= to)
    written: list[Event] = []
    for key, standing in present.items():
        written += _restore(connection, standing, past.get(key, Standing()), f"rolled back to {to}")
    return written


def _restore(connection: Connection, present: Standing, past: Standing, why: str) -> Iterator[Event]:
    if present.pinned is not None and past.pinned is None:
        yield append(connection, replace(present.pinned, action=UNPIN, reason=why))
    if present.promoted is not None and past.promoted is None:
        gone = replace(present.promoted, action=WITHDRAW, reason=why)
        present = present.after(gone)
        yield append(connection, gone)
    for action, now, then in ((PROMOTE, present.promoted, past.promoted), (PIN, present.pinned, past.pinned)):
        if then is not None and (now is None or (now.config, now.rendered) != (then.config, then.rendered)):
            yield append(connection, replace(then, action=action, reason=f"{why}: {then.reason}"))


def champion_of(event: Event, pinned: bool, held: dict[str, Certificate]) -> Champion:
    """A standing line as the noun that callers see."""
    return Champion(
        event.silicon,
        event.software,
        event.problem,
        event.config,
        event.rendered,
        event.time_ms,
        event.noise,
        held.get(event.rendered.source_hash),
        event.reason,
        event.when,
        pinned,
    )
