"""Every check of the project in one go: style, types, imports, tests; what scripts/test runs."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from environment import ROOT, Environment, Stop

SHELL_SCRIPTS = ("scripts/test", "scripts/demo", "scripts/lib/python", ".ci/run")
RESULTS = ROOT / "build" / "test-results.xml"
SIDE_BY_SIDE = ("-n", "2", "--dist", "loadscope")
"""Two processes of tests, a module to each: most wait for compilers that use one core. `-n 0` runs them in one."""

STAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("ruff check", ("ruff", "check", "--quiet")),
    ("ruff format", ("ruff", "format", "--check", "--quiet")),
    ("shellcheck", ("shellcheck", *SHELL_SCRIPTS)),
    ("mypy", ("mypy",)),
    ("lint-imports", ("lint-imports", "--no-logo")),
)


@dataclass(frozen=True)
class Outcome:
    """How one stage ended."""

    stage: str
    passed: bool
    seconds: float

    def __str__(self) -> str:
        return f"{'ok    ' if self.passed else 'FAILED'} {self.stage} ({self.seconds:.1f} s)"


def main() -> int:
    """Run all stages, also after one failed; 0 if every one passed."""
    options, pytest_arguments = _options()
    began = time.monotonic()
    environment = Environment(ROOT / os.environ.get("GEMM_TUNER_TEST_VENV", ".venv-test"))
    stages = [("install", partial(_install, environment))]
    stages += [(name, partial(_passes, environment, command)) for name, command in STAGES]
    stages += [("pytest", partial(_pytest, environment, ["--soak"] * options.soak + pytest_arguments))]
    outcomes = [_stage(name, work) for name, work in stages]
    skipped = [*_missing_drivers(), *_skipped_tests()]
    _print_summary(outcomes, skipped, options, time.monotonic() - began)
    failed = any(not outcome.passed for outcome in outcomes)
    return int(failed or (options.require_all and bool(skipped)))


def _options() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="scripts/test",
        description="Checks style, types, imports and tests in a virtual environment of its own (no root needed).",
        epilog="All other arguments go to pytest, such as: scripts/test tests/test_expr.py -x. The environment is "
        ".venv-test in the checkout, or the folder that GEMM_TUNER_TEST_VENV names.",
        allow_abbrev=False,
    )
    parser.add_argument("--require-all", action="store_true", help="anything skipped is a failure")
    parser.add_argument("--soak", action="store_true", help="also the tests that run for minutes")
    return parser.parse_known_args()


def _stage(name: str, work: Callable[[], bool]) -> Outcome:
    print(f"\n== {name}", flush=True)
    began = time.monotonic()
    passed = work()
    outcome = Outcome(name, passed, time.monotonic() - began)
    print(outcome, flush=True)
    return outcome


def _install(environment: Environment) -> bool:
    environment.install(".[benchmark,dev,intel,pocl,postgres,report,serve]", editable=True)
    return True


def _passes(environment: Environment, command: Sequence[str]) -> bool:
    return environment.run(*command) == 0


def _pytest(environment: Environment, arguments: list[str]) -> bool:
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.unlink(missing_ok=True)
    command = ["python", "-m", "pytest", f"--junit-xml={RESULTS}", *SIDE_BY_SIDE]
    return _passes(environment, [*command, *arguments])


def _skipped_tests() -> Iterator[str]:
    """One line for each test that pytest skipped: which, and why."""
    if not RESULTS.exists():
        return
    for case in ElementTree.parse(RESULTS).iter("testcase"):
        for skip in case.iter("skipped"):
            if skip.get("type") != "pytest.xfail":
                yield f"{case.get('classname', '')}::{case.get('name', '')}: {skip.get('message', '')}"


def _missing_drivers() -> Iterator[str]:
    """One line for each driver or tool that the tests would have used and pip cannot install."""
    icds = Path("/etc/OpenCL/vendors").glob("*.icd")
    if not any("pocl" in icd.read_text(errors="replace") for icd in icds):
        yield "tests on the system's PoCL: it is not installed (apt-get install pocl-opencl-icd)"
    if not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        yield "tests of reports in a browser: there is none (apt-get install chromium)"
    if shutil.which("oclgrind") is None:
        yield "tests under oclgrind: it is not installed (apt-get install oclgrind)"


def _print_summary(outcomes: list[Outcome], skipped: list[str], options: argparse.Namespace, seconds: float) -> None:
    print("\n== summary")
    for outcome in outcomes:
        print(outcome)
    if skipped:
        print(f"skipped, {'and so FAILED' if options.require_all else 'which --require-all forbids'}:")
        for line in skipped:
            print(f"  - {line}")
    else:
        print("skipped: nothing")
    if not options.soak:
        print("left out: the tests that run for minutes (--soak)")
    print(f"{seconds:.0f} s in all")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Stop as stop:
        print(stop, file=sys.stderr)
        sys.exit(stop.status)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        sys.exit(130)
