"""`gemm-tuner serve`: look-ups, kernels and reports over HTTP."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tuner.bench import list_devices
from tuner.cli import options as o
from tuner.cli.output import console, print_json
from tuner.cli.wiring import the_families
from tuner.model import Device, UserError
from tuner.nightly.entries import seconds_of
from tuner.service import DEFAULT_PORT, TOKEN_VARIABLE, Settings, read_token, refuse_open_bind

_NEEDED = ("fastapi", "uvicorn", "httptools", "uvloop", "prometheus_client")


def serve(
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any that is free.")] = DEFAULT_PORT,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help=f"What writers must show. [default: {TOKEN_VARIABLE}]"),
    ] = None,
    max_age: Annotated[
        str | None,
        typer.Option("--max-age", metavar="TIME", help="/healthz fails if the last complete night is older: 26h."),
    ] = None,
    devices: Annotated[
        list[Path] | None,
        typer.Option("--devices", metavar="FILE", help="What gemm-tuner devices --json said elsewhere; repeatable."),
    ] = None,
    family_dir: o.FamilyDirOption = None,
    db: o.DbOption = None,
    json_output: o.JsonOption = False,
) -> int:
    """Answer look-ups over HTTP, and show the report's pages, until told to stop."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(f"gemm-tuner serve needs {missing[0]}; install it: pip install 'gemm-tuner[serve]'.")
    token = read_token(token_file, os.environ)
    refuse_open_bind(host, token)
    settings = Settings(
        db=db,
        families=the_families([], family_dir or []),
        here=_here,
        described=tuple(device for path in devices or () for device in read_devices(path)),
        token=token,
        max_age_s=None if max_age is None else seconds_of(max_age),
    )
    from tuner.service.run import bound, serve

    with bound(host, port) as listening:
        address, number = listening.getsockname()[:2]
        url = f"http://{f'[{address}]' if ':' in address else address}:{number}"
        if json_output:
            print_json({"url": url, "pid": os.getpid(), "writes": token is not None})
        else:
            console().print(f"{url}  (Ctrl-C ends it; the API is described in {url}/openapi.json)")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):  # told to stop, it stopped: that is what it is for
            serve(settings, listening)
    return 0


def read_devices(path: Path) -> list[Device]:
    """The devices in a file that `gemm-tuner devices --json` wrote. Raises UserError."""
    try:
        found: Any = json.loads(path.read_text("utf-8"))
        entries = found["devices"]
        return [Device.from_json(entry) for entry in entries if entry.get("works", True)]
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UserError(f"{path} is not what gemm-tuner devices --json writes: {str(error) or error!r}") from error


def _here() -> Sequence[Device]:
    """The devices of this machine; none, with a word about it, if the drivers fail."""
    try:
        return [report.device for report in list_devices() if report.works]
    except UserError as error:
        print(f"gemm-tuner: {error} Only published and described devices are served.", file=sys.stderr, flush=True)
        return []
