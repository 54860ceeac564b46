"""The documentation tells the truth: links lead somewhere, commands and options exist, examples parse, load and run."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main

from tuner.cli.app import app
from tuner.family import load_families
from tuner.model import Device, Verdict
from tuner.opencl import drivers

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_NAMED_FILE = re.compile(r"^`my-kernels/([\w.]+)`:\n\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _blocks(language: str) -> list[Any]:
    """(page, text) of every fenced block in a language, as parameters."""
    found = []
    for page in PAGES:
        texts = [text for tag, text in _FENCE.findall(page.read_text()) if tag == language]
        found += [pytest.param(text, id=f"{_name(page)}-{number}") for number, text in enumerate(texts)]
    return found


def _prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text())


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(_prose(page)):
        target, _, anchor = link.partition("#")
        if "://" in target:
            continue
        place = (page.parent / target).resolve() if target else page
        assert place.is_file() or any(place.iterdir()), f"{link} leads nowhere"
        assert not anchor or anchor in _anchors(place), f"{link}: no such heading"


def test_every_page_of_the_documentation_can_be_reached() -> None:
    linked = {ROOT / "README.md"}
    for page in PAGES:
        linked |= {(page.parent / link.partition("#")[0]).resolve() for link in _LINK.findall(_prose(page))}
    assert [_name(page) for page in PAGES if page not in linked and page.name != "README.md"] == []


class Command(NamedTuple):
    """A command of the command line: its name and the options it takes."""

    name: str
    options: set[str]


def _commands() -> Iterator[Command]:
    def walk(command: Any, path: tuple[str, ...]) -> Iterator[Command]:
        if hasattr(command, "commands"):
            for name, inner in command.commands.items():
                yield from walk(inner, (*path, name))
        else:
            yield Command(" ".join(path), {option for parameter in command.params for option in parameter.opts})

    return walk(typer.main.get_command(app), ())


COMMANDS = {command.name: command for command in _commands()}


def _invocations() -> list[Any]:
    """Every line of a shell example that runs gemm-tuner, as parameters."""
    found = []
    for page in PAGES:
        for tag, text in _FENCE.findall(page.read_text()):
            lines = [line for line in text.splitlines() if line.startswith("gemm-tuner ")] if tag == "sh" else []
            found += [pytest.param(line, id=f"{_name(page)}-{line.partition('#')[0].strip()}") for line in lines]
    return found


@pytest.mark.parametrize("line", _invocations())
def test_commands_and_their_options_exist(line: str) -> None:
    words = shlex.split(line.partition(">")[0], comments=True)[1:]
    name = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0]
    name = "nightly run" if name == "nightly" else name
    assert name in COMMANDS
    assert {word for word in words if word.startswith("--")} <= COMMANDS[name].options


def test_every_command_is_described() -> None:
    described = set(re.findall(r"`([a-z ]+)`", (ROOT / "docs" / "command-line.md").read_text()))
    assert COMMANDS.keys() <= described


@pytest.mark.parametrize("text", _blocks("json"))
def test_json_examples_parse(text: str) -> None:
    assert isinstance(json.loads(text), dict)


@pytest.mark.parametrize("text", _blocks("toml"))
def test_toml_examples_parse(text: str) -> None:
    assert tomllib.loads(text)


@pytest.mark.device
def test_the_page_for_programs_runs(any_device: Device, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "use-from-your-program.md").read_text()
    blocks = [text for tag, text in _FENCE.findall(page) if tag == "python"]
    assert len(blocks) > 4
    program = tmp_path / "program.py"
    program.write_text("\n".join(blocks))
    drivers.write_icd_files(tmp_path / "icd")
    environment = {
        **os.environ,
        "OCL_ICD_VENDORS": str(tmp_path / "icd"),
        "PYOPENCL_CTX": any_device.address,
        "POCL_CACHE_DIR": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path),
        "GEMM_TUNER_DB": str(tmp_path / "tuner.db"),
        "GEMM_TUNER_LOCKS": str(tmp_path / "locks"),
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run([sys.executable, str(program)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "48x48x48 float32" in done.stdout and "Miss(" in done.stdout


@pytest.fixture(scope="module")
def own_kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that docs/families.md tells its readers to make."""
    folder = tmp_path_factory.mktemp("my-kernels")
    for name, text in _NAMED_FILE.findall((ROOT / "docs" / "families.md").read_text()):
        (folder / name).write_text(text)
    return folder


def test_the_example_of_a_family_loads(own_kernels: Path) -> None:
    assert load_families([own_kernels])["row"].axes[-1].before == 0


def test_the_example_of_a_family_is_right(own_kernels: Path, any_device: Device, tmp_path: Path) -> None:
    what = f"17 33 9 --batch 2 --family row --family-dir {own_kernels} --evals 10 --seed 1 --db {tmp_path / 'a.db'}"
    command = [sys.executable, "-m", "tuner", "tune", *what.split(), "--json", "--device", any_device.address]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
    assert found["verdicts"] == {Verdict.CORRECT: found["evaluated"]}
    assert found["promoted"]


def test_families_page_names_every_built_in_family() -> None:
    page = (ROOT / "docs" / "families.md").read_text()
    for family in load_families().values():
        assert f"[`{family.name}`](../templates/{family.name}.toml)" in page
