"""Fixtures of all tests: every OpenCL device that works here, and one bench for each."""

from __future__ import annotations

import functools
import signal
from collections.abc import Iterator

import pytest

from tuner.bench import Bench, list_devices
from tuner.model import Device

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Whoever starts the tests in the background of a shell without job control has Ctrl-C ignored, by children, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def private_locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests lock devices among themselves, and wait for no other job of this host."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEMM_TUNER_LOCKS", str(tmp_path_factory.mktemp("locks")))
        yield


@functools.cache
def working_devices() -> tuple[Device, ...]:
    """Asked for only if a test that needs a device is collected."""
    return tuple(report.device for report in list_devices() if report.works)


def _name(device: Device) -> str:
    return f"{device.software.platform.split()[0]}-{device.software.driver}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="also run tests that take minutes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselected rather than skipped: `scripts/test --require-all` takes every skip for a failure."""
    if not config.getoption("--soak"):
        left_out = [item for item in items if "soak" in item.keywords]
        items[:] = [item for item in items if "soak" not in item.keywords]
        config.hook.pytest_deselected(items=left_out)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device" in metafunc.fixturenames:
        devices = [pytest.param(device, id=_name(device), marks=pytest.mark.device) for device in working_devices()]
        metafunc.parametrize("device", devices, scope="session", indirect=True)


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> Device:
    """Each working OpenCL device in turn."""
    found: Device = request.param
    return found


@pytest.fixture(scope="session")
def any_device() -> Device:
    """One working device, for what does not depend on which."""
    if not working_devices():
        pytest.skip("no OpenCL device works here")
    return working_devices()[0]


@pytest.fixture(scope="session")
def bench(device: Device) -> Iterator[Bench]:
    """A bench on that device, shared by all tests: what one kernel breaks must not show in the next test."""
    with Bench.open(device) as opened:
        yield opened
