"""`gemm-tuner devices`: what is here, and what each device is stored as."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tuner.bench import NO_DEVICE, DeviceReport, choose, list_devices
from tuner.cli import options as o
from tuner.cli.options import JsonOption
from tuner.cli.output import console, device_json, percent, print_json, rate, software_name, table
from tuner.cli.wiring import measuring, the_store
from tuner.model import Device, MachineError
from tuner.nightly.peaks import TYPES, measure_peaks, missing
from tuner.nightly.sensors import open_sensors
from tuner.nightly.settings import MachineLimits
from tuner.nightly.watch import Watch


def devices(
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure peak rates and bandwidth, too; kept if the machine is quiet.")
    ] = False,
    device: o.DeviceOption = None,
    wait: o.WaitOption = 0.0,
    db: o.DbOption = None,
    json_output: JsonOption = False,
) -> None:
    """List the OpenCL devices, best first, with the keys they are stored under and their limits."""
    reports = list_devices()
    if measure:
        _measure(choose(reports, device), wait, db, json_output)
        return
    if json_output:
        print_json({"devices": [_report_json(report) for report in reports]})
    if not reports:
        raise MachineError(NO_DEVICE)
    if json_output:
        return
    table("OpenCL devices, the default first", COLUMNS, [_row(report) for report in reports])


COLUMNS = ("address", "device", "kind", "units", "driver", "memory", "local", "group", "works")


def _row(report: DeviceReport) -> list[str]:
    device, facts = report.device, report.device.facts
    return [
        device.address,
        device.silicon.name,
        device.silicon.kind,
        str(device.silicon.compute_units),
        software_name(device.software),
        f"{facts.global_mem_bytes / 2**30:.1f} GiB",
        f"{facts.local_mem_bytes // 1024} KiB",
        str(facts.max_group_size),
        _state(report),
    ]


def _state(report: DeviceReport) -> str:
    if not report.works:
        return f"no: {report.problem.splitlines()[0][:120]}"
    return f"yes, but {report.drawback}" if report.drawback else "yes"


def _measure(device: Device, wait_s: float, db: str | None, json_output: bool) -> None:
    with the_store(db, upgrade=True) as store, measuring(device, wait_s) as bench:
        watch = Watch(device, bench, store, None, open_sensors(device), MachineLimits())
        condition = watch.look("measure")
        peaks = measure_peaks(store, device, bench, missing(None, device, TYPES), quiet=condition.fit)
        known = store.peaks(device.silicon, device.software)
    bandwidth = next((peak.value for peak in known if peak.what != "gflops"), None)
    if json_output:
        found = {dtype: vars(peak) for dtype, peak in peaks.items()}
        print_json({**device_json(device), "quiet": condition.fit, "peaks": found, "gb_per_s": bandwidth})
        return
    out = console()
    out.print(f"{device.name} ({software_name(device.software)})")
    for dtype, peak in peaks.items():
        sure = "" if peak.trusted else ", a lower bound: the machine was disturbed, or a configuration was faster"
        out.print(f"{dtype:<10} {rate(peak.gflops)} ± {percent(peak.noise)}, {peak.method}{sure}")
    out.print(f"{'copies':<10} {'-' if bandwidth is None else f'{bandwidth:.1f} GB/s'}")
    if not condition.fit:
        out.print(f"Nothing was kept: {condition.words}.")


def _report_json(report: DeviceReport) -> dict[str, Any]:
    facts = {**vars(report.device.facts), "extensions": list(report.device.facts.extensions)}
    return {
        **device_json(report.device),
        "works": report.works,
        "problem": report.problem,
        "times_slower": report.times_slower,
        "faster": None if report.faster is None else report.faster.address,
        "facts": facts,
    }
