"""HTTP servers on loopback: what becomes of an answer is tested against one that gives it."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any, TypeVar

Reply = tuple[int, dict[str, str], bytes]  # status, headers and body


class LoopbackServer(ThreadingHTTPServer):
    """A server on a free port; `url` is its address."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, handler: type["LoopbackHandler"]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.lock = Lock()
        self.closing = Event()  # what hangs waits for it

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: clients that hang up are meant to."""


class LoopbackHandler(BaseHTTPRequestHandler):
    """Answers every method by `answer`, which reads and replies in one call each; logs nothing."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # head and body in one packet

    def do_GET(self) -> None:
        self.answer()

    do_HEAD = do_POST = do_GET  # noqa: N815

    def answer(self) -> None:
        """Answers a request; each handler has its own."""
        raise NotImplementedError

    def read_json(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def reply(self, status: int, headers: Mapping[str, str], body: bytes, *, missing: int = 0) -> None:
        """Sends an answer; `missing` bytes more are promised and never sent."""
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body) + missing)}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.close_connection = bool(missing)

    def reply_json(self, answer: object, status: int = 200) -> None:
        self.reply(status, {"Content-Type": "application/json"}, json.dumps(answer).encode())

    def start_events(self) -> None:
        """Starts a stream of events, each sent at once, which ends with the connection."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def send_event(self, event: object) -> None:
        self.wfile.write(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode())
        self.wfile.flush()

    def handle(self) -> None:
        with suppress(ConnectionError):  # a client that gave up waiting
            super().handle()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def make_completion(text: str | None, *, finish: str = "stop", tokens: tuple[int, int] = (11, 5)) -> dict[str, Any]:
    """A completion as OpenAI sends it."""
    asked, said = tokens
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


class JsonServer(LoopbackServer):
    """Answers each body by a function; keeps what was asked and with which keys."""

    def __init__(self, answer: Callable[[dict[str, Any]], Reply]) -> None:
        super().__init__(JsonHandler)
        self.answer = self.good = answer
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []

    def plan(self, *replies: Reply | None) -> None:
        """Each reply once, in order (None: a good one), the last for ever."""
        left = list(replies)

        def answer(asked: dict[str, Any]) -> Reply:
            reply = left.pop(0) if len(left) > 1 else left[0]
            return self.good(asked) if reply is None else reply

        self.answer = answer


class JsonHandler(LoopbackHandler):
    server: JsonServer

    def answer(self) -> None:
        asked = self.read_json()
        with self.server.lock:
            self.server.asked.append({"path": self.path, **asked})
            self.server.keys.append(self.headers["Authorization"])
        self.reply(*self.server.answer(asked))


Served = TypeVar("Served", bound=LoopbackServer)


@contextmanager
def serving(server: Served) -> Iterator[Served]:
    """Runs a server in a thread, and ends whatever hangs."""
    with server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            server.shutdown()
            thread.join()
