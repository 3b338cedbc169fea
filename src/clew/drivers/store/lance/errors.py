"""Errors of Lance as DriverFailed with advice."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from clew.core.errors import ClewError, DriverFailed, ReadOnlyStore

_DENIED = ("403", "forbidden", "accessdenied", "access denied", "invalidaccesskeyid", "signaturedoesnotmatch")
_NO_BUCKET = ("nosuchbucket", "bucket does not exist", "bucket not found")
_NO_KEYS = ("credentialsnotloaded", "failed to get aws credentials", "no providers in chain")
_NOT_KNOWN = ("credential", "unauthenticated", "401")
_HTTP = "http error: builder error"
_NO_ANSWER = ("connect", "timed out", "timeout", "dns", "error sending request")
_FULL = ("no space left", "storage full", "quota exceeded", "file too large")
_READ_ONLY = ("read-only file system", "permission denied", "os error 13")

_CONFLICT = ("conflict", "preempted")
_BESIDE = re.compile(r"\w+://[^\s\"'<>]+|\bin [\d.]+\w+|, /home/\S+")  # addresses, times, source locations


@contextmanager
def translate_errors(place: str) -> Iterator[None]:
    """Turn exceptions of Lance into a DriverFailed with advice; pass errors of Clew."""
    try:
        yield
    except ClewError:
        raise
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise explain_error(place, error) from error


def is_conflict(error: BaseException) -> bool:
    """Return whether Lance rejected a commit because another one came first."""
    return any(each in str(error).lower() for each in _CONFLICT)


def explain_error(place: str, error: BaseException) -> DriverFailed:
    """Convert an error of Lance by its text, since Lance has few error types."""
    text = str(error)
    lower = _BESIDE.sub("", text.lower())  # names and numbers in these say nothing about the error
    if _HTTP in lower and "http://" in text:
        return DriverFailed(f"{place}: an endpoint of http:// needs allow_http=true after `?`, or AWS_ALLOW_HTTP=true")
    if any(each in lower for each in _NO_KEYS):
        return DriverFailed(f"{place}: there are no credentials for the object store; give them by the environment")
    if any(each in lower for each in _NO_BUCKET):
        return DriverFailed(f"{place}: there is no such bucket; create it, or correct the address")
    if any(each in lower for each in _READ_ONLY):
        return ReadOnlyStore(f"{place} can only be read: {_shorten(text)}")
    if any(each in lower for each in _DENIED):
        return DriverFailed(f"{place}: the object store refuses these credentials; check the keys and their rights")
    if any(each in lower for each in _NOT_KNOWN):
        return DriverFailed(f"{place}: the object store wants other credentials; give them by the environment")
    if any(each in lower for each in _FULL):
        return DriverFailed(
            f"{place}: the disk is full, or a limit of it is reached ({_shorten(text)}); make room and try again; "
            "nothing was half written"
        )
    if any(each in lower for each in _NO_ANSWER):
        return DriverFailed(f"{place}: the object store does not answer ({_shorten(text)}); try again")
    return DriverFailed(f"{place}: {_shorten(text)}")


def _shorten(text: str) -> str:
    """Return the first line without the source location at its end."""
    line = text.split("\n", 1)[0]
    return line.split(", /home/", 1)[0].split(", rust/", 1)[0][:300]
