"""Pages by address, from servers on this machine: bounds of size, time, redirects and place."""

import gzip
import ipaddress
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from time import monotonic, sleep

import pytest

from clew.core.errors import SourceError
from clew.core.types import Document
from clew.index.read.web import fetch as web

Answer = Callable[[BaseHTTPRequestHandler], None]
PAGE = b"<title>Vault</title><nav>Menu</nav><main><h1>Keys</h1><p>They rotate.</p></main>"


def sent(data: bytes, kind: str = "text/html", status: int = 200, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        if kind:
            handler.send_header("Content-Type", kind)
        for key, value in headers.items():
            handler.send_header(key.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    return answer


def led(where: str, status: int = 302) -> Answer:
    return sent(b"", status=status, Location=where)


@contextmanager
def served(**paths: Answer) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths[self.path.lstrip("/").partition("?")[0].partition(".")[0] or "index"](self)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def read(url: str, **options: float) -> Document:
    return web.page(url, allow_private=True, **options)  # type: ignore[arg-type]


def test_a_page_is_read_by_what_the_server_calls_it() -> None:
    with served(
        index=sent(PAGE, "text/html; charset=utf-8"),
        latin=sent("<p>Grüße</p>".encode("latin-1"), "text/html; charset=ISO-8859-1"),
        notes=sent(b"# Keys\n\nThey rotate.", "text/markdown"),
        plain=sent(b"just words", "text/plain"),
        bare=sent(b"<!doctype html><p>words</p>", ""),
        picture=sent(b"\x89PNG", "image/png"),
        nothing=sent(b" "),
    ) as url:
        found = read(f"{url}/")
        assert (found.title, found.text, found.uri) == ("Vault", "# Keys\n\nThey rotate.", f"{url}/")
        assert read(f"{url}/latin").text == "Grüße"
        assert [s.label for s in read(f"{url}/notes").sections] == ["Keys"]
        assert read(f"{url}/plain").text == "just words"
        assert read(f"{url}/bare?a=b c").text == "words"
        with pytest.raises(SourceError, match="image/png"):
            read(f"{url}/picture")
        with pytest.raises(SourceError, match="empty"):
            read(f"{url}/nothing")


def test_private_addresses_are_refused_unless_allowed() -> None:
    with served(index=sent(PAGE)) as url:
        for refused in (url, url.replace("127.0.0.1", "localhost")):
            with pytest.raises(SourceError, match="private network"):
                web.page(refused)


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "192.168.1.1",
        "172.16.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "fe80::1",
        "fd00::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
    ],
)
def test_addresses_inside_a_network_are_not_public(address: str) -> None:
    assert not web.is_public(ipaddress.ip_address(address))
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(SourceError, match="private network"):
        web.fetch(f"http://{host}/")


def test_addresses_of_the_internet_are_public() -> None:
    assert web.is_public(ipaddress.ip_address("93.184.215.14"))
    assert web.is_public(ipaddress.ip_address("2606:2800:21f:cb07:6820:80da:af6b:8b2c"))


def test_the_address_that_was_checked_is_the_one_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    real = socket.getaddrinfo

    def once(host: str, *args: object, **kwargs: object) -> object:
        looked.append(host)
        return real(host, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", once)
    with served(index=sent(PAGE)) as url:
        read(url.replace("127.0.0.1", "localhost"))
    assert looked.count("localhost") == 1


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://a/b", "http://", "gopher://a", "/etc/passwd", "http://a:x/"]
)
def test_only_http_is_fetched(url: str) -> None:
    with pytest.raises(SourceError, match="not an"):
        web.fetch(url)


def test_redirects_are_followed_five_times_and_each_is_checked() -> None:
    with served(
        index=led("/a"),
        a=led("/b", 301),
        b=led("page.html", 308),
        page=sent(PAGE),
        loop=led("/loop"),
        away=led("file:///etc/passwd"),
        inside=led("http://169.254.169.254/latest"),
        five=led("/four"),
        four=led("/three"),
        three=led("/two"),
        two=led("/one"),
        one=led("/page"),
        six=led("/five"),
    ) as url:
        assert web.fetch(url, allow_private=True).url == f"{url}/page.html"
        assert web.fetch(f"{url}/five", allow_private=True).data == PAGE
        for path, reason in (("loop", "more than 5"), ("six", "more than 5"), ("away", "not an http")):
            with pytest.raises(SourceError, match=reason):
                web.fetch(f"{url}/{path}", allow_private=True)


def test_a_redirect_into_the_network_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(index=led("http://169.254.169.254/latest")) as url:
        monkeypatch.setattr(web, "is_public", lambda address: str(address) == "127.0.0.1")
        with pytest.raises(SourceError, match=r"169\.254\.169\.254, inside a private network"):
            web.fetch(url)


def test_too_much_is_refused_packed_or_not() -> None:
    with served(
        index=sent(b"x" * 5_000),
        packed=sent(gzip.compress(b"x" * 50_000_000), Content_Encoding="gzip"),
        small=sent(gzip.compress(b"<p>words</p>"), Content_Encoding="gzip"),
        odd=sent(b"x", Content_Encoding="br"),
    ) as url:
        for path in ("", "packed"):
            with pytest.raises(SourceError, match="too large"):
                web.fetch(f"{url}/{path}", allow_private=True, max_bytes=4_000)
        assert web.fetch(f"{url}/small", allow_private=True).data == b"<p>words</p>"
        with pytest.raises(SourceError, match="encoding br"):
            web.fetch(f"{url}/odd", allow_private=True)


def dripping(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    try:
        for _ in range(200):
            handler.wfile.write(b"x")
            handler.wfile.flush()
            sleep(0.05)
    except OSError:
        pass


def dripping_headers(handler: BaseHTTPRequestHandler) -> None:
    try:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
        dripping(handler)
    except OSError:
        pass


def silent(handler: BaseHTTPRequestHandler) -> None:
    sleep(3)


@pytest.mark.parametrize("answer", [dripping, dripping_headers, silent])
def test_a_server_that_takes_its_time_is_left(answer: Answer) -> None:
    with served(index=answer) as url:
        started = monotonic()
        with pytest.raises(SourceError, match="in time"):
            web.fetch(url, allow_private=True, seconds=0.4)
        assert monotonic() - started < 2.5


def test_what_a_server_says_is_passed_on() -> None:
    with served(index=sent(b"", status=404), cut=sent(b"short", Content_Length="100")) as url:
        with pytest.raises(SourceError, match="answered 404"):
            web.fetch(url, allow_private=True)
        with pytest.raises(SourceError, match=r"ended before|cannot be reached"):
            web.fetch(f"{url}/cut", allow_private=True)
    with pytest.raises(SourceError, match="cannot be reached"):
        web.fetch(url, allow_private=True)
