"""Connections that are held without use: they are closed, whatever part of a request or reply they stand at."""

import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from clew import Document, Engine
from tests.surface.server.conftest import Running, serving
from tests.surface.server.test_watch import ask_health, connect, read_all, wait_until

HEAD = b"POST /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n"
READ = b"GET /v1/document?id=big HTTP/1.1\r\nhost: localhost\r\n\r\n"
SIZE = 1_000_000


@pytest.mark.parametrize("head", [HEAD, HEAD.replace(b"POST /v1/search", b"GET /health")], ids=["refused", "answered"])
@pytest.mark.slow
def test_a_body_that_was_answered_early_is_not_awaited_for_ever(folder: Path, head: bytes) -> None:
    with serving(folder, body_timeout=0.3) as running:
        running.server.keys.add("one")
        with closing(connect(running, head)) as held:
            assert read_all(held, end=b"}").startswith((b"HTTP/1.1 401 ", b"HTTP/1.1 200 "))
            held.sendall(b"x")  # ends the wait for the next request
            assert held.recv(4096) == b""


@pytest.mark.slow
def test_a_body_that_comes_after_its_reply_leaves_the_connection_open(folder: Path) -> None:
    with serving(folder) as running:
        running.server.keys.add("one")
        with closing(connect(running, HEAD)) as kept:
            assert b" 401 " in read_all(kept, end=b"}")
            kept.sendall(b"x" * 1000 + b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert b" 200 " in read_all(kept, end=b"}")


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a document of a megabyte."""
    path = tmp_path_factory.mktemp("big") / "store"
    with Engine.open(path, embedder="hashed") as engine:
        engine.add_documents([Document("big", "word " * (SIZE // 5))])
    return path


@pytest.fixture
def reading(big: Path) -> Iterator[Running]:
    """A server that has one connection at a time, and little patience."""
    with serving(big, body_timeout=0.3, max_connections=1) as running:
        yield running


def connect_narrow(running: Running, sent: bytes) -> socket.socket:
    """A connection with little room for what comes."""
    host, _, port = running.address.partition("://")[2].partition(":")
    made = socket.socket()
    made.settimeout(20)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.connect((host, int(port)))
    made.sendall(sent)
    return made


@pytest.mark.parametrize("sent", [READ, READ.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")])
@pytest.mark.slow
def test_a_reply_that_nobody_reads_is_given_up(reading: Running, sent: bytes) -> None:
    with closing(connect_narrow(reading, sent)) as held:
        assert b" 200 " in held.recv(64)
        wait_until(lambda: b" 200 " in ask_health(reading))  # the only place is free again
        assert len(read_all(held)) < SIZE


@pytest.mark.slow
def test_a_reply_that_is_read_slowly_comes_whole(reading: Running) -> None:
    with closing(connect_narrow(reading, READ.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))) as slow:
        size = 0
        while part := slow.recv(65536):
            size += len(part)
            time.sleep(len(part) / SIZE)  # a second in all, and more than one look at it
        assert size > SIZE
