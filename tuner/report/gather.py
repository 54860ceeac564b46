"""From the store to facts: one pass over all trials, kept by device and problem, small enough to hold at once."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tuner import timing
from tuner.model import Config, Device, Problem, Record, Silicon, Software, Verdict
from tuner.report.standing import Standing, standing_of
from tuner.report.statistics import ratio_noise
from tuner.store import Calibration, Event, Miss, Night, Peak, Regression, Store
from tuner.store.champions import Standing as Standings
from tuner.store.champions import standings
from tuner.store.keys import Key
from tuner.store.reading import Reading, TrialLine


@dataclass(frozen=True, order=True)
class DeviceId:
    """What a report calls a device: silicon under one platform, whatever the driver's version."""

    silicon: Silicon
    platform: str

    @classmethod
    def of(cls, silicon: Silicon, software: Software) -> DeviceId:
        """The device of a key."""
        return cls(silicon, platform_name(software))

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.silicon.name}, {self.platform}" if self.platform else self.silicon.name


def platform_name(software: Software) -> str:
    """The platform without versions: `NVIDIA CUDA OpenCL 3.0 CUDA 13.0.98` is `NVIDIA CUDA`."""
    return re.sub(r"\s*\bOpenCL \d.*$", "", software.platform, flags=re.DOTALL).strip()


@dataclass(frozen=True)
class KeyFacts:
    """What was measured for one problem on one software. Libraries' records are not among its trials."""

    trials: int
    verdicts: Mapping[Verdict, int] = field(hash=False)
    times: Mapping[Config, float] = field(hash=False)
    """ms of each configuration whose last word is a correct result."""
    numbers: Mapping[Config, int] = field(hash=False)
    """The trial that each of these times is of."""
    first: str
    last: str

    @property
    def best(self) -> tuple[Config, float] | None:
        """The fastest."""
        return min(self.times.items(), key=lambda pair: pair[1], default=None)


@dataclass(frozen=True)
class Served:
    """What a look-up would serve for a problem, and by which right."""

    event: Event
    origin: str
    """`pinned`, `exact`, or `other_driver`, as look-ups say."""
    certified: bool


@dataclass(frozen=True)
class Tuned:
    """One problem on one device."""

    problem: Problem
    by_software: Mapping[Software, KeyFacts] = field(hash=False)
    served: Served | None
    default_ms: float | None
    """ms of the default on the device's present software, if it was measured there."""
    default_noise: float | None
    """Of default / best, as a fraction of it; None if it is not known, or if the default is the best."""
    present: KeyFacts | None
    """What was measured on the present software."""

    @property
    def default_ratio(self) -> float | None:
        """default / best, on the present software."""
        best = None if self.present is None else self.present.best
        return None if self.default_ms is None or best is None else self.default_ms / best[1]

    @property
    def trials(self) -> int:
        """On all software."""
        return sum(facts.trials for facts in self.by_software.values())

    @property
    def last(self) -> str:
        """When it was measured last; empty if it never was."""
        return max((facts.last for facts in self.by_software.values()), default="")


@dataclass(frozen=True)
class FailureFacts:
    """What failed on one device, on any of its software."""

    verdicts: Mapping[Verdict, int] = field(hash=False)
    reasons: Mapping[tuple[Verdict, str], int] = field(hash=False)
    """By verdict and the first line of the message."""
    configs: Mapping[Config, tuple[int, int]] = field(hash=False)
    """(correct, all) trials of each configuration."""
    logs: Mapping[str, tuple[int, TrialLine]] = field(hash=False)
    """By hash of a compile log: how many trials failed with it, and the last of them."""


@dataclass(frozen=True)
class DeviceFacts:
    """One device."""

    id: DeviceId
    software: Software
    """Present: that of its last trial or publication."""
    softwares: tuple[Software, ...]
    """All there were, in the order in which they were first seen."""
    tuned: Mapping[Problem, Tuned] = field(hash=False)
    failures: FailureFacts
    standings: Mapping[tuple[Problem, str], Standing] = field(hash=False)
    """By problem and library: the last record on the present software."""
    peaks: tuple[Peak, ...]
    """On the present software."""

    @property
    def libraries(self) -> tuple[str, ...]:
        """The names of libraries that were measured here."""
        return tuple(sorted({name for _, name in self.standings}))

    def peak(self, problem: Problem) -> Peak | None:
        """The measured peak rate for the problem's dtype and math."""
        kind = ("gflops", problem.dtype, problem.math)
        return next((peak for peak in self.peaks if (peak.what, peak.dtype, peak.math) == kind), None)

    @property
    def bandwidth(self) -> Peak | None:
        """The measured bandwidth of memory."""
        return next((peak for peak in self.peaks if peak.what == "gb_per_s"), None)


@dataclass(frozen=True)
class Facts:
    """Everything the pages about more than one problem are made from."""

    now: str
    store: str
    devices: tuple[DeviceFacts, ...]
    problems: tuple[Problem, ...]
    events: tuple[Event, ...]
    """The whole log of champions, oldest first."""
    nights: tuple[Night, ...]
    """Newest first."""
    misses: tuple[Miss, ...]
    """Most asked first."""
    regressions: tuple[Regression, ...]
    """Open and closed, oldest first."""
    calibrations: tuple[Calibration, ...]

    @property
    def trials(self) -> int:
        """All of them, libraries' not among them."""
        return sum(tuned.trials for device in self.devices for tuned in device.tuned.values())


def gather(store: Store, now: str, families: Mapping[str, Family]) -> Facts:
    """Read everything once; `families` say what an untuned device would be given."""
    reading = Reading(store)
    tallies: dict[DeviceId, _Tally] = defaultdict(_Tally)
    for key, lines in reading.trials_by_key():
        tallies[DeviceId.of(*key[:2])].take(key, lines)
    events = reading.events()
    for event in events:
        tallies[DeviceId.of(*event.key[:2])].publish(event)
    for record in reading.baselines():
        tallies[DeviceId.of(record.silicon, record.software)].compare(record)
    for peak in reading.peaks():
        tallies[DeviceId.of(peak.silicon, peak.software)].peaks.append(peak)
    certified = {key: set(held) for key, held in reading.certificates().items()}
    standing = standings(events)
    defaults = _Defaults(families)
    devices = tuple(tallies[id].facts(id, standing, certified, defaults, reading) for id in sorted(tallies))
    problems = sorted({problem for device in devices for problem in device.tuned})
    more = (tuple(store.nights()), tuple(store.misses()), tuple(store.regressions(open_only=False)))
    return Facts(now, store.url, devices, tuple(problems), tuple(events), *more, tuple(reading.calibrations()))


class Family(Protocol):
    """What a report needs of a kernel family."""

    defaults: tuple[Config, ...]
    """The declared defaults, in order."""

    def rank(self, problem: Problem, device: Device) -> int:
        """How promising it is before anything was measured; higher is better."""


class _Defaults:
    """Finds what an untuned device would be given among what was measured."""

    def __init__(self, families: Mapping[str, Family]) -> None:
        self._families = families
        self._places: dict[Config, int | None] = {}

    def of(self, problem: Problem, device: Device, times: Mapping[Config, float]) -> Config | None:
        """The first declared default that was measured, of the family ranked highest that has one."""
        found = [(config, place, ms) for config, ms in times.items() if (place := self._place(config)) is not None]
        ranked = (
            (-self._families[one.family].rank(problem, device), one.family, place, ms, one) for one, place, ms in found
        )
        return min(ranked)[4] if found else None

    def _place(self, config: Config) -> int | None:
        """Which default of its family it is; an older record may lack axes added since."""
        if config not in self._places:
            family = self._families.get(config.family)
            values = set(config.values)
            alike = (n for n, d in enumerate(family.defaults if family else ()) if values <= set(d.values))
            self._places[config] = next(alike, None)
        return self._places[config]


class _Tally:
    """Counts for one device while trials stream by."""

    def __init__(self) -> None:
        self.keys: dict[Problem, dict[Software, KeyFacts]] = defaultdict(dict)
        self.seen: dict[Software, list[str]] = defaultdict(list)
        self.published: set[Problem] = set()
        self.reasons: Counter[tuple[Verdict, str]] = Counter()
        self.configs: dict[Config, list[int]] = defaultdict(lambda: [0, 0])
        self.logs: dict[str, tuple[int, TrialLine]] = {}
        self.baselines: list[Record] = []
        self.peaks: list[Peak] = []

    def take(self, key: Key, lines: Sequence[TrialLine]) -> None:
        _, software, problem = key
        if not lines:
            return
        self.seen[software] += (lines[0].when, lines[-1].when)
        self.keys[problem][software] = _key_facts(lines)
        for line in lines:
            count = self.configs[line.config]
            count[0] += line.verdict is Verdict.CORRECT
            count[1] += 1
            if line.verdict is not Verdict.CORRECT:
                self._failed(line)

    def _failed(self, line: TrialLine) -> None:
        reason = line.message.strip().partition("\n")[0][:200]
        self.reasons[line.verdict, reason] += 1
        if line.log_hash is not None:
            count, _ = self.logs.get(line.log_hash, (0, line))
            self.logs[line.log_hash] = (count + 1, line)

    def compare(self, record: Record) -> None:
        self.seen[record.software].append(record.when)
        self.baselines.append(record)

    def publish(self, event: Event) -> None:
        self.seen[event.software].append(event.when)
        self.published.add(event.problem)

    def facts(
        self,
        id: DeviceId,
        standing: Mapping[Key, Standings],
        certified: Mapping[Key, set[str]],
        defaults: _Defaults,
        reading: Reading,
    ) -> DeviceFacts:
        for peak in () if self.seen else self.peaks:
            self.seen[peak.software].append(peak.when)
        softwares = sorted(self.seen, key=lambda software: min(self.seen[software]))
        present = max(self.seen, key=lambda software: max(self.seen[software]))
        untuned = Device(id.silicon, present, "")
        present_of = {problem: found[present] for problem, found in self.keys.items() if present in found}
        given = {problem: defaults.of(problem, untuned, here.times) for problem, here in present_of.items()}
        noises = _default_noises(reading, present_of, given)
        tuned = {}
        for problem in sorted({*self.keys, *self.published}):
            here, default = present_of.get(problem), given.get(problem)
            served = _served(id.silicon, problem, present, softwares, standing, certified)
            ms = None if here is None or default is None else here.times[default]
            tuned[problem] = Tuned(problem, self.keys.get(problem, {}), served, ms, noises.get(problem), here)
        verdicts = Counter[Verdict]()
        for by_software in self.keys.values():
            for facts in by_software.values():
                verdicts.update(facts.verdicts)
        configs = {config: (good, every) for config, (good, every) in self.configs.items()}
        failures = FailureFacts(verdicts, self.reasons, configs, self.logs)
        beside = [standing_of(record) for record in self.baselines if record.software == present]
        named = {(one.record.problem, one.name): one for one in beside}
        peaks = tuple(peak for peak in self.peaks if peak.software == present)
        return DeviceFacts(id, present, tuple(softwares), tuned, failures, named, peaks)


def _key_facts(lines: Sequence[TrialLine]) -> KeyFacts:
    """The last word on each source counts: what failed later has no time, however fast it seemed."""
    last = {line.source_hash: line for line in lines}
    times: dict[Config, float] = {}
    numbers: dict[Config, int] = {}
    for line in last.values():
        if line.time_ms is not None and line.time_ms < times.get(line.config, math.inf):
            times[line.config], numbers[line.config] = line.time_ms, line.number
    verdicts = Counter(line.verdict for line in lines)
    return KeyFacts(len(lines), verdicts, times, numbers, lines[0].when, lines[-1].when)


def _default_noises(
    reading: Reading, present: Mapping[Problem, KeyFacts], given: Mapping[Problem, Config | None]
) -> dict[Problem, float]:
    """Noise of default / best as a fraction, where the samples of both are there and they are not the same."""
    pairs: dict[Problem, tuple[int, int]] = {}
    for problem, here in present.items():
        default, best = given[problem], here.best
        if default is not None and best is not None and default != best[0]:
            pairs[problem] = here.numbers[default], here.numbers[best[0]]
    samples = reading.samples({number for pair in pairs.values() for number in pair})
    noises = {number: _noise(found) for number, found in samples.items()}
    both = {problem: ratio_noise(noises.get(one), noises.get(other)) for problem, (one, other) in pairs.items()}
    return {problem: noise for problem, noise in both.items() if noise is not None}


def _noise(samples: Sequence[float]) -> float | None:
    try:
        return timing.summarise(samples).noise
    except ValueError:  # there are none, or one is no time
        return None


def _served(
    silicon: Silicon,
    problem: Problem,
    present: Software,
    softwares: Sequence[Software],
    standing: Mapping[Key, Standings],
    certified: Mapping[Key, set[str]],
) -> Served | None:
    """What is pinned or promoted on the present software, else what was on the one before it, and so on."""
    for software in (present, *(one for one in reversed(softwares) if one != present)):
        key = (silicon, software, problem)
        found = standing.get(key, Standings())
        event = found.champion
        if event is None:
            continue
        here = event.rendered.source_hash in certified.get((silicon, present, problem), ())
        if software != present:
            return Served(event, "other_driver", here)
        return Served(event, "pinned" if event is found.pinned else "exact", here)
    return None
