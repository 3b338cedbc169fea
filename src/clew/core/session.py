"""Sessions as a store keeps them: which documents a conversation has numbered, and what was said in it."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from clew.core.types import Message


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session: its documents in the order of their numbers, from 1, and the messages of its chat.

    `used` is when it was used last, in seconds since 1970. One that is `kept` is never dropped for being old.
    """

    documents: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    used: float = 0.0
    kept: bool = False

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each document, by its id."""
        return {doc_id: number for number, doc_id in enumerate(self.documents, 1)}


ChangeSession = Callable[[StoredSession], StoredSession]


def messages_to_json(messages: tuple[Message, ...]) -> str:
    """The roles and texts of messages as JSON, in ASCII: it escapes also what UTF-8 cannot encode."""
    return json.dumps([[message.role, message.text] for message in messages])


def parse_messages(text: str) -> tuple[Message, ...]:
    """The messages that `messages_to_json` wrote."""
    return tuple(Message(said, role=role) for role, said in json.loads(text))
