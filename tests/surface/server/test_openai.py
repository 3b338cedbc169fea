"""OpenAI's own client library against the server: chat completions in both modes, embeddings, models."""

from pathlib import Path

import openai
import pytest
from openai.types.chat import ChatCompletionUserMessageParam

from clew import Engine
from tests.surface.server.conftest import Running, fill, serving


@pytest.fixture(scope="module")
def client(shared: Running) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{shared.address}/v1", api_key="none needed", max_retries=0)


@pytest.mark.slow
def test_a_chat_is_answered_with_sources(client: openai.OpenAI) -> None:
    reply = client.chat.completions.create(
        model="clew",
        messages=[
            {"role": "system", "content": "You are helpful."},
            {"role": "user", "content": "Tell me about the vault key."},
            {"role": "assistant", "content": "What of it?"},
            {"role": "user", "content": [{"type": "text", "text": "Who rotates the vault key?"}]},
        ],
        temperature=0,
    )
    assert reply.choices[0].message.content == "Dan rotates the vault key on Monday. [1]"
    assert reply.choices[0].finish_reason == "stop"
    assert reply.model_extra is not None
    assert [each["document"] for each in reply.model_extra["sources"]] == ["keys"]
    assert reply.model_extra["clew"]["found"] is True
    assert reply.usage is not None
    assert reply.usage.prompt_tokens > 10  # the question and the passages
    assert reply.usage.total_tokens - reply.usage.prompt_tokens == reply.usage.completion_tokens > 5


def test_models_are_retrieved_by_their_names(client: openai.OpenAI) -> None:
    for each in client.models.list():
        assert client.models.retrieve(each.id) == each
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-4")


def test_a_streamed_chat_says_the_same(client: openai.OpenAI) -> None:
    parts = list(
        client.chat.completions.create(
            model="clew:default",
            messages=[{"role": "user", "content": "Who rotates the vault key?"}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    text = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    assert text == "Dan rotates the vault key on Monday. [1]"
    assert parts[-1].usage is not None
    assert parts[-1].usage.completion_tokens > 5
    assert not parts[-1].choices
    last = parts[-2]
    assert last.choices[0].finish_reason == "stop"
    assert last.model_extra is not None
    assert last.model_extra["sources"][0]["document"] == "keys"


def test_where_there_is_no_answer_the_stream_says_so(client: openai.OpenAI) -> None:
    asked: ChatCompletionUserMessageParam = {"role": "user", "content": "zzz qqq xxx?"}
    whole = client.chat.completions.create(model="clew", messages=[asked])
    parts = client.chat.completions.create(model="clew", messages=[asked], stream=True)
    streamed = "".join(part.choices[0].delta.content or "" for part in parts)
    assert streamed == whole.choices[0].message.content != ""
    assert whole.model_extra is not None
    assert whole.model_extra["clew"]["found"] is False


def test_embeddings_are_those_of_the_embedder(client: openai.OpenAI) -> None:
    reply = client.embeddings.create(model="hashed", input=["vault key", "soup"])
    plain = client.embeddings.create(model="clew", input="vault key", encoding_format="float")
    with Engine.open(":memory:", embedder="hashed") as engine:
        expected = engine.opened.embedder.embed(["vault key", "soup"], role="passage")
    assert [each.embedding for each in reply.data] == [pytest.approx(row.tolist(), abs=1e-6) for row in expected]
    assert plain.data[0].embedding == pytest.approx(reply.data[0].embedding, abs=1e-6)


def test_models_are_the_collections(client: openai.OpenAI) -> None:
    assert [each.id for each in client.models.list()] == ["clew", "clew:default", "hashed"]
    with pytest.raises(openai.NotFoundError, match="there is no model 'gpt'"):
        client.chat.completions.create(model="gpt", messages=[{"role": "user", "content": "hello"}])
    with pytest.raises(openai.UnprocessableEntityError, match="no message of the user"):
        client.chat.completions.create(model="clew", messages=[{"role": "assistant", "content": "hello"}])


@pytest.mark.slow
def test_a_key_is_sent_as_openais(tmp_path: Path) -> None:
    fill(tmp_path)
    with serving(tmp_path) as running:
        _, token = running.server.keys.add("me", collections=frozenset({"other"}))
        wrong = openai.OpenAI(base_url=f"{running.address}/v1", api_key="wrong", max_retries=0)
        with pytest.raises(openai.AuthenticationError):
            wrong.models.list()
        right = openai.OpenAI(base_url=f"{running.address}/v1", api_key=token, max_retries=0)
        assert [each.id for each in right.models.list()] == ["clew"]
        with pytest.raises(openai.PermissionDeniedError):
            right.chat.completions.create(model="clew:default", messages=[{"role": "user", "content": "vault"}])
