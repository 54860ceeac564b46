"""What a driver's or device's refusal is, in a word of ours; no pyopencl, so that everybody may catch it."""

from __future__ import annotations

from tuner.model import Verdict


class Refused(Exception):
    """The driver or the device refused; the message is for people."""

    def __init__(self, verdict: Verdict, message: str, *, poisoned: bool = False) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.poisoned = poisoned
        """The context can't be trusted any more: after one error some drivers fail every later call."""
