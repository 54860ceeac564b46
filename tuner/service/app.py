"""The application: routes, their OpenAPI document, and how errors become one sentence."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from tuner.model import MachineError, UserError
from tuner.report.html import version
from tuner.service import said
from tuner.service.answers import Answers, Uncertified
from tuner.service.asked import Listing, Question, Report
from tuner.service.desk import LIVE, NIGHT, Desk, answer_pages, answer_quick
from tuner.service.devices import NotOne
from tuner.service.front import Front
from tuner.service.health import Health
from tuner.service.kept import Kept, Ready, ready, ready_bytes, refusal
from tuner.service.metrics import CONTENT_TYPE, Metrics
from tuner.service.settings import Settings
from tuner.service.shape import champion_json, device_json, kernel_json, lookup_json

PAGES_S, QUICK_S = 300.0, 30.0
LONGEST_PATH = 500

_log = logging.getLogger("tuner.service")

_LOOKUP_REFUSALS = (400, 404, 409, 414, 422)


def create(settings: Settings) -> Front:
    """The ASGI application of one service."""
    service = _Service(settings)
    return Front(service.app, service.kept, service.metrics, settings.token)


class _Service:
    """The routes and what they answer from."""

    def __init__(self, settings: Settings) -> None:
        self.answers = Answers(settings)
        self.kept, self.metrics = Kept(self.answers.snapshot), Metrics()
        self.pages = Desk(answer_pages, settings.db, PAGES_S)
        self.quick = Desk(answer_quick, settings.db, QUICK_S)
        self.health = Health(self.answers, self.quick.ask, NIGHT, settings.max_age_s)
        self._here = settings.here
        self.app = FastAPI(
            title="gemm-tuner",
            version=version(),
            description="Which GEMM kernel configuration, and which kernel source, for this device and this product?",
            docs_url=None,
            redoc_url=None,
            lifespan=self._lifespan,
            responses={422: {"model": said.Refusal, "description": "What was asked makes no sense."}},
        )
        _handle_errors(self.app)
        self._add_routes()

    @asynccontextmanager
    async def _lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        threading.Thread(target=self._look_around, name="gemm-tuner-devices", daemon=True).start()
        yield
        self.pages.close()
        self.quick.close()
        self.answers.misses.flush()

    def _look_around(self) -> None:
        self.answers.see(self._here())
        self.kept.forget()

    def _add_routes(self) -> None:
        app, get = self.app, self.app.get
        get("/v1/devices", response_model=said.DevicesSaid, responses=_refusals(400, 414))(self.devices)
        get("/v1/lookup", response_model=said.LookupSaid, responses=_refusals(*_LOOKUP_REFUSALS))(self.lookup)
        get("/v1/kernel", response_model=said.KernelSaid, responses=_refusals(*_LOOKUP_REFUSALS))(self.kernel)
        get("/v1/champions", response_model=said.ChampionsSaid, responses=_refusals(*_LOOKUP_REFUSALS))(self.champions)
        app.post(
            "/v1/misses",
            response_model=said.CountedSaid,
            status_code=202,
            responses=_refusals(400, 401, 403, 404, 408, 409, 413, 414, 415, 422),
            dependencies=[Depends(HTTPBearer(auto_error=False, description="The service's token."))],
        )(self.take_misses)
        health: dict[int | str, dict[str, Any]] = {
            503: {"model": said.HealthSaid, "description": "The last complete night is too old."}
        }
        get("/healthz", response_model=said.HealthSaid, responses=health)(self.healthz)
        get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})(self.prometheus)
        get("/live.json", include_in_schema=False)(self.live)
        get("/", include_in_schema=False)(self.page)
        get("/{path:path}", include_in_schema=False)(self.page)

    # Look-ups: threads, so that one that renders a kernel holds up no other

    def devices(self, request: Request) -> Response:
        """Every device that can be asked about."""
        return self._kept(request, lambda: ready({"devices": [device_json(o) for o in self.answers.directory().all]}))

    def lookup(self, request: Request, question: Annotated[Question, Query()]) -> Response:
        """The best configuration known for a product on a device, its origin, and whether it is certified there."""

        def answer() -> Ready:
            found = self.answers.lookup(question)
            return ready(lookup_json(found), count=self._count(found))

        return self._kept(request, answer)

    def kernel(self, request: Request, question: Annotated[Question, Query()]) -> Response:
        """The source of the best kernel that is certified on the asked device and driver; 409 if none is."""

        def answer() -> Ready:
            try:
                found, passed = self.answers.kernel(question)
            except Uncertified as none:
                return ready({"error": str(none)}, 409, count=self._count(self.answers.lookup(question)))
            return ready(kernel_json(found, passed), count=self._count(found))

        return self._kept(request, answer)

    def champions(self, request: Request, listing: Annotated[Listing, Query()]) -> Response:
        """What is published, some at a time."""

        def answer() -> Ready:
            total, found = self.answers.champions(listing)
            after = listing.offset + listing.limit
            rows = [champion_json(one) for one in found]
            return ready({"total": total, "next": after if after < total else None, "champions": rows})

        return self._kept(request, answer)

    def take_misses(self, report: Report) -> Response:
        """Count what programs asked for in vain, for the nightly job to tune."""
        counted, known = self.answers.report(report)
        self.metrics.missed(counted)
        return _response(ready({"counted": counted, "known": known}, 202, versioned=False))

    def _count(self, found: Any) -> Callable[[], None]:
        count = self.metrics.lookup(found.answer.origin.value, found.answer.certified)
        missed = self.answers.counter(found)
        if missed is None:
            return count

        def both() -> None:
            count()
            missed.count()

        return both

    def _kept(self, request: Request, make: Callable[[], Ready]) -> Response:
        """What `make` says, kept for whoever asks the same."""
        index = self.answers.snapshot.index
        found = make()
        self.kept.put(request.scope["path"], request.scope["query_string"], index, found, make)
        found.count()
        return _response(found, request)

    # Everything else

    async def healthz(self) -> Response:
        """Whether the service and the nights behind it are well."""
        ok, stands = await self.health.check()
        return _response(ready(stands, 200 if ok else 503, versioned=False))

    async def prometheus(self) -> Response:
        """Counts and times, in the text format of Prometheus."""
        _, stands = await self.health.check()
        return _response(ready_bytes(self.metrics.text(stands), CONTENT_TYPE, versioned=False))

    async def live(self) -> Response:
        """Searches in progress."""
        return _response(ready(await self.quick.ask(LIVE), versioned=False))

    async def page(self, request: Request, path: str = "") -> Response:
        """A page of the report."""
        held = request.headers.get("if-none-match", "")
        known = len(path) <= LONGEST_PATH and path.isprintable()
        found = await self.pages.ask(f"{path or 'index.html'}\n{held}") if known else None
        if found is None:
            return _response(
                refusal(404, "there is no such page; the report begins at /, the API is in /openapi.json.")
            )
        return _response(found, request)


def _response(found: Ready, request: Request | None = None) -> Response:
    if request is not None and found.unchanged_for(request.headers.get("if-none-match", "").encode("latin-1")):
        response = Response(status_code=304)
        response.raw_headers = list(found.bare_headers)
        return response
    response = Response(found.body, found.status)
    response.raw_headers = list(found.headers)
    return response


_MEANINGS = {
    400: "The request is malformed.",
    401: "The token is missing or wrong.",
    403: "The service takes nothing in.",
    404: "There is no such device.",
    408: "The body did not arrive in time.",
    409: "It cannot be had: no kernel is certified there, the device lacks it, or more than one device is meant.",
    413: "The body is too long.",
    414: "The query is too long.",
    415: "The body is no JSON.",
    422: "What was asked makes no sense.",
}


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": said.Refusal, "description": _MEANINGS[status]} for status in statuses}


def _handle_errors(app: FastAPI) -> None:
    """Whatever goes wrong, the answer is {"error": one sentence}."""

    def refuse(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
        return _response(refusal(status, sentence, headers))

    async def invalid(request: Request, error: Any) -> Response:
        return refuse(422, sentence_of(error.errors()))

    async def http(request: Request, error: Any) -> Response:
        words = {404: "there is nothing here", 405: f"{request.method[:20]} is not for this address"}
        said = words.get(error.status_code, str(error.detail).rstrip("."))
        return refuse(error.status_code, f"{said}; see /openapi.json.", error.headers)

    async def unknown(request: Request, error: Any) -> Response:
        return refuse(404 if error.unknown else 409, str(error))

    async def user(request: Request, error: Any) -> Response:
        return refuse(409, str(error))

    async def machine(request: Request, error: Any) -> Response:
        return refuse(503, str(error), {"Retry-After": "5"})

    async def ours(request: Request, error: Any) -> Response:
        return refuse(500, "this is a mistake of gemm-tuner's; its log says more.")

    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(NotOne, unknown)
    app.add_exception_handler(UserError, user)
    app.add_exception_handler(MachineError, machine)
    app.add_exception_handler(Exception, ours)


_KNOWN = {
    "device": "give its name or a part of it, GET /v1/devices lists those known",
    "driver": "leave it out, or give a version that GET /v1/devices lists",
    "misses": "give those to count, as /openapi.json says",
}
"""What to do about one that is missing or empty."""


def sentence_of(errors: Any) -> str:
    """The first of pydantic's errors in words."""
    first = errors[0]
    place = [str(part) for part in first["loc"] if part not in ("query", "body")]
    name = ".".join(place)[:80] or "the body"
    known = _KNOWN.get(place[-1] if place else "", "see /openapi.json")
    if first["type"] == "missing":
        return f"{name} is missing; {known}."
    if first["type"] == "string_too_short":
        return f"{name} is empty; {known}."
    if first["type"] == "extra_forbidden":
        return f"there is no parameter {name!r}; see /openapi.json."
    if first["type"] == "json_invalid":
        return "the body is no JSON."
    words = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{name} {words[:200]}; it is {first.get('input')!r:.60}."
