"""A page by its address: fetched within bounds of size and time, from public addresses only unless others are allowed.

A name is looked up once and the connection goes to the very address that was checked, so that a name server that
changes its mind in between gains nothing. Every redirect is checked in the same way.
"""

import http.client
import ipaddress
import socket
import ssl
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import Message as Headers
from pathlib import PurePosixPath
from threading import Thread, Timer
from time import monotonic
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from clew.core.errors import SourceError
from clew.core.types import Document
from clew.index.read.pdf.document import pdf
from clew.index.read.text.markdown import markdown
from clew.index.read.text.plain import plain
from clew.index.read.web.html import html, spelled

MAX_BYTES = 20_000_000
SECONDS = 30.0
REDIRECTS = 5
_HEADERS = {
    "User-Agent": "clew (reads a page that its user names)",
    "Accept": "text/html, text/markdown, text/plain, application/pdf, */*;q=0.1",
    "Accept-Encoding": "gzip",
    "Connection": "close",
}
_SAFE = "%/:=&?~+!$,;'@()*[]"
_STEP = 1 << 16
_PORTS = {"http": 80, "https": 443}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Fetched:
    """What stands at an address: its bytes, what the server calls them, and the address they came from in the end."""

    data: bytes
    content_type: str
    charset: str
    url: str


def page(url: str, *, allow_private: bool = False, max_bytes: int = MAX_BYTES, seconds: float = SECONDS) -> Document:
    """The Document at an address: HTML, markdown, plain text or PDF, as the server says or as it looks."""
    found = fetch(url, allow_private=allow_private, max_bytes=max_bytes, seconds=seconds)
    if not found.data.strip():
        raise SourceError(url, "is empty")
    path = PurePosixPath(urlsplit(found.url).path)
    name = path.name or urlsplit(found.url).hostname or "page"
    kind = _kind(found, path.suffix.lower())
    if kind == "pdf":
        return pdf(found.data, uri=url, name=name)
    if kind == "html":
        return html(found.data, uri=url, name=name, charset=found.charset)
    if kind in ("markdown", "text"):
        text = spelled(found.data, charset=found.charset).replace("\r\n", "\n")
        return (markdown if kind == "markdown" else plain)(text, uri=url, name=name)
    raise SourceError(
        url, f"is {found.content_type or 'of an unknown kind'}; Clew reads HTML, markdown, text and PDF there"
    )


def fetch(url: str, *, allow_private: bool = False, max_bytes: int = MAX_BYTES, seconds: float = SECONDS) -> Fetched:
    """What stands at an http or https address; the time is that of the whole request, redirects and all."""
    deadline = monotonic() + seconds
    at = url
    for _ in range(REDIRECTS + 1):
        parts = _parts(at, url)
        address = _checked(parts, url, allow_private=allow_private, deadline=deadline)
        answer = _ask(parts, address, url, max_bytes=max_bytes, deadline=deadline)
        if isinstance(answer, Fetched):
            return answer
        at = urljoin(at, quote(answer, safe=_SAFE + "#"))
    raise SourceError(url, f"redirects more than {REDIRECTS} times")


def _kind(found: Fetched, suffix: str) -> str:
    if found.data.startswith(b"%PDF-") or found.content_type == "application/pdf":
        return "pdf"
    if found.content_type in ("text/html", "application/xhtml+xml"):
        return "html"
    if found.content_type == "text/markdown" or suffix in (".md", ".markdown"):
        return "markdown"
    if found.content_type.startswith("text/"):
        return "text"
    if not found.content_type or found.content_type == "application/octet-stream":
        head = found.data[:1024].lstrip().lower()
        return "html" if head.startswith((b"<!doctype html", b"<html")) else "unknown"
    return "unknown"


def _parts(at: str, url: str) -> SplitResult:
    try:
        parts = urlsplit(at)
        port = parts.port
    except ValueError as error:
        raise SourceError(url, "is not an address") from error
    if parts.scheme not in _PORTS or not parts.hostname:
        led = "" if at == url else f"; it leads to {at[:100]}"
        raise SourceError(url, f"is not an http or https address{led}")
    if parts.username or parts.password:
        raise SourceError(url, "has a name or password in its address; Clew sends none")
    if port == 0 or any(ord(sign) < 32 for sign in at):
        raise SourceError(url, "is not an address")
    return parts


def _checked(parts: SplitResult, url: str, *, allow_private: bool, deadline: float) -> Address:
    """An address of the host to connect to: all that its name stands for must be public, or private ones allowed."""
    host = parts.hostname or ""
    addresses = _looked_up(host, parts.port or _PORTS[parts.scheme], url, deadline)
    for address in addresses:
        if not allow_private and not is_public(address):
            raise SourceError(
                url, f"is refused: {host} is {address}, inside a private network; allow_private admits it"
            )
    return addresses[0]


def is_public(address: Address) -> bool:
    """Whether an address belongs to the open internet: not this machine, a local network or a cloud's metadata."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
    return address.is_global and not address.is_multicast and not address.is_reserved and not address.is_unspecified


def _looked_up(host: str, port: int, url: str, deadline: float) -> Sequence[Address]:
    """What a name stands for. The system's look-up knows no time limit, so it is waited for from outside."""
    try:
        return [ipaddress.ip_address(host.partition("%")[0])]
    except ValueError:
        pass
    found: list[Address] = []

    def look() -> None:
        try:
            for *_, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                found.append(ipaddress.ip_address(str(place[0]).partition("%")[0]))
        except (OSError, UnicodeError, ValueError):
            found.clear()

    thread = Thread(target=look, daemon=True)
    thread.start()
    thread.join(max(deadline - monotonic(), 0))
    if thread.is_alive():
        raise SourceError(url, f"did not answer in time: looking up {host} took too long")
    if not found:
        raise SourceError(url, f"cannot be reached: there is no host {host}")
    return found


class _Connection(http.client.HTTPConnection):
    """A connection to one address, whatever the name says; the certificate is still checked against the name."""

    def __init__(self, parts: SplitResult, address: Address, timeout: float) -> None:
        super().__init__(parts.hostname or "", parts.port or _PORTS[parts.scheme], timeout=timeout)
        self._address = address
        self._is_secure = parts.scheme == "https"

    def connect(self) -> None:
        """Opens the socket, and TLS on it."""
        self.sock = socket.create_connection((str(self._address), self.port), self.timeout)
        if self._is_secure:
            context = ssl.create_default_context()
            secure = context.wrap_socket(self.sock, server_hostname=self.host, do_handshake_on_connect=False)
            self.sock = secure  # before the handshake, so that it can be cut too
            secure.do_handshake()

    def cut(self) -> None:
        """Ends whatever waits on the socket."""
        try:
            if self.sock is not None:
                self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def _ask(parts: SplitResult, address: Address, url: str, *, max_bytes: int, deadline: float) -> Fetched | str:
    """What is there, or where it leads."""
    left = deadline - monotonic()
    if left <= 0:
        raise SourceError(url, "did not answer in time")
    connection = _Connection(parts, address, left)
    clock = Timer(left, connection.cut)  # a server that sends a byte a second never runs into the socket's own limit
    clock.daemon = True
    clock.start()
    try:
        connection.request("GET", _target(parts), headers=_HEADERS)
        response = connection.getresponse()
        where = response.headers.get("Location")
        if response.status in (301, 302, 303, 307, 308) and where:
            return where
        if response.status != 200:
            raise SourceError(url, f"answered {response.status} {response.reason}".rstrip())
        data = _body(response, url, max_bytes=max_bytes, deadline=deadline)
        said: Headers = response.headers
        kind = said.get_content_type() if "Content-Type" in said else ""
        return Fetched(data, kind, said.get_content_charset() or "", parts.geturl())
    except ssl.SSLError as error:
        raise SourceError(url, f"cannot be trusted: {getattr(error, 'verify_message', '') or error.reason}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        if monotonic() >= deadline - 0.05 or isinstance(error, TimeoutError):
            raise SourceError(url, "did not answer in time") from error
        raise SourceError(url, f"cannot be reached: {str(error) or type(error).__name__}") from error
    finally:
        clock.cancel()
        connection.close()


def _target(parts: SplitResult) -> str:
    """What is asked of the server: the path and the query, with what is no part of an address spelled in percents."""
    query = f"?{quote(parts.query, safe=_SAFE)}" if parts.query else ""
    return quote(parts.path or "/", safe=_SAFE) + query


def _body(response: http.client.HTTPResponse, url: str, *, max_bytes: int, deadline: float) -> bytes:
    """The bytes of an answer, unpacked if they are packed, up to the limit."""
    packed = response.headers.get("Content-Encoding", "identity").lower()
    if packed not in ("identity", "gzip", ""):
        raise SourceError(url, f"answered in the encoding {packed}, which was not asked for")
    unpack = zlib.decompressobj(31) if packed == "gzip" else None
    parts: list[bytes] = []
    size = 0
    while chunk := response.read1(_STEP):
        try:
            part = unpack.decompress(chunk, max_bytes + 1 - size) if unpack else chunk
        except zlib.error as error:
            raise SourceError(url, "answered with bytes that cannot be unpacked") from error
        size += len(part)
        parts.append(part)
        if size > max_bytes:
            raise SourceError(url, f"is too large: more than {max_bytes:,} bytes")
        if monotonic() > deadline:
            raise SourceError(url, "did not answer in time")
    if monotonic() > deadline - 0.01 or response.length:
        raise SourceError(
            url, "did not answer in time" if monotonic() > deadline - 0.01 else "ended before all of it was sent"
        )
    return b"".join(parts)
