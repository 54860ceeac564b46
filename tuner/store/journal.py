"""The store's verbs about what look-ups and nights leave behind: misses, nights, calibrations, regressions, peaks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tuner.model import Config, Problem, Silicon, Software
from tuner.store import findings, misses, nights, rows, spool
from tuner.store.nouns import Calibration, Miss, Night, Peak, Regression
from tuner.store.session import Session


class Journal(Session):
    """Each verb is one transaction."""

    # Misses

    def add_misses(self, found: Iterable[Miss]) -> None:
        """Add counts to those of the same silicon, software and problem."""
        every = tuple(found)
        self._writes(lambda connection: misses.add(connection, every))

    def take_in_misses(self) -> int:
        """Add what look-ups have counted since the last time; returns how many different ones that were."""
        return spool.take_in(self._place.spool, self.add_misses)

    def misses(self, silicon: Silicon | None = None) -> list[Miss]:
        """What was asked for and not tuned on a silicon (None: any), most asked first."""
        return self._reads(lambda connection: misses.listed(connection, silicon))

    def forget_misses(self, silicon: Silicon, software: Software, problem: Problem) -> None:
        """It has been tuned; no miss of it is no error."""
        self._writes(lambda connection: misses.forget(connection, (silicon, software, problem)))

    # Nights

    def start_night(self, name: str, host: str, plan: Mapping[str, Any]) -> int:
        """Note that a night began in this process; returns its number. `host` is this machine, by `Process.host`."""
        return self._writes(lambda connection: nights.start(connection, self._process, name, host, plan))

    def resume_night(self, night: int) -> Night:
        """Go on in this process with a night that was interrupted or died; raises UserError for any other."""
        return self._writes(lambda connection: nights.resume(connection, self._process, night))

    def note_night(self, night: int, progress: Mapping[str, Any]) -> None:
        """Keep how far a night has come, in place of what was kept before; ValueError unless it is at work."""
        self._writes(lambda connection: nights.note(connection, night, progress))

    def finish_night(self, night: int, state: str, summary: Mapping[str, Any]) -> None:
        """Close a night as `complete`, `interrupted` or `failed`; raises ValueError unless it is at work."""
        self._writes(lambda connection: nights.finish(connection, night, state, summary))

    def nights(self, limit: int | None = None, name: str | None = None) -> list[Night]:
        """Nights of a name (None: any), newest first; one whose process on this machine is gone has `died`."""
        return self._reads(lambda connection: nights.listed(connection, self._process, limit, name))

    def add_calibration(
        self,
        instance: str,
        silicon: Silicon,
        software: Software,
        night: int | None,
        stage: str,
        reading: Mapping[str, float],
    ) -> None:
        """Keep one reading of the calibration kernel and the sensors, units in the names."""
        self._writes(
            lambda connection: nights.calibrate(connection, instance, silicon, software, night, stage, reading)
        )

    def calibrations(
        self, instance: str, software: Software | None = None, limit: int | None = None
    ) -> list[Calibration]:
        """The last `limit` readings of one device instance on a software (None: any), oldest first."""
        return self._reads(lambda connection: nights.calibrations(connection, instance, software, limit))

    # Regressions

    def open_regression(
        self,
        silicon: Silicon,
        software: Software,
        problem: Problem,
        config: Config,
        source_hash: str,
        night: int | None,
        before_ms: float,
        now_ms: float,
        noise: float,
        detail: str,
    ) -> int:
        """Note a regression; returns its number. If that source's is open already, its latest figures are kept."""
        key = (silicon, software, problem)
        figures: dict[str, Any] = {"before_ms": before_ms, "now_ms": now_ms, "noise": noise, "detail": detail}
        return self._writes(
            lambda connection: findings.open_regression(connection, key, config, source_hash, night, **figures)
        )

    def close_regression(self, number: int, reason: str) -> None:
        """It recovered; raises UserError if none of that number is open."""
        self._writes(lambda connection: findings.close_regression(connection, number, reason, acknowledged=False))

    def acknowledge_regression(self, number: int, reason: str) -> None:
        """A person takes it as it is, and the reason says who and why; raises UserError if none is open."""
        self._writes(lambda connection: findings.close_regression(connection, number, reason, acknowledged=True))

    def regressions(self, open_only: bool = True) -> list[Regression]:
        """Regressions, oldest first."""
        return self._reads(lambda connection: findings.regressions(connection, open_only))

    # Peaks

    def set_peak(
        self, silicon: Silicon, software: Software, dtype: str, math: str, gflops: float, noise: float, method: str
    ) -> None:
        """Keep the peak rate of a dtype and math in GFLOP/s, in place of the one before."""
        self._writes(
            lambda connection: findings.set_peak(
                connection, Peak(silicon, software, "gflops", dtype, math, gflops, noise, method, rows.now())
            )
        )

    def set_bandwidth(self, silicon: Silicon, software: Software, gb_per_s: float, noise: float, method: str) -> None:
        """Keep the memory bandwidth in GB/s (10^9 bytes), in place of the one before."""
        self._writes(
            lambda connection: findings.set_peak(
                connection, Peak(silicon, software, "gb_per_s", "", "", gb_per_s, noise, method, rows.now())
            )
        )

    def peaks(self, silicon: Silicon, software: Software) -> list[Peak]:
        """What was measured for a device on one software: its bandwidth, and a rate for each dtype and math."""
        return self._reads(lambda connection: findings.peaks(connection, silicon, software))
