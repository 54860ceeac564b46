"""The isolated workers: compile pool and measuring process; death and deadline become verdicts, never exceptions."""

from tuner.bench.bench import Bench
from tuner.bench.devices import NO_DEVICE, DeviceReport, choose, list_devices, why
from tuner.bench.lock import DeviceBusy, device_lock, lock_folder
from tuner.bench.measurer import BenchError, DeviceLost
from tuner.bench.messages import Case, CheckOutcome, ContenderFailed, OutOfTime

__all__ = [
    "NO_DEVICE",
    "Bench",
    "BenchError",
    "Case",
    "CheckOutcome",
    "ContenderFailed",
    "DeviceBusy",
    "DeviceLost",
    "DeviceReport",
    "OutOfTime",
    "choose",
    "device_lock",
    "list_devices",
    "lock_folder",
    "why",
]
