"""What OpenAI's clients send: the fields that mean something here are strict, the others are accepted and ignored."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict

from clew.core.types import Message
from clew.surface.bodies import WHOLE, NameField, ShortText

Flag = Annotated[bool, Strict()]


class OpenBody(BaseModel):
    """A body that may have fields we do not know: each version of the clients has more."""

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
        """The text of the message."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content)
        return self.content or ""

    def build(self) -> Message:
        """The Message."""
        return Message(self.read_text(), author=self.name or "", role=self.role)


class StreamOptions(OpenBody):
    """What a stream ends with."""

    include_usage: Flag = False


class ChatBody(OpenBody):
    """A conversation, whose last message of the user is the question."""

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
