"""What `tuner` offers to programs beside look-up and product: the store, and tuning."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.model import Device, Problem, UserError

if TYPE_CHECKING:
    from tuner.search import Outcome
    from tuner.store import Store


def open_store(url: str | None = None) -> Store:
    """The store at `url`, made if missing, with the misses that look-ups have left beside it taken in.

    `url` is a path, sqlite:///path or postgresql://...

    Without `url`, GEMM_TUNER_DB, else a file in the user's data folder. Close it, or use it in a `with`. Raises
    UserError for what is no store of ours.
    """
    from tuner.store import open_store as opened

    store = opened(url or os.environ.get("GEMM_TUNER_DB"), upgrade=True)
    store.take_in_misses()
    store.publish_first()
    return store


def tune(
    device: Device,
    problem: Problem,
    *,
    evaluations: int | None = None,
    seconds: float | None = None,
    families: Sequence[str] | None = None,
    family_dirs: Sequence[Path] = (),
    seed: int | None = None,
    wait_seconds: float = 0.0,
    db: str | None = None,
) -> Outcome:
    """Search for the fastest correct configuration, prove it, publish it; as `gemm-tuner tune` does.

    At most `evaluations` configurations (100 without either limit) and `seconds`; `families` by name, all without. All
    measuring is done in child processes, and one job at a time measures on a device: another is waited for
    `wait_seconds`. Raises UserError for an empty product, a dtype the device lacks or an unknown family, and
    MachineError if the device is gone or in use.
    """
    from tuner.bench import Bench, device_lock
    from tuner.family import load_families
    from tuner.search import Budget
    from tuner.search import tune as search

    known = load_families(family_dirs)
    unknown = [name for name in families or () if name not in known]
    if unknown:
        raise UserError(f"there is no family {unknown[0]!r}; there is: {', '.join(sorted(known))}.")
    chosen = {name: family for name, family in known.items() if not families or name in families}
    if problem.emptiness:
        raise UserError(f"{problem} is an empty product ({problem.emptiness}): there is nothing to tune.")
    if not device.has(problem.dtype):
        raise UserError(f"{device.name} does not support {problem.dtype}; nothing can be tuned.")
    limit = 100 if evaluations is None and seconds is None else evaluations
    locks = os.environ.get("GEMM_TUNER_LOCKS")
    with (
        open_store(db) as store,
        device_lock(device, Path(locks) if locks else None, wait_s=wait_seconds, command="tuner.tune"),
        Bench.open(device) as bench,
    ):
        return search(problem, device, chosen, bench, store, Budget(limit, seconds), seed=seed)
