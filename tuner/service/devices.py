"""Which device a request means: by key or part of a name, among those published and those described."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tuner.lookup import Index
from tuner.model import Device, Facts, Silicon, Software

NAMED = 5
"""Devices that a refusal lists."""

ASSUMED = Facts(fp64=True)
"""The limits of a device that was never described: what any OpenCL device has. Its types are not known, so none is
refused; nothing that is served for it without a certificate claims to work."""


class FactsFrom(StrEnum):
    """How the limits that rules use are known."""

    HERE = "here"
    """The device is on the service's own machine."""
    DESCRIBED = "described"
    """A file of `gemm-tuner devices --json` from its machine says so."""
    ASSUMED = "assumed"
    """They are not known: what any OpenCL device has is taken for granted, and no more."""


@dataclass(frozen=True)
class Known:
    """A device that can be asked about."""

    device: Device
    facts_from: FactsFrom
    champions: int

    @property
    def key(self) -> str:
        """Silicon and software in one text."""
        return f"{self.device.silicon.key} | {self.device.software.key}"


class NotOne(LookupError):
    """No device, or more than one, is meant; the message is a sentence. `unknown`: it is none."""

    def __init__(self, message: str, *, unknown: bool) -> None:
        """Say it."""
        super().__init__(message)
        self.unknown = unknown


class Directory:
    """The devices of one snapshot, and those given when the service started."""

    def __init__(self, index: Index, here: Sequence[Device], described: Sequence[Device]) -> None:
        """Of two descriptions of one device that of this machine counts."""
        self._index = index
        facts: dict[tuple[Silicon, Software], tuple[Device, FactsFrom]] = {}
        for devices, source in ((described, FactsFrom.DESCRIBED), (here, FactsFrom.HERE)):
            for device in devices:
                facts[device.silicon, device.software] = (device, source)
        listed = index.devices
        known = {}
        for key in (*listed, *(key for key in facts if key not in listed)):
            device, source = facts.get(key, (Device(*key, "", ASSUMED), FactsFrom.ASSUMED))
            known[key] = Known(device, source, listed.get(key, 0))
        self.all = sorted(known.values(), key=lambda one: one.key)

    def find(self, text: str, driver: str | None = None) -> Known:
        """The device of that key, or with `text` in its name, key or platform. Raises NotOne.

        `driver` is the software's key or part of it; without, what was published last on that processor counts.
        """
        found = _fitting(text, self.all)
        if not found:
            raise NotOne(f"no device is called {shown(text)}; GET /v1/devices lists those known.", unknown=True)
        if driver is not None:
            before, found = found, [one for one in found if _is_driver(driver, one.device.software)]
            exact = [one for one in found if driver in (one.device.software.driver, one.device.software.key)]
            found = exact or found
            if not found:
                there = _named(one.device.software.driver for one in before)
                said = f"no driver {shown(driver)} is known for {shown(text)}; there is: {there}."
                raise NotOne(said, unknown=True)
        silicons = {one.device.silicon for one in found}
        if len(silicons) > 1:
            there = _named(silicon.key for silicon in sorted(silicons))
            raise NotOne(f"{shown(text)} means more than one device; say which: {there}.", unknown=False)
        return found[0] if len(found) == 1 else self._latest(found)

    def _latest(self, found: Sequence[Known]) -> Known:
        """Of several drivers of one processor the one on which something was published last."""
        return max(found, key=lambda one: (self._index.latest(one.device.silicon, one.device.software), one.key))


def _fitting(text: str, known: Iterable[Known]) -> list[Known]:
    known = list(known)
    exact = [one for one in known if text == one.key] or [one for one in known if text == one.device.silicon.key]
    if exact:
        return exact
    sought = text.casefold()
    named = [one for one in known if sought == one.device.name.casefold()]
    processors = [one for one in known if sought in one.device.silicon.key.casefold()]
    return named or processors or [one for one in known if sought in one.device.software.key.casefold()]


def _is_driver(text: str, software: Software) -> bool:
    return text.casefold() in software.key.casefold()


def shown(text: str) -> str:
    """A name as a sentence quotes it."""
    return repr(text if len(text) <= 60 else f"{text[:60]}...")


def _named(names: Iterable[str]) -> str:
    found = list(dict.fromkeys(names))
    more = f"; and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return "; ".join(found[:NAMED]) + more
