"""Web pages by URL, from servers on this machine: limits on size, time, redirects and addresses."""

import gzip
import ipaddress
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from time import sleep

import pytest

from clew.core.errors import SourceError
from clew.core.types import Document
from clew.index.read.web import fetch as web
from tests.loopback import LoopbackHandler, LoopbackServer, serving

Answer = Callable[[BaseHTTPRequestHandler], None]
PAGE = b"<title>Vault</title><nav>Menu</nav><main><h1>Keys</h1><p>They rotate.</p></main>"


def answer_with(data: bytes, kind: str = "text/html", status: int = 200, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        if kind:
            handler.send_header("Content-Type", kind)
        for key, value in headers.items():
            handler.send_header(key.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    return answer


def redirect_to(where: str, status: int = 302) -> Answer:
    return answer_with(b"", status=status, Location=where)


@contextmanager
def run_server(**paths: Answer) -> Iterator[str]:
    class Handler(LoopbackHandler):
        protocol_version = "HTTP/1.0"  # an answer ends with its connection

        def answer(self) -> None:
            paths[self.path.lstrip("/").partition("?")[0].partition(".")[0] or "index"](self)

    with serving(LoopbackServer(Handler)) as server:
        yield server.url


def read_page(url: str, **options: float) -> Document:
    return web.read_url(url, allow_private=True, **options)  # type: ignore[arg-type]


def test_a_page_is_read_by_what_the_server_calls_it() -> None:
    with run_server(
        index=answer_with(PAGE, "text/html; charset=utf-8"),
        latin=answer_with("<p>Grüße</p>".encode("latin-1"), "text/html; charset=ISO-8859-1"),
        notes=answer_with(b"# Keys\n\nThey rotate.", "text/markdown"),
        plain=answer_with(b"just words", "text/plain"),
        bare=answer_with(b"<!doctype html><p>words</p>", ""),
        picture=answer_with(b"\x89PNG", "image/png"),
        nothing=answer_with(b" "),
    ) as url:
        found = read_page(f"{url}/")
        assert (found.title, found.text, found.uri) == ("Vault", "# Keys\n\nThey rotate.", f"{url}/")
        assert read_page(f"{url}/latin").text == "Grüße"
        assert [s.label for s in read_page(f"{url}/notes").sections] == ["Keys"]
        assert read_page(f"{url}/plain").text == "just words"
        assert read_page(f"{url}/bare?a=b c").text == "words"
        with pytest.raises(SourceError, match="image/png"):
            read_page(f"{url}/picture")
        with pytest.raises(SourceError, match="empty"):
            read_page(f"{url}/nothing")


def test_private_addresses_are_refused_unless_allowed() -> None:
    with run_server(index=answer_with(PAGE)) as url:
        for refused in (url, url.replace("127.0.0.1", "localhost")):
            with pytest.raises(SourceError, match="private network"):
                web.read_url(refused)


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
        "64:ff9b:1::7f00:1",
        "2002:7f00:1::",
        "192.0.0.192",
        "168.63.129.16",
        "100.100.100.200",
        "192.88.99.1",
        "198.18.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::127.0.0.1",
        "::ffff:168.63.129.16",
        "64:ff9b::a83f:8110",
        "fec0::1",
        "3fff::1",
        "2001:db8::1",
        "2001:2::1",
        "100::1",
        "5f00::1",
        "ff02::1",
        "2606:2800:21f:cb07:0:5efe:7f00:1",
        "2606:2800:21f:cb07:200:5efe:a00:1",
    ],
)
def test_addresses_inside_a_network_are_not_public(address: str) -> None:
    assert not web.is_public_address(ipaddress.ip_address(address))
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(SourceError, match="private network"):
        web.fetch_url(f"http://{host}/")


def test_addresses_of_the_internet_are_public() -> None:
    assert web.is_public_address(ipaddress.ip_address("93.184.215.14"))
    assert web.is_public_address(ipaddress.ip_address("::ffff:93.184.215.14"))
    assert web.is_public_address(ipaddress.ip_address("64:ff9b::5db8:d70e"))
    assert web.is_public_address(ipaddress.ip_address("2606:2800:21f:cb07:6820:80da:af6b:8b2c"))


def test_the_address_that_was_checked_is_the_one_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    real = socket.getaddrinfo

    def once(host: str, *args: object, **kwargs: object) -> object:
        looked.append(host)
        return real(host, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", once)
    with run_server(index=answer_with(PAGE)) as url:
        read_page(url.replace("127.0.0.1", "localhost"))
    assert looked.count("localhost") == 1


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://a/b", "http://", "gopher://a", "/etc/passwd", "http://a:x/"]
)
def test_only_http_is_fetched(url: str) -> None:
    with pytest.raises(SourceError, match="not an"):
        web.fetch_url(url)


def test_redirects_are_followed_five_times_and_each_is_checked() -> None:
    with run_server(
        index=redirect_to("/a"),
        a=redirect_to("/b", 301),
        b=redirect_to("page.html", 308),
        page=answer_with(PAGE),
        loop=redirect_to("/loop"),
        away=redirect_to("file:///etc/passwd"),
        inside=redirect_to("http://169.254.169.254/latest"),
        five=redirect_to("/four"),
        four=redirect_to("/three"),
        three=redirect_to("/two"),
        two=redirect_to("/one"),
        one=redirect_to("/page"),
        six=redirect_to("/five"),
    ) as url:
        assert web.fetch_url(url, allow_private=True).url == f"{url}/page.html"
        assert web.fetch_url(f"{url}/five", allow_private=True).data == PAGE
        for path, reason in (("loop", "more than 5"), ("six", "more than 5"), ("away", "not an http")):
            with pytest.raises(SourceError, match=reason):
                web.fetch_url(f"{url}/{path}", allow_private=True)


def test_a_redirect_into_the_network_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_server(index=redirect_to("http://169.254.169.254/latest")) as url:
        monkeypatch.setattr(web, "is_public_address", lambda address: str(address) == "127.0.0.1")
        with pytest.raises(SourceError, match=r"169\.254\.169\.254, inside a private network"):
            web.fetch_url(url)


def test_too_much_is_refused_packed_or_not() -> None:
    with run_server(
        index=answer_with(b"x" * 5_000),
        packed=answer_with(gzip.compress(b"x" * 50_000_000), Content_Encoding="gzip"),
        small=answer_with(gzip.compress(b"<p>words</p>"), Content_Encoding="gzip"),
        odd=answer_with(b"x", Content_Encoding="br"),
    ) as url:
        for path in ("", "packed"):
            with pytest.raises(SourceError, match="too large"):
                web.fetch_url(f"{url}/{path}", allow_private=True, max_bytes=4_000)
        assert web.fetch_url(f"{url}/small", allow_private=True).data == b"<p>words</p>"
        with pytest.raises(SourceError, match="encoding br"):
            web.fetch_url(f"{url}/odd", allow_private=True)


def drip(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    try:
        for _ in range(200):
            handler.wfile.write(b"x")
            handler.wfile.flush()
            sleep(0.05)
    except OSError:
        pass


def drip_headers(handler: BaseHTTPRequestHandler) -> None:
    try:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
        drip(handler)
    except OSError:
        pass


def stay_silent(handler: BaseHTTPRequestHandler) -> None:
    sleep(3)


@pytest.mark.parametrize("answer", [drip, drip_headers, stay_silent])
def test_a_server_that_takes_its_time_is_left(answer: Answer) -> None:
    with run_server(index=answer) as url, pytest.raises(SourceError, match="in time"):
        web.fetch_url(url, allow_private=True, timeout=0.4)


def test_what_a_server_says_is_passed_on() -> None:
    with run_server(index=answer_with(b"", status=404), cut=answer_with(b"short", Content_Length="100")) as url:
        with pytest.raises(SourceError, match="answered 404"):
            web.fetch_url(url, allow_private=True)
        with pytest.raises(SourceError, match=r"closed the connection before|cannot be reached"):
            web.fetch_url(f"{url}/cut", allow_private=True)
    with pytest.raises(SourceError, match="cannot be reached"):
        web.fetch_url(url, allow_private=True)
