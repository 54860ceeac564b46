"""The first to see a request: sends what was answered before, refuses what is malformed, and counts."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

from tuner.service.kept import Kept, Ready, refusal
from tuner.service.metrics import Metrics

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_QUERY_BYTES = 16 * 1024
MOST_PARAMETERS = 32
MOST_BODY_BYTES = 256 * 1024
BODY_S = 10.0
MISSES = "/v1/misses"
NAMED = frozenset({"/v1/lookup", "/v1/kernel", "/v1/champions", "/v1/devices", MISSES, "/healthz", "/metrics"})


class Refused(Exception):
    """A request that goes no further."""

    def __init__(self, ready: Ready) -> None:
        """Answer this."""
        super().__init__()
        self.ready = ready


class Front:
    """An ASGI application before another one."""

    def __init__(self, app: App, kept: Kept, metrics: Metrics, token: str | None) -> None:
        """What is not known before is asked of `app`; writers must show `token`."""
        self.app, self._kept, self._metrics = app, kept, metrics
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, path, status = time.perf_counter(), scope["path"], 500
        try:
            found = self._kept.get(path, scope["query_string"]) if scope["method"] == "GET" else None
            if found is not None:
                status = await respond(found, scope, send)
                return
            try:
                receive = await self._examined(scope, receive)
            except Refused as refused:
                status = await respond(refused.ready, scope, send)
                return

            async def noted(message: Message) -> None:
                nonlocal status
                status = message.get("status", status)
                await send(message)

            await self.app(scope, receive, noted)
        finally:
            route = path if path in NAMED else "/" if status < 400 else "other"
            self._metrics.request(route, status, time.perf_counter() - began)

    async def _examined(self, scope: Scope, receive: Receive) -> Receive:
        """Where the application is to read the body from. Raises Refused."""
        path: str = scope["path"]
        if path.startswith("/v1/"):
            _check_query(scope["query_string"])
        if scope["method"] in ("GET", "HEAD"):
            return receive
        headers = _headers(scope)
        if path == MISSES and scope["method"] == "POST":
            self._check_writer(headers)
            kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
            if kind != b"application/json":
                raise Refused(refusal(415, "the body must be JSON; send it with Content-Type: application/json."))
        body = await _read(headers, receive)
        sent = False

        async def replay() -> Message:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        return replay

    def _check_writer(self, headers: Mapping[bytes, bytes]) -> None:
        if self._token is None:
            raise Refused(refusal(403, "this service takes nothing in; start it with --token-file to allow that."))
        scheme, _, shown = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(shown.strip(), self._token):
            said = "writing needs the service's token; send it as Authorization: Bearer TOKEN."
            raise Refused(refusal(401, said, {"WWW-Authenticate": "Bearer"}))


async def respond(ready: Ready, scope: Scope, send: Send) -> int:
    """Send it, or word that it has not changed; returns the status."""
    ready.count()
    wanted = next((value for name, value in scope["headers"] if name == b"if-none-match"), b"")
    if wanted and scope["method"] == "GET" and ready.unchanged_for(wanted):
        await send({"type": "http.response.start", "status": 304, "headers": ready.bare_headers})
        await send({"type": "http.response.body", "body": b""})
        return 304
    await send({"type": "http.response.start", "status": ready.status, "headers": ready.headers})
    await send({"type": "http.response.body", "body": ready.body})
    return ready.status


def _headers(scope: Scope) -> dict[bytes, bytes]:
    return dict(scope["headers"])


def _check_query(query: bytes) -> None:
    if len(query) > MOST_QUERY_BYTES:
        raise Refused(refusal(414, f"the query is longer than {MOST_QUERY_BYTES} bytes; shorten it."))
    try:
        found = parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
    except ValueError:
        raise Refused(refusal(400, f"the query has more than {MOST_PARAMETERS} parameters.")) from None
    names = [name for name, _ in found]
    for name in names:
        if names.count(name) > 1:
            raise Refused(refusal(400, f"the parameter {name[:40]!r} is given twice; give it once."))


async def _read(headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
    """The whole body. Raises Refused if it is too long or takes too long."""
    too_long = Refused(refusal(413, f"the body is longer than {MOST_BODY_BYTES} bytes.", {"Connection": "close"}))
    said = headers.get(b"content-length", b"0")
    if said.isdigit() and len(said) < 20 and int(said) > MOST_BODY_BYTES:
        raise too_long
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    break
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > MOST_BODY_BYTES:
                    raise too_long
                if not message.get("more_body", False):
                    break
    except TimeoutError:
        late = refusal(408, f"the body did not arrive within {BODY_S:.0f} s.", {"Connection": "close"})
        raise Refused(late) from None
    return b"".join(parts)
