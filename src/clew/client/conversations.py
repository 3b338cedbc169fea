"""The verbs on messages and people, as requests."""

from collections.abc import Iterable
from datetime import datetime

from clew.client import replies as r
from clew.client.bodies import filter_to_body, messages_to_body, time_to_body
from clew.client.request import Request, quote_name, read_field
from clew.core.filter import EVERYTHING, Filter
from clew.core.types import Message


def add_messages(messages: Iterable[Message]) -> Request[r.ReportReply]:
    """Adds messages as they are sent."""
    return Request("POST", "/v1/messages", {"messages": messages_to_body([*messages])})


def message(id: str) -> Request[r.MessageReply]:  # noqa: A002 (as in Message.id)
    """A message by its id, or `channel/id`."""
    return Request("GET", f"/v1/messages/{quote_name(id)}")


def drop_messages(id: str) -> Request[int]:  # noqa: A002
    """Removes a message by its id."""
    return Request("DELETE", f"/v1/messages/{quote_name(id)}", read=read_field("dropped"))


def channels() -> Request[list[str]]:
    """The channels that have messages."""
    return Request("GET", "/v1/channels", read=read_field("channels"))


def window(
    channel: str,
    prompt: str,
    *,
    tokens: int | None = None,
    include_related_channels: bool = False,
    min_similarity: float | None = None,
    where: Filter = EVERYTHING,
    now: datetime | None = None,
) -> Request[r.WindowReply]:
    """The messages of a channel that a prompt should contain."""
    body = {
        "channel": channel,
        "prompt": prompt,
        "tokens": tokens,
        "include_related_channels": include_related_channels,
        "min_similarity": min_similarity,
        "where": filter_to_body(where),
        "now": time_to_body(now),
    }
    return Request("POST", "/v1/window", body)


def profile(person: str) -> Request[r.ProfileReply]:
    """How a person writes."""
    return Request("GET", f"/v1/profile/{quote_name(person)}")


def style_prompt(person: str, message: str, *, tokens: int | None = None, now: datetime | None = None) -> Request[str]:
    """The prompt with which a model answers a message as a person would."""
    body = {"person": person, "message": message, "tokens": tokens, "now": time_to_body(now)}
    return Request("POST", "/v1/style-prompt", body, read=read_field("prompt"))
