"""After the night: its summary written where it is wanted, the report made, the hooks run."""

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
    """Write the summary where it is wanted, make the report, run the hooks; what fails is said, and fails nothing."""
    outputs = settings.outputs
    if outputs.html is not None:
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
    """Where the report is, or why there is none."""
    command = [sys.executable, "-m", "tuner", "report", "--out", str(out), *(["--db", db] if db else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=REPORT_S, check=False)
    if done.returncode == 0:
        return str(out)
    return f"none: {(done.stderr.strip().splitlines() or ['gemm-tuner report failed'])[-1]}"


@contextmanager
def _said(say: Callable[[str], None], what: str) -> Iterator[None]:
    try:
        yield
    except (OSError, subprocess.SubprocessError) as error:
        say(f"{what}: {error}")
