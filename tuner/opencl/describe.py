"""What is here: every OpenCL device as a `Device` value, and whether it builds and runs a kernel at all."""

from __future__ import annotations

import ctypes
import platform
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

from tuner.model import Device, Facts, MachineError, Silicon, Software
from tuner.opencl.cores import usable_cores
from tuner.opencl.logs import first_error, one_line
from tuner.opencl.naming import Processor, c_level, device_name, processor, vendor_name

_UUID = 0x106A
_PCI_BUS_INFO = 0x410F
_TRIAL_SOURCE = """
__kernel void trial(__global const int* x, __global int* y) { y[get_global_id(0)] = 3 * x[get_global_id(0)] + 1; }
"""


@dataclass(frozen=True)
class Found:
    """A device of this process and the value that stands for it everywhere else."""

    handle: cl.Device
    device: Device


PTX_80_CAPABILITY = 8
"""NVIDIA's compute capability from which PTX has cp.async, mma.sync m16n8k16 on 16-bit elements and redux.sync (PTX
ISA: "Data Movement and Conversion", "Warp Level Matrix" and "Parallel Synchronization" instructions)."""

SHUFFLE_CAPABILITY = 7
"""From which shfl.sync is sure to be there (PTX ISA 6.0), and work-items of a sub-group are told apart as it needs."""


def devices() -> list[Found]:
    """Every device of every platform, in the loader's order; what fails to describe itself is left out."""
    found = []
    for p, platform_ in enumerate(_platforms()):
        try:
            handles = platform_.get_devices()
        except cl.Error:
            continue
        for d, handle in enumerate(handles):
            with suppress(cl.Error):
                found.append(Found(handle, describe(handle, d, f"{p}:{d}")))
    return found


def find(device: Device) -> cl.Device:
    """This process's handle of `device`; MachineError if it is gone."""
    same = [found for found in devices() if found.device == device]
    for found in same:
        if found.device.address == device.address:
            return found.handle
    if same:
        return same[0].handle
    raise MachineError(f"{device.name} ({device.software.driver}) is there no more; gemm-tuner devices lists what is.")


def describe_handle(handle: cl.Device) -> Device:
    """The value that stands for a device that another program has found."""
    for p, platform_ in enumerate(_platforms()):
        if platform_ == handle.platform:
            siblings = platform_.get_devices()
            ordinal = siblings.index(handle) if handle in siblings else 0
            return describe(handle, ordinal, f"{p}:{ordinal}")
    return describe(handle, 0, "")


def describe(handle: cl.Device, ordinal: int, address: str) -> Device:
    """The value that stands for `handle`, the `ordinal`-th device of its platform."""
    kind = _kind(handle)
    host = _host_processor() if kind == "cpu" else None
    silicon = _silicon(handle, kind, host)
    software = Software(
        platform=one_line(f"{handle.platform.name} {handle.platform.version}"),
        driver=one_line(handle.driver_version),
        c_version=one_line(handle.opencl_c_version),
        device_string=one_line(handle.name),
    )
    return Device(silicon, software, _instance(handle, kind, ordinal), _facts(handle, kind), address)


def problem_with(handle: cl.Device) -> str:
    """Empty if a trivial kernel builds and gives the right answer; else what went wrong, for people."""
    try:
        context = cl.Context([handle])
        queue = cl.CommandQueue(context)
        kernel = cl.Kernel(cl.Program(context, _TRIAL_SOURCE).build(), "trial")
        x = np.arange(256, dtype=np.int32)
        y = np.zeros_like(x)
        flags = cl.mem_flags
        source = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=x)
        target = cl.Buffer(context, flags.READ_WRITE, y.nbytes)
        kernel.set_args(source, target)
        cl.enqueue_nd_range_kernel(queue, kernel, x.shape, None)
        cl.enqueue_copy(queue, y, target)
        queue.finish()
    except cl.Error as error:
        return f"a trivial kernel fails: {first_error(str(error))}"
    return "" if np.array_equal(y, 3 * x + 1) else "a trivial kernel gives a wrong result"


def _platforms() -> list[cl.Platform]:
    try:
        return list(cl.get_platforms())
    except cl.Error:  # the loader reports "no platform" as an error
        return []


def _kind(handle: cl.Device) -> str:
    if handle.type & cl.device_type.GPU:
        return "gpu"
    return "cpu" if handle.type & cl.device_type.CPU else "accelerator"


def _silicon(handle: cl.Device, kind: str, host: Processor | None) -> Silicon:
    """For a CPU everything comes from the host, so that its drivers agree; its memory is the host's."""
    if kind == "cpu" and host is not None:
        return Silicon(host.vendor, host.name, kind, usable_cores(), 0)
    vendor = vendor_name(handle.vendor, handle.name)
    name = device_name(handle.name, vendor, str(_ask(handle, "board_name_amd") or ""))
    if kind == "cpu":
        return Silicon(vendor, name, kind, usable_cores(), 0)
    own_memory = 0 if _ask(handle, "host_unified_memory") else round(handle.global_mem_size / 2**30)
    return Silicon(vendor, name, kind, handle.max_compute_units, own_memory)


def _host_processor() -> Processor | None:
    try:
        return processor(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        name = platform.processor()
        return Processor(vendor_name(name), name) if name else None


def _instance(handle: cl.Device, kind: str, ordinal: int) -> str:
    """All drivers of a CPU share its cores, so a CPU is its host whatever a driver calls it."""
    host = socket.gethostname()
    if kind == "cpu":
        return f"{host}:cpu"
    extensions = handle.extensions.split()
    if "cl_khr_device_uuid" in extensions and (uuid := _raw_info(handle, _UUID, 16)):
        return f"uuid:{uuid.hex()}"
    if "cl_khr_pci_bus_info" in extensions and (pci := _raw_info(handle, _PCI_BUS_INFO, 16)):
        domain, bus, slot, function = np.frombuffer(pci, dtype=np.uint32)
        return f"{host}:pci:{domain:04x}:{bus:02x}:{slot:02x}.{function}"
    bus, slot = _ask(handle, "pci_bus_id_nv"), _ask(handle, "pci_slot_id_nv")
    if bus is not None and slot is not None:
        return f"{host}:pci:{bus:02x}:{slot:02x}"
    return f"{host}:{ordinal}"


def _facts(handle: cl.Device, kind: str) -> Facts:
    sizes = tuple(int(size) for size in handle.max_work_item_sizes)
    extensions = frozenset(handle.extensions.split())
    ptx_80 = (_ask(handle, "compute_capability_major_nv") or 0) >= PTX_80_CAPABILITY
    return Facts(
        local_mem_bytes=int(handle.local_mem_size),
        max_group_size=int(handle.max_work_group_size),
        max_item_sizes=(*sizes, 1, 1, 1)[:3],
        global_mem_bytes=int(handle.global_mem_size),
        max_alloc_bytes=int(handle.max_mem_alloc_size),
        base_align_bytes=int(handle.mem_base_addr_align) // 8,
        cache_bytes=int(handle.global_mem_cache_size),
        fp64=bool(_ask(handle, "double_fp_config")) or "cl_khr_fp64" in extensions,
        half_storage=str(_ask(handle, "profile")) == "FULL_PROFILE" or "cl_khr_fp16" in extensions,
        extensions=tuple(sorted(extensions)),
        c_level=c_level(handle.opencl_c_version),
        sub_group_size=int(_ask(handle, "warp_size_nv") or _ask(handle, "wavefront_width_amd") or 1),
        async_copy=ptx_80,
        matrix_unit="mma" if ptx_80 else "",
        sub_group_reduce=_sub_group_reduce(handle),
        shares_cores=kind == "cpu",
    )


def _sub_group_reduce(handle: cl.Device) -> str:
    """By what a program built without options can rely on; cl_khr_subgroups alone may want -cl-std=CL2.0."""
    if (_ask(handle, "compute_capability_major_nv") or 0) >= SHUFFLE_CAPABILITY and _ask(handle, "warp_size_nv") == 32:
        return "ptx"
    return "functions" if "cl_intel_subgroups" in handle.extensions.split() else ""


def _ask(handle: cl.Device, attribute: str) -> Any:
    """A fact that not every driver knows, or None."""
    try:
        return getattr(handle, attribute)
    except (cl.Error, AttributeError):
        return None


def _raw_info(handle: cl.Device, parameter: int, size: int) -> bytes | None:
    """clGetDeviceInfo for parameters that PyOpenCL has no name for, asked of the very loader it uses."""
    library = _loader()
    if library is None:
        return None
    buffer = ctypes.create_string_buffer(size)
    ask = ctypes.CDLL(library).clGetDeviceInfo
    ask.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
    failed = ask(handle.int_ptr, parameter, size, buffer, None)
    return None if failed else buffer.raw


def _loader() -> str | None:
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    except OSError:
        return None
    paths = (line.split(maxsplit=5)[-1] for line in maps.splitlines() if "libOpenCL" in line)
    return next(paths, None)
