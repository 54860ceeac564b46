"""What the service answers, as the OpenAPI document states it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from tuner.lookup import Origin
from tuner.service.devices import FactsFrom


class Refusal(BaseModel):
    """Why there is no answer."""

    error: str = Field(description="One or two sentences: what is wrong, what to do.")


class SiliconSaid(BaseModel):
    """The processor itself."""

    key: str
    vendor: str
    name: str
    kind: str
    compute_units: int
    memory_gib: int


class SoftwareSaid(BaseModel):
    """The driver and compiler."""

    key: str
    platform: str
    driver: str
    c_version: str
    device_string: str


class DeviceSaid(BaseModel):
    """A device that can be asked about."""

    key: str
    silicon: SiliconSaid
    software: SoftwareSaid
    champions: int
    facts_from: FactsFrom = Field(description="How the limits that rules use are known.")


class DevicesSaid(BaseModel):
    """Every device that can be asked about."""

    devices: list[DeviceSaid]


class ProblemSaid(BaseModel):
    """A product."""

    m: int
    n: int
    k: int
    batch: int
    dtype: str
    trans_a: bool
    trans_b: bool
    math: str
    align: int


class ScratchSaid(BaseModel):
    """A buffer that a kernel takes after the common arguments; a name that returns is the same buffer.

    One that is `zeroed` must be all zeros before the first product; every product leaves it so.
    """

    name: str
    bytes: int
    zeroed: bool


class LaunchSaid(BaseModel):
    """A kernel to run; sizes in work-items."""

    kernel: str
    global_size: list[int]
    local_size: list[int]
    scratch: list[ScratchSaid]


class LookupSaid(BaseModel):
    """The best configuration known, and why that one."""

    device: str
    driver: str
    facts_from: FactsFrom
    problem: ProblemSaid
    family: str
    config: dict[str, int | str]
    origin: Origin
    certified: bool = Field(description="This very source passed a certificate's checks on this driver.")
    gflops: float | None
    distance: float | None = Field(description="From the problem it was tuned for, in doublings.")
    evidence: dict[str, Any]
    launches: list[LaunchSaid]
    build_options: str
    source_hash: str


class KernelSaid(LookupSaid):
    """A certified configuration with its source."""

    source: str = Field(description="The kernels, OpenCL C.")
    passed_over: list[str] = Field(description="Better answers that are not certified on this driver.")


class ChampionSaid(BaseModel):
    """A published configuration."""

    device: str
    software: str
    problem: ProblemSaid
    family: str
    config: dict[str, int | str]
    time_ms: float | None
    noise: float | None
    gflops: float | None
    certified: bool
    pinned: bool
    reason: str
    when: str
    source_hash: str


class ChampionsSaid(BaseModel):
    """Some of the published configurations."""

    total: int
    next: int | None = Field(description="The offset of what follows; null at the end.")
    champions: list[ChampionSaid]


class CountedSaid(BaseModel):
    """What became of reported misses."""

    counted: int = Field(description="So many questions were counted.")
    known: int = Field(description="So many have a certified champion, and were not counted.")


class NightSaid(BaseModel):
    """The last night that went to its end."""

    name: str
    finished: str
    age_seconds: float


class HealthSaid(BaseModel):
    """How the service stands."""

    ok: bool
    message: str
    last_complete_night: NightSaid | None
    champions: int
    snapshot_age_seconds: float | None = Field(description="Since it was published; null if there is none.")
