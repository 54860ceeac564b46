"""Fixtures of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mutants.catalogue import Mutant
from tests.mutants.harness import build_ahead
from tests.mutants.laboratory import Laboratory, laboratory
from tuner.bench import Bench
from tuner.model import Device


@pytest.fixture(scope="session")
def lab(device: Device) -> Iterator[Laboratory]:
    """One laboratory for each device."""
    with laboratory(device) as opened:
        yield opened


@pytest.fixture(scope="package", autouse=True)
def builds(bench: Bench, device: Device, request: pytest.FixtureRequest) -> None:
    """Build on all cores what the tests to be run want."""
    parameters = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    mutants = {each["mutant"] for each in parameters if isinstance(each.get("mutant"), Mutant)}
    build_ahead(
        bench,
        [m.rendered() for m in mutants if device.has(m.problem.dtype)],
    )
