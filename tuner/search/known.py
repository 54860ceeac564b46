"""What an older record still says: its configuration in today's spelling, and whether its source is unchanged."""

from __future__ import annotations

from tuner.model import Config, Device, Problem, Record, Rendered, UserError
from tuner.search.ports import Family


def restored(family: Family | None, config: Config, problem: Problem, device: Device) -> Config | None:
    """The configuration with axes added since, or None if the family no longer has it or its rules forbid it here."""
    if family is None:
        return None
    try:
        completed = family.complete(config.as_dict())
    except UserError:
        return None
    return completed if family.broken_rule(completed, problem, device) is None else None


def unchanged(family: Family | None, record: Record, problem: Problem, device: Device) -> Rendered | None:
    """The source a record measured, if its family still renders exactly that."""
    config = restored(family, record.config, problem, device)
    if family is None or config is None:
        return None
    rendered = family.render(config, problem, device)
    return rendered if rendered.source_hash == record.source_hash else None
