"""What holds for every test: nothing reaches beyond this machine, and no test is failed for being slow."""

import ipaddress
import socket
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest

hypothesis.settings.register_profile("clew", deadline=None)
hypothesis.settings.load_profile("clew")


def is_local(host: str | bytes | None) -> bool:
    """Whether a host is this machine: no name at all, localhost, a loopback address or the unspecified one."""
    name = host.decode() if isinstance(host, bytes) else host or "localhost"
    if name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback or address.is_unspecified


def refuse(target: object) -> None:
    """Fails the test, past any `except Exception` on the way."""
    pytest.fail(f"this test tried to reach {target!r}: tests may connect to loopback and unix sockets only")


@pytest.fixture(scope="session", autouse=True)
def no_network() -> Iterator[None]:
    """Connections to loopback and to unix sockets; any other, and the lookup of any other name, fails the test."""
    connect, connect_ex, getaddrinfo = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def check(sock: socket.socket, address: Any) -> None:
        if sock.family == getattr(socket, "AF_UNIX", None):
            return
        if sock.family not in (socket.AF_INET, socket.AF_INET6) or not is_local(address[0]):
            refuse(address)

    def guarded_connect(sock: socket.socket, address: Any) -> None:
        check(sock, address)
        connect(sock, address)

    def guarded_connect_ex(sock: socket.socket, address: Any) -> int:
        check(sock, address)
        return connect_ex(sock, address)

    def guarded_getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_local(host):
            refuse(host)
        return getaddrinfo(host, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded_connect)
        patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
        patch.setattr(socket, "getaddrinfo", guarded_getaddrinfo)
        yield
