"""What a person sees while a run goes on: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tuner.cli.output import console, duration, rate, settings
from tuner.model import Problem
from tuner.search import Progress

LINE_SECONDS = 10.0
"""Plain output says where it stands this often, and at every new best."""

_STAGES = {"search": "searching", "race": "racing the best against the champion", "certify": "certifying the winner"}


class ProgressDisplay:
    """Shows a run's progress on standard error; a context manager whose `observe` is handed to `tune`."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._console: Console = console(stderr=True)
        self._live: Live | None = None
        self._stage = ""
        self._best_ms: float | None = None
        self._last_line = 0.0

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._live = Live(console=self._console, refresh_per_second=8, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def observe(self, progress: Progress) -> None:
        """Show where the run stands."""
        if self._live is not None:
            self._live.update(self._picture(progress))
        else:
            self._line(progress)

    def _picture(self, progress: Progress) -> Table:
        grid = Table.grid(padding=(0, 1))
        total, done = _extent(progress)
        grid.add_row(
            Text(_STAGES[progress.stage]),
            ProgressBar(total=total, completed=done, width=30, pulse=total is None),
            Text(_counts(progress)),
        )
        left = _left(progress)
        if left:
            grid.add_row(Text("time left"), Text(left), Text(""))
        whole = Table.grid()
        whole.add_row(grid)
        whole.add_row(Text(f"verdicts   {_verdicts(progress.verdicts)}"))
        whole.add_row(Text(f"best       {self._best(progress)}"))
        return whole

    def _line(self, progress: Progress) -> None:
        now = time.monotonic()
        best_ms = None if progress.best is None else progress.best.measurement.time_ms
        news = progress.stage != self._stage or best_ms != self._best_ms
        if not news and now - self._last_line < LINE_SECONDS:
            return
        self._stage, self._best_ms, self._last_line = progress.stage, best_ms, now
        text = f"{progress.seconds:6.1f} s  {_STAGES[progress.stage]}  {_counts(progress)}  best {self._best(progress)}"
        print(text, file=sys.stderr, flush=True)

    def _best(self, progress: Progress) -> str:
        best = progress.best
        if best is None or best.measurement.time_ms is None:
            return "none yet"
        time_ms = best.measurement.time_ms
        speed = rate(self._problem.gflops(time_ms))
        return f"{speed} ({duration(time_ms)})  {best.config.family} {settings(best.config)}"


def _counts(progress: Progress) -> str:
    limit = "" if progress.evaluations is None else f" of {progress.evaluations}"
    return f"{progress.evaluated}{limit} evaluated"


def _extent(progress: Progress) -> tuple[float | None, float]:
    if progress.evaluations is not None:
        return float(progress.evaluations), float(progress.evaluated)
    if progress.seconds_limit is not None:
        return progress.seconds_limit, min(progress.seconds, progress.seconds_limit)
    return None, 0.0


def _left(progress: Progress) -> str:
    """By the slower of the two limits' forecasts, whichever ends the run first."""
    forecasts = []
    if progress.seconds_limit is not None:
        forecasts.append(progress.seconds_limit - progress.seconds)
    if progress.evaluations is not None and progress.evaluated:
        forecasts.append(progress.seconds / progress.evaluated * (progress.evaluations - progress.evaluated))
    if not forecasts:
        return ""
    seconds = max(0, round(min(forecasts)))
    return f"about {seconds // 60}:{seconds % 60:02d}"


def _verdicts(verdicts: Counter[str]) -> str:
    return "  ".join(f"{verdict} {count}" for verdict, count in verdicts.most_common()) or "-"
