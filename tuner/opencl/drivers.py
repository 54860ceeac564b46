"""Which OpenCL drivers the loader is told of: the system's, and those that pip installed beside this Python."""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")
_VENDORS = Path("etc/OpenCL/vendors")

NVIDIA_LIBRARY = "libnvidia-opencl.so.1"
_LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
)


def install(vendors: Path) -> None:
    """Point this process's loader at the folder `vendors`; to be called before pyopencl is imported.

    PyOpenCL's cache of built programs is off: a lock file left behind by a killed process costs 61 s there, and a
    program must not come out of a cache that knows nothing of driver updates.
    """
    os.environ["OCL_ICD_VENDORS"] = str(vendors)
    os.environ.pop("OCL_ICD_FILENAMES", None)
    os.environ["PYOPENCL_NO_CACHE"] = "1"
    warnings.filterwarnings("ignore", module="pyopencl")


def write_icd_files(folder: Path) -> None:
    """One .icd file in `folder` for each driver found: what `install` is given."""
    folder.mkdir()
    for number, library in enumerate(find_drivers(os.environ, package_prefixes())):
        (folder / f"{number:02}-{Path(library).name}.icd").write_text(library + "\n", encoding="utf-8")


def find_drivers(environment: Mapping[str, str], prefixes: Sequence[Path]) -> list[str]:
    """Libraries of all drivers, as paths or as names that the system's linker finds, each once, the system's first."""
    found = [*_named_by_system(environment), *_named_by_packages(prefixes)]
    if not any("nvidia" in library for library in found):
        found += _unnamed_nvidia(environment)
    once: dict[str, str] = {}
    for library in found:
        once.setdefault(_real_path(library, environment), library)
    bundled = _bundled_with_pyopencl()
    return [library for path, library in once.items() if bundled is None or bundled not in Path(path).parents]


def package_prefixes() -> list[Path]:
    """Installation roots of this Python: the environment itself, and what each folder of packages belongs to."""
    roots = [Path(sys.prefix)]
    for entry in map(Path, sys.path):
        if entry.name in ("site-packages", "dist-packages") and len(entry.parents) > 2:
            roots.append(entry.parents[2])
        roots.append(entry)
    return list(dict.fromkeys(root for root in roots if (root / _VENDORS).is_dir()))


def _named_by_system(environment: Mapping[str, str]) -> list[str]:
    filenames = [name for name in environment.get("OCL_ICD_FILENAMES", "").split(os.pathsep) if name]
    place = Path(environment.get("OCL_ICD_VENDORS") or SYSTEM_VENDORS)
    return filenames + [library for icd in _icd_files(place) if (library := _library_of(icd))]


def _named_by_packages(prefixes: Sequence[Path]) -> list[str]:
    found = []
    for prefix in prefixes:
        for icd in _icd_files(prefix / _VENDORS):
            library = _library_of(icd)
            if library and (place := _in_package(library, prefix)):
                found.append(place)
    return found


def _in_package(library: str, prefix: Path) -> str | None:
    """Where the library of a package's .icd file really is: Intel's names a folder of the machine that built it."""
    if os.sep in library and Path(library).exists():
        return library
    name = Path(library).name
    places = (prefix / "lib" / name, prefix / "lib64" / name, prefix / "Library" / "bin" / name, prefix / name)
    return next((str(place) for place in places if place.exists()), None)


def _icd_files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    return sorted(place.glob("*.icd")) if place.is_dir() else []


def _library_of(icd: Path) -> str | None:
    """First line of an .icd file; None for an emulator of an FPGA, which nobody multiplies matrices on."""
    try:
        text = icd.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
    library = text.splitlines()[0].strip() if text else ""
    return None if not library or "_emu" in Path(library).name else library


def _unnamed_nvidia(environment: Mapping[str, str]) -> list[str]:
    """Containers often carry NVIDIA's driver without the .icd file that names it."""
    return [path for path in (_on_linker_path(NVIDIA_LIBRARY, environment),) if path]


def _real_path(library: str, environment: Mapping[str, str]) -> str:
    """What tells two drivers apart: "libpocl.so.2" and "/usr/lib/libpocl.so.2.12" may be one file."""
    path = library if os.sep in library else _on_linker_path(library, environment)
    return os.path.realpath(path) if path else library


def _on_linker_path(library: str, environment: Mapping[str, str]) -> str | None:
    folders = [folder for folder in environment.get("LD_LIBRARY_PATH", "").split(os.pathsep) if folder]
    places = (Path(folder, library) for folder in (*folders, *_LIBRARY_FOLDERS))
    return next((str(place) for place in places if place.exists()), None)


def _bundled_with_pyopencl() -> Path | None:
    """The folder of the drivers that PyOpenCL's own loader adds by itself."""
    spec = importlib.util.find_spec("pyopencl")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(os.path.realpath(Path(spec.submodule_search_locations[0]) / ".libs"))
