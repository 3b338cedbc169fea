"""Evaluations over HTTP: started as a job, listed, read, and seen by who sees the whole collection."""

import time
from pathlib import Path
from typing import cast

import pytest
from typer.testing import CliRunner

from clew import ClewError, Client, Document, Engine, Filter, NotFound, SettingsError
from clew.evaluation import JudgedQuestion, enqueue_evaluation, list_runs, read_questions
from clew.surface.cli.app import app
from tests.surface.server.conftest import serving
from tests.surface.server.test_guard import bearer

QUESTION = "who rotates the vault key?"


def make_question(folder: Path) -> dict[str, object]:
    with Engine.open(folder, embedder="hashed") as engine:
        return {"id": "q1", "question": QUESTION, "relevant": [engine.search(QUESTION)[0].document.id]}


@pytest.mark.slow
def test_an_evaluation_is_a_job_and_then_a_run(folder: Path) -> None:
    question = make_question(folder)
    with serving(folder) as running, Client(running.address) as client:
        assert client.list_runs() == []
        job = client.enqueue_evaluation([question], strategies=["lexical", "hybrid"], k=3, tokens=0)
        deadline = time.monotonic() + 60
        while job["state"] not in ("done", "failed", "cancelled") and time.monotonic() < deadline:
            time.sleep(0.02)
            job = client.job(job["id"])
        assert (job["kind"], job["state"], job["error"]) == ("evaluate", "done", "")
        assert job["result"]["systems"]["lexical"]["nDCG@3"] == 1.0
        (run,) = client.list_runs()
        assert (run["id"], run["is_finished"], run["systems"]) == (job["result"]["run"], True, ["lexical", "hybrid"])
        shown = client.read_run(run["id"])
        assert [each["name"] for each in shown["systems"]] == ["lexical", "hybrid"]
        assert shown["file"] is None  # no path of the server
        lexical = shown["systems"][0]
        assert lexical["intervals"]["nDCG@3"] == [1.0, 1.0]
        assert lexical["recall"][0] == 1.0
        assert sum(lexical["relevances"]["relevant"]) == 1
        assert client.read_run("last") == shown
        with pytest.raises(NotFound):
            client.read_run("20240101-000000-000-abcd")
        with pytest.raises(NotFound, match="strategy"):
            client.enqueue_evaluation([question], strategies=["magic"])
        with pytest.raises(SettingsError, match="nothing is judged relevant"):
            client.enqueue_evaluation([{"question": "why?"}])
        assert running.get("/v1/evaluations/..%2Fclew.db").status_code in (404, 422)
        for odd in ('{"a": 1e999}', '{"a": ' + "1" * 400 + "}", r'["\ud800"]', '{"a": ' + "[" * 150 + "]" * 150 + "}"):
            reply = running.http.post(
                "/v1/evaluations",
                content='{"questions": [{"question": "why?", "relevant": ' + odd + "}]}",
                headers={"content-type": "application/json"},
            )
            assert reply.status_code in (400, 422), reply.text
        assert running.get("/v1/tunings").status_code == 404  # `clew tune` tunes


@pytest.mark.parametrize("kind", ["reads", "filtered"])
@pytest.mark.slow
def test_a_key_that_sees_a_part_or_only_reads_sees_no_run(folder: Path, kind: str) -> None:
    question = make_question(folder)
    with serving(folder) as running:
        where = Filter(channels={"ops"}) if kind == "filtered" else Filter()
        _, token = running.server.keys.add(kind, rights="read", where=where)
        for method, path, body in (
            ("GET", "/v1/evaluations", None),
            ("GET", "/v1/evaluations/last", None),
            ("POST", "/v1/evaluations", {"questions": [question]}),
            ("POST", "/v1/evaluations/questions", {"sources": ["feedback"]}),
        ):
            reply = running.http.request(method, path, json=body, headers=bearer(token))
            assert (reply.status_code, reply.json()["error"]["type"]) == (403, "NotAllowed"), path


def test_a_worker_of_any_store_runs_it(place: str) -> None:
    with Engine.open(place, embedder="hashed") as engine:
        document = engine.search(QUESTION)[0].document.id
        job = enqueue_evaluation(engine, [JudgedQuestion(QUESTION, {document: 1})], strategies=["lexical"], k=3)
        (ended,) = engine.run_jobs()
        assert (ended.id, ended.state, ended.error) == (job.id, "done", "")
        assert ended.result["systems"]["lexical"]["nDCG@3"] == 1.0
        assert ended.result["is_kept"]
        assert len(list_runs(engine)) == 1
        with pytest.raises(SettingsError, match="whole collection"):
            enqueue_evaluation(engine.within(Filter(kinds={"page"})), [JudgedQuestion(QUESTION, {document: 1})])
        with pytest.raises(SettingsError, match="no questions"):
            enqueue_evaluation(engine, [])


@pytest.mark.slow
def test_the_thumbs_of_users_become_questions(folder: Path, tmp_path: Path) -> None:
    question = make_question(folder)
    document = str(cast("list[str]", question["relevant"])[0])
    file = tmp_path / "asked.jsonl"
    command = ["--path", str(folder), "evaluate", "make", str(file), "--source", "feedback"]
    environ = {"CLEW_EMBEDDER__NAME": "hashed"}
    with serving(folder) as running, Client(running.address) as client:
        assert client.make_questions(sources=["feedback"]) == []
        refused = CliRunner().invoke(app, command, env=environ)
        assert refused.exit_code
        client.feedback(QUESTION, good=True, documents=[document])
        client.feedback("is there cake?", good=False, documents=[document])
        (made,) = client.make_questions(sources=["feedback"])
        assert made["question"] == QUESTION
        plan = "Call Ines first. She revokes what is lost, makes a new pair and tells the stations about it at once."
        client.add_documents([Document("plan", plan, title="Emergency key rotation")])
        assert client.make_questions(sources=["titles"], count=1)[0]["question"] == "What about Emergency key rotation?"
        with pytest.raises(ClewError, match="sources"):
            client.make_questions(sources=["rumours"])  # type: ignore[list-item]
    done = CliRunner().invoke(app, command, env=environ)
    assert done.exit_code == 0, done.output
    (read,) = read_questions(file)
    assert (read.question, dict(read.relevant)) == (QUESTION, made["relevant"])


@pytest.mark.parametrize("kind", ["reads", "filtered"])
@pytest.mark.slow
def test_a_filtered_key_sees_no_feedback_and_says_what_it_opened(folder: Path, kind: str) -> None:
    with serving(folder) as running, Client(running.address) as client:
        shown = client.search("who rotates the vault key?", k=10)["hits"]
        seen = next(hit for hit in shown if hit["chunk"]["meta"].get("channel") == "ops")
        hidden = next(hit for hit in shown if hit["chunk"]["meta"].get("channel") != "ops")
        client.feedback("where is the others' secret?", opened=hidden["document"]["id"], rank=1)
        where = Filter(channels={"ops"}) if kind == "filtered" else Filter()
        key, token = running.server.keys.add(kind, rights="read", where=where)
        _, writing = running.server.keys.add("writer", rights="write")
        for path in ("/v1/jobs", "/v1/feedback"):
            reply = running.http.get(path, headers=bearer(token))
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
