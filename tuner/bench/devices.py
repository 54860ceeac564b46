"""Which devices are here and which of them work, asked of child processes; and which one the user means."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from tuner.bench.process import QuietContext, death_of, kill, settle_in, start
from tuner.bench.rates import behind, driver_rates, rates_file
from tuner.bench.scratch import cache_folder, scratch_folder, vendors_folder
from tuner.bench.words import catch_words, last_words, words_file
from tuner.model import Device, MachineError, UserError
from tuner.opencl import drivers

_INSTALL = (
    "install your device's driver, or a CPU driver with "
    'pip install "gemm-tuner[intel]" or pip install "gemm-tuner[pocl]"'
)
NO_DEVICE = f"No OpenCL device was found: {_INSTALL}."
_KINDS = {"gpu": 0, "accelerator": 1, "cpu": 2}


@dataclass(frozen=True)
class DeviceReport:
    """A device that the loader lists, and whether a trivial kernel builds and gives the right answer on it."""

    device: Device
    works: bool
    problem: str = ""
    """Why it does not work, for people."""
    times_slower: float | None = None
    """Than the fastest driver of the same processor, where that matters."""
    faster: Device | None = None
    """The same processor by that driver."""

    @property
    def drawback(self) -> str:
        """What speaks against this driver, in words; empty if nothing does."""
        if self.faster is None or self.times_slower is None:
            return ""
        return f"{self.times_slower:.1f} times slower than {_listed(self.faster)}"


def prepare_child(vendors: Path, cache: Path) -> None:
    """In a child, before pyopencl is imported: which drivers there are, and where compilers keep what they made.

    PoCL's cache has races between processes, so each has its own. NVIDIA's is shared by the processes of a bench, who
    depend on it: its binaries are PTX, and the measuring process finds there what the pool has made of it. It is never
    the user's own, which thousands of candidates would flood, or which may be off. What the child prints goes to a file
    beside `cache`.
    """
    settle_in()
    catch_words(words_file(cache))
    os.environ["POCL_CACHE_DIR"] = str(cache)
    os.environ["CUDA_CACHE_PATH"], os.environ["CUDA_CACHE_DISABLE"] = str(cache.parent / "nvidia"), "0"
    cache.mkdir(parents=True, exist_ok=True)
    drivers.install(vendors)


def list_devices(timeout: float = 60.0, rates: Path | None = None) -> list[DeviceReport]:
    """Every OpenCL device, best first; one that does not answer in `timeout` seconds does not work.

    Where a processor has several drivers that work, slow ones are marked: each is measured once, and `rates` (by
    default a file in the user's cache folder) remembers it.
    Raises MachineError if the drivers kill the process that asks them, or if there is no room for temporary files.
    """
    with scratch_folder() as scratch:
        vendors = vendors_folder(scratch)
        lister = _Question(_answer_devices, vendors, cache_folder(scratch, "list"))
        devices, problem = lister.answer(time.monotonic() + timeout)
        if not isinstance(devices, list):
            raise MachineError(
                f"The OpenCL drivers fail when they are asked for their devices: {problem}. Reinstall them."
            )
        trials = [
            _Question(_answer_trial, vendors, cache_folder(scratch, str(number)), device)
            for number, device in enumerate(devices)
        ]
        deadline = time.monotonic() + timeout
        answers = [trial.answer(deadline) for trial in trials]
        reports = []
        for device, (said, problem) in zip(devices, answers, strict=True):
            text = said if isinstance(said, str) else f"a trivial kernel fails: {problem}"
            reports.append(DeviceReport(device, works=not text, problem=text))

        def ask(device: Device) -> float | None:
            cache = cache_folder(scratch, f"rate-{device.address.replace(':', '-')}")
            rate, _ = _Question(_answer_rate, vendors, cache, device).answer(time.monotonic() + timeout)
            return rate if isinstance(rate, float) else None

        working = [report.device for report in reports if report.works]
        measured = driver_rates(working, ask, rates or rates_file())
    return sorted((_with_rate(report, measured) for report in reports), key=_rank)


def choose(reports: Sequence[DeviceReport], text: str | None = None) -> Device:
    """The device that `text` means, by its address ("0:0") or part of its name, driver or platform; without, the best.

    Among drivers of one silicon, and when nothing is asked, the order is: it works; GPU, accelerator, CPU; more compute
    units; more memory; not much slower than another of its drivers; Intel's driver, then the newest PoCL, then others;
    lower address. Raises UserError if none fits, and MachineError if none is there or works.
    """
    if not reports:
        raise MachineError(NO_DEVICE)
    fitting = [report for report in reports if text is None or _means(text, report.device)]
    if not fitting:
        raise UserError(f"No device is called {text!r}; there is: {_listing(reports)}.")
    working = sorted((report for report in fitting if report.works), key=_rank)
    if not working:
        raise MachineError(
            f"{_listing(fitting)}: does not work ({fitting[0].problem}). Choose another device, or {_INSTALL}."
        )
    if text is not None and len({report.device.silicon for report in working}) > 1:
        raise UserError(f"{text!r} means more than one device; say which: {_listing(working)}.")
    return working[0].device


def why(reports: Sequence[DeviceReport], chosen: Device) -> str:
    """What there is to say about `chosen` among the drivers of its processor; empty if they are alike."""
    for report in reports:
        if report.device == chosen and report.drawback:
            return f"{_listed(chosen)} is {report.drawback}, which is the same processor."
    slow = [report for report in reports if report.drawback and report.device.silicon == chosen.silicon]
    if not slow:
        return ""
    return f"{_listed(chosen)} is used; of the same processor, " + "; ".join(
        f"{_listed(report.device)} is {report.times_slower:.1f} times slower" for report in slow
    )


def _with_rate(report: DeviceReport, rates: dict[Device, float]) -> DeviceReport:
    found = behind(report.device, rates)
    return report if found is None else replace(report, times_slower=round(found[0], 1), faster=found[1])


def _means(text: str, device: Device) -> bool:
    if re.fullmatch(r"\d+:\d+", text):
        return device.address == text
    return any(text.casefold() in name.casefold() for name in (device.silicon.key, device.software.key))


def _listing(reports: Sequence[DeviceReport]) -> str:
    return "; ".join(_listed(report.device) for report in reports)


def _listed(device: Device) -> str:
    return f"{device.address} {device.name} ({device.software.platform.split(',')[0]}, {device.software.driver})"


def _rank(report: DeviceReport) -> tuple[object, ...]:
    silicon, software = report.device.silicon, report.device.software
    platform = software.platform.lower()
    driver = 0 if "intel" in platform else 1 if "portable computing language" in platform else 2
    newest = tuple(-int(number) for number in re.findall(r"\d+", software.driver))
    place = tuple(int(number) for number in re.findall(r"\d+", report.device.address))
    kind = _KINDS.get(silicon.kind, len(_KINDS))
    slow = bool(report.drawback)
    return (not report.works, kind, -silicon.compute_units, -silicon.memory_gib, slow, driver, newest, place)


class _Question:
    """A child asked for one answer; its death or silence becomes a problem in words."""

    def __init__(self, target: object, vendors: Path, cache: Path, *args: object) -> None:
        self._words = words_file(cache)
        self._pipe, childs_end = QuietContext().Pipe(duplex=False)
        self._process: BaseProcess = start(_ask, childs_end, target, vendors, cache, args)
        childs_end.close()

    def answer(self, deadline: float) -> tuple[object, str]:
        """(answer, "") or (None, what went wrong)."""
        try:
            if not wait([self._pipe], max(0.0, deadline - time.monotonic())):
                return None, "it does not answer"
            return self._pipe.recv(), ""
        except EOFError:
            return None, death_of(self._process) + last_words(self._words)
        finally:
            kill(self._process)
            self._pipe.close()


def _ask(pipe: Connection, target: object, vendors: Path, cache: Path, args: tuple[object, ...]) -> None:
    prepare_child(vendors, cache)
    assert callable(target)
    pipe.send(target(*args))


def _answer_devices() -> list[Device]:
    from tuner.opencl import describe

    return [found.device for found in describe.devices()]


def _answer_trial(device: Device) -> str:
    from tuner.opencl import describe

    return describe.problem_with(describe.find(device))


def _answer_rate(device: Device) -> float:
    from tuner.opencl import describe, rate

    return rate.rate_gflops(describe.find(device))
