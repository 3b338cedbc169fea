"""The paths that OpenAI's clients know: chat completions, embeddings, models.

A model is a collection: `clew` is the collection that the request or the key names, `clew:NAME` the one of that name.
The conversation is the query; the citations come back beside the answer, as `sources`.
"""

import base64
from collections.abc import AsyncIterator
from time import time
from typing import Annotated, Any, Literal
from uuid import uuid4

import numpy as np
from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field, Strict
from starlette.responses import Response

from clew.core.answer import Answer
from clew.core.errors import ClewError, NotFound, SettingsError
from clew.core.events import FinalEvent, SentenceEvent
from clew.core.trace import Trace
from clew.core.types import Message
from clew.engine import Engine
from clew.engine.collections import check_collection_name
from clew.surface.bodies import WHOLE, NameField, ShortText
from clew.surface.server.call import Caller, Calling, document_replies, reply_json
from clew.surface.server.errors import error_to_json
from clew.surface.server.events import EVENTS_SCHEMA, reply_events
from clew.surface.server.routes.jobs import list_collections
from clew.surface.to_json import answer_to_json, dump_json, to_json

Flag = Annotated[bool, Strict()]


class OpenBody(BaseModel):
    """A body that may have unknown fields: each version of the clients adds some."""

    model_config = ConfigDict(extra="allow")


class TextPart(OpenBody):
    """A part of a message; only texts are read."""

    type: Literal["text", "input_text"]
    text: Annotated[str, Strict(), Field(max_length=100_000)]


class ChatMessage(OpenBody):
    """A message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: (
        Annotated[str, Strict(), Field(max_length=200_000)] | Annotated[list[TextPart], Field(max_length=100)] | None
    ) = None
    name: ShortText | None = None

    def read_text(self) -> str:
        """Read the text of the message."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content)
        return self.content or ""

    def build(self) -> Message:
        """Build the Message."""
        return Message(self.read_text(), author=self.name or "", role=self.role)


class StreamOptions(OpenBody):
    """The options for the end of a stream."""

    include_usage: Flag = False


class ChatBody(OpenBody):
    """A conversation; its last message with the role `user` is the question."""

    model: NameField = Field(description="clew, or clew:COLLECTION.")
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=1000)]
    stream: Flag | None = False
    stream_options: StreamOptions | None = None
    n: Annotated[int, Strict(), Field(ge=1, le=1), WHOLE] | None = 1


class EmbeddingsBody(OpenBody):
    """Texts to be embedded by the embedder of the collection."""

    model: NameField = Field(description="Name of the embedder, or clew for the collection's.")
    input: (
        Annotated[str, Strict(), Field(min_length=1, max_length=100_000)]
        | Annotated[
            list[Annotated[str, Strict(), Field(min_length=1, max_length=100_000)]],
            Field(min_length=1, max_length=2048),
        ]
    )
    encoding_format: Literal["float", "base64"] | None = "float"
    dimensions: Annotated[int, Strict(), Field(ge=1, le=100_000), WHOLE] | None = None
    input_type: Literal["query", "passage"] = Field("passage", description="What the texts are: questions or passages.")


CHAT_REPLY: dict[str, Any] = {
    "type": "object",
    "required": ["id", "object", "created", "model", "choices", "usage", "sources", "clew"],
    "properties": {
        "id": {"type": "string"},
        "object": {"const": "chat.completion"},
        "created": {"type": "integer"},
        "model": {"type": "string"},
        "choices": {"type": "array", "items": {"type": "object"}},
        "usage": {"type": "object"},
        "sources": {"type": "array", "items": {"type": "object"}, "description": "What the answer cites."},
        "clew": {"type": "object", "description": "found, confidence, reason, parts and sentences of the answer."},
    },
}
EMBEDDINGS_REPLY: dict[str, Any] = {
    "type": "object",
    "required": ["object", "data", "model", "usage"],
    "properties": {
        "object": {"const": "list"},
        "data": {"type": "array", "items": {"type": "object"}},
        "model": {"type": "string"},
        "usage": {"type": "object"},
    },
}
MODEL_REPLY: dict[str, Any] = {
    "type": "object",
    "required": ["id", "object", "created", "owned_by"],
    "properties": {"id": {"type": "string"}, "object": {"const": "model"}, "created": {"type": "integer"}},
}
MODELS_REPLY: dict[str, Any] = {
    "type": "object",
    "required": ["object", "data"],
    "properties": {"object": {"const": "list"}, "data": {"type": "array", "items": MODEL_REPLY}},
}


router = APIRouter(prefix="/v1", tags=["as OpenAI"], responses=document_replies(404))
MODEL = "clew"
ModelPath = Annotated[str, Path(min_length=1, max_length=500, description="Name of a model.")]
DONE = "data: [DONE]\n\n"


def _document(schema: dict[str, Any], *, streams: bool = False) -> dict[int | str, dict[str, Any]]:
    content: dict[str, Any] = {"application/json": {"schema": schema}}
    if streams:
        content |= EVENTS_SCHEMA
    return {200: {"description": "done", "content": content}}


@router.post("/chat/completions", responses=_document(CHAT_REPLY, streams=True))
async def chat_completions(body: ChatBody, caller: Calling) -> Response:
    """Answer the last message of the user from the collection; earlier messages are its context."""
    caller.collection = choose_model_collection(body.model, caller)
    question, history = split_conversation(body)
    engine = await caller.call(lambda engine: engine, pool=caller.server.answers)
    head = {"id": f"chatcmpl-{uuid4().hex}", "created": int(time()), "model": body.model}
    if body.stream:
        return reply_events(_stream_chunks(caller, body, engine, question, history, head))
    answer = await caller.server.answers.run(lambda: engine.ask(question, history=history))
    choice = {"index": 0, "message": {"role": "assistant", "content": answer.text}, "finish_reason": finish_of(answer)}
    return reply_json(
        {
            **head,
            "object": "chat.completion",
            "choices": [{**choice, "logprobs": None}],
            "usage": usage_to_json(answer, engine),
            **sources_to_json(answer),
        }
    )


@router.post("/embeddings", responses=_document(EMBEDDINGS_REPLY))
async def embeddings(body: EmbeddingsBody, caller: Calling) -> Response:
    """Embed texts with the embedder of the collection, without access to the collection itself."""
    texts = [body.input] if isinstance(body.input, str) else body.input
    role: Literal["query", "passage"] = body.input_type

    def call(engine: Engine) -> dict[str, Any]:
        embedder = engine.opened.embedder
        if body.model not in (embedder.name, MODEL):
            raise NotFound(f"there is no embedder {body.model!r} here; this collection has {embedder.name!r}")
        if body.dimensions is not None and body.dimensions != embedder.dim:
            raise NotFound(f"{embedder.name} has {embedder.dim} dimensions and no others; leave out dimensions")
        vectors = np.asarray(embedder.embed(texts, role=role), dtype=np.float32)
        tokens = sum(embedder.count(texts))
        rows = [_vector_to_json(each, body.encoding_format) for each in vectors]
        return {
            "object": "list",
            "data": [{"object": "embedding", "index": place, "embedding": row} for place, row in enumerate(rows)],
            "model": embedder.name,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    return reply_json(await caller.call(call))


@router.get("/models", responses=_document(MODELS_REPLY))
async def models(caller: Calling) -> Response:
    """List the collections that the key opens, as models to chat with, and their embedders."""
    return reply_json({"object": "list", "data": [_model_to_json(name) for name in await _list_models(caller)]})


@router.get("/models/{model:path}", responses=_document(MODEL_REPLY))
async def model(model: ModelPath, caller: Calling) -> Response:
    """Return one of the models."""
    if model not in await _list_models(caller):
        raise NotFound(f"there is no model {model!r}; GET /v1/models lists them")
    return reply_json(_model_to_json(model))


async def _list_models(caller: Caller) -> list[str]:
    found = await caller.run(lambda: list_collections(caller))
    names = [MODEL, *(f"{MODEL}:{each['name']}" for each in found)]
    return names + sorted({each["embedder"] for each in found if each["embedder"]})


def _model_to_json(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": MODEL}


def choose_model_collection(model: str, caller: Caller) -> str | None:
    """Choose the collection that a model stands for; None for the one that the request or the key names."""
    name, _, collection = model.partition(":")
    if name != MODEL:
        raise NotFound(f"there is no model {model!r}; `clew` or `clew:COLLECTION` are")
    if collection:
        check_collection_name(collection)
    return collection or caller.collection


def split_conversation(body: ChatBody) -> tuple[str, list[Message]]:
    """Split a conversation into its last user message, and the user and assistant messages before it."""
    said = [each for each in body.messages if each.role in ("user", "assistant") and each.read_text().strip()]
    last = max((place for place, each in enumerate(said) if each.role == "user"), default=None)
    if last is None:
        raise SettingsError("the conversation has no message of the user with a text; add the question")
    return said[last].read_text(), [each.build() for each in said[:last]]


def sources_to_json(answer: Answer) -> dict[str, Any]:
    """Return the citations and confidence of an answer, beside OpenAI's own fields."""
    shown = to_json(answer_to_json(answer, trace=Trace("ask")))
    kept = ("found", "confidence", "reason", "fault", "parts", "sentences")
    return {"sources": shown["citations"], "clew": {name: shown[name] for name in kept}}


def finish_of(answer: Answer) -> str:
    """Return OpenAI's finish reason: `length` for an incomplete answer, whatever its fault, else `stop`."""
    return "length" if answer.fault else "stop"


def usage_to_json(answer: Answer, engine: Engine) -> dict[str, int]:
    """Return the tokens of the language model; without one, the tokens of question, passages and answer."""
    prompt, completion = answer.usage.input_tokens, answer.usage.output_tokens
    if not answer.usage.calls:
        asked, completion = engine.opened.embedder.count([answer.question, answer.text])
        prompt = asked + answer.context.tokens
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


async def _stream_chunks(
    caller: Caller, body: ChatBody, engine: Engine, question: str, history: list[Message], head: dict[str, Any]
) -> AsyncIterator[str]:
    def make_chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return f"data: {dump_json({**head, 'object': 'chat.completion.chunk', 'choices': [choice], **more})}\n\n"

    yield make_chunk({"role": "assistant", "content": ""})
    said = ""
    try:
        async with caller.server.streams.open(lambda: engine.ask_stream(question, history=history)) as events:
            async for event in events:
                if isinstance(event, SentenceEvent):
                    said += event.text
                    yield make_chunk({"content": event.text})
                elif isinstance(event, FinalEvent):
                    if not said:  # where there is no answer, no sentence was sent
                        yield make_chunk({"content": event.answer.text})
                    yield make_chunk({}, finish_of(event.answer), **sources_to_json(event.answer))
                    if body.stream_options is not None and body.stream_options.include_usage:
                        last = {**head, "object": "chat.completion.chunk", "choices": []}
                        yield f"data: {dump_json({**last, 'usage': usage_to_json(event.answer, engine)})}\n\n"
    except ClewError as error:
        yield f"data: {dump_json(error_to_json(error))}\n\n"
    yield DONE


def _vector_to_json(vector: "np.ndarray[Any, np.dtype[np.float32]]", form: str | None) -> Any:
    if form == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
    return [float(number) for number in vector]
