"""The OpenAPI schema against the server by schemathesis, all checks: no status or reply that it does not describe."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck
from schemathesis.generation import GenerationMode

from tests.soak import choose_runs
from tests.surface.server.conftest import Running, fill, serving

VALID, INVALID = GenerationMode.POSITIVE, GenerationMode.NEGATIVE


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("schema") / "store"
    fill(path)
    return path


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("mode", "needs_key"), [(VALID, False), (INVALID, False), (VALID, True)])
def test_the_schema_holds(place: Path, mode: GenerationMode, needs_key: bool) -> None:
    headers: dict[str, str] = {}
    with serving(place) as running:
        if needs_key:
            headers["Authorization"] = f"Bearer {running.server.keys.add('all', rights='write')[1]}"
        count = check_operations(f"{running.address}/openapi.json", mode, headers)
    assert count > 30


def check_operations(address: str, mode: GenerationMode, headers: dict[str, str]) -> int:
    """Sends requests to every operation; how many operations there are."""
    operations = [cast(Any, found).ok() for found in schemathesis.openapi.from_url(address).get_all_operations()]
    for operation in operations[:: choose_runs(4, 1)]:

        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        @hypothesis.settings(
            max_examples=choose_runs(1, 50),
            suppress_health_check=list(HealthCheck),
            phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
            database=None,
            derandomize=choose_runs(1, 0) == 1,  # the same requests in every run but that of `make soak`
        )
        def check(case: Any) -> None:
            name_a_closed_port(case)
            case.call_and_validate(headers=headers)

        with suppress(hypothesis.errors.Unsatisfiable):  # of some operations no request is invalid
            check()
    return len(operations)


def name_a_closed_port(case: Any) -> None:
    """Lets valid web addresses lead nowhere: the server would read them."""
    body = case.body
    sources = body.get("sources") if isinstance(body, dict) else None
    if isinstance(sources, list) and all(
        isinstance(each, str) and re.match("https?://[!-~]", each) for each in sources
    ):
        body["sources"] = [f"http://127.0.0.1:1/{place}" for place, _ in enumerate(sources)]


def test_every_operation_names_its_errors_and_its_key(running: Running) -> None:
    assert "securitySchemes" not in running.get("/openapi.json").json()["components"]
    running.server.keys.add("one")
    described = running.get("/openapi.json").json()
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            assert {"401", "422", "429", "503"} <= set(operation["responses"]), (method, path)
            is_open = path in ("/health", "/ready")
            assert operation.get("security", []) == ([] if is_open else [{"key": []}]), (method, path)
    assert described["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
