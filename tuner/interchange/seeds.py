"""Champions as seeds: the format of db/seeds, one configuration a line without its source, which is rendered anew."""

from __future__ import annotations

import socket
from typing import TextIO

from tuner.interchange.lines import Wanted, key_row
from tuner.model import canonical_json
from tuner.store import Store


def write_seeds(store: Store, out: TextIO, wanted: Wanted) -> int:
    """Write the certified champions of the devices `wanted`; returns how many."""
    count = 0
    for champion in store.champions():
        if champion.certificate is None or not wanted(champion.silicon, champion.software):
            continue
        row = {
            **key_row(champion),
            "family": champion.config.family,
            "config": champion.config.as_dict(),
            "time_ms": champion.time_ms,
            "noise": champion.noise,
            "when": champion.when,
            "source": f"gemm-tuner export on {socket.gethostname()}",
        }
        out.write(f"{canonical_json(row)}\n")
        count += 1
    return count
