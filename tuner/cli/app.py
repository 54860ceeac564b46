"""The `gemm-tuner` command: its subcommands, and how errors become one sentence and an exit status."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys

import typer

from tuner.cli import champion_commands, db_commands, device_commands, lookup_command, tune_command, verify_command
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
app.command("verify")(verify_command.verify)
app.command("champions")(champion_commands.champions)
app.command("history")(champion_commands.history)
app.command("pin")(verify_command.pin)
app.command("unpin")(champion_commands.unpin)
app.command("withdraw")(champion_commands.withdraw)
app.command("rollback")(champion_commands.rollback)
app.add_typer(db_commands.app, name="db")


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit with its status: 0 done, 1 failure, 2 bad usage, 3 regression found, 130 interrupted."""
    signal.signal(signal.SIGTERM, _interrupt)
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """As `main`, returning the status."""
    try:
        _refuse_negative(sys.argv[1:] if arguments is None else arguments)
        result = app(args=arguments, prog_name="gemm-tuner", standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        return _say("interrupted.", INTERRUPTED)
    except typer.exceptions.TyperException as error:
        return _say(f"{error.format_message().rstrip('.')}. See gemm-tuner --help.", USAGE)
    except MachineError as error:
        return _say(str(error), FAILED)
    except UserError as error:
        return _say(str(error), USAGE)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return result if isinstance(result, int) else OK


def _interrupt(number: int, frame: object) -> None:
    """A scheduler's SIGTERM ends a command as Ctrl-C does: in order, with everything found so far kept."""
    raise KeyboardInterrupt


def _refuse_negative(arguments: list[str]) -> None:
    """A negative number would be taken for an unknown option, which says nothing to whoever typed it."""
    for argument in arguments:
        if re.fullmatch(r"-\d+", argument):
            raise UserError(f"{argument} is negative; sizes, counts and seeds are whole numbers from 0.")


def _say(message: str, status: int) -> int:
    sys.stdout.flush()
    print(f"gemm-tuner: {message}", file=sys.stderr)
    return status
