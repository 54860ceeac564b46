"""The frozen values everything else speaks in: devices, problems, configurations, verdicts, measurements.

Standard library only. Every noun compares by value and works as a key; *what* is to be computed (`Problem`) and *how*
(`Config`) are two types, and an outcome is one closed enum (`Verdict`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

Scalar = int | str
"""What an axis may take as a value."""

MAX_ALIGN_BYTES = 16
"""Wider alignment than this never makes a load wider on the devices we know."""


class UserError(ValueError):
    """Something only the user can mend; the message is one or two sentences: what is wrong, and what to do."""


class MachineError(UserError):
    """As `UserError`, where the machine stands in the way, not what was asked: a file, a driver, memory."""


class Verdict(StrEnum):
    """What came of one candidate. Only `correct` has a time."""

    CORRECT = "correct"
    ILLEGAL = "illegal"
    COMPILE_FAILED = "compile_failed"
    COMPILE_TIMED_OUT = "compile_timed_out"
    LAUNCH_FAILED = "launch_failed"
    WRONG_RESULT = "wrong_result"
    TIMED_OUT = "timed_out"
    CRASHED = "crashed"
    BAD_CLOCK = "bad_clock"
    UNSUPPORTED = "unsupported"

    @property
    def meaning(self) -> str:
        """One sentence for people."""
        return _MEANINGS[self]


_MEANINGS = {
    Verdict.CORRECT: "every check passed and it was timed",
    Verdict.ILLEGAL: "it breaks a rule of its family, so it was never run",
    Verdict.COMPILE_FAILED: "the driver's compiler refused it",
    Verdict.COMPILE_TIMED_OUT: "the driver's compiler did not finish by the deadline",
    Verdict.LAUNCH_FAILED: "the driver refused to launch it or reported an error while it ran",
    Verdict.WRONG_RESULT: "its result is wrong, or differs between two builds or two runs",
    Verdict.TIMED_OUT: "it did not finish by the deadline",
    Verdict.CRASHED: "it killed the process that ran it",
    Verdict.BAD_CLOCK: "the device's clock gave impossible times for it",
    Verdict.UNSUPPORTED: "the device lacks what the problem or the configuration needs",
}


@dataclass(frozen=True)
class DType:
    """An element type as A, B and C are stored, and the type that sums, alpha and beta have (`real`)."""

    name: str
    bytes: int
    unit_roundoff: float
    """Of sums: half the distance from 1 to the next number of `real`."""
    exact_below: int
    """Whole numbers stay exact, in sums and in C, while their magnitude is below this."""
    real: str
    """What is computed in: 16-bit types are only stored, and accumulate in float32."""
    stored_roundoff: float = 0.0
    """Unit roundoff of C's own type where it is narrower than `real`."""
    stored_least: float = 0.0
    """Half the smallest positive number of that type: what rounding may change in a tiny element of C."""

    @property
    def is_narrow(self) -> bool:
        """Sums are wider than what is stored, so C is rounded once more at the end."""
        return self.real != self.name


DTYPES: Mapping[str, DType] = {
    d.name: d
    for d in (
        DType("float32", 4, 2.0**-24, 2**24, "float32"),
        DType("float64", 8, 2.0**-53, 2**53, "float64"),
        DType("float16", 2, 2.0**-24, 2**11 + 1, "float32", 2.0**-11, 2.0**-25),
        DType("bfloat16", 2, 2.0**-24, 2**8 + 1, "float32", 2.0**-8, 2.0**-134),
    )
}


MATHS: Mapping[str, str] = {
    "strict": "every product and sum rounded as the type of sums is, in any order",
    "fp32_equivalent": "float32 by any method whose error is no larger than strict's",
    "tf32": "float32 operands rounded to 11 significant bits, float32 sums",
}
"""What arithmetic a product may be computed with, and what it promises. All but strict are for float32 alone."""

TF32_ROUNDOFF = 2.0**-11
"""Unit roundoff of operands under `tf32`: 10 bits and the hidden one, rounded to the nearest."""


@dataclass(frozen=True, order=True)
class Silicon:
    """The processor itself, whatever software drives it."""

    vendor: str
    name: str
    kind: str
    """`gpu`, `cpu` or `accelerator`."""
    compute_units: int
    memory_gib: int
    """Whole GiB of the device's own memory; 0 for a CPU, whose memory is the host's and no part of the processor."""

    @property
    def key(self) -> str:
        """The key this silicon is stored under."""
        memory = f" / {self.memory_gib} GiB" if self.memory_gib else ""
        return f"{self.vendor} / {self.name} / {self.kind} / {self.compute_units} CU{memory}"


@dataclass(frozen=True, order=True)
class Software:
    """The driver and compiler between us and the silicon."""

    platform: str
    driver: str
    c_version: str
    device_string: str
    """The device's name as the driver spells it: some drivers put compiler and kernel versions there."""

    @property
    def key(self) -> str:
        """The key this software is stored under."""
        return f"{self.platform} / {self.driver} / {self.c_version} / {self.device_string}"


@dataclass(frozen=True)
class Facts:
    """What rules and workers need to know of a device on its present software; no part of any key."""

    local_mem_bytes: int = 32768
    max_group_size: int = 256
    max_item_sizes: tuple[int, ...] = (256, 256, 64)
    global_mem_bytes: int = 2**30
    max_alloc_bytes: int = 2**28
    base_align_bytes: int = 128
    cache_bytes: int = 0
    fp64: bool = False
    half_storage: bool = True
    """Kernels can read and write float16 in memory, which full profiles can without any extension."""
    extensions: tuple[str, ...] = ()
    c_level: int = 120
    """OpenCL C version as 100·major + 10·minor."""
    sub_group_size: int = 1
    """Work-items that run in lock-step; 1 where none do, or where the driver does not say."""
    async_copy: bool = False
    """Work-items can copy from global to local memory without registers, by PTX's cp.async."""
    matrix_unit: str = ""
    """How our kernels can program its matrix unit: `mma`, by PTX's mma.sync on 16-bit elements; empty: not at all."""
    sub_group_reduce: str = ""
    """How the work-items of a sub-group add up a value each: `ptx` (shuffles as inline PTX, for sub-groups of 32),
    `functions` (OpenCL C's sub_group_reduce_add, without a build option), or not at all."""
    shares_cores: bool = False
    """The device computes on the cores our compilers run on, so nothing is timed while anything compiles."""


@dataclass(frozen=True)
class Device:
    """One OpenCL device: silicon, software, instance, and its facts."""

    silicon: Silicon
    software: Software
    instance: str
    """UUID, else PCI address, else host and ordinal: for locks and calibration history."""
    facts: Facts = field(default=Facts(), compare=False)
    address: str = field(default="", compare=False)
    """`platform:device` as this process tree's loader counts today; for people, never stored as a key."""

    @property
    def name(self) -> str:
        """The short name people know it by."""
        return self.silicon.name

    def has(self, dtype: str) -> bool:
        """Its kernels can compute products of this element type; bfloat16 takes whole-number arithmetic alone."""
        facts = self.facts
        return facts.fp64 if dtype == "float64" else facts.half_storage if dtype == "float16" else True

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON; `from_json` reads them back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Device:
        """The value `to_json` wrote, or an entry of `gemm-tuner devices --json`. Raises UserError for anything else."""
        try:
            silicon, software = (_known(noun, data[noun.__name__.lower()]) for noun in (Silicon, Software))
            facts: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in _known(Facts, data["facts"]).items()
            }
            return cls(
                Silicon(**silicon), Software(**software), data["instance"], Facts(**facts), data.get("address", "")
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise UserError(f"this is no description of a device: {error!r}.") from error


def _known(noun: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that are fields of a noun."""
    return {field.name: values[field.name] for field in fields(noun) if field.name in values}


@dataclass(frozen=True, order=True)
class Problem:
    """C = alpha·op(A)·op(B) + beta·C, row-major: C is m×n, the sum runs over k.

    alpha, beta and leading dimensions are run-time arguments; of the layout only `align` is part of the key.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    dtype: str = "float32"
    trans_a: bool = False
    trans_b: bool = False
    math: str = "strict"
    """One of MATHS: nobody gets less than this says, and what gives as much or more may serve it."""
    align: int = MAX_ALIGN_BYTES
    """Largest power of two, at most 16 bytes, that divides every base, leading dimension and batch stride."""

    def __post_init__(self) -> None:
        for name in ("m", "n", "k", "batch"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise UserError(f"{name} must be a whole number, not {value!r}.")
            if value < 0:
                raise UserError(f"{name} must not be negative; it is {value}.")
            if value >= 2**31:
                raise UserError(f"{name} = {value} is too large: a dimension must be below 2^31.")
        if self.dtype not in DTYPES:
            raise UserError(f"unknown dtype {self.dtype!r}; use one of: {', '.join(DTYPES)}.")
        if self.math not in MATHS:
            raise UserError(f"unknown math {self.math!r}; use one of: {', '.join(MATHS)}.")
        if self.math != "strict" and self.dtype != "float32":
            raise UserError(f"math {self.math} is for float32; with {self.dtype} use strict.")
        if self.align not in (1, 2, 4, 8, 16) or self.align < self.element_bytes:
            raise UserError(
                f"align must be a power of two from {self.element_bytes} to {MAX_ALIGN_BYTES}; it is {self.align}."
            )

    @classmethod
    def packed(cls, m: int, n: int, k: int, **rest: Any) -> Problem:
        """The problem whose operands lie without gaps, `align` derived from their leading dimensions."""
        whole = cls(m, n, k, **rest)
        sizes = [*leading_dimensions(whole), MAX_ALIGN_BYTES]
        if whole.batch > 1:
            sizes += [rows * columns for rows, columns in operand_shapes(whole)]
        align = math.gcd(*(size * whole.element_bytes for size in sizes), MAX_ALIGN_BYTES)
        return cls(m, n, k, **{**rest, "align": max(align, whole.element_bytes)})

    @property
    def element_bytes(self) -> int:
        """Size of one element in bytes."""
        return DTYPES[self.dtype].bytes

    @property
    def real_bytes(self) -> int:
        """Size of a sum in bytes."""
        return DTYPES[DTYPES[self.dtype].real].bytes

    @property
    def flop(self) -> int:
        """Floating-point operations: 2·m·n·k for each product of the batch."""
        return 2 * self.m * self.n * self.k * self.batch

    @property
    def is_empty(self) -> bool:
        """C has no element: there is nothing to compute."""
        return 0 in (self.m, self.n, self.batch)

    @property
    def emptiness(self) -> str:
        """Why there is nothing to tune about it, and what `gemm` does with it; empty text for any other product."""
        if self.is_empty:
            return "C has no element, so gemm runs nothing"
        return "" if self.k else "k = 0, so gemm makes C = beta C, whatever was tuned"

    def gflops(self, time_ms: float) -> float:
        """Rate in GFLOP/s of one product in `time_ms` milliseconds."""
        return self.flop / time_ms / 1e6

    def __str__(self) -> str:
        batch = f" x{self.batch}" if self.batch > 1 else ""
        flags = "".join([" trans-a" * self.trans_a, " trans-b" * self.trans_b])
        mathematics = "" if self.math == "strict" else f" {self.math}"
        align = "" if self.align == MAX_ALIGN_BYTES else f" align {self.align}"
        return f"{self.m}x{self.n}x{self.k}{batch} {self.dtype}{flags}{mathematics}{align}"


def log_sizes(problem: Problem) -> tuple[float, float, float, float]:
    """m, n, k and batch as powers of two, so that the distance between two such points counts doublings."""
    p = problem
    return math.log2(max(1, p.m)), math.log2(max(1, p.n)), math.log2(max(1, p.k)), math.log2(max(1, p.batch))


def operand_shapes(problem: Problem) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """(rows, columns) of A, B and C as they lie in memory, that is, before any transposition."""
    p = problem
    a = (p.k, p.m) if p.trans_a else (p.m, p.k)
    b = (p.n, p.k) if p.trans_b else (p.k, p.n)
    return a, b, (p.m, p.n)


def leading_dimensions(problem: Problem) -> tuple[int, int, int]:
    """(lda, ldb, ldc) of packed operands, in elements; at least 1."""
    a, b, c = (max(1, columns) for _, columns in operand_shapes(problem))
    return a, b, c


@dataclass(frozen=True, order=True)
class Config:
    """A family and one value for each of its axes."""

    family: str
    values: tuple[tuple[str, Scalar], ...]
    """(axis, value) pairs sorted by axis; build with `Config.of`."""

    @classmethod
    def of(cls, family: str, values: Mapping[str, Scalar] | None = None, /, **more: Scalar) -> Config:
        """A configuration from axis values in any order."""
        return cls(family, tuple(sorted({**(values or {}), **more}.items())))

    def __getitem__(self, axis: str) -> Scalar:
        return self.as_dict()[axis]

    def __iter__(self) -> Iterator[str]:
        return iter(self.as_dict())

    def as_dict(self) -> dict[str, Scalar]:
        """Axis values by name."""
        return dict(self.values)

    def __repr__(self) -> str:
        values = "".join(f", {name}={value!r}" for name, value in self.values)
        return f"Config.of({self.family!r}{values})"

    def __str__(self) -> str:
        return " ".join([self.family, *(f"{name}={value}" for name, value in self.values)])


@dataclass(frozen=True)
class Step:
    """One kernel launch of a configuration."""

    kernel: str
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    scratch: tuple[str, ...] = ()
    """Names of the scratch buffers passed after the common arguments, in order."""


@dataclass(frozen=True)
class Rendered:
    """A configuration made concrete for one problem and device: what is built, and what is launched in which order."""

    source: str
    build_options: str
    steps: tuple[Step, ...]
    scratch: tuple[tuple[str, int], ...] = ()
    """(name, bytes) of each scratch buffer."""
    source_hash: str = ""
    zeroed: tuple[str, ...] = ()
    """Scratch buffers that are all zeros before the first launch; every product leaves them so."""

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON; `from_json` reads them back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Rendered:
        """The value `to_json` wrote."""
        steps = tuple(
            Step(s["kernel"], tuple(s["global_size"]), tuple(s["local_size"]), tuple(s["scratch"]))
            for s in data["steps"]
        )
        scratch = tuple((name, size) for name, size in data["scratch"])
        zeroed = tuple(data.get("zeroed", ()))
        return cls(data["source"], data["build_options"], steps, scratch, data["source_hash"], zeroed)


@dataclass(frozen=True)
class CompilerInfo:
    """What the driver's compiler said, where it says anything."""

    registers: int | None = None
    spill_bytes: int | None = None
    local_bytes: int | None = None
    log: str = ""


@dataclass(frozen=True)
class Built:
    """The outcome of one build; `verdict` is `correct` when there is a program to launch."""

    verdict: Verdict
    compile_ms: float = 0.0
    binary: bytes | None = None
    compiler: CompilerInfo = CompilerInfo()
    message: str = ""


@dataclass(frozen=True)
class Measurement:
    """What one candidate's trial brought; a time only if `verdict` is `correct`."""

    verdict: Verdict
    samples_ms: tuple[float, ...] = ()
    compile_ms: float = 0.0
    error_ratio: float | None = None
    """max |error| / (sqrt(k)·u·(|A||B|)) over what was checked; the acceptance bound is in `verify`."""
    message: str = ""
    compiler: CompilerInfo = CompilerInfo()
    verify_ms: float = 0.0
    """Host time the checks took."""

    def __post_init__(self) -> None:
        if self.verdict is Verdict.CORRECT and not self.samples_ms:
            raise ValueError("a correct measurement has samples")
        if self.verdict is not Verdict.CORRECT and self.samples_ms:
            raise ValueError(f"a {self.verdict} measurement has no time")

    @property
    def time_ms(self) -> float | None:
        """Median of the raw samples, or None without a correct result."""
        import statistics  # slow to import, and no look-up needs it

        return statistics.median(self.samples_ms) if self.samples_ms else None

    @property
    def is_checked(self) -> bool:
        """It is correct by every check of a trial; false also for a slow candidate that was cut short after the first.

        The float pass, which comes last, leaves its error ratio.
        """
        return self.verdict is Verdict.CORRECT and self.error_ratio is not None


@dataclass(frozen=True)
class Record:
    """One trial as the store remembers it."""

    silicon: Silicon
    software: Software
    problem: Problem
    config: Config
    measurement: Measurement
    source_hash: str
    run: int
    when: str
    """UTC, ISO 8601."""
    family_hash: str = ""
    """Of the family's files: when it is unchanged, so is every `source_hash`."""
    imported_from: str | None = None
    """Where another store's trial came from; None for our own."""
    extra: str = ""
    """Fields of an imported trial that a newer gemm-tuner wrote, as a JSON object; empty without any."""
    number: int = field(default=0, compare=False)
    """Its number in the store; 0 until it is stored."""


@dataclass(frozen=True)
class Certificate:
    """The checks a configuration passed on one software; nothing is executed for a caller without one."""

    checks: tuple[str, ...]
    when: str


@dataclass(frozen=True)
class Champion:
    """The published configuration of (silicon, software, problem)."""

    silicon: Silicon
    software: Software
    problem: Problem
    config: Config
    rendered: Rendered
    time_ms: float | None
    noise: float | None
    """Half-width of the 95 % interval of `time_ms`, as a fraction of it."""
    certificate: Certificate | None
    reason: str
    when: str
    pinned: bool = False


def canonical_json(value: Any) -> str:
    """Compact JSON with sorted keys: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
