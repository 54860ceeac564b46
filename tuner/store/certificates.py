"""Certificates: which checks a source passed on one software. Nothing is executed for a caller without one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select

from tuner.model import Certificate, Config, canonical_json
from tuner.store import rows
from tuner.store.keys import Key
from tuner.store.schema import certificate


def certify(connection: Connection, key: Key, config: Config, source_hash: str, checks: Iterable[str]) -> Certificate:
    """Note the checks a source passed on this software, in place of an earlier certificate."""
    revoke(connection, key, source_hash)
    issued = Certificate(tuple(checks), rows.now())
    values = {
        **rows.key_ids(connection, *key),
        **rows.config_columns(config),
        "source_hash": source_hash,
        "checks": canonical_json(issued.checks),
        "when": issued.when,
    }
    connection.execute(insert(certificate).values(**values))
    return issued


def revoke(connection: Connection, key: Key, source_hash: str) -> None:
    """Take back the certificate of a source, if it has one."""
    about = rows.conditions(connection, certificate, silicon=key[0], software=key[1], problem=key[2])
    connection.execute(delete(certificate).where(*about, certificate.c.source_hash == source_hash))


def of_key(connection: Connection, key: Key) -> dict[str, Certificate]:
    """The certificates of one key by source hash."""
    about = rows.conditions(connection, certificate, silicon=key[0], software=key[1], problem=key[2])
    found = connection.execute(select(certificate).where(*about))
    return {row.source_hash: _certificate_of(row) for row in found}


def every(connection: Connection) -> dict[Key, dict[str, Certificate]]:
    """All certificates by key and source hash."""
    nouns = rows.Nouns(connection)
    found: dict[Key, dict[str, Certificate]] = {}
    found_rows = connection.execute(select(certificate).order_by(certificate.c.source_hash))
    for key, source_hash, held in rows.readable(
        found_rows, lambda row: (nouns.key(row), row.source_hash, _certificate_of(row)), "certificates"
    ):
        found.setdefault(key, {})[source_hash] = held
    return found


def _certificate_of(row: Row[Any]) -> Certificate:
    return Certificate(tuple(json.loads(row.checks)), row.when)
