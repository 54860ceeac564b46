"""The `gemm-tuner` command: its subcommands, and how errors become one sentence and an exit status."""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import re
import signal
import sys
from pathlib import Path
from typing import TextIO

import typer

from tuner.cli import (
    bench_command,
    champion_commands,
    db_commands,
    device_commands,
    interchange_commands,
    ladder_command,
    lookup_command,
    misses_command,
    nightly_command,
    replay_command,
    report_command,
    serve_command,
    tune_command,
    verify_command,
)
from tuner.model import MachineError, UserError

OK, FAILED, USAGE, REGRESSION, INTERRUPTED = 0, 1, 2, 3, 130

app = typer.Typer(
    name="gemm-tuner",
    help="Find, prove and remember the fastest GEMM kernel configuration for each OpenCL device.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command("devices")(device_commands.devices)
app.command("tune")(tune_command.tune)
app.command("lookup")(lookup_command.lookup)
app.command("misses")(misses_command.misses)
app.command("verify")(verify_command.verify)
app.command("bench")(bench_command.bench)
app.command("ladder")(ladder_command.ladder)
app.command("replay")(replay_command.replay)
app.command("report")(report_command.report)
app.command("serve")(serve_command.serve)
app.command("study")(report_command.study)
app.command("champions")(champion_commands.champions)
app.command("history")(champion_commands.history)
app.command("pin")(verify_command.pin)
app.command("unpin")(champion_commands.unpin)
app.command("withdraw")(champion_commands.withdraw)
app.command("rollback")(champion_commands.rollback)
app.add_typer(nightly_command.app, name="nightly")
app.command("export")(interchange_commands.export)
app.command("import")(interchange_commands.import_)
app.add_typer(db_commands.app, name="db")


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit with its status: 0 done, 1 failure, 2 bad usage, 3 regression found, 130 interrupted."""
    _prepare_streams()
    signal.signal(signal.SIGTERM, _interrupt)
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """As `main`, returning the status."""
    try:
        _refuse_negative(sys.argv[1:] if arguments is None else arguments)
        result = app(args=arguments, prog_name="gemm-tuner", standalone_mode=False)
        sys.stdout.flush()
    except (typer.Abort, KeyboardInterrupt):
        return _say("interrupted.", INTERRUPTED)
    except typer.exceptions.TyperException as error:
        said = error.format_message().rstrip(".")
        return _say(f"{said}. See gemm-tuner --help." if said else "", USAGE)
    except MachineError as error:
        return _say(str(error), FAILED)
    except UserError as error:
        return _say(str(error), USAGE)
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC, errno.EIO):
            raise
        _silence(sys.stdout)
        return _say("" if error.errno == errno.EPIPE else f"the output cannot be written: {error.strerror}.", FAILED)
    if result == INTERRUPTED:
        return _say("interrupted; what was found is kept.", INTERRUPTED)
    return result if isinstance(result, int) else OK


def _prepare_streams() -> None:
    """A stream may be closed, or know fewer characters than we use; neither is a reason to fail."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open while we run
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _silence(stream: TextIO) -> None:
    """Whatever is still to be written goes nowhere, also at the end of the process."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _interrupt(number: int, frame: object) -> None:
    """A scheduler's SIGTERM ends a command as Ctrl-C does: in order, with everything found so far kept."""
    raise KeyboardInterrupt


def _refuse_negative(arguments: list[str]) -> None:
    """A negative number would be taken for an unknown option, which says nothing to whoever typed it."""
    for argument in arguments:
        if re.fullmatch(r"-\d+", argument):
            raise UserError(f"{argument} is negative; sizes, counts and seeds are whole numbers from 0.")


def _say(message: str, status: int) -> int:
    try:
        sys.stdout.flush()
    except OSError:
        _silence(sys.stdout)
    if message:
        print(f"gemm-tuner: {message}", file=sys.stderr)
    return status
