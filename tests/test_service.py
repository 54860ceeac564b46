"""The service: the same answers over HTTP, no kernel but what is certified, and one sentence for whatever is wrong."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from tests.fakes import DEVICE, PROBLEM, SILICON, SOFTWARE, small_family
from tuner.cli.app import run
from tuner.family import load_families
from tuner.lookup import snapshot as snapshot_module
from tuner.model import Config, Device, MachineError, Problem, Rendered, UserError
from tuner.service import Settings, is_loopback, read_token, refuse_open_bind
from tuner.service import kept as kept_module
from tuner.service.answers import Answers
from tuner.service.app import create
from tuner.service.health import Health
from tuner.service.kept import json_bytes
from tuner.store import Store, open_store

TOKEN = "correct-horse-battery"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
OTHER = replace(PROBLEM, m=128)
UNPROVEN = replace(PROBLEM, m=256)
ASK: dict[str, Any] = {"device": "Anvil", "m": 64, "n": 64, "k": 64}


@pytest.fixture(autouse=True)
def snapshot_is_read_anew_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_module, "CHECK_SECONDS", 0.0)
    monkeypatch.setattr(kept_module, "STALE_S", 0.0)


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {"grid": small_family(tmp_path_factory.mktemp("family"))}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "tuner.db"), upgrade=True) as opened:
        opened.start_run(SILICON, SOFTWARE, PROBLEM, {})
        yield opened


Publish = Callable[..., Rendered]


@pytest.fixture
def publish(store: Store, families: dict[str, Any]) -> Publish:
    """Makes a configuration the champion of a problem."""

    def work(x: int, problem: Problem = PROBLEM, device: Device = DEVICE, *, certify: bool = True) -> Rendered:
        config = Config.of("grid", x=x, y=1)
        rendered: Rendered = families["grid"].render(config, problem, device)
        key = (device.silicon, device.software, problem)
        if certify:
            store.certify(*key, config, rendered.source_hash, ["odd sizes"])
        store.promote(*key, config, rendered, reason="won", time_ms=2.0, noise=0.01, run=1)
        return rendered

    return work


@pytest.fixture
def serve(store: Store, families: dict[str, Any]) -> Iterator[Callable[..., TestClient]]:
    opened: list[TestClient] = []

    def start(**more: Any) -> TestClient:
        given: dict[str, Any] = {"families": families, "token": TOKEN, **more}
        client = TestClient(create(Settings(str(store.snapshot).removesuffix(".snapshot.json"), **given)))
        opened.append(client.__enter__())
        return client

    yield start
    for client in opened:
        client.__exit__(None, None, None)


@pytest.fixture
def client(serve: Callable[..., TestClient]) -> TestClient:
    return serve()


def refused(response: httpx2.Response, *statuses: int) -> str:
    """The one sentence (or two) of a refusal."""
    assert response.status_code in (statuses or range(400, 500)), response.text
    body = response.json()
    assert set(body) == {"error"} and response.headers["content-type"] == "application/json"
    sentence: str = body["error"]
    assert sentence.endswith(".") and "\n" not in sentence and len(sentence) < 600
    assert response.headers["cache-control"] == "no-store" or response.status_code == 409
    return sentence


# Look-ups


def test_a_lookup_answers_as_the_command_does(client: TestClient, publish: Publish) -> None:
    rendered = publish(3)
    found = client.get("/v1/lookup", params=ASK).json()
    assert (found["origin"], found["certified"], found["family"]) == ("exact", True, "grid")
    assert found["config"] == {"x": 3, "y": 1} and found["source_hash"] == rendered.source_hash
    assert found["gflops"] == pytest.approx(PROBLEM.gflops(2.0)) and found["distance"] == 0
    assert found["evidence"]["checks"] == ["odd sizes"] and "age_seconds" not in found["evidence"]
    assert found["launches"] == [{"kernel": "k", "global_size": [1], "local_size": [1], "scratch": []}]


def test_a_problem_nobody_tuned_is_answered_and_says_so(client: TestClient, publish: Publish) -> None:
    publish(3)
    found = client.get("/v1/lookup", params={**ASK, "m": 65}).json()
    assert (found["origin"], found["certified"], found["gflops"]) == ("nearest", False, None)


@pytest.mark.parametrize(("alignment", "expected"), [({}, 4), ({"align": 16}, 16), ({"align": 1}, 4)])
def test_without_an_alignment_operands_lie_without_gaps(
    client: TestClient, publish: Publish, alignment: dict[str, int], expected: int
) -> None:
    publish(3)
    found = client.get("/v1/lookup", params={**ASK, "n": 65, **alignment}).json()
    assert found["problem"]["align"] == expected


def test_nothing_stored_is_no_error_for_a_described_device(serve: Callable[..., TestClient]) -> None:
    client = serve(described=(DEVICE,))
    found = client.get("/v1/lookup", params=ASK).json()
    assert (found["origin"], found["facts_from"]) == ("default", "described")


def test_a_new_champion_is_served_at_once_and_under_another_tag(client: TestClient, publish: Publish) -> None:
    publish(3)
    first = client.get("/v1/lookup", params=ASK)
    assert first.headers["cache-control"] == "no-cache"
    tag = {"If-None-Match": f'"other", W/{first.headers["etag"]}'}
    for _ in range(2):  # asked before, and kept
        again = client.get("/v1/lookup", params=ASK, headers=tag)
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    publish(4)
    after = client.get("/v1/lookup", params=ASK, headers=tag)
    assert (after.status_code, after.json()["config"]["x"]) == (200, 4)


def test_while_a_new_answer_is_made_the_old_one_is_sent(
    client: TestClient, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    def x() -> int:
        found: int = client.get("/v1/lookup", params=ASK).json()["config"]["x"]
        return found

    publish(3)
    assert x() == 3
    monkeypatch.setattr(kept_module, "STALE_S", 1e9)
    publish(4)
    found = [x()]
    while found[-1] == 3:
        found.append(x())
    assert set(found) == {3, 4} and found[-1] == 4


def test_what_was_asked_in_vain_is_counted_each_time(client: TestClient, store: Store, publish: Publish) -> None:
    publish(3)
    publish(4, UNPROVEN, certify=False)
    for _ in range(3):
        client.get("/v1/lookup", params={**ASK, "m": 128})
        client.get("/v1/lookup", params=ASK)
    client.get("/v1/kernel", params={**ASK, "m": 256})
    client.__exit__(None, None, None)
    store.take_in_misses()
    assert {miss.problem.m: miss.count for miss in store.misses()} == {128: 3, 256: 1}


# Kernels


def test_a_certified_kernel_is_served_whole(client: TestClient, publish: Publish) -> None:
    rendered = publish(3)
    found = client.get("/v1/kernel", params=ASK).json()
    assert (found["source"], found["build_options"]) == (rendered.source, rendered.build_options)
    assert found["certified"] and found["passed_over"] == []


def test_a_kernel_comes_with_its_scratch_buffers(serve: Callable[..., TestClient], store: Store) -> None:
    families = load_families()
    family = families["register_tiled"]
    problem = Problem(64, 64, 4096)
    config = family.complete({**family.default(problem, DEVICE).as_dict(), "split_k": 4})
    rendered = family.render(config, problem, DEVICE)
    key = (SILICON, SOFTWARE, problem)
    store.certify(*key, config, rendered.source_hash, ["odd sizes"])
    store.promote(*key, config, rendered, reason="won", time_ms=2.0, noise=0.01, run=1)
    found = serve(families=families).get("/v1/kernel", params={**ASK, "k": 4096}).json()
    assert rendered.scratch
    assert [step["scratch"] for step in found["launches"]] == [
        [{"name": name, "bytes": dict(rendered.scratch)[name], "zeroed": False} for name in step.scratch]
        for step in rendered.steps
    ]


def test_what_is_not_certified_here_is_shown_and_not_served(client: TestClient, publish: Publish) -> None:
    publish(4, UNPROVEN, certify=False)
    asked = {**ASK, "m": 256}
    found = client.get("/v1/lookup", params=asked).json()
    assert (found["origin"], found["certified"]) == ("exact", False)
    for _ in range(2):
        said = refused(client.get("/v1/kernel", params=asked), 409)
        assert "certified" in said and "exact" in said and SILICON.name in said


def test_a_champion_of_a_family_the_server_lacks_names_the_option_that_brings_it(
    serve: Callable[..., TestClient], publish: Publish, tmp_path: Path
) -> None:
    publish(3)
    without = serve(families={"other": small_family(tmp_path, name="other")}, described=(DEVICE,))
    said = refused(without.get("/v1/kernel", params=ASK), 409)
    assert "'grid'" in said and "--family-dir" in said and "gemm-tuner tune" not in said
    tuned_elsewhere = refused(without.get("/v1/kernel", params={**ASK, "m": 128}), 409)
    assert "--family-dir" not in tuned_elsewhere and "gemm-tuner tune" in tuned_elsewhere


def test_a_champion_of_another_driver_is_shown_and_not_served(
    serve: Callable[..., TestClient], publish: Publish
) -> None:
    publish(3)
    newer = replace(DEVICE, software=replace(SOFTWARE, driver="2.0"))
    client = serve(described=(newer,))
    asked = {**ASK, "driver": "2.0"}
    assert client.get("/v1/lookup", params=asked).json()["origin"] == "other_driver"
    refused(client.get("/v1/kernel", params=asked), 409)


def test_the_next_best_that_is_certified_is_served_and_says_what_it_passed_over(
    serve: Callable[..., TestClient], store: Store, families: dict[str, Any], publish: Publish
) -> None:
    publish(4, certify=False)
    default = families["grid"].default(PROBLEM, DEVICE)
    rendered = families["grid"].render(default, PROBLEM, DEVICE)
    store.certify(SILICON, SOFTWARE, PROBLEM, default, rendered.source_hash, ["odd sizes"])
    found = serve(described=(DEVICE,)).get("/v1/kernel", params=ASK).json()
    assert (found["origin"], found["source"]) == ("default", rendered.source)
    assert found["passed_over"] == ["exact grid x=4 y=1"]


def test_a_source_under_the_hash_of_another_is_never_served(
    client: TestClient, store: Store, families: dict[str, Any]
) -> None:
    config = Config.of("grid", x=3, y=1)
    good = families["grid"].render(config, PROBLEM, DEVICE)
    planted = replace(good, source="kernel void evil() {}")
    store.certify(SILICON, SOFTWARE, PROBLEM, config, good.source_hash, ["odd sizes"])
    store.promote(SILICON, SOFTWARE, PROBLEM, config, planted, reason="won", time_ms=2.0, noise=0.01, run=1)
    response = client.get("/v1/kernel", params=ASK)
    assert b"evil" not in response.content


def test_what_a_device_was_certified_for_is_served_where_its_limits_are_unknown(
    serve: Callable[..., TestClient], store: Store
) -> None:
    families = load_families()
    problem = Problem(512, 512, 512)
    family = families["tiled"]
    config = Config.of("tiled", {**family.default(problem, DEVICE).as_dict(), "ts": 32})  # groups of 1024
    rendered = family.render(config, problem, DEVICE)
    key = (SILICON, SOFTWARE, problem)
    store.certify(*key, config, rendered.source_hash, ["odd sizes"])
    store.promote(*key, config, rendered, reason="won", time_ms=2.0, noise=0.01, run=1)
    client = serve(families=families)
    asked: dict[str, Any] = {"device": "Anvil", "m": 512, "n": 512, "k": 512}
    found = client.get("/v1/kernel", params=asked).json()
    assert (found["origin"], found["facts_from"], found["config"]["ts"]) == ("exact", "assumed", 32)
    near = client.get("/v1/lookup", params={**asked, "m": 513}).json()
    assert near["origin"] != "nearest" and not near["certified"]


# Devices and champions


def test_devices_are_those_published_described_and_here(serve: Callable[..., TestClient], publish: Publish) -> None:
    publish(3)
    other = replace(DEVICE, silicon=replace(SILICON, name="Hammer"))
    client = serve(described=(other,))
    listed = client.get("/v1/devices").json()["devices"]
    assert [(one["silicon"]["name"], one["champions"], one["facts_from"]) for one in listed] == [
        ("Anvil 9", 1, "assumed"),
        ("Hammer", 0, "described"),
    ]
    for text in (listed[0]["key"], SILICON.key, "anvil 9", "ANVIL"):
        assert client.get("/v1/lookup", params={**ASK, "device": text}).status_code == 200
    assert "Anvil" in refused(client.get("/v1/lookup", params={**ASK, "device": "Acme"}), 409)
    assert "'Tongs'" in refused(client.get("/v1/lookup", params={**ASK, "device": "Tongs"}), 404)


def test_of_several_drivers_that_which_was_used_last_counts(client: TestClient, publish: Publish) -> None:
    newer = replace(DEVICE, software=replace(SOFTWARE, driver="2.0"))
    publish(3)
    publish(4, device=newer)
    assert client.get("/v1/lookup", params=ASK).json()["driver"] == "2.0"
    assert client.get("/v1/lookup", params={**ASK, "driver": "1.0"}).json()["driver"] == "1.0"
    assert "2.0" in refused(client.get("/v1/lookup", params={**ASK, "driver": "3.0"}), 404)


def test_devices_found_after_the_start_are_served(serve: Callable[..., TestClient]) -> None:
    client = serve(here=lambda: [DEVICE])
    for _ in range(1000):
        if found := client.get("/v1/devices").json()["devices"]:
            break
    assert found[0]["facts_from"] == "here"


def test_champions_come_some_at_a_time(client: TestClient, store: Store, publish: Publish) -> None:
    publish(3)
    publish(4, OTHER)
    publish(5, UNPROVEN, certify=False)
    store.pin(SILICON, SOFTWARE, OTHER, Config.of("grid", x=7, y=1), publish(7, OTHER), reason="known good")
    first = client.get("/v1/champions", params={"limit": 2}).json()
    second = client.get("/v1/champions", params={"limit": 2, "offset": first["next"]}).json()
    rows = first["champions"] + second["champions"]
    assert (first["total"], first["next"], second["next"]) == (3, 2, None)
    assert {row["problem"]["m"]: (row["config"]["x"], row["certified"], row["pinned"]) for row in rows} == {
        64: (3, True, False),
        128: (7, True, True),
        256: (5, False, False),
    }
    assert client.get("/v1/champions", params={"dtype": "float64"}).json()["total"] == 0
    assert client.get("/v1/champions", params={"device": "anvil"}).json()["total"] == 3


# Writing


def test_reported_misses_are_counted(client: TestClient, store: Store, publish: Publish) -> None:
    publish(3)
    body = {"misses": [{**ASK, "m": 100, "count": 5}, {**ASK, "m": 100}, {**ASK, "count": 2}]}
    answer = client.post("/v1/misses", json=body, headers=BEARER)
    assert (answer.status_code, answer.json()) == (202, {"counted": 6, "known": 2})
    client.__exit__(None, None, None)
    store.take_in_misses()
    assert [(miss.problem.m, miss.count, miss.origin) for miss in store.misses()] == [(100, 6, "nearest")]


def test_writing_needs_the_token(serve: Callable[..., TestClient], publish: Publish) -> None:
    publish(3)
    body = {"misses": [{**ASK, "m": 100}]}
    client = serve()
    for shown in ("", "Bearer wrong", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", "Bearer", "Bearer é"):
        answer = client.post("/v1/misses", json=body, headers={b"Authorization": shown.encode()})
        refused(answer, 401)
        assert answer.headers["www-authenticate"] == "Bearer"
    assert "--token-file" in refused(serve(token=None).post("/v1/misses", json=body, headers=BEARER), 403)


BODIES = {
    "nothing": b"",
    "no JSON": b"m=64",
    "half": b'{"misses": [',
    "a list": b"[]",
    "null": b"null",
    "no misses": b'{"misses": []}',
    "more than asked": b'{"misses": [{"device":"Anvil","m":1,"n":1,"k":1}], "x": 1}',
    "a fraction": b'{"misses": [{"device":"Anvil","m":1.5,"n":1,"k":1}]}',
    "true": b'{"misses": [{"device":"Anvil","m":true,"n":1,"k":1}]}',
    "infinite": b'{"misses": [{"device":"Anvil","m":1e999,"n":1,"k":1}]}',
    "not a number": b'{"misses": [{"device":"Anvil","m":NaN,"n":1,"k":1}]}',
    "digits": b'{"misses": [{"device":"Anvil","m":' + b"9" * 5000 + b',"n":1,"k":1}]}',
    "half a pair": b'{"misses": [{"device":"\\ud800","m":1,"n":1,"k":1}]}',
    "no UTF-8": b'{"misses": "\xff\xfe"}',
    "deep": b"[" * 100_000,
    "deeper objects": b'{"a":' * 40_000,
    "long": b'{"misses": "' + b"x" * 1_000_000 + b'"}',
    "count 0": b'{"misses": [{"device":"Anvil","m":1,"n":1,"k":1,"count":0}]}',
    "too many": json.dumps({"misses": [{"device": "Anvil", "m": 1, "n": 1, "k": 1}] * 1001}).encode(),
    "unknown device": b'{"misses": [{"device":"Tongs","m":1,"n":1,"k":1}]}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_a_body_that_makes_no_sense_is_refused(client: TestClient, publish: Publish, body: bytes) -> None:
    publish(3)
    headers = {**BEARER, "Content-Type": "application/json"}
    refused(client.post("/v1/misses", content=body, headers=headers), 400, 404, 413, 422)


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "é", "application/json2"])
def test_a_body_of_another_type_is_refused(client: TestClient, kind: str) -> None:
    headers = {b"Authorization": f"Bearer {TOKEN}".encode(), b"Content-Type": kind.encode()}
    refused(client.post("/v1/misses", content=b'{"misses": []}', headers=headers), 415)


# Hostile questions

QUERIES = {
    "nothing": "",
    "no k": "device=Anvil&m=1&n=1",
    "no device": "m=1&n=1&k=1",
    "empty device": "device=&m=1&n=1&k=1",
    "empty m": "device=Anvil&m=&n=1&k=1",
    "zero": "device=Anvil&m=0&n=1&k=1",
    "negative": "device=Anvil&m=-1&n=1&k=1",
    "2^31": "device=Anvil&m=2147483648&n=1&k=1",
    "many digits": f"device=Anvil&m={'9' * 3000}&n=1&k=1",
    "fraction": "device=Anvil&m=1.5&n=1&k=1",
    "exponent": "device=Anvil&m=1e3&n=1&k=1",
    "hexadecimal": "device=Anvil&m=0x10&n=1&k=1",
    "underscore": "device=Anvil&m=1_0&n=1&k=1",
    "blank": "device=Anvil&m=%201&n=1&k=1",
    "other digits": "device=Anvil&m=%D9%A3&n=1&k=1",
    "zero byte": "device=Anvil&m=%00&n=1&k=1",
    "infinite": "device=Anvil&m=inf&n=1&k=1",
    "SQL": "device=Anvil'%20OR%201=1--&m=1&n=1&k=1",
    "no UTF-8": "device=%FF%FE&m=1&n=1&k=1",
    "emoji": "device=%F0%9F%9A%80&m=1&n=1&k=1",
    "markup": "device=%3Cscript%3E&m=1&n=1&k=1",
    "lines": "device=a%0D%0ASet-Cookie:x&m=1&n=1&k=1",
    "long device": f"device={'x' * 600}&m=1&n=1&k=1",
    "long query": f"device={'x' * 30_000}&m=1&n=1&k=1",
    "twice": "device=Anvil&m=1&m=2&n=1&k=1",
    "many": "&".join(f"p{number}=1" for number in range(100)),
    "unknown": "device=Anvil&m=1&n=1&k=1&transa=true",
    "dtype": "device=Anvil&m=1&n=1&k=1&dtype=int8",
    "dtype in capitals": "device=Anvil&m=1&n=1&k=1&dtype=FLOAT32",
    "math": "device=Anvil&m=1&n=1&k=1&math=fast",
    "math of another type": "device=Anvil&m=1&n=1&k=1&math=tf32&dtype=float64",
    "flag": "device=Anvil&m=1&n=1&k=1&trans_a=yes",
    "align": "device=Anvil&m=1&n=1&k=1&align=3",
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
@pytest.mark.parametrize("path", ["/v1/lookup", "/v1/kernel"])
def test_a_question_that_makes_no_sense_is_refused(client: TestClient, publish: Publish, path: str, query: str) -> None:
    publish(3)
    said = refused(client.get(f"{path}?{query}"), 400, 404, 409, 414, 422)
    assert "<script>" not in said or "'" in said


@pytest.mark.parametrize(
    ("path", "query", "words"),
    [
        ("/v1/lookup", "device=&m=1&n=1&k=1", "device is empty; give its name or a part of it, GET /v1/devices lists"),
        ("/v1/lookup", "m=1&n=1&k=1", "device is missing; give its name or a part of it, GET /v1/devices lists"),
        ("/v1/lookup", "device=Anvil&driver=&m=1&n=1&k=1", "driver is empty; leave it out, or give a version"),
        ("/v1/lookup", "device=Anvil&m=0&n=1&k=1", "m should be a whole number from 1 to 2147483647; it is '0'."),
        ("/v1/champions", "offset=-1", "offset should be a whole number from 0 to 2147483647; it is '-1'."),
        ("/v1/champions", "limit=1001", "limit should be a whole number from 1 to 1000; it is '1001'."),
        ("/v1/champions", "device=", "device is empty; give its name or a part of it, GET /v1/devices lists"),
    ],
)
def test_a_refusal_says_what_to_do(client: TestClient, publish: Publish, path: str, query: str, words: str) -> None:
    publish(3)
    assert words in refused(client.get(f"{path}?{query}"), 422)


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "offset=-1", "device=Tongs", "limit=1&limit=2", "x=1"])
def test_a_listing_that_makes_no_sense_is_refused(client: TestClient, query: str) -> None:
    refused(client.get(f"/v1/champions?{query}"))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
@pytest.mark.parametrize("path", ["/v1/lookup", "/healthz", "/"])
def test_other_methods_are_refused(client: TestClient, method: str, path: str) -> None:
    response = client.request(method, path)
    assert "GET" in response.headers["allow"]
    refused(response, 405)


@pytest.mark.parametrize("tag", ["", ",", "*", '"', "W/", "\xff", '"a",' * 1000])
def test_any_tag_is_an_answer_or_no_change(client: TestClient, publish: Publish, tag: str) -> None:
    publish(3)
    for _ in range(2):
        response = client.get("/v1/lookup", params=ASK, headers={b"If-None-Match": tag.encode("latin-1")})
        assert response.status_code == (304 if tag == "*" else 200)


def test_half_a_character_can_be_sent() -> None:
    assert json_bytes("\ud800 \U0001f680") == b'"\\ud800 \\ud83d\\ude80"'


# Health and metrics


class _Nights:
    """What the database says of nights."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.asked = answer, 0

    async def __call__(self, question: str) -> Any:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "limit", "ok"),
    [
        (None, None, True),
        (None, 3600.0, False),
        ({"name": "n", "finished": "2020-01-01T00:00:00+00:00", "until": 1.6e9}, None, True),
        ({"name": "n", "finished": "2020-01-01T00:00:00+00:00", "until": 1.6e9}, 3600.0, False),
        ({"name": "n", "finished": "2020-01-01T00:00:00+00:00", "until": 1e11}, 3600.0, True),
        (MachineError("the store is away."), None, True),
        (MachineError("the store is away."), 3600.0, False),
    ],
)
def test_health_is_judged_by_the_last_complete_night(store: Store, answer: Any, limit: Any, ok: bool) -> None:
    nights, answers = _Nights(answer), Answers(Settings(str(store.snapshot), {}))

    async def checked() -> tuple[bool, dict[str, Any]]:
        health = Health(answers, nights, "night", limit)
        first = await health.check()
        assert await health.check() == first and nights.asked == 1
        return first

    found, stands = asyncio.run(checked())
    assert (found, stands["ok"]) == (ok, ok)
    assert (stands["last_complete_night"] is None) == (not isinstance(answer, dict))
    assert stands["message"].endswith(".")


def test_a_night_too_old_makes_the_service_unwell(serve: Callable[..., TestClient], store: Store) -> None:
    assert refused_health(serve(max_age_s=3600.0)) == "No night was ever completed."
    number = store.start_night("weekly", "host", {})
    store.finish_night(number, "complete", {})
    answer = serve(max_age_s=3600.0).get("/healthz")
    assert (answer.status_code, answer.json()["last_complete_night"]["name"]) == (200, "weekly")


def refused_health(client: TestClient) -> str:
    answer = client.get("/healthz")
    assert answer.status_code == 503
    message: str = answer.json()["message"]
    return message


# Pages


def test_the_report_is_shown_live(client: TestClient, publish: Publish) -> None:
    publish(3)
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html") and b"data-live" in page.content
    held = {"If-None-Match": page.headers["etag"]}
    assert client.get("/index.html", headers=held).status_code == 304
    assert client.get("/report.js").headers["content-type"].startswith("text/javascript")
    assert [one["run"] for one in client.get("/live.json").json()["running"]] == [1]
    for path in (
        "/nothing.html",
        "/../pyproject.toml",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/" + "x" * 3000,
        "/a%0ab",
        "/%ff",
    ):
        refused(client.get(path), 404)


def test_metrics_can_be_read_by_prometheus(client: TestClient, publish: Publish) -> None:
    publish(3)
    for m in (64, 64, 65):
        client.get("/v1/lookup", params={**ASK, "m": m})
    client.get("/v1/lookup", params={**ASK, "m": 0})
    text = client.get("/metrics").text
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["gemm_tuner_requests_total", "/v1/lookup", "200"] == 3
    assert samples["gemm_tuner_requests_total", "/v1/lookup", "422"] == 1
    assert samples["gemm_tuner_request_seconds_count", "/v1/lookup"] == 4
    assert samples["gemm_tuner_lookups_total", "exact", "true"] == 2
    assert samples["gemm_tuner_lookups_total", "false", "nearest"] == 1
    assert samples[("gemm_tuner_champions",)] == 1


# Starting and stopping


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.7", "::1", "localhost"])
def test_this_machine_needs_no_token(host: str) -> None:
    assert is_loopback(host)
    refuse_open_bind(host, None)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.7"])
def test_other_addresses_need_a_token(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    refuse_open_bind(host, TOKEN)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GEMM_TUNER_TOKEN", raising=False)
        assert run(["serve", "--host", host]) == 2
    said = capsys.readouterr().err
    assert "--token-file" in said and said.count("\n") == 1


def test_a_token_comes_from_a_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    other = {"GEMM_TUNER_TOKEN": "another-long-enough-one"}
    assert read_token(file, other) == TOKEN
    assert read_token(None, other) == "another-long-enough-one"
    assert read_token(None, {}) is None
    for text in (b"", b"short", b"with blanks in the middle", "pässword-pässword".encode(), b"\xff" * 20):
        file.write_bytes(text)
        with pytest.raises(UserError):
            read_token(file, {})
    with pytest.raises(UserError):
        read_token(tmp_path / "none", {})


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"devices": 1}', '{"devices": [1]}', '{"devices": [{}]}', "[" * 9999]
)
def test_a_file_that_describes_no_device_is_refused(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "devices.json"
    file.write_text(text)
    assert run(["serve", "--devices", str(file)]) == 2
    assert str(file) in capsys.readouterr().err


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[subprocess.Popen[str], int, Path]]:
    """The command itself, its port, and the misses' folder."""
    db = tmp_path_factory.mktemp("served") / "tuner.db"
    described = db.with_name("devices.json")
    described.write_text(json.dumps({"devices": [DEVICE.to_json()]}))
    command = [sys.executable, "-m", "tuner", "serve", "--port", "0", "--json", "--db", str(db)]
    environment = {**os.environ, "OCL_ICD_VENDORS": str(db.parent)}
    process = subprocess.Popen(
        [*command, "--devices", str(described)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    told = ""
    while not told.endswith("}\n"):
        line = process.stdout.readline()
        assert line, process.stderr and process.stderr.read()
        told += line
    yield process, int(json.loads(told)["url"].rpartition(":")[2]), db.with_name("tuner.db.misses")
    process.kill()
    process.wait()


def _said(port: int, request: bytes) -> bytes:
    """What comes back for bytes that need not be HTTP, until the service closes the connection."""
    found = b""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(60)
        try:
            connection.sendall(request)
            while part := connection.recv(65536):
                found += part
        except (ConnectionResetError, BrokenPipeError):
            pass
    return found


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /v1/devices HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200),
        (b"nonsense\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 200_000, 431),
        (b"GET /" + b"x" * 200_000, 431),
        (b"GET / HTTP/1.1\r\n" + b"".join(b"X%d: x\r\n" % number for number in range(20_000)), 431),
    ],
)
def test_bytes_that_are_no_good_http_are_refused(running: Any, request_: bytes, status: int) -> None:
    assert _said(running[1], request_).startswith(b"HTTP/1.1 %d " % status)


def test_it_ends_in_order_when_told_to(running: Any) -> None:
    process, port, misses = running
    request = b"GET /v1/lookup?device=Anvil&m=1&n=1&k=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert b'"default"' in _said(port, request)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert process.stderr.read() == ""
    assert [json.loads(line)["count"] for file in misses.iterdir() for line in file.read_text().splitlines()] == [1]


def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run(["serve"]) == 2
    assert "gemm-tuner[serve]" in capsys.readouterr().err


def test_a_port_in_use_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run(["serve", "--port", str(port), "--db", str(tmp_path / "tuner.db")]) == 1
    assert "--port" in capsys.readouterr().err
