"""The host names and origins that a server answers to."""

import ipaddress
import re
from typing import Final

from clew.core.settings import ServerConfig
from clew.surface.server.errors import HostUnknown, NotAllowed

_HOST: Final = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[\w.-]+))(?::[0-9]{1,5})?", re.ASCII)
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class HostRules:
    """The names and origins that a server answers to."""

    def __init__(self, config: ServerConfig) -> None:
        self.is_loopback = is_loopback(config.host)
        self._origins = frozenset(origin.rstrip("/").lower() for origin in config.origins)
        own = {config.host.lower(), *(name.lower() for name in config.hosts)}
        # A wildcard address without configured names accepts any name; there a key is required.
        self._names = None if is_wildcard(config.host) and not config.hosts else LOOPBACK_NAMES | own

    def check_host(self, host: str) -> None:
        """Raise HostUnknown unless the request is for this server."""
        if self._names is not None and split_host(host) not in self._names:
            raise HostUnknown("this server has another name; add it to server.hosts if it is meant")

    def check_origin(self, origin: str, host: str) -> dict[str, str]:
        """Return the headers that let a page read the reply; NotAllowed if the page is of another origin."""
        given = origin.rstrip("/").lower()
        if given in self._origins:
            return {"access-control-allow-origin": origin, "vary": "origin"}
        if given.partition("://")[2] == host.lower() and given.startswith(("http://", "https://")):
            return {}
        raise NotAllowed("pages of this origin may not call the server; add it to server.origins if it is meant")


def split_host(host: str) -> str | None:
    """Return the name in a Host header, without the port; None if it is no name and port."""
    found = _HOST.fullmatch(host)
    return (found["address"] or found["name"]).lower() if found else None


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_wildcard(host: str) -> bool:
    """Return whether an address is every address of this machine."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
