"""The errors of the server as those of the library."""

from collections.abc import Mapping
from typing import Any

from clew.core import errors
from clew.core.errors import ClewError, DriverFailed


class ServerError(DriverFailed):
    """A request that the server refused or failed at: its status, the code of the error and what to do next."""

    def __init__(
        self, message: str, *, status: int = 0, code: str = "", advice: str = "", request_id: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.advice = advice
        self.request_id = request_id


def make_error(status: int, body: Any) -> ClewError:
    """The error of a reply: of the library's own type where it has one with that name, else a ServerError."""
    given = body.get("error") if isinstance(body, Mapping) else None
    detail = given if isinstance(given, Mapping) else {}
    message = str(detail.get("message") or f"the server replied with status {status}")
    kind = getattr(errors, str(detail.get("type")), None)
    if isinstance(kind, type) and issubclass(kind, ClewError) and kind.__init__ is ClewError.__init__:
        return kind(message)
    texts = {name: str(detail.get(name, "")) for name in ("code", "advice", "request_id")}
    return ServerError(message, status=status, **texts)
