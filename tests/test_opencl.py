"""Drivers, names and descriptions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tuner.model import Device
from tuner.opencl import drivers
from tuner.opencl.cores import usable_cores
from tuner.opencl.logs import first_error, read_compiler_log
from tuner.opencl.naming import Processor, c_level, device_name, processor, vendor_name

EPYC = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 26
model\t\t: 2
model name\t: AMD EPYC
stepping\t: 1

processor\t: 1
model name\t: AMD EPYC of another kind
"""


# Names


@pytest.mark.parametrize(
    ("texts", "vendor"),
    [
        (("NVIDIA Corporation", "NVIDIA H200"), "NVIDIA"),
        (("Advanced Micro Devices, Inc.", "gfx90a"), "AMD"),
        (("AuthenticAMD", "pthread-AMD EPYC"), "AMD"),
        (("Intel(R) Corporation", "AMD EPYC"), "Intel"),
        (("GenuineIntel",), "Intel"),
        (("Mesa/X.org", "AMD Radeon RX 6600"), "AMD"),
        (("ARM", "Mali-G78"), "ARM"),
        (("QUALCOMM", "Adreno"), "Qualcomm"),
        (("Charm  Labs", "One"), "Charm Labs"),
        (("", ""), "unknown"),
    ],
)
def test_vendor(texts: tuple[str, ...], vendor: str) -> None:
    assert vendor_name(*texts) == vendor


@pytest.mark.parametrize(
    ("driver_says", "vendor", "name"),
    [
        ("NVIDIA H200", "NVIDIA", "NVIDIA H200"),
        ("GeForce RTX 2080 Ti", "NVIDIA", "NVIDIA GeForce RTX 2080 Ti"),
        ("NVIDIA GeForce RTX 2080 Ti", "NVIDIA", "NVIDIA GeForce RTX 2080 Ti"),
        ("Intel(R) Arc(TM) A770 Graphics", "Intel", "Intel Arc A770 Graphics"),
        ("Intel(R) Iris(R) Xe Graphics [0x9a49]", "Intel", "Intel Iris Xe Graphics"),
        ("Intel(R) Graphics [0x56a0]", "Intel", "Intel Graphics [0x56a0]"),
        ("Intel(R) Graphics [0x56a1]", "Intel", "Intel Graphics [0x56a1]"),
        ("gfx906:sramecc+:xnack-", "AMD", "AMD gfx906"),
        ("gfx90a:sramecc+:xnack+", "AMD", "AMD gfx90a"),
        ("AMD Radeon RX 6700 XT (navi22, LLVM 15.0.6, DRM 3.48, 5.19.0-43-generic)", "AMD", "AMD Radeon RX 6700 XT"),
        ("AMD Radeon RX 6700 XT (navi22, LLVM 17.0.2, DRM 3.54, 6.5.0-9-generic)", "AMD", "AMD Radeon RX 6700 XT"),
        ("AMD Radeon RX 6700 XT (radeonsi, navi22, LLVM 17, DRM 3.54, 6.5.0)", "AMD", "AMD Radeon RX 6700 XT"),
        ("pthread-skylake-avx512-Intel(R) Xeon(R) Processor", "Intel", "Intel Xeon Processor"),
        ("pthread-Intel(R) Xeon(R) Processor", "Intel", "Intel Xeon Processor"),
        ("cpu-haswell-AMD EPYC", "AMD", "AMD EPYC"),
        ("  Mali-G78   r0p1 ", "ARM", "ARM Mali-G78 r0p1"),
        ("NVIDIA A100-SXM4-40GB (MIG 1g.5gb)", "NVIDIA", "NVIDIA A100-SXM4-40GB (MIG 1g.5gb)"),
    ],
)
def test_device_name(driver_says: str, vendor: str, name: str) -> None:
    assert device_name(driver_says, vendor) == name


def test_board_name_tells_chips_of_one_architecture_apart() -> None:
    assert device_name("gfx942:sramecc+:xnack-", "AMD", "AMD Instinct MI300X") == "AMD Instinct MI300X (gfx942)"
    assert device_name("gfx942:sramecc+:xnack-", "AMD", "AMD Instinct MI308X") == "AMD Instinct MI308X (gfx942)"
    assert device_name("AMD Radeon VII", "AMD", "AMD Radeon VII") == "AMD Radeon VII"


def test_names_are_never_cut() -> None:
    long = "Some Accelerator Whose Name Is Much Longer Than Fifty Characters, Revision "
    assert device_name(long + "A", "Maker") != device_name(long + "B", "Maker")
    assert len(device_name(long + "A", "Maker")) > 70


@pytest.mark.parametrize("name", ["NVIDIA H200", "AMD gfx906", "Intel Xeon Processor", "AMD Instinct MI300X (gfx942)"])
def test_a_normal_name_stays_as_it_is(name: str) -> None:
    assert device_name(name, name.split()[0]) == name


def test_processor_of_a_virtual_machine_carries_its_numbers() -> None:
    assert processor(EPYC) == Processor("AMD", "AMD EPYC (family 26 model 2)")


@pytest.mark.parametrize(
    ("model_name", "name"),
    [
        ("Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz", "Intel Xeon Platinum 8481C (family 6 model 143)"),
        ("Intel(R) Core(TM) i7-8700 CPU @ 3.20GHz", "Intel Core i7-8700 (family 6 model 143)"),
        ("12th Gen Intel(R) Core(TM) i9-12900K", "12th Gen Intel Core i9-12900K (family 6 model 143)"),
        ("Intel(R) Xeon(R) Processor", "Intel Xeon (family 6 model 143)"),
    ],
)
def test_processor_of_intel(model_name: str, name: str) -> None:
    text = f"vendor_id : GenuineIntel\ncpu family : 6\nmodel : 143\nmodel name : {model_name}\n"
    assert processor(text) == Processor("Intel", name)


def test_processor_of_amd_without_marketing_noise() -> None:
    text = "vendor_id : AuthenticAMD\nmodel name : AMD Ryzen 7 5800H with Radeon Graphics\n"
    assert processor(text) == Processor("AMD", "AMD Ryzen 7 5800H")
    text = "vendor_id : AuthenticAMD\nmodel name : AMD Ryzen 9 5900X 12-Core Processor\n"
    assert processor(text) == Processor("AMD", "AMD Ryzen 9 5900X")


def test_processor_of_arm_has_no_name_but_numbers() -> None:
    text = "processor : 0\nCPU implementer : 0x41\nCPU architecture: 8\nCPU part : 0xd0c\n"
    assert processor(text) == Processor("ARM", "ARM (implementer 0x41 part 0xd0c)")


def test_processor_that_nothing_names() -> None:
    assert processor("") is None
    assert processor("isa : rv64imafdc\n") is None


@pytest.mark.parametrize(
    ("text", "level"),
    [("OpenCL C 1.2 PoCL", 120), ("OpenCL C 3.1 ", 310), ("OpenCL C 1.1", 110), ("OpenCL C 2.0 ", 200), ("?", 100)],
)
def test_c_level(text: str, level: int) -> None:
    assert c_level(text) == level


# Logs


def test_nvidias_log_in_numbers() -> None:
    log = """ptxas info    : Compiling entry function 'pack' for 'sm_90'
    0 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 8448 bytes smem, 16 bytes cmem[0]
ptxas info    : Compiling entry function 'gemm' for 'sm_90'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers, 4224 bytes smem"""
    said = read_compiler_log(log)
    assert (said.registers, said.spill_bytes, said.local_bytes) == (128, 8, 8448)


def test_a_log_that_says_nothing() -> None:
    said = read_compiler_log("Build started\nDone.", local_bytes=64)
    assert (said.registers, said.spill_bytes, said.local_bytes) == (None, None, 64)
    assert len(read_compiler_log("x" * 10**6).log) == 2**14


def test_first_error() -> None:
    assert (
        first_error("clBuildProgram failed\n\n a.cl:1: error: no such type \nerror: more")
        == "a.cl:1: error: no such type"
    )
    assert first_error("the device is on fire") == "the device is on fire"
    assert first_error("") == "no reason was given"


# Drivers


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """An environment into which pip put two drivers and an emulator."""
    vendors = tmp_path / "env/etc/OpenCL/vendors"
    vendors.mkdir(parents=True)
    library = tmp_path / "env/lib/libintelocl.so"
    library.parent.mkdir()
    library.touch()
    (library.parent / "libintelocl_emu.so").touch()
    (vendors / "intel-cpu.icd").write_text("/opt/builder/lib/libintelocl.so")
    (vendors / "intel-fpga_emu.icd").write_text("/opt/builder/lib/libintelocl_emu.so")
    (vendors / "gone.icd").write_text("/opt/builder/lib/libgone.so")
    return tmp_path / "env"


@pytest.fixture
def system(tmp_path: Path) -> dict[str, str]:
    """An environment variable that names a folder with one system driver."""
    vendors = tmp_path / "vendors"
    vendors.mkdir()
    (vendors / "pocl.icd").write_text("libpocl.so.2\n")
    return {"OCL_ICD_VENDORS": str(vendors)}


def test_a_pip_driver_is_found_where_its_icd_file_does_not_say(prefix: Path, tmp_path: Path) -> None:
    nowhere = {"OCL_ICD_VENDORS": str(tmp_path / "nowhere")}
    assert str(prefix / "lib/libintelocl.so") in drivers.find_drivers(nowhere, [prefix])


def test_emulators_and_missing_libraries_are_left_out(prefix: Path, system: dict[str, str]) -> None:
    found = drivers.find_drivers(system, [prefix])
    names = [Path(library).name for library in found]
    assert "libintelocl.so" in names
    assert not {"libintelocl_emu.so", "libgone.so"} & set(names)


def test_system_drivers_come_first(prefix: Path, system: dict[str, str]) -> None:
    assert drivers.find_drivers(system, [prefix])[:2] == ["libpocl.so.2", str(prefix / "lib/libintelocl.so")]


def test_the_same_driver_is_listed_once(prefix: Path, system: dict[str, str]) -> None:
    link = prefix / "lib/link.so"
    link.symlink_to(prefix / "lib/libintelocl.so")
    Path(system["OCL_ICD_VENDORS"], "intel.icd").write_text(str(link))
    Path(system["OCL_ICD_VENDORS"], "again.icd").write_text("libpocl.so.2")
    found = drivers.find_drivers(system, [prefix, prefix])
    names = [Path(os.path.realpath(library)).name for library in found]
    assert names.count("libpocl.so.2") == 1
    assert names.count("libintelocl.so") == 1


def test_a_driver_named_twice_in_different_words_is_listed_once(tmp_path: Path) -> None:
    (tmp_path / "libpocl.so.2.12.0").touch()
    (tmp_path / "libpocl.so.2").symlink_to(tmp_path / "libpocl.so.2.12.0")
    (tmp_path / "pocl.icd").write_text("libpocl.so.2.12.0")
    environment = {
        "OCL_ICD_FILENAMES": "libpocl.so.2",
        "OCL_ICD_VENDORS": str(tmp_path),
        "LD_LIBRARY_PATH": str(tmp_path),
    }
    assert [name for name in drivers.find_drivers(environment, []) if "pocl" in name] == ["libpocl.so.2"]


def test_a_single_icd_file_or_library_names_may_stand_in_the_environment(system: dict[str, str]) -> None:
    file = {"OCL_ICD_VENDORS": str(Path(system["OCL_ICD_VENDORS"], "pocl.icd"))}
    assert drivers.find_drivers(file, [])[0] == "libpocl.so.2"
    names = {"OCL_ICD_FILENAMES": "libone.so:libtwo.so", **system}
    assert drivers.find_drivers(names, [])[:3] == ["libone.so", "libtwo.so", "libpocl.so.2"]


def test_nvidias_driver_is_found_without_an_icd_file(tmp_path: Path) -> None:
    library = tmp_path / "libnvidia-opencl.so.1"
    library.touch()
    environment = {"LD_LIBRARY_PATH": f"/nowhere:{tmp_path}", "OCL_ICD_VENDORS": str(tmp_path / "nowhere")}
    assert drivers.find_drivers(environment, []) == [str(library)]
    (tmp_path / "nvidia.icd").write_text("libnvidia-opencl.so.1")
    environment["OCL_ICD_VENDORS"] = str(tmp_path)
    assert drivers.find_drivers(environment, []) == ["libnvidia-opencl.so.1"]


def test_icd_files_name_one_library_each(
    system: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCL_ICD_VENDORS", system["OCL_ICD_VENDORS"])
    drivers.write_icd_files(tmp_path / "icd")
    files = sorted((tmp_path / "icd").iterdir())
    assert files[0].name == "00-libpocl.so.2.icd" and files[0].read_text() == "libpocl.so.2\n"
    assert all(file.suffix == ".icd" for file in files)


# Descriptions


def test_description(device: Device) -> None:
    assert device.silicon.kind in ("gpu", "cpu", "accelerator")
    assert device.silicon.compute_units > 0
    assert device.software.platform and device.software.driver and device.software.c_version.startswith("OpenCL C")
    assert device.facts.c_level >= 110
    assert device.facts.max_group_size > 0 and len(device.facts.max_item_sizes) == 3
    assert device.instance and device.address


def test_a_cpu_is_its_host_whatever_the_driver(device: Device) -> None:
    if device.silicon.kind == "cpu":
        assert device.silicon.compute_units == usable_cores()
        assert device.silicon.memory_gib == 0
        assert "pthread" not in device.silicon.name
        assert device.facts.shares_cores
