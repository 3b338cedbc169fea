"""Settings of the server: where it listens, who may ask, and the limits of a request."""

from dataclasses import dataclass

from clew.core.errors import SettingsError
from clew.core.settings.checks import check_min, check_range


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """`clew serve`: its address, the names and pages it answers to, and how much one request may take."""

    host: str = "127.0.0.1"  # any but a loopback address needs keys
    port: int = 8080  # 0: any that is free
    folder: str = ""  # of uploads; empty: .server beside the collections, else one of the user's
    hosts: tuple[str, ...] = ()  # further names by which it may be addressed
    origins: tuple[str, ...] = ()  # of web pages elsewhere that may call it
    read_only: bool = False  # nothing is added or removed, whatever the key
    max_body: int = 64 * 1024 * 1024  # bytes of an upload
    max_json: int = 4 * 1024 * 1024  # bytes of any other request
    max_connections: int = 800  # open at a time; a process may usually have 1024 files open
    body_timeout: float = 15.0  # seconds for the head of a request, and for a body; for a long one 1 s more a kilobyte
    timeout: float = 60.0  # seconds for an answer, and for the next event of a stream
    rate: float = 100.0  # requests a second from one key or address; 0: no limit
    max_concurrent: int = 8  # searches at a time; the others wait in order
    max_answers: int = 8  # answers at a time: asks, chats and agents; and as many uploads
    max_waiting: int = 1000  # requests that may wait

    def __post_init__(self) -> None:
        if not self.host:
            raise SettingsError("server.host is empty; it must be an address, such as 127.0.0.1")
        check_range("server.port", self.port, 0, 65535)
        check_min("server.max_body", self.max_body, 1024)
        check_min("server.max_json", self.max_json, 1024)
        check_min("server.body_timeout", self.body_timeout, 0.1)
        check_min("server.timeout", self.timeout, 0.1)
        check_min("server.rate", self.rate, 0)
        for name in ("max_connections", "max_concurrent", "max_answers", "max_waiting"):
            check_min(f"server.{name}", getattr(self, name), 1)
