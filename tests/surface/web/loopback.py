"""A language model behind OpenAI's interface on loopback, which the page's answers are written by."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SAID = "Dan rotates the vault key on Monday [1]. He also paints the ferry [1]."
CALL = {"name": "search_knowledge_base", "arguments": json.dumps({"query": "who rotates the vault key"})}


class ModelServer(ThreadingHTTPServer):
    """The model; while its gate is closed, it stops before the word at `gate_at`, in its first sentence."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.gate = threading.Event()
        self.gate.set()
        self.gate_at = 6
        self.said = SAID
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelServer

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_answer = "tools" not in asked or any(each["role"] == "tool" for each in asked["messages"])
        call = {"index": 0, "id": "call-1", "type": "function", "function": CALL}
        if asked.get("stream"):
            spoken = self.server.said.split(" ")
            words = [{"content": f"{' ' * bool(place)}{word}"} for place, word in enumerate(spoken)]
            before: list[dict[str, Any]] = [{"content": "Let me look."}, {"tool_calls": [call]}]
            self.reply_events(words if is_answer else before, is_answer=is_answer)
        else:
            said = {"content": self.server.said} if is_answer else {"content": None, "tool_calls": [call]}
            self.reply(make_reply("chat.completion", message={"role": "assistant", **said}, is_answer=is_answer))

    def reply(self, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def reply_events(self, deltas: list[dict[str, Any]], *, is_answer: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for place, delta in enumerate(deltas):
            if is_answer and place == self.server.gate_at:
                self.server.gate.wait(60)
            chunk = make_reply("chat.completion.chunk", delta={"role": "assistant", **delta})
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        last = make_reply("chat.completion.chunk", delta={}, is_answer=is_answer)
        self.wfile.write(f"data: {json.dumps(last)}\n\ndata: [DONE]\n\n".encode())
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Says nothing."""


def make_reply(kind: str, *, is_answer: bool | None = None, **choice: Any) -> dict[str, Any]:
    """A reply, or a part of one; `is_answer` says how the last part ends."""
    finish = None if is_answer is None else "stop" if is_answer else "tool_calls"
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    body = {"id": "1", "object": kind, "created": 1, "model": "m", "usage": usage if finish else None}
    return {**body, "choices": [{"index": 0, "finish_reason": finish, **choice}]}


@contextmanager
def serving_model() -> Iterator[ModelServer]:
    """A model that searches once where it has tools, then says two sentences, one of them true."""
    with ModelServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.gate.set()
            server.shutdown()
            thread.join()
