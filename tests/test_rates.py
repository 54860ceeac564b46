"""A slow driver of a processor is found out once, marked, and chosen last, with the reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import DEVICE
from tuner.bench import DeviceReport, choose, list_devices, why
from tuner.bench.rates import behind, driver_rates
from tuner.cli import device_commands, wiring
from tuner.cli.app import run
from tuner.model import Device, Silicon, Software

CPU = Silicon("AMD", "AMD EPYC", "cpu", 64, 0)


def by(platform: str, driver: str, at: str) -> Device:
    return replace(DEVICE, silicon=CPU, software=Software(platform, driver, "OpenCL C 1.2", "d"), address=at)


INTEL = by("Intel(R) OpenCL", "2026.1", "0:0")
POCL = by("Portable Computing Language", "3.1", "1:0")
OLD_POCL = by("Portable Computing Language", "3.0", "2:0")
GPU = replace(DEVICE, address="3:0")
RATES = {INTEL: 25.0, POCL: 240.0, OLD_POCL: 20.0}


class Asked:
    """Answers from a table, and remembers who was asked."""

    def __init__(self) -> None:
        self.rates = {INTEL: 200.0, POCL: 210.0, OLD_POCL: 20.0}
        self.asked: list[Device] = []

    def __call__(self, device: Device) -> float | None:
        self.asked.append(device)
        return self.rates.get(device)


def test_each_driver_is_measured_once(tmp_path: Path) -> None:
    file, ask = tmp_path / "cache" / "rates.json", Asked()
    assert driver_rates([INTEL, POCL, GPU], ask, file) == {INTEL: 200.0, POCL: 210.0}
    assert driver_rates([INTEL, POCL, OLD_POCL], ask, file) == {INTEL: 200.0, POCL: 210.0, OLD_POCL: 20.0}
    assert ask.asked == [INTEL, POCL, OLD_POCL]


def test_a_new_version_is_measured_again(tmp_path: Path) -> None:
    file, ask = tmp_path / "rates.json", Asked()
    driver_rates([INTEL, POCL], ask, file)
    newer = replace(POCL, software=replace(POCL.software, driver="6.0"))
    ask.rates[newer] = 250.0
    assert driver_rates([INTEL, newer], ask, file) == {INTEL: 200.0, newer: 250.0}
    assert ask.asked == [INTEL, POCL, newer]


@pytest.mark.parametrize("content", ["", "[1]", '{"a": "b", "c": -1.0}', "\x00"])
def test_a_spoiled_file_is_no_file(tmp_path: Path, content: str) -> None:
    file = tmp_path / "rates.json"
    file.write_text(content)
    assert driver_rates([INTEL, POCL], Asked(), file) == {INTEL: 200.0, POCL: 210.0}


def test_without_a_place_to_remember_it_is_measured_each_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert driver_rates([INTEL, POCL], Asked(), tmp_path / "file" / "rates.json") == {INTEL: 200.0, POCL: 210.0}


def test_an_only_driver_and_one_that_cannot_be_measured_have_no_rate(tmp_path: Path) -> None:
    ask = Asked()
    assert driver_rates([INTEL, GPU], ask, tmp_path / "rates.json") == {} and not ask.asked
    del ask.rates[POCL]
    assert driver_rates([INTEL, POCL], ask, tmp_path / "rates.json") == {INTEL: 200.0}


def test_behind_is_three_times_slower_on_the_same_processor() -> None:
    assert behind(OLD_POCL, RATES) == (12.0, POCL)
    assert behind(POCL, RATES) is None
    assert behind(GPU, RATES) is None
    assert behind(INTEL, {INTEL: 81.0, POCL: 240.0}) is None


def reports() -> list[DeviceReport]:
    """As `list_devices` marks them."""
    found = [(device, behind(device, RATES)) for device in (INTEL, POCL, OLD_POCL)]
    return [DeviceReport(device, True, "", *(slow or ())) for device, slow in found]


def test_the_faster_driver_is_chosen_with_the_reason() -> None:
    chosen = choose(reports())
    assert chosen == POCL
    said = why(reports(), chosen)
    assert said.startswith("1:0 AMD EPYC (Portable Computing Language, 3.1) is used; of the same processor, 0:0 ")
    assert "0:0 AMD EPYC (Intel(R) OpenCL, 2026.1) is 9.6 times slower" in said and "3.0) is 12.0 times slower" in said


def test_a_slow_driver_can_be_asked_for_and_is_warned_of() -> None:
    chosen = choose(reports(), "0:0")
    assert chosen == INTEL
    assert why(reports(), chosen).startswith("0:0 AMD EPYC (Intel(R) OpenCL, 2026.1) is 9.6 times slower than 1:0 ")


def test_drivers_that_are_alike_need_no_words() -> None:
    assert why([DeviceReport(INTEL, True), DeviceReport(POCL, True)], INTEL) == ""


def test_commands_say_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(wiring, "list_devices", reports)
    monkeypatch.setattr(device_commands, "list_devices", reports)
    assert run(["devices"]) == 0
    states = [line.rpartition("\t")[2] for line in capsys.readouterr().out.splitlines()[1:]]
    assert [state.partition(" than")[0] for state in states] == [
        "yes, but 9.6 times slower",
        "yes",
        "yes, but 12.0 times slower",
    ]
    assert wiring.the_device(None) == POCL
    assert capsys.readouterr().err.startswith("gemm-tuner: 1:0 AMD EPYC (Portable Computing Language, 3.1) is used;")


def test_the_drivers_here_are_measured(tmp_path: Path) -> None:
    """On real drivers: whoever has a rival on its processor gets a rate, and the default is nobody's laggard."""
    file = tmp_path / "rates.json"
    found = list_devices(rates=file)
    working = [report.device for report in found if report.works and report.device.silicon.kind == "cpu"]
    rivals = len(working) > 1
    assert file.exists() == rivals
    assert not rivals or len(driver_rates(working, lambda device: None, file)) == len(working)
    assert not found or not found[0].drawback
