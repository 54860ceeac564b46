"""Fixtures of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mutants.laboratory import Laboratory, laboratory
from tuner.model import Device


@pytest.fixture(scope="session")
def lab(device: Device) -> Iterator[Laboratory]:
    """One laboratory for each device."""
    with laboratory(device) as opened:
        yield opened
