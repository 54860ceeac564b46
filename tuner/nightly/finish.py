"""After the night: its summary written where it is wanted, the report made and named in it, the hooks run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tuner.nightly.morning import markdown
from tuner.nightly.settings import NightSettings

HOOK_S = 120.0
REPORT_S = 600.0


def finish(settings: NightSettings, summary: dict[str, Any], db: str | None, say: Callable[[str], None]) -> None:
    """Make the report, write the summary where it is wanted, run the hooks; what fails is said, and fails nothing.

    `summary` learns where the report is, or why there is none.
    """
    outputs = settings.outputs
    if outputs.html is not None:
        say(f"making the report {outputs.html}")
        summary["report"] = _report(outputs.html, db)
    text = json.dumps(summary, indent=1, ensure_ascii=False)
    for path, content in ((outputs.json, text + "\n"), (outputs.markdown, markdown(summary))):
        if path is not None:
            with _said(say, f"{path} cannot be written"):
                path.parent.mkdir(parents=True, exist_ok=True)
                new = path.with_name(f".{path.name}.new")
                new.write_text(content, "utf-8")
                new.replace(path)
    hooks = [outputs.on_finish, *([outputs.on_failure] if summary["status"] else [])]
    for hook in filter(None, hooks):
        with _said(say, f"the hook {hook!r} failed"):
            environment = {**os.environ, "GEMM_TUNER_SUMMARY": str(outputs.json or "")}
            subprocess.run(hook, shell=True, input=text, text=True, timeout=HOOK_S, check=True, env=environment)


def _report(out: Path, db: str | None) -> str:
    """Where the report is, or why there is none. A process of its own, so that its memory and its faults are its own.

    Files of the night before stay where none could be made.
    """
    command = [sys.executable, "-m", "tuner", "report", "--out", str(out), "--json", *(["--db", db] if db else [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=REPORT_S, check=False, env=_with_us())
    except (OSError, subprocess.SubprocessError) as error:
        return f"none: {error}"
    if done.returncode == 0:
        return str(json.loads(done.stdout)["report"])
    last = (done.stderr.strip().splitlines() or [f"gemm-tuner report ended with {done.returncode}"])[-1]
    return f"none: {last.removeprefix('gemm-tuner: ')}"


def _with_us() -> dict[str, str]:
    """An environment in which a child finds this package, wherever it was imported from."""
    here = str(Path(__file__).resolve().parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))}


@contextmanager
def _said(say: Callable[[str], None], what: str) -> Iterator[None]:
    try:
        yield
    except (OSError, subprocess.SubprocessError) as error:
        say(f"{what}: {error}")
