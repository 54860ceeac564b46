"""Run a service until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import sys
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tuner.model import MachineError
from tuner.service.app import create
from tuner.service.front import MOST_QUERY_BYTES
from tuner.service.settings import Settings

MOST_HEAD_BYTES = 32 * 1024
"""Request line and headers together."""
GRACE_S = 10
"""What is being answered when the service is told to stop may take this long."""
IDLE_S = 75
"""An open connection that asks for nothing is closed after this."""

TURN_S = 0.0005
"""Whoever makes an answer lets ready ones be sent after this."""

_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b'Content-Length: 46\r\n\r\n{"error":"the headers are longer than 32 KiB."}'
)


class Bounded(HttpToolsProtocol):
    """HTTP by httptools, which by itself would take in headers without end."""

    def __init__(self, *args: Any, **more: Any) -> None:
        """As its parent."""
        super().__init__(*args, **more)
        self._head = 0
        self._in_head = True

    def data_received(self, data: bytes) -> None:
        """Count what comes before the end of the headers."""
        if self._in_head:
            self._head += len(data)
            if self._head > MOST_HEAD_BYTES + MOST_QUERY_BYTES and b"\r\n\r\n" not in data:
                self.transport.write(_TOO_LARGE)
                self.transport.close()
                return
        super().data_received(data)

    def on_headers_complete(self) -> None:
        """The body has limits of its own."""
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The next request begins."""
        self._in_head, self._head = True, 0
        super().on_message_complete()


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises MachineError if it cannot."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
    except OSError as error:
        raise MachineError(f"there is no address {host!r} to listen on: {error.strerror}.") from error
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(2048)
    except OSError as error:
        found.close()
        said = f"{host}, port {port}, cannot be listened on: {error.strerror}; choose another with --port."
        raise MachineError(said) from error
    return found


def serve(settings: Settings, listening: socket.socket) -> None:
    """Answer requests on `listening` until SIGTERM or Ctrl-C; what is being answered then is finished first.

    The signal is delivered again at the end, as uvicorn does.
    """
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(
        create(settings),
        http=Bounded,
        loop="uvloop",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=GRACE_S,
    )
    sys.setswitchinterval(TURN_S)
    gc.collect()
    gc.freeze()  # what a service is made of is never garbage, and looking through it takes tens of milliseconds
    server = uvicorn.Server(config)
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(server.serve(sockets=[listening]))
