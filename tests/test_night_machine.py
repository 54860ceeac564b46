"""Is the machine fit: calibration beside its history, sensors, peaks that may be believed, a real device's pulse."""

from __future__ import annotations

import threading
import types
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import DEVICE, SILICON, SOFTWARE
from tests.night_fakes import Night, NightBench, cubes
from tuner.bench import Bench, DeviceBusy
from tuner.bench.messages import Pulse
from tuner.bench.peak import judge_peak
from tuner.model import Built, Device, Measurement, Problem, Rendered, Verdict
from tuner.nightly.machine import Condition, State, judge, reading_of
from tuner.nightly.night import resumable
from tuner.nightly.sensors import NoSensors, Nvml, open_sensors, throttled
from tuner.nightly.settings import MachineLimits
from tuner.store import Calibration, Store, open_store

NEW = replace(SOFTWARE, driver="2.0")
LIMITS = MachineLimits()


def readings(
    *kernel_ms: float, software: Any = SOFTWARE, copy: float = 100.0, noise: float = 0.01
) -> list[Calibration]:
    """One night each."""
    return [
        Calibration(
            "anvil:0",
            SILICON,
            SOFTWARE,
            night,
            "start",
            {"kernel_ms": ms, "copy_gb_per_s": copy, "kernel_noise": noise},
            "",
        )
        for night, ms in enumerate(kernel_ms)
    ]


def now(kernel_ms: float, copy: float = 100.0, noise: float = 0.01) -> Mapping[str, float]:
    return {"kernel_ms": kernel_ms, "copy_gb_per_s": copy, "kernel_noise": noise}


@pytest.mark.parametrize(
    ("reading", "software", "state", "changed"),
    [
        (now(2.0), SOFTWARE, State.QUIET, False),
        (now(2.1), SOFTWARE, State.QUIET, False),
        (now(2.3), SOFTWARE, State.SLOW, False),
        (now(2.3, copy=80.0), SOFTWARE, State.SLOW, False),
        (now(2.0, copy=80.0), SOFTWARE, State.SLOW, False),
        (now(2.0, copy=95.0), SOFTWARE, State.QUIET, False),
        (now(2.0, noise=0.2), SOFTWARE, State.NOISY, False),
        (now(2.3), NEW, State.QUIET, True),
        (now(2.3, copy=80.0, noise=0.5), NEW, State.QUIET, True),
    ],
)
def test_the_table_of_decisions(reading: Mapping[str, float], software: Any, state: State, changed: bool) -> None:
    found = judge(readings(2.0, 2.02, 1.98), software, reading, LIMITS)
    assert (found.state, found.software_changed) == (state, changed)


def test_new_software_that_is_slower_says_so_with_its_witness() -> None:
    found = judge(readings(2.0), NEW, now(2.3, copy=70.0), LIMITS)
    assert "15% slower than with the old one" in found.words and "copies are 43% slower, too" in found.words


def test_without_a_history_only_much_noise_is_too_much() -> None:
    assert judge([], SOFTWARE, now(9.0, noise=0.2), LIMITS).fit
    assert judge([], SOFTWARE, now(9.0, noise=0.3), LIMITS).state is State.NOISY


def test_noise_that_is_a_habit_is_none() -> None:
    assert judge(readings(2.0, 2.0, noise=0.12), SOFTWARE, now(2.0, noise=0.2), LIMITS).fit


def test_drift_is_taken_out_only_if_the_software_is_the_same() -> None:
    assert Condition(State.QUIET, kernel_factor=1.05).drift == pytest.approx(0.0488, abs=1e-3)
    assert Condition(State.QUIET, kernel_factor=0.9).drift == 0.0
    assert Condition(State.QUIET, kernel_factor=1.05, software_changed=True).drift == 0.0


def test_a_reading_without_samples_is_no_reading() -> None:
    assert reading_of(Pulse(message="the driver refused"), {"power_w": 80.0}) == {"power_w": 80.0}


# Peaks


def test_a_peak_is_believed_only_from_a_quiet_machine_that_no_configuration_beat() -> None:
    steady = (980.0, 990.0, 1000.0)
    found = judge_peak(steady, 900.0, quiet=True)
    assert found is not None and found.trusted and found.gflops == 1000.0
    for repeats, best, quiet in [(steady, 900.0, False), (steady, 1200.0, True), ((400.0, 700.0, 1000.0), None, True)]:
        doubtful = judge_peak(repeats, best, quiet=quiet)
        assert doubtful is not None and not doubtful.trusted
    beaten = judge_peak(steady, 1200.0, quiet=True)
    assert beaten is not None and (beaten.gflops, beaten.method) == (1200.0, "the best configuration so far")
    assert judge_peak((), None, quiet=True) is None


def test_half_a_peak_loses_no_configuration(tmp_path: Path) -> None:
    """An armed peak that is too low is measured again before a candidate is refused for it."""
    problem, calls = Problem(64, 64, 64), []

    class Low(Bench):
        def __init__(self) -> None:
            self.device, self._peaks, self.shares_cores = DEVICE, {}, False

        def _request(self, request: Any, *_: Any) -> Any:
            calls.append(request)
            if request.peak_gflops is not None and request.peak_gflops < 800:
                return Measurement(Verdict.BAD_CLOCK, message="900 GFLOP/s, with a peak of 500")
            return Measurement(Verdict.CORRECT, (1.0,))

        def pulse(self, peaks: Any = ()) -> Pulse:
            return Pulse(peaks=(("float32", (1000.0,)),))

    bench = Low()
    rendered, built = Rendered("kernel", "", ()), Built(Verdict.CORRECT)
    bench.arm({"float32": 500.0})
    assert bench.measure(problem, rendered, built, best_ms=None).verdict is Verdict.CORRECT
    assert len(calls) == 2
    bench.arm({"float32": 990.0})
    assert bench.measure(problem, rendered, built, best_ms=None).verdict is Verdict.CORRECT
    assert len(calls) == 3


# Sensors


class NvmlError(Exception):
    pass


def nvml(*, busy: int = 0, pids: tuple[int, ...] = (), reasons: int = 0) -> Any:
    """The few functions of `pynvml` that are asked, for a GPU that knows no temperature."""

    def no_temperature(handle: str, which: int) -> int:
        raise NvmlError

    return types.SimpleNamespace(
        NVMLError=NvmlError,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid.decode(),
        nvmlDeviceGetClockInfo=lambda handle, which: 1000 * which,
        nvmlDeviceGetPowerUsage=lambda handle: 123_456,
        nvmlDeviceGetTemperature=no_temperature,
        nvmlDeviceGetUtilizationRates=lambda handle: types.SimpleNamespace(gpu=busy),
        nvmlDeviceGetCurrentClocksEventReasons=lambda handle: reasons,
        nvmlDeviceGetComputeRunningProcesses=lambda handle: [types.SimpleNamespace(pid=pid) for pid in pids],
    )


GPU = replace(DEVICE, silicon=replace(SILICON, vendor="NVIDIA"), instance="uuid:0123456789abcdef0123456789abcdef")


def test_an_nvidia_gpu_is_found_by_its_uuid_and_read() -> None:
    sensors = open_sensors(GPU, nvml())
    assert isinstance(sensors, Nvml)
    assert sensors._handle == "GPU-01234567-89ab-cdef-0123-456789abcdef"
    assert sensors.read() == {
        "sm_clock_mhz": 1000.0,
        "memory_clock_mhz": 2000.0,
        "power_w": 123.456,
        "utilisation_percent": 0.0,
        "throttle_reasons": 0.0,
    }


def test_foreign_load_is_a_busy_gpu_not_one_that_only_holds_memory() -> None:
    quiet = Nvml(nvml(pids=(4242,)), "gpu", sleep=lambda seconds: None)
    busy = Nvml(nvml(busy=80, pids=(4_000_000,)), "gpu", sleep=lambda seconds: None)
    assert quiet.foreign() == ""
    assert busy.foreign() == "the GPU is 80 % busy by 4000000"


def test_other_devices_have_no_sensors() -> None:
    assert isinstance(open_sensors(DEVICE, nvml()), NoSensors)
    assert isinstance(open_sensors(replace(GPU, instance="host:0"), nvml()), NoSensors)


def test_power_and_heat_hold_clocks_down_and_idleness_does_not() -> None:
    assert throttled({"throttle_reasons": 4.0}) and throttled({"throttle_reasons": 0x40})
    assert not throttled({"throttle_reasons": 1.0}) and not throttled({})


def test_foreign_load_is_waited_for_and_then_the_device_is_skipped(tmp_path: Path) -> None:
    class Busy(NoSensors):
        def foreign(self) -> str:
            return "the GPU is 80 % busy"

    with open_store(str(tmp_path / "tuner.db"), upgrade=True) as store:
        night = Night(tmp_path, cubes(1), machine=MachineLimits(wait_s=60.0))
        bench = NightBench()
        summary = night.run(store, bench, sensors=Busy())
        assert summary["status"] == 1, "nothing at all was done"
        assert "the GPU is 80 % busy; it was waited for" in summary["devices"][0]["skipped"]
        assert 55 <= sum(night.slept) <= 65 and bench.measured == []


def test_a_device_in_use_is_skipped_and_the_holder_named(tmp_path: Path) -> None:
    def busy(*arguments: Any) -> Any:
        raise DeviceBusy("Anvil 9 is in use by 'the other job'.")

    with open_store(str(tmp_path / "tuner.db"), upgrade=True) as store:
        summary = Night(tmp_path, cubes(1)).run(store, NightBench(), open_bench=busy)
        assert "the other job" in summary["attention"][0] and summary["status"] == 1
        assert store.nights(1)[0].state == "failed"


def test_a_night_without_a_device_does_not_hide_one_that_was_cut_short(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "tuner.db"), upgrade=True) as store:
        settings = Night(tmp_path, cubes(2)).settings
        cut_short = store.start_night("n", "anvil", {})
        store.finish_night(cut_short, "interrupted", {"devices": [{"skipped": ""}]})
        store.finish_night(store.start_night("n", "anvil", {}), "failed", {"devices": [{"skipped": "in use"}]})
        found = resumable(store, "n", settings)
        assert found is not None and found.id == cut_short
        store.finish_night(store.start_night("n", "anvil", {}), "complete", {"devices": [{"skipped": ""}]})
        assert resumable(store, "n", settings) is None


def test_several_gpus_work_at_once_and_cpus_alone(tmp_path: Path) -> None:
    second = replace(DEVICE, instance="anvil:1", silicon=replace(SILICON, name="Anvil 10"))
    cpu = replace(DEVICE, instance="cpu", silicon=replace(SILICON, name="Chip"))
    cpu = replace(cpu, facts=replace(cpu.facts, shares_cores=True))
    at_work: set[str] = set()
    together: list[set[str]] = []
    both = threading.Barrier(2, timeout=60)

    @contextmanager
    def open_bench(device: Device, compilers: int | None, wait_s: float) -> Any:
        at_work.add(device.name)
        if device.name != "Chip":
            both.wait()
        together.append(set(at_work))
        yield NightBench(device=device)
        at_work.discard(device.name)

    with open_store(str(tmp_path / "tuner.db"), upgrade=True) as store:
        night = Night(tmp_path, cubes(1))
        summary = night.run(store, NightBench(), devices=(cpu, DEVICE, second), open_bench=open_bench)
        assert [device["device"]["name"] for device in summary["devices"]] == ["Anvil 9", "Anvil 10", "Chip"]
        assert len(store.champions()) == 3
    assert {"Anvil 9", "Anvil 10"} in together and together[-1] == {"Chip"}


# A real device


def test_a_device_tells_how_fast_it_is(bench: Bench) -> None:
    found = bench.pulse(("float32",))
    assert found.message == ""
    assert len(found.kernel_ms) == len(found.copy_ms) == 15
    assert min(found.kernel_ms) > 0 and found.bandwidth_gbs is not None and found.bandwidth_gbs > 0
    assert max(dict(found.peaks)["float32"]) > 0


def test_the_store_keeps_readings_by_instance(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "tuner.db"), upgrade=True) as store:
        assert isinstance(store, Store)
        Night(tmp_path, cubes(1)).run(store, NightBench())
        kept = store.calibrations(DEVICE.instance)
    assert [kept[0].stage, kept[-1].stage] == ["start", "end"]
    assert {"kernel_ms", "copy_gb_per_s", "kernel_noise"} <= kept[0].reading.keys()
