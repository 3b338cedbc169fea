"""Errors of the server: one JSON shape for all of them, and the status of each."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any, Final

from clew.core.errors import (
    ClewError,
    ConcurrentChange,
    CostLimit,
    DriverFailed,
    DriverMissing,
    LimitReached,
    NotFound,
    ReadOnlyStore,
    SettingsError,
    SourceError,
    StoreMismatch,
    UnsupportedAnswer,
)
from clew.core.jobs import Job
from clew.core.suggest import mask_secrets
from clew.drivers import is_address
from clew.surface.advice import HTTP_ADVICE, translate_advice
from clew.surface.to_json import to_json

STATUS_BY_ERROR: Final[dict[type[ClewError], int]] = {
    SettingsError: 422,
    SourceError: 422,
    NotFound: 404,
    ConcurrentChange: 409,
    StoreMismatch: 409,
    ReadOnlyStore: 403,
    CostLimit: 429,
    LimitReached: 429,
    UnsupportedAnswer: 502,
    DriverMissing: 501,
    DriverFailed: 502,
}


class RequestRejected(ClewError):
    """A request that was refused before or instead of a verb, with a status and headers."""

    status: int = 400
    headers: dict[str, str]

    def __init_subclass__(cls, *, status: int = 400) -> None:
        cls.status = status

    def __init__(self, message: str, *, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.headers = headers or {}


class BadRequest(RequestRejected):
    """A malformed HTTP request."""


class KeyInvalid(RequestRejected, status=401):
    """A key that is missing, wrong, expired or revoked."""

    def __init__(self, message: str) -> None:
        super().__init__(message, headers={"www-authenticate": "Bearer"})


class NotAllowed(RequestRejected, status=403):
    """A key that does not open this, or a page of another origin."""


class BodyTooSlow(RequestRejected, status=408):
    """A body that did not arrive in time."""


class NotPossible(RequestRejected, status=409):
    """A valid request that the stored data does not allow."""


class BodyTooLarge(RequestRejected, status=413):
    """A body beyond the limit."""


class HostUnknown(RequestRejected, status=421):
    """A request for another host."""


class RateExceeded(RequestRejected, status=429):
    """More requests than one key or address may send."""


class ServerBusy(RequestRejected, status=503):
    """More requests than may wait, or a server that is shutting down."""


class TimeExceeded(RequestRejected, status=504):
    """Work that was not done within the time limit of a request."""


def get_status(error: BaseException) -> int:
    """Return the status of an error: its own, that of the table, or 500."""
    if isinstance(error, RequestRejected):
        return error.status
    return next((STATUS_BY_ERROR[kind] for kind in type(error).__mro__ if kind in STATUS_BY_ERROR), 500)


def error_to_json(error: BaseException) -> dict[str, Any]:
    """Return the body of an error: its type as in Python, a code, what is wrong, and what to do next.

    An unexpected error gives no details: they are in the log, under the id of the request.
    """
    if not isinstance(error, ClewError):
        return make_error_json("InternalError", "the server failed at this request; its log says why, by request id")
    return make_error_json(type(error).__name__, translate_advice(error.message, HTTP_ADVICE))


def make_error_json(name: str, message: str) -> dict[str, Any]:
    """Make the body of an error of this name; the part of the message after its last semicolon is the advice."""
    code = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    advice = message.rpartition("; ")[2].strip() if "; " in message else ""
    return {"error": {"type": name, "code": code, "message": message, "advice": advice}}


def format_error_body(error: BaseException, request_id: str) -> tuple[int, bytes]:
    """Format the status and the body of an error."""
    body = error_to_json(error)
    body["error"]["request_id"] = request_id
    return get_status(error), json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


SHOWN: Final = "the store"


class Places:
    """The addresses of a store and of the server's folder, to be hidden in errors."""

    def __init__(self, path: str, folder: Path) -> None:
        found = {str(folder), str(folder.resolve())}
        if is_address(path):
            found |= {path, mask_secrets(path), path.partition("?")[0], path.removeprefix("lance://")}
        else:
            whole = Path(path).expanduser()
            found |= {path, str(whole), str(whole.absolute()), str(whole.resolve())} - {".", ".."}
        longest_first = sorted(map(re.escape, found), key=len, reverse=True)
        self._pattern = re.compile(rf"(?<![\w./-])(?:{'|'.join(longest_first)})(?![\w-])")

    def hide(self, text: str) -> str:
        """Remove the addresses from a text."""
        return self._pattern.sub(SHOWN, text)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Hide the addresses in any ClewError that leaves the block."""
        try:
            yield
        except ClewError as error:
            error.args = tuple(self.hide(each) if isinstance(each, str) else each for each in error.args)
            raise


_OWN = ("root", "is_upload")  # fields of a job's request for the worker alone


def job_to_reply(job: Job, places: Places) -> dict[str, Any]:
    """Return a job as JSON: uploads by relative path, other paths by name, the store's addresses hidden."""
    shown: dict[str, Any] = to_json(job)
    root = str(shown["request"].get("root") or "")
    names = {f"{root}/": "", root: "."} if root else {}
    for source in shown["request"].get("sources", ()):
        if "://" not in source and not source.startswith(f"{root}/"):
            names[source] = PurePath(source).name
    shown["request"] = {name: value for name, value in shown["request"].items() if name not in _OWN}
    return {name: _rename(value, names, places) for name, value in shown.items()}


def _rename(value: Any, names: dict[str, str], places: Places) -> Any:
    """Replace every path in the texts of a value by its name."""
    if isinstance(value, str):
        for path, name in names.items():
            value = value.replace(path, name)
        return places.hide(value)
    if isinstance(value, dict):
        return {key: _rename(each, names, places) for key, each in value.items()}
    return [_rename(each, names, places) for each in value] if isinstance(value, list) else value
