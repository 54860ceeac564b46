"""`gemm-tuner devices`: what is here, and what each device is stored as."""

from __future__ import annotations

from typing import Any

from tuner.bench import NO_DEVICE, DeviceReport, list_devices
from tuner.cli.options import JsonOption
from tuner.cli.output import device_json, print_json, software_name, table
from tuner.model import MachineError


def devices(json_output: JsonOption = False) -> None:
    """List the OpenCL devices, best first, with the keys they are stored under and their limits."""
    reports = list_devices()
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
