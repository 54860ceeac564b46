"""What a service is told when it starts, and what it refuses to start with."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuner.model import Device, MachineError, UserError

DEFAULT_PORT = 8765
TOKEN_VARIABLE = "GEMM_TUNER_TOKEN"
LEAST_TOKEN = 16
"""Characters: what is shorter is guessed, not known."""


@dataclass(frozen=True)
class Settings:
    """What one service serves."""

    db: str | None
    """As `--db` takes it."""
    families: Mapping[str, Any] = field(compare=False)
    here: Callable[[], Sequence[Device]] = tuple
    """Finds the devices of this machine, which takes seconds: called once, while the service answers already."""
    described: tuple[Device, ...] = ()
    """Devices of other machines, from files that `gemm-tuner devices --json` wrote there."""
    token: str | None = field(default=None, repr=False)
    """What writers must show; None: nothing can be written."""
    max_age_s: float | None = None
    """`/healthz` fails if the last complete night is older."""


def read_token(file: Path | None, environment: Mapping[str, str]) -> str | None:
    """The token in `file`, else in the environment, else None. Raises UserError for one that is none or too short."""
    if file is None:
        where, text = TOKEN_VARIABLE, environment.get(TOKEN_VARIABLE)
        if text is None:
            return None
    else:
        try:
            where, text = str(file), file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"the token cannot be read from {file}: {error}.") from error
    token = text.strip()
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UserError(
            f"{where} holds no usable token: it must have at least {LEAST_TOKEN} ASCII characters and no blanks."
        )
    return token


def refuse_open_bind(host: str, token: str | None) -> None:
    """Raise UserError if others than this machine could reach `host` and there is no token."""
    if token is None and not is_loopback(host):
        raise UserError(
            f"{host} can be reached from other machines, so writers need a token: --token-file, or {TOKEN_VARIABLE}."
        )


def is_loopback(host: str) -> bool:
    """Every address that `host` stands for is this machine's own. Raises MachineError for a name that is unknown."""
    try:
        found = socket.getaddrinfo(host or "0.0.0.0", None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise MachineError(f"there is no address {host!r} to listen on; use 127.0.0.1.") from error
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in found)
