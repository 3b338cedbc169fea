"""Web pages by URL: limits on size and time, and public addresses only unless private ones are allowed (no SSRF).

A host name is resolved once, and the connection goes to the checked address, so that a changed DNS answer (rebinding)
gains nothing. Every redirect is checked in the same way.
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
from clew.index.read.load import decode_with_fallbacks
from clew.index.read.process.limits import DEFAULT_LIMITS, ReadLimits
from clew.index.read.process.pool import read_in_process
from clew.index.read.text.markdown import read_markdown
from clew.index.read.text.plain import read_plain_text

MAX_BYTES = 20_000_000
TIMEOUT_SECONDS = 30.0
MAX_REDIRECTS = 5
_HEADERS = {
    "User-Agent": "clew (reads a page that its user names)",
    "Accept": "text/html, text/markdown, text/plain, application/pdf, */*;q=0.1",
    "Accept-Encoding": "gzip",
    "Connection": "close",
}
_SAFE_CHARACTERS = "%/:=&?~+!$,;'@()*[]"
_READ_BYTES = 1 << 16
_DEFAULT_PORTS = {"http": 80, "https": 443}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_ISATAP = 0x5EFE  # precedes the IPv4 address in the address of an ISATAP tunnel
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")  # all assigned public IPv6 addresses
# Networks that Python, in all or some versions, counts as public, but that host no pages: metadata of Oracle, Azure and
# Alibaba, protocols, documentation, benchmarks, relays and tunnels into IPv4.
_NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        (
            *("192.0.0.0/24", "168.63.129.16/32", "100.64.0.0/10", "192.88.99.0/24", "198.18.0.0/15"),
            *("2001::/23", "2001:db8::/32", "3fff::/20"),
        ),
    )
)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """The response to a request: its bytes, content type and charset, and the final URL after redirects."""

    data: bytes
    content_type: str
    charset: str
    url: str


def read_url(
    url: str,
    *,
    allow_private: bool = False,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Document:
    """Return the Document at a URL: HTML, markdown, plain text or PDF, by content type or else by its first bytes."""
    fetched = fetch_url(url, allow_private=allow_private)
    if not fetched.data.strip():
        raise SourceError(url, "is empty")
    path = PurePosixPath(urlsplit(fetched.url).path)
    name = path.name or urlsplit(fetched.url).hostname or "page"
    kind = _detect_content_kind(fetched, path.suffix.lower())
    if kind == "pdf":
        return read_in_process(".pdf", fetched.data, uri=url, name=name, limits=limits)
    if kind == "html":
        return read_in_process(".html", fetched.data, uri=url, name=name, limits=limits, charset=fetched.charset)
    if kind in ("markdown", "text"):
        text = decode_with_fallbacks(fetched.data, charset=fetched.charset).replace("\r\n", "\n")
        return (read_markdown if kind == "markdown" else read_plain_text)(text, uri=url, name=name)
    raise SourceError(
        url, f"is {fetched.content_type or 'of an unknown type'}; Clew reads HTML, markdown, text and PDF from the web"
    )


def fetch_url(
    url: str, *, allow_private: bool = False, max_bytes: int = MAX_BYTES, timeout: float = TIMEOUT_SECONDS
) -> FetchedPage:
    """Fetch an http or https URL within `timeout` seconds, including all redirects."""
    deadline = monotonic() + timeout
    at = url
    for _ in range(MAX_REDIRECTS + 1):
        parts = _parse_url(at, url)
        address = _resolve_host(parts, url, allow_private=allow_private, deadline=deadline)
        response = _send_request(parts, address, url, max_bytes=max_bytes, deadline=deadline)
        if isinstance(response, FetchedPage):
            return response
        at = urljoin(at, quote(response, safe=_SAFE_CHARACTERS + "#"))
    raise SourceError(url, f"redirects more than {MAX_REDIRECTS} times")


def _detect_content_kind(fetched: FetchedPage, suffix: str) -> str:
    if fetched.data.startswith(b"%PDF-") or fetched.content_type == "application/pdf":
        return "pdf"
    if fetched.content_type in ("text/html", "application/xhtml+xml"):
        return "html"
    if fetched.content_type == "text/markdown" or suffix in (".md", ".markdown"):
        return "markdown"
    if fetched.content_type.startswith("text/"):
        return "text"
    if not fetched.content_type or fetched.content_type == "application/octet-stream":
        head = fetched.data[:1024].lstrip().lower()
        return "html" if head.startswith((b"<!doctype html", b"<html")) else "unknown"
    return "unknown"


def _parse_url(at: str, url: str) -> SplitResult:
    try:
        parts = urlsplit(at)
        port = parts.port
    except ValueError as error:
        raise SourceError(url, "is not an address") from error
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        target = "" if at == url else f"; it redirects to {at[:100]}"
        raise SourceError(url, f"is not an http or https address{target}")
    if parts.username or parts.password:
        raise SourceError(url, "has a user name or password in its address; remove it, Clew sends none")
    if port == 0 or any(ord(sign) < 32 for sign in at):
        raise SourceError(url, "is not an address")
    return parts


def _resolve_host(parts: SplitResult, url: str, *, allow_private: bool, deadline: float) -> Address:
    """Resolve the address to connect to; unless `allow_private`, all addresses of the host must be public."""
    host = parts.hostname or ""
    addresses = _look_up_addresses(host, parts.port or _DEFAULT_PORTS[parts.scheme], url, deadline)
    for address in addresses:
        if not allow_private and not is_public_address(address):
            raise SourceError(
                url, f"is refused: {host} is {address}, inside a private network; ingestion.allow_private permits it"
            )
    return addresses[0]


def is_public_address(address: Address) -> bool:
    """Return whether an address is on the public internet: not this machine, a local network or cloud metadata."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is None and (address in _NAT64 or int(address) >> 32 & 0xFDFFFFFF == _ISATAP):
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public_address(inner)
        if address not in _GLOBAL_UNICAST:
            return False
    if any(address in network for network in _NOT_PUBLIC):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved and not address.is_unspecified


def _look_up_addresses(host: str, port: int, url: str, deadline: float) -> Sequence[Address]:
    """Look up the addresses of a host. The system resolver has no timeout, so it runs in a thread."""
    try:
        return [ipaddress.ip_address(host.partition("%")[0])]
    except ValueError:
        pass
    found: list[Address] = []

    def resolve() -> None:
        try:
            for *_, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                found.append(ipaddress.ip_address(str(place[0]).partition("%")[0]))
        except (OSError, UnicodeError, ValueError):
            found.clear()

    thread = Thread(target=resolve, daemon=True)
    thread.start()
    thread.join(max(deadline - monotonic(), 0))
    if thread.is_alive():
        raise SourceError(url, f"did not answer in time: looking up {host} took too long")
    if not found:
        raise SourceError(url, f"cannot be reached: there is no host {host}")
    return found


class _PinnedConnection(http.client.HTTPConnection):
    """A connection pinned to one address; the certificate is still checked against the host name."""

    def __init__(self, parts: SplitResult, address: Address, timeout: float) -> None:
        super().__init__(parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme], timeout=timeout)
        self._address = address
        self._is_secure = parts.scheme == "https"

    def connect(self) -> None:
        """Open the socket, with TLS for https."""
        self.sock = socket.create_connection((str(self._address), self.port), self.timeout)
        if self._is_secure:
            context = ssl.create_default_context()
            secure = context.wrap_socket(self.sock, server_hostname=self.host, do_handshake_on_connect=False)
            self.sock = secure  # before the handshake, so that abort() can end it
            secure.do_handshake()

    def abort(self) -> None:
        """End every wait on the socket."""
        try:
            if self.sock is not None:
                self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def _send_request(
    parts: SplitResult, address: Address, url: str, *, max_bytes: int, deadline: float
) -> FetchedPage | str:
    """Send a request; return the response, or the URL of a redirect."""
    seconds_left = deadline - monotonic()
    if seconds_left <= 0:
        raise SourceError(url, "did not answer in time")
    connection = _PinnedConnection(parts, address, seconds_left)
    # A server that sends one byte a second would never reach the timeout of the socket.
    watchdog = Timer(seconds_left, connection.abort)
    watchdog.daemon = True
    watchdog.start()
    try:
        connection.request("GET", _make_request_target(parts), headers=_HEADERS)
        response = connection.getresponse()
        where = response.headers.get("Location")
        if response.status in (301, 302, 303, 307, 308) and where:
            return where
        if response.status != 200:
            raise SourceError(url, f"answered {response.status} {response.reason}".rstrip())
        data = _read_response_body(response, url, max_bytes=max_bytes, deadline=deadline)
        headers: Headers = response.headers
        kind = headers.get_content_type() if "Content-Type" in headers else ""
        return FetchedPage(data, kind, headers.get_content_charset() or "", parts.geturl())
    except ssl.SSLError as error:
        raise SourceError(url, f"cannot be trusted: {getattr(error, 'verify_message', '') or error.reason}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        if monotonic() >= deadline - 0.05 or isinstance(error, TimeoutError):
            raise SourceError(url, "did not answer in time") from error
        raise SourceError(url, f"cannot be reached: {str(error) or type(error).__name__}") from error
    finally:
        watchdog.cancel()
        connection.close()


def _make_request_target(parts: SplitResult) -> str:
    """Make the percent-encoded request target from path and query."""
    query = f"?{quote(parts.query, safe=_SAFE_CHARACTERS)}" if parts.query else ""
    return quote(parts.path or "/", safe=_SAFE_CHARACTERS) + query


def _read_response_body(response: http.client.HTTPResponse, url: str, *, max_bytes: int, deadline: float) -> bytes:
    """Read and decompress the body of a response, up to the limit."""
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    if encoding not in ("identity", "gzip", ""):
        raise SourceError(url, f"answered with the content encoding {encoding}, which was not requested")
    decompressor = zlib.decompressobj(31) if encoding == "gzip" else None
    parts: list[bytes] = []
    size = 0
    while chunk := response.read1(_READ_BYTES):
        try:
            part = decompressor.decompress(chunk, max_bytes + 1 - size) if decompressor else chunk
        except zlib.error as error:
            raise SourceError(url, "answered with a body that cannot be decompressed") from error
        size += len(part)
        parts.append(part)
        if size > max_bytes:
            raise SourceError(url, f"is too large: more than {max_bytes:,} bytes")
        if monotonic() > deadline:
            raise SourceError(url, "did not answer in time")
    if monotonic() > deadline - 0.01 or response.length:
        raise SourceError(
            url,
            "did not answer in time"
            if monotonic() > deadline - 0.01
            else "closed the connection before all of it was sent",
        )
    return b"".join(parts)
