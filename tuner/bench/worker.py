"""The measuring process: opens one device, then answers requests until it is poisoned, killed or orphaned."""

from __future__ import annotations

import os
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.bench.devices import prepare_child
from tuner.bench.messages import (
    Answer,
    Ask,
    CaseRun,
    CheckOutcome,
    Done,
    Gone,
    Hello,
    Mistake,
    Probe,
    Pulse,
    Race,
    Reply,
    Request,
    Rounds,
    Trial,
)
from tuner.bench.words import forget_words
from tuner.model import Device, MachineError, Measurement, Verdict

if TYPE_CHECKING:
    from tuner.bench.desk import Desk


def main(pipe: Connection, device: Device, vendors: Path, cache: Path) -> None:
    """Target of the spawned process. It ends without the driver's own tear-down, which may hang after an error."""
    prepare_child(vendors, cache)
    try:
        _serve(pipe, device)
    except (EOFError, BrokenPipeError):
        pass  # the parent is gone, or has no more to ask
    except MachineError as error:
        pipe.send(Gone(str(error)))
    except Exception:
        pipe.send(Mistake(traceback.format_exc()))
    os._exit(0)


def _serve(pipe: Connection, device: Device) -> None:
    desk = _open_desk(pipe, device)
    pipe.send(Hello())
    while True:
        request = pipe.recv()
        forget_words()
        reply = _reply(desk, request)
        pipe.send(reply)
        if isinstance(reply, Mistake) or (isinstance(reply, Done) and reply.poisoned):
            return


def _open_desk(pipe: Connection, device: Device) -> Desk:
    """Import what only children import, and open the device: the slow part of a start, done while standing by."""
    from tuner.bench.checker import Checker
    from tuner.bench.desk import Desk
    from tuner.opencl.run import Machine

    def leave(name: str) -> None:
        pipe.send(Ask(name))
        pipe.recv()

    machine = Machine(device)
    return Desk(machine, Checker(machine, pipe.send), pipe.send, leave)


def _reply(desk: Desk, request: Request) -> Reply:
    from tuner.opencl.refusal import Refused

    try:
        answer = _answer(desk, request)
    except Refused as refused:
        return Done(_refusal(request, refused.verdict, str(refused)), refused.poisoned)
    except MemoryError as error:
        return Done(_refusal(request, Verdict.UNSUPPORTED, f"the host has too little memory: {error}"), poisoned=True)
    except (EOFError, BrokenPipeError):
        raise
    except Exception:
        return Mistake(traceback.format_exc())
    return Done(answer, poisoned=isinstance(answer, Rounds) and answer.failed is not None)


def _answer(desk: Desk, request: Request) -> Answer:
    from tuner.bench.certificate import run_case
    from tuner.bench.probe import run_probe
    from tuner.bench.race import run_race
    from tuner.bench.trial import run_trial

    match request:
        case Trial():
            return run_trial(desk, request)
        case CaseRun():
            return run_case(desk, request)
        case Race():
            return run_race(desk, request)
        case Probe():
            return run_probe(desk, request)


def _refusal(request: Request, verdict: Verdict, message: str) -> Answer:
    match request:
        case Trial():
            return Measurement(verdict, message=message)
        case CaseRun():
            return CheckOutcome(verdict, (), message)
        case Race():
            return Rounds((), 0, verdict, message)
        case Probe():
            return Pulse(message=f"{verdict}: {message}")
