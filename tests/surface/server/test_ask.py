"""Answers over HTTP: events as they happen, with a language model and without; operations and logs."""

import io
import json
import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clew import Client, Engine, ScriptedLLM
from clew.surface.server.observe import log_as_json
from tests.surface.server.conftest import Running, serving

QUESTION = "who rotates the vault key?"


@pytest.mark.slow
def test_the_events_of_an_answer_come_in_order(shared: Running) -> None:
    with Client(shared.address) as client:
        events = list(client.ask_stream(QUESTION))
        whole = client.ask(QUESTION)
    names = [name for name, _ in events]
    assert names == [*["sentence"] * len(whole["parts"]), *["citation"] * len(whole["citations"]), "answer"]
    assert "".join(data["text"] for name, data in events if name == "sentence") == whole["text"]
    assert events[-1][1]["text"] == whole["text"]
    assert [data for name, data in events if name == "citation"] == whole["citations"]
    part = whole["parts"][0]
    assert events[0][1]["highlight"] == part["highlight"]
    assert part["passage"][slice(*part["highlight"])] == "Dan rotates the vault key on Monday."
    assert part["citation"] == whole["citations"][0]


def test_sentences_of_a_model_come_with_their_verdicts(folder: Path) -> None:
    with serving(folder) as running:
        engine = running.server.engines.get("default")
        llm = ScriptedLLM(["Dan rotates the vault key on Monday [1]. He also paints the ferry [1]."] * 2)
        running.server.engines._engines["default"] = Engine(replace(engine.opened, llm=llm))
        with Client(running.address) as client:
            events = list(client.ask_stream(QUESTION))
    verdicts = [data["verdict"] for name, data in events if name == "verdict"]
    assert verdicts[0] == "supported"
    assert len(verdicts) == 2
    assert verdicts[1] != "supported"
    assert events[-1][1]["text"].endswith(("[not supported]", "[not sure]"))


def test_why_not_tells_nothing_of_the_files_of_the_machine(shared: Running, tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("# Secret")
    with Client(shared.address) as client:
        assert "never added" not in client.why_not(QUESTION, str(secret))["reason"]


@pytest.mark.slow
def test_health_readiness_metrics_and_page(running: Running) -> None:
    assert running.get("/health").json()["status"] == "ok"
    assert running.get("/ready").json()["status"] == "ok"
    running.post("/v1/search", {"query": QUESTION})
    text = running.get("/metrics").text
    assert 'clew_requests_total{method="POST",route="/v1/search",status="200"} 1.0' in text
    assert "clew_collections_open 1.0" in text
    page = running.get("/docs")
    assert "http" not in page.text.replace("<!doctype html>", "")  # nothing from elsewhere
    assert page.headers["content-security-policy"].startswith("default-src 'self'")
    assert "://" not in running.get("/docs/page.js").text
    assert running.get("/docs/page.css").status_code == 200


def test_the_log_is_json_with_request_ids(shared: Running) -> None:
    stream = io.StringIO()
    handler = log_as_json(stream)
    try:
        shared.post("/v1/search", {"query": "a private question"}, headers={"x-request-id": "mine-1"})
        while "mine-1" not in stream.getvalue():  # it is written once the reply is sent
            time.sleep(0.01)
    finally:
        for name in ("clew", "uvicorn"):
            logging.getLogger(name).removeHandler(handler)
            logging.getLogger(name).propagate = True
    lines: list[dict[str, Any]] = [json.loads(line) for line in stream.getvalue().splitlines()]
    (line,) = [each for each in lines if each.get("route") == "/v1/search"]
    assert (line["request_id"], line["status"], line["method"]) == ("mine-1", 200, "POST")
    assert "private" not in stream.getvalue()


def test_an_unexpected_error_tells_nothing_of_itself(shared: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("the password is swordfish")

    monkeypatch.setattr(Engine, "search", fail)
    reply = shared.post("/v1/search", {"query": QUESTION})
    assert reply.status_code == 500
    assert reply.json()["error"]["type"] == "InternalError"
    assert "swordfish" not in reply.text
