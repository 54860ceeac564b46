"""One name for one processor, however its drivers spell it; plain text in, plain text out.

Names are never cut: two names that agree in their first 50 characters are two names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_VENDORS = {
    "nvidia": "NVIDIA",
    "advanced micro devices": "AMD",
    "authenticamd": "AMD",
    "amd": "AMD",
    "genuineintel": "Intel",
    "intel": "Intel",
    "qualcomm": "Qualcomm",
    "imagination": "Imagination",
    "apple": "Apple",
    "hygon": "Hygon",
    "arm": "ARM",
}
_IMPLEMENTERS = {0x41: "ARM", 0x48: "HiSilicon", 0x4E: "NVIDIA", 0x51: "Qualcomm", 0x61: "Apple", 0xC0: "Ampere"}

_MARKS = re.compile(r"\((?:R|TM|C)\)|[®™©]", re.IGNORECASE)
_DRIVER_NOTES = re.compile(r"\s*\([^()]*\b(?:LLVM|DRM|ACO|radeonsi)\b[^()]*\)", re.IGNORECASE)
_TARGET_FLAGS = re.compile(r"\b(gfx[0-9a-f]+)(?::[a-z]+[+-])+")
_PCI_ID = re.compile(r"\s*\[0x[0-9a-fA-F]+\]")
_CPU_NOISE = re.compile(
    r"\s*@\s*[\d.]+\s*[GM]Hz|\s+(?:\d+|Dual|Quad|Six|Eight|Twelve|Sixteen)-Core(?= Processor)"
    r"|\s+with Radeon.*$|\bCPU\b|\bProcessor\b\s*$",
    re.IGNORECASE,
)
_POCL_PREFIX = re.compile(r"^(?:pthread|basic|cpu(?:-minimal)?|tbb)-(?:[a-z0-9._+-]+-(?=[A-Z]))?")


@dataclass(frozen=True)
class Processor:
    """What the operating system says of the host's processor."""

    vendor: str
    name: str


def vendor_name(*texts: str) -> str:
    """The short name of the maker that the first telling one of `texts` speaks of, else the first of them, cleaned."""
    for text in texts:
        words = text.lower()
        for known, short in _VENDORS.items():
            if re.search(rf"\b{known}", words):
                return short
    return _clean(texts[0]) or "unknown"


def device_name(name: str, vendor: str, board: str = "") -> str:
    """The processor's name without what changes with its driver: versions, target flags, trade marks.

    `board` is the marketing name where the driver's own name is only the architecture ("gfx906:sramecc+:xnack-").
    """
    text = _TARGET_FLAGS.sub(r"\1", _DRIVER_NOTES.sub("", _MARKS.sub(" ", name)))
    without_id = _PCI_ID.sub("", text)
    if _clean(without_id).lower() not in (f"{vendor} Graphics".lower(), "graphics", ""):
        text = without_id
    text = _POCL_PREFIX.sub("", _clean(text))
    if board.strip() and _clean(board) != text:
        text = f"{device_name(board, vendor)} ({text})"
    return _with_vendor(_clean(text), vendor)


def processor(cpuinfo: str) -> Processor | None:
    """The processor in the text of /proc/cpuinfo, or None where that does not name one.

    Family and model numbers are part of the name: virtual machines hide the marketing name.
    """
    fields = _first_fields(cpuinfo)
    if "model name" in fields:
        vendor = vendor_name(fields.get("vendor_id", ""), fields["model name"])
        name = _with_vendor(_clean(_CPU_NOISE.sub(" ", _MARKS.sub(" ", fields["model name"]))), vendor)
        numbers = [
            f"{label} {fields[key]}" for key, label in (("cpu family", "family"), ("model", "model")) if key in fields
        ]
        return Processor(vendor, f"{name} ({' '.join(numbers)})" if numbers else name)
    if "cpu implementer" in fields and "cpu part" in fields:
        implementer = fields["cpu implementer"]
        vendor = _IMPLEMENTERS.get(int(implementer, 16), implementer)
        return Processor(vendor, f"{vendor} (implementer {implementer} part {fields['cpu part']})")
    return None


def c_level(c_version: str) -> int:
    """100·major + 10·minor of a string such as "OpenCL C 1.2 PoCL"; 100 if it cannot be read."""
    match = re.search(r"OpenCL C (\d+)\.(\d+)", c_version)
    return 100 * int(match[1]) + 10 * int(match[2]) if match else 100


def _first_fields(cpuinfo: str) -> Mapping[str, str]:
    fields: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        key, separator, value = line.partition(":")
        if separator:
            fields.setdefault(key.strip().lower(), value.strip())
    return fields


def _with_vendor(name: str, vendor: str) -> str:
    """Older drivers leave the maker out ("GeForce RTX 2080 Ti"), newer ones put it first: always first here."""
    said = vendor.lower() in name.lower().split()
    return name if said else f"{vendor} {name}".strip()


def _clean(text: str) -> str:
    return " ".join(text.split())
