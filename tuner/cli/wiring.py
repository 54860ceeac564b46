"""Opening what commands work with: the store, the devices, the families."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tuner.bench import Bench, choose, device_lock, list_devices, lock_folder, why
from tuner.data import data_folder
from tuner.family import Family, load_families
from tuner.lookup.seeds import read_seeds
from tuner.model import Champion, Device, MachineError, Problem, UserError, operand_shapes
from tuner.store import Store, open_store
from tuner.store.place import Place


def the_store(url: str | None, *, upgrade: bool) -> Store:
    """The store at `url`, with `upgrade` after taking in the misses that look-ups have left beside it.

    Whatever keeps it from opening is the machine's failure, not a slip on the command line.
    """
    try:
        store = open_store(url, upgrade=upgrade)
        if upgrade:
            store.take_in_misses()
            store.publish_first()
    except UserError as error:
        raise MachineError(str(error)) from error
    return store


def the_place(url: str | None) -> Place:
    """Where the store lies or would lie. Raises MachineError where none can."""
    try:
        return Place.of(url)
    except UserError as error:
        raise MachineError(str(error)) from error


def stored(url: str | None, *, upgrade: bool = False) -> Store:
    """The store of a command that only asks. Raises MachineError where there is none, and makes nothing there.

    With `upgrade` misses that look-ups have left where a store would lie are enough.
    """
    place = the_place(url)
    if place.path is not None and not os.path.lexists(place.path) and not (upgrade and place.spool.exists()):
        raise MachineError(f"there is no store at {place.label}; gemm-tuner tune makes it, and --db names another.")
    return the_store(url, upgrade=upgrade)


def the_seeds() -> list[Champion]:
    """What the package knows to be good, for searches to begin with."""
    return [entry.champion for entry in read_seeds(data_folder("db") / "seeds")]


def require_published(store: Store) -> None:
    """Raise MachineError if what was just stored is not what look-ups are told yet."""
    if store.unpublished:
        raise MachineError(
            f"the change is stored in {store.url}, but {store.snapshot} cannot be written, so look-ups still answer as"
            " before; mend that and run gemm-tuner db upgrade."
        )


def the_device(text: str | None) -> Device:
    """The device that `text` names, or the best that works; said why, where its drivers differ much."""
    reports = list_devices()
    device = choose(reports, text)
    if reason := why(reports, device):
        print(f"gemm-tuner: {reason}", file=sys.stderr, flush=True)
    return device


def the_locks() -> Path:
    """The folder of device locks: one for the whole host, unless the environment names another."""
    named = os.environ.get("GEMM_TUNER_LOCKS")
    return Path(named) if named else lock_folder()


@contextmanager
def measuring(device: Device, wait_s: float = 0.0) -> Iterator[Bench]:
    """A bench on `device`, which is locked meanwhile: two jobs never time each other. Raises DeviceBusy."""

    def say(holder: str) -> None:
        print(f"gemm-tuner: waiting for {device.name}, in use by {holder}.", file=sys.stderr, flush=True)

    with device_lock(device, the_locks(), wait_s=wait_s, waiting=say), Bench.open(device) as bench:
        yield bench


def the_families(names: Sequence[str], folders: Sequence[Path]) -> dict[str, Family]:
    """The families named, of the built-in ones and those in `folders`; all without names."""
    families = load_families(folders)
    for name in names:
        if name not in families:
            raise UserError(f"there is no family {name!r}; there is: {', '.join(sorted(families))}.")
    return {name: family for name, family in families.items() if not names or name in names}


def require_room(problem: Problem, device: Device) -> None:
    """Raise UserError if the operands of `problem` do not fit the device's memory."""
    sizes = [problem.batch * rows * columns * problem.element_bytes for rows, columns in operand_shapes(problem)]
    gib = 2**30
    if sum(sizes) > device.facts.global_mem_bytes:
        total, there = sum(sizes) / gib, device.facts.global_mem_bytes / gib
        raise UserError(f"A, B and C take {total:.1f} GiB, {device.name} has {there:.1f} GiB; use a smaller product.")
    if max(sizes) > device.facts.max_alloc_bytes:
        largest, most = max(sizes) / gib, device.facts.max_alloc_bytes / gib
        raise UserError(
            f"the largest operand takes {largest:.1f} GiB, but the driver of {device.name} gives at most {most:.1f} GiB"
            " at once; use a smaller product."
        )
