"""What a streamed reply says: the text of its events, and the answer inside a JSON turn while it is being written."""

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponseStreamEvent
    from pydantic_ai.models import Model

_ANSWER = re.compile(r'\s*(?:```(?:json)?\s*)?\{\s*"answer"\s*:\s*"')
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|u[0-9a-fA-F]{4}|[^u])")
_TEXT_BEGINS = re.compile(r"\s*[^\s{`]")


def extract_event_text(event: "ModelResponseStreamEvent") -> str:
    """The text of a stream event, if any."""
    from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta

    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def can_stream(model: "Model") -> bool:
    """Whether a pydantic-ai model streams; a FunctionModel does only if it was given a function for that."""
    from pydantic_ai.models import Model
    from pydantic_ai.models.function import FunctionModel

    if isinstance(model, FunctionModel):
        return model.stream_function is not None
    return type(model).request_stream is not Model.request_stream


class TurnText:
    """The answer in a turn of a model without tool calls of its own, piece by piece as the turn is written.

    A turn is plain text, `{"answer": TEXT}`, or a tool call, which says nothing.
    """

    def __init__(self) -> None:
        self._waiting = ""
        self._state = "start"  # then "text", "answer" or "silent"

    def feed(self, piece: str) -> str:
        """What the next piece of the turn adds to the answer."""
        self._waiting += piece
        if self._state == "start":
            if begun := _ANSWER.match(self._waiting):
                self._state, self._waiting = "answer", self._waiting[begun.end() :]
            elif _TEXT_BEGINS.match(self._waiting):
                self._state = "text"
        if self._state == "answer":
            return self._decode()
        if self._state != "text":
            return ""
        said, self._waiting = self._waiting, ""
        return said

    def _decode(self) -> str:
        """The whole characters of the JSON string so far; the rest waits for its end."""
        said, at = "", 0
        while at < len(self._waiting):
            if self._waiting[at] == '"':
                self._state = "silent"
                break
            if self._waiting[at] != "\\":
                said, at = said + self._waiting[at], at + 1
            elif escape := _ESCAPE.match(self._waiting, at):
                text = escape.group()
                if re.fullmatch(r"\\u[dD][89abAB]..", text) and len(self._waiting) - at < 12:
                    break  # half of a pair: the other half may follow
                said, at = said + json.loads(f'"{text}"'), escape.end()
            else:
                break
        self._waiting = self._waiting[at:]
        return said
