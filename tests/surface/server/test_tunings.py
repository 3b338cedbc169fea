"""Tuning over HTTP: a job whose result is tested, used at once and taken back; and what a filtered key learns of it."""

import time
from pathlib import Path
from typing import Any

import pytest

from clew import Client, Document, Engine, Filter, NotFound, Settings, SettingsError, enqueue_tuning
from clew.evaluation.questions.judged import parse_question
from tests.surface.server.conftest import serving
from tests.surface.server.test_guard import bearer

COUNT = 40
LEXICAL = {"search.strategy": ["lexical"]}
QUESTIONS: list[dict[str, Any]] = [
    {"question": f"what is kept today in the box number{at}?", "relevant": [f"box-{at}"]} for at in range(COUNT)
]


def fill_boxes(place: str | Path) -> None:
    """Boxes that one rare word tells apart, and pages that have all the other words of the questions."""
    boxes = [
        Document(f"box-{at}", f"Number{at} holds spare parts of the old crane, two pulleys and a rope, all wrapped.")
        for at in range(COUNT)
    ]
    hall = [
        Document(f"hall-{at}", f"What is kept today in the box? The box is kept in the hall today, shelf {at}.")
        for at in range(12)
    ]
    with Engine.open(place, embedder="hashed") as engine:
        engine.add_documents([*boxes, *hall])


def searches_by(client: Client) -> str:
    """The strategy by which the server searches where none is asked for."""

    def search(strategy: str | None) -> list[str]:
        return [hit["chunk"]["id"] for hit in client.search(QUESTIONS[7]["question"], k=10, strategy=strategy)["hits"]]

    usual = search(None)
    (name,) = [each for each in ("hybrid", "lexical") if search(each) == usual]
    return name


def wait_for(client: Client, job: Any) -> Any:
    deadline = time.monotonic() + 60
    while job["state"] not in ("done", "failed", "cancelled") and time.monotonic() < deadline:
        time.sleep(0.02)
        job = client.job(job["id"])
    return job


@pytest.mark.slow
def test_a_tuning_is_a_job_is_used_at_once_and_is_taken_back(tmp_path: Path) -> None:
    fill_boxes(tmp_path / "store")
    with serving(tmp_path / "store") as running, Client(running.address) as client:
        assert searches_by(client) == "hybrid"
        assert client.list_tunings() == []
        assert client.rollback_tuning() is None
        dry = wait_for(client, client.enqueue_tuning(QUESTIONS, candidates=LEXICAL, dry_run=True))
        assert (dry["kind"], dry["state"], dry["error"]) == ("tune", "done", "")
        assert (dry["result"]["is_promoted"], dry["result"]["is_kept"]) == (True, False)
        done = wait_for(client, client.enqueue_tuning(QUESTIONS, candidates=LEXICAL))
        assert done["result"]["settings"] == {"search.strategy": "lexical"}
        assert done["result"]["promotion"]["difference"]["low"] > 0
        assert done["result"]["is_kept"]
        (kept,) = client.list_tunings()
        assert kept["settings"] == done["result"]["settings"]
        engine = running.server.engines.get("default")
        deadline = time.monotonic() + 60
        while engine.settings.search.strategy != "lexical" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert searches_by(client) == "lexical"
        with pytest.raises(SettingsError, match="cannot be tuned"):
            client.enqueue_tuning(QUESTIONS, candidates={"ingestion.chunk_size": [100]})
        for name in ("reranker.api_key", "reranker.url", "context.tokenizer"):
            with pytest.raises(SettingsError, match=f"{name} cannot be tuned"):
                client.enqueue_tuning(QUESTIONS, candidates={name: ["x"]})
        with pytest.raises(SettingsError, match="nothing is judged relevant"):
            client.enqueue_tuning([{"question": "why?"}])
        for odd in ('{"a": 1e999}', '{"a": ' + "1" * 400 + "}", r'["\ud800"]', '{"a": ' + "[" * 150 + "]" * 150 + "}"):
            reply = running.http.post(
                "/v1/tunings",
                content='{"questions": [{"question": "why?", "relevant": ' + odd + "}]}",
                headers={"content-type": "application/json"},
            )
            assert reply.status_code in (400, 422), reply.text
        assert client.rollback_tuning() == kept
        assert client.list_tunings() == []
        assert searches_by(client) == "hybrid"
        (tmp_path / "store" / "default" / "tuned.json").write_text("x")
        failed = wait_for(client, client.enqueue_tuning(QUESTIONS, candidates=LEXICAL))
        assert failed["error"].startswith("the store/default/tuned.json cannot be read"), failed["error"]
        assert str(tmp_path) not in str(client.jobs())


@pytest.mark.parametrize("kind", ["reads", "filtered"])
@pytest.mark.slow
def test_a_filtered_key_sees_no_tuning_and_no_feedback_and_says_what_it_opened(folder: Path, kind: str) -> None:
    with serving(folder) as running, Client(running.address) as client:
        shown = client.search("who rotates the vault key?", k=10)["hits"]
        seen = next(hit for hit in shown if hit["chunk"]["meta"].get("channel") == "ops")
        hidden = next(hit for hit in shown if hit["chunk"]["meta"].get("channel") != "ops")
        client.feedback("where is the others' secret?", opened=hidden["document"]["id"], rank=1)
        where = Filter(channels={"ops"}) if kind == "filtered" else Filter()
        key, token = running.server.keys.add(kind, rights="read", where=where)
        _, writing = running.server.keys.add("writer", rights="write")
        for method, path in (
            ("GET", "/v1/tunings"),
            ("GET", "/v1/jobs"),
            ("POST", "/v1/tunings/rollback"),
            ("GET", "/v1/feedback"),
        ):
            reply = running.http.request(method, path, headers=bearer(token))
            assert (reply.status_code, reply.json()["error"]["type"]) == (403, "NotAllowed"), path
    with serving(folder) as running, Client(running.address, key=token) as reader:
        kept = reader.feedback("who rotates?", opened=seen["document"]["id"], rank=3)
        assert (kept["kind"], kept["rank"], kept["caller"]) == ("opened", 3, key.id)
        assert "secret" not in str(kept)
        if kind == "filtered":
            with pytest.raises(NotFound):
                reader.feedback("who rotates?", opened=hidden["document"]["id"], rank=1)
        with Client(running.address, key=writing) as writer:
            assert [each["question"] for each in writer.list_feedback()] == [
                "where is the others' secret?",
                "who rotates?",
            ]


@pytest.mark.parametrize("kind", ["folder", "postgres"])
def test_a_worker_of_any_store_tunes(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    empty_place = str(tmp_path) if kind == "folder" else request.getfixturevalue("postgres")
    fill_boxes(empty_place)
    with Engine.open(empty_place) as engine:
        questions = [parse_question(each) for each in QUESTIONS]
        job = enqueue_tuning(engine, questions, candidates=LEXICAL)
        (ended,) = engine.run_jobs()
        assert (ended.id, ended.state, ended.error) == (job.id, "done", "")
        assert ended.result["is_kept"], ended.result["reason"]
        with pytest.raises(SettingsError, match="whole collection"):
            enqueue_tuning(engine.within(Filter(kinds={"page"})), questions)
    with Engine.open(empty_place, settings=Settings()) as engine:
        assert engine.settings.search.strategy == "lexical"
