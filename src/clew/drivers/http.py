"""One address that takes JSON and answers with JSON, asked again while it is busy or out of reach.

The key goes into one header and nowhere else: not into an error, a log or a repr.
"""

import weakref
from email.utils import parsedate_to_datetime
from time import time
from typing import Any
from urllib.parse import urlsplit

from clew.core.errors import DriverFailed, DriverMissing, SettingsError

LONGEST_WAIT = 60.0  # seconds that a server may ask us to wait before trying again


class Refused(DriverFailed):
    """A request that the server will not answer, however often it is asked."""


class _Again(Exception):
    """An answer that may be better the next time; `wait` is what the server asked for, in seconds."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class Address:
    """A place to post to; `name` is what errors call it, `setting` where its options stand in the settings."""

    def __init__(
        self,
        endpoint: str,
        *,
        name: str,
        setting: str,
        api_key: str = "",
        timeout: float = 60.0,
        attempts: int = 6,
        backoff: float = 0.5,
    ) -> None:
        try:
            import httpx2
        except ImportError as error:
            raise DriverMissing(f"{name} needs the package httpx2; install clew again") from error
        address = urlsplit(endpoint)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise SettingsError(f"{setting}.url must be an http:// or https:// address")
        if not (api_key.isascii() and api_key.isprintable()) or " " in api_key:
            raise SettingsError(f"{setting}.api_key holds a sign that no key has; copy it again")
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self.host = address.hostname
        self._said_to_be = f"{name} at {address.hostname}"
        self._endpoint = endpoint
        self._api_key = api_key
        self._attempts = attempts
        self._backoff = backoff
        self._client = httpx2.Client(headers=headers, timeout=timeout)
        weakref.finalize(self, self._client.close)

    def __repr__(self) -> str:
        return f"Address({self._said_to_be})"

    def ask(self, body: dict[str, Any]) -> Any:
        """The answer's JSON; Refused where asking again will not help, DriverFailed where the server stays away."""
        import stamina

        try:
            for attempt in stamina.retry_context(
                on=_wait,
                attempts=self._attempts,
                timeout=None,
                wait_initial=self._backoff,
                wait_max=LONGEST_WAIT,
                wait_jitter=self._backoff,
            ):
                with attempt:
                    answer = self._post(body)
        except _Again as error:
            raise DriverFailed(f"{self._said_to_be} {error}, {self._attempts} times; try again later") from None
        return answer

    def _post(self, body: dict[str, Any]) -> Any:
        import httpx2

        try:
            response = self._client.post(self._endpoint, json=body)
        except httpx2.TimeoutException:
            raise _Again("did not answer in time") from None
        except httpx2.TransportError as error:
            raise _Again(f"could not be reached ({self._safe(str(error))})") from None
        status = response.status_code
        if status in (408, 429) or status >= 500:
            wait = _seconds(response.headers.get("Retry-After", ""))
            raise _Again(f"answered {status} ({self._said(response)})", wait)
        if status != 200:
            raise Refused(
                f"{self._said_to_be} refused with {status}: {self._said(response)}; "
                "trying again will not help, check the model, the key and the address"
            )
        try:
            return response.json()
        except ValueError:
            raise DriverFailed(
                f"{self._said_to_be} answered with something that is not JSON; check the address"
            ) from None

    def _said(self, response: Any) -> str:
        """The server's own words, short, and without the key that some servers repeat."""
        try:
            body = response.json()
            error = next((body[key] for key in ("error", "message", "detail") if body.get(key)), body)
            said = error.get("message", error) if isinstance(error, dict) else error
        except (ValueError, AttributeError):
            said = response.text
        return self._safe(str(said).strip())[:300] or "no message"

    def _safe(self, text: str) -> str:
        return text.replace(self._api_key, "…") if self._api_key else text


def _wait(error: Exception) -> bool | float:
    """Whether to try again after an error, or the seconds that the server asked for."""
    if not isinstance(error, _Again):
        return False
    return True if error.wait is None else min(error.wait, LONGEST_WAIT)


def _seconds(header: str) -> float | None:
    """What a Retry-After header asks for: seconds, or a date."""
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time())
    except ValueError:
        return None
