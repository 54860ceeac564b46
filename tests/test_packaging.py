"""The wheel: what is in it, and that it works where there is no checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def _run(*command: str, cwd: Path, **variables: str) -> str:
    environment = {**os.environ, **variables}
    done = subprocess.run(
        [sys.executable, *command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    _run("-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", str(folder), str(ROOT), cwd=folder)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    _run("-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), str(wheel), cwd=folder)
    return folder


def _in_installed(code: str, installed: Path) -> str:
    return _run("-c", code, cwd=installed.parent, PYTHONPATH=str(installed)).strip()


def _files(folder: str) -> set[str]:
    inside = (path.relative_to(ROOT / folder) for path in (ROOT / folder).rglob("*") if path.is_file())
    return {path.as_posix() for path in inside if "__pycache__" not in path.parts}


def test_only_the_package_lands_in_site_packages(names: list[str]) -> None:
    tops = {name.split("/")[0] for name in names}
    assert tops == {"tuner", *(top for top in tops if top.endswith(".dist-info"))}


@pytest.mark.parametrize("folder", ["templates", "db"])
def test_data_folders_are_carried_whole(names: list[str], folder: str) -> None:
    prefix = f"tuner/_{folder}/"
    assert {name.removeprefix(prefix) for name in names if name.startswith(prefix)} == _files(folder)


def test_every_module_and_the_marker_of_types_are_carried(names: list[str]) -> None:
    assert {f"tuner/{name}" for name in _files("tuner")} <= set(names)
    assert "tuner/py.typed" in names


def test_the_installed_package_reads_its_own_data(installed: Path) -> None:
    code = "import tuner; from tuner.data import data_folder as f; print(tuner.__file__, f('templates'), f('db'))"
    package, templates, db = map(Path, _in_installed(code, installed).split())
    assert package == installed / "tuner" / "__init__.py"
    assert (templates, db) == (installed / "tuner" / "_templates", installed / "tuner" / "_db")


def test_the_installed_package_has_all_families(installed: Path) -> None:
    found = _in_installed("from tuner.family import load_families; print(*sorted(load_families()))", installed)
    assert found.split() == sorted(path.stem for path in (ROOT / "templates").glob("*.toml"))


def test_the_installed_package_makes_a_store(installed: Path, tmp_path: Path) -> None:
    code = f"from tuner.store import open_store; print(open_store({str(tmp_path / 'a.db')!r}, upgrade=True).check())"
    assert _in_installed(code, installed) == "[]"


def test_the_installed_command_runs(installed: Path) -> None:
    command = "import sys; from tuner.cli import main; sys.argv = ['gemm-tuner', '--help']; main()"
    assert "lookup" in _in_installed(command, installed)


def test_the_entry_point_is_the_command_line(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (entry_points,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert "gemm-tuner = tuner.__main__:main" in archive.read(entry_points).decode()


def test_the_source_archive_carries_all_that_a_checkout_needs(tmp_path: Path) -> None:
    _run("-m", "build", "--sdist", "--no-isolation", "--outdir", str(tmp_path), str(ROOT), cwd=tmp_path)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.split("/", 1)[1] for name in opened.getnames()}
    for folder in ("tuner", "templates", "db", "docs", "scripts", "tests"):
        assert {f"{folder}/{name}" for name in _files(folder)} <= names
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", ".ci/run"} <= names
