"""The service keeps to its OpenAPI document: schemathesis asks what the document allows, and what it forbids."""

from __future__ import annotations

import itertools
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis import Config as SchemathesisConfig
from schemathesis import GenerationMode

from tests.fakes import DEVICE, PROBLEM, SILICON, SOFTWARE, small_family
from tuner.model import Config
from tuner.service import Settings
from tuner.service.app import create
from tuner.store import open_store

TOKEN = "correct-horse-battery"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("service")
    family, db = small_family(folder), str(folder / "tuner.db")
    config = Config.of("grid", x=3, y=1)
    rendered = family.render(config, PROBLEM, DEVICE)
    with open_store(db, upgrade=True) as store:
        run = store.start_run(SILICON, SOFTWARE, PROBLEM, {})
        store.certify(SILICON, SOFTWARE, PROBLEM, config, rendered.source_hash, ["odd sizes"])
        store.promote(SILICON, SOFTWARE, PROBLEM, config, rendered, reason="won", time_ms=2.0, noise=0.01, run=run)
    settings = Settings(db, {"grid": family}, described=(DEVICE,), token=TOKEN)
    refusals = [400, 401, 403, 404, 409, 413, 414, 415, 422]
    checks = {"negative_data_rejection": {"expected-statuses": refusals}}
    lenient = SchemathesisConfig.from_dict({"checks": checks})
    return schemathesis.openapi.from_asgi("/openapi.json", create(settings), config=lenient)


OPERATIONS = [
    ("GET", "/v1/devices"),
    ("GET", "/v1/lookup"),
    ("GET", "/v1/kernel"),
    ("GET", "/v1/champions"),
    ("POST", "/v1/misses"),
    ("GET", "/healthz"),
    ("GET", "/metrics"),
]
EXAMPLES = {"/healthz": 5, "/metrics": 5, "/v1/devices": 10}


def test_every_operation_is_asked(api: Any) -> None:
    found = [result.ok() for result in api.get_all_operations()]
    assert {(operation.method.upper(), operation.path) for operation in found} == set(OPERATIONS)


@pytest.mark.parametrize(
    ("method", "path", "mode"),
    [
        pytest.param(*operation, mode, id=f"{operation[1]}-{mode.value}")
        for operation in OPERATIONS
        for mode in GenerationMode
        if mode is GenerationMode.POSITIVE or operation[1] not in EXAMPLES  # those take nothing that could be wrong
    ],
)
def test_nothing_is_answered_that_the_document_does_not_say(
    api: Any, method: str, path: str, mode: GenerationMode
) -> None:
    turns = itertools.count()

    @hypothesis.settings(
        max_examples=EXAMPLES.get(path, 30),
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(api[path][method].as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        if mode is GenerationMode.POSITIVE and "device" in (case.query or {}) and next(turns) % 2:
            case.query["device"] = "Anvil"  # half of the time it is one that is known
        if method == "POST":
            case.headers["Authorization"] = f"Bearer {TOKEN}"
        case.call_and_validate()

    ask()
