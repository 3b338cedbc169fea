"""The OpenAPI schema against the server by schemathesis, all checks: no status and no reply that it does not describe."""

from collections.abc import Iterator
from contextlib import suppress

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck
from schemathesis.generation import GenerationMode

from tests.soak import choose_runs
from tests.surface.server.conftest import Running, fill, serving

KEY = {"Authorization": ""}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("schema") / "store"
    fill(path)
    with serving(path) as running:
        _, token = running.server.keys.add("all", rights="write")
        KEY["Authorization"] = f"Bearer {token}"
        running.http.headers.update(KEY)
        yield running


@pytest.mark.soak
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["valid", "invalid"])
def test_the_schema_holds(served: Running, mode: GenerationMode) -> None:
    api = schemathesis.openapi.from_url(f"{served.address}/openapi.json")
    operations = [found.ok() for found in api.get_all_operations()]
    assert len(operations) > 30
    for operation in operations:

        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        @hypothesis.settings(
            max_examples=choose_runs(1, 200),
            suppress_health_check=list(HealthCheck),
            phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
            database=None,
        )
        def check(case: schemathesis.Case) -> None:
            case.call_and_validate(headers=KEY)

        with suppress(hypothesis.errors.Unsatisfiable):  # of some operations no request is invalid
            check()


def test_every_operation_names_its_errors_and_its_key(served: Running) -> None:
    described = served.get("/openapi.json").json()
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            assert {"401", "422", "429", "503"} <= set(operation["responses"]), (method, path)
            is_open = path in ("/health", "/ready")
            assert operation.get("security", []) == ([] if is_open else [{"key": []}]), (method, path)
    assert described["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
