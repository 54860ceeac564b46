"""One of several processes at a store: `python -m tests.store_worker write|read URL SECONDS FIRST MOST`; its count."""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from itertools import count
from typing import NamedTuple

from tests.store_conformance import KEY, config, hash_of, promote, record
from tuner.store import Store, open_store


class Stressed(NamedTuple):
    """What processes did to a store."""

    written: int
    """Trials whose `add` returned."""
    read: int
    """Rounds of questions answered."""


def write(store: Store, seconds: float, first: int, most: int) -> int:
    """At most so many trials as a tuner adds them, with a champion now and then; returns how many were committed."""
    deadline = time.monotonic() + seconds
    run = store.start_run(*KEY, {})
    for done in count():
        if time.monotonic() > deadline or done >= most:
            return done
        number = first + done
        store.begin(run, *KEY, config(number), hash_of(number), "time")
        store.add(record(number, run=run))
        if done % 20 == 0:
            promote(store, number)
    raise AssertionError("counting has no end")


def read(store: Store, seconds: float, _: int, most: int) -> int:
    """Every kind of question, until there are `most` trials; returns how many rounds were answered."""
    deadline = time.monotonic() + seconds
    last = 0
    for done in count():
        if time.monotonic() > deadline or last >= most:
            return done
        store.fastest(*KEY, 3)
        store.champions()
        store.stats()
        for one in deque(store.records(after=last), maxlen=1):
            last = one.number
    raise AssertionError("counting has no end")


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    what, url, seconds, first, most = sys.argv[1:]
    with open_store(url, upgrade=what == "write") as opened:
        print((write if what == "write" else read)(opened, float(seconds), int(first), int(most)))
