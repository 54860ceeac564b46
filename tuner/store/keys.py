"""What database and snapshot share: what things are about, how a text is known, what a configuration may hold."""

from __future__ import annotations

import hashlib
from typing import Any

from tuner.model import Config, Problem, Silicon, Software

Key = tuple[Silicon, Software, Problem]
"""What trials, champions and certificates are about."""


def text_hash(text: str) -> str:
    """The hash under which a text is kept once."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def checked_config(family: str, values: Any) -> Config:
    """A configuration read from outside. Raises ValueError unless every axis has a whole number or a text."""
    if not isinstance(values, dict) or any(type(value) not in (int, str) for value in values.values()):
        raise ValueError(f"{values!r} is no configuration")
    return Config.of(family, values)
