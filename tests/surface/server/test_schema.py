"""The OpenAPI schema against the server by schemathesis, all checks: no status or reply that it does not describe."""

import logging
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck
from schemathesis.generation import GenerationMode

from tests.soak import choose_runs
from tests.surface.server import schema_hooks  # noqa: F401 (registers what is done before each request)
from tests.surface.server.conftest import Running, fill, serving

ROOT = str(Path(__file__).parents[3])
log = logging.getLogger(__name__)
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
CONFIG = """
# A body that is too long is refused as such, whatever else is wrong with it.
[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "406", "409", "413", "415", "422", "428", "429", "5xx"]

# Whatever bytes a part of an upload has, they are a file.
[[operations]]
include-path = "/v1/documents"
include-method = "POST"
checks.negative_data_rejection.enabled = false
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "422", "429", "5xx"]

# A question may be empty or name nothing that is relevant, and there may be no model to make questions.
[[operations]]
include-path-regex = "^/v1/evaluations"
include-method = "POST"
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "422", "429", "5xx"]
"""
NAMED = """
[parameters]
"path.document" = "keys"
"path.message" = "m1"
"path.person" = "zoe"
"path.session" = "work"
"query.collection" = "default"
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("schema") / "store"
    fill(path)
    return path


@pytest.mark.slow
def test_some_requests_to_some_operations(place: Path) -> None:
    with serving(place) as running:
        schema = schemathesis.openapi.from_url(f"{running.address}/openapi.json", timeout=120)
        operations = [cast(Any, found).ok() for found in schema.get_all_operations()]
        for number, operation in enumerate(operations[::4]):

            @hypothesis.given(case=operation.as_strategy(generation_mode=MODES[number % 2]))
            @hypothesis.settings(
                max_examples=1,
                suppress_health_check=list(HealthCheck),
                phases=[hypothesis.Phase.generate],
                database=None,
                derandomize=True,
            )
            def check(case: Any) -> None:
                case.call_and_validate()

            with suppress(hypothesis.errors.Unsatisfiable):  # of some operations no request is invalid
                check()
    assert len(operations) > 40


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.skipif(choose_runs(0, 1) == 0, reason="thousands of requests: make soak")
@pytest.mark.parametrize("needs_key", [False, True])
def test_the_schema_holds_in_every_phase(place: Path, tmp_path: Path, needs_key: bool) -> None:
    """Coverage, fuzzing and stateful tests of all operations; with a key, of things that are there."""
    (tmp_path / "schemathesis.toml").write_text(CONFIG + (NAMED if needs_key else ""))
    words = ["run", "--checks", "all", "--phases", "examples,coverage,fuzzing,stateful", "--continue-on-failure"]
    words += ["--max-examples", "20", "--request-timeout", "60", "--no-color", "--no-shrink"]
    words += ["--suppress-health-check", "all", "--exclude-checks", "use_after_free"]  # a cancelled job is still a job
    with serving(place) as running:
        if needs_key:
            words += ["--header", f"Authorization: Bearer {running.server.keys.add('all', rights='write')[1]}"]
        done = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", *words, f"{running.address}/openapi.json"],
            cwd=tmp_path,
            env={**os.environ, "SCHEMATHESIS_HOOKS": "tests.surface.server.schema_hooks", "PYTHONPATH": ROOT},
            capture_output=True,
            text=True,
            check=False,
        )
    log.info(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.findall(r"(\d+) generated", done.stdout)[-1]) > 3000


@pytest.mark.slow
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
