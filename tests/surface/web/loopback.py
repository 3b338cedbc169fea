"""A language model behind OpenAI's interface on loopback, which the page's answers are written by."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

from tests.loopback import LoopbackHandler, LoopbackServer, serving

SAID = "Dan rotates the vault key on Monday [1]. He also paints the ferry [1]."
CALL = {"name": "search_knowledge_base", "arguments": json.dumps({"query": "who rotates the vault key"})}


class ModelServer(LoopbackServer):
    """The model; while its gate is closed, it stops before the word at `gate_at`, in its first sentence."""

    def __init__(self) -> None:
        super().__init__(Handler)
        self.gate = Event()
        self.gate.set()
        self.gate_at = 6
        self.said = SAID
        self.url = f"{self.url}/v1"


class Handler(LoopbackHandler):
    server: ModelServer

    def answer(self) -> None:
        asked = self.read_json()
        is_answer = "tools" not in asked or any(each["role"] == "tool" for each in asked["messages"])
        call = {"index": 0, "id": "call-1", "type": "function", "function": CALL}
        if asked.get("stream"):
            spoken = self.server.said.split(" ")
            words = [{"content": f"{' ' * bool(place)}{word}"} for place, word in enumerate(spoken)]
            before: list[dict[str, Any]] = [{"content": "Let me look."}, {"tool_calls": [call]}]
            self.reply_events(words if is_answer else before, is_answer=is_answer)
        else:
            said = {"content": self.server.said} if is_answer else {"content": None, "tool_calls": [call]}
            self.reply_json(make_reply("chat.completion", message={"role": "assistant", **said}, is_answer=is_answer))

    def reply_events(self, deltas: list[dict[str, Any]], *, is_answer: bool) -> None:
        self.start_events()
        for place, delta in enumerate(deltas):
            if is_answer and place == self.server.gate_at:
                self.server.gate.wait(60)
            self.send_event(make_reply("chat.completion.chunk", delta={"role": "assistant", **delta}))
        self.send_event(make_reply("chat.completion.chunk", delta={}, is_answer=is_answer))
        self.send_event("[DONE]")


def make_reply(kind: str, *, is_answer: bool | None = None, **choice: Any) -> dict[str, Any]:
    """A reply, or a part of one; `is_answer` says how the last part ends."""
    finish = None if is_answer is None else "stop" if is_answer else "tool_calls"
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    body = {"id": "1", "object": kind, "created": 1, "model": "m", "usage": usage if finish else None}
    return {**body, "choices": [{"index": 0, "finish_reason": finish, **choice}]}


@contextmanager
def serving_model() -> Iterator[ModelServer]:
    """A model that searches once where it has tools, then says two sentences, one of them true."""
    with serving(ModelServer()) as server:
        try:
            yield server
        finally:
            server.gate.set()
