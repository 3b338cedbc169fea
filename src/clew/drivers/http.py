"""A JSON endpoint over HTTP, with retries while the server is busy or unreachable.

The API key goes into one header and never into an error, a log or a repr.
"""

import weakref
from email.utils import parsedate_to_datetime
from time import time
from typing import Any
from urllib.parse import urlsplit

from clew.core.errors import DriverFailed, DriverMissing, RequestRefused, SettingsError

MAX_WAIT = 60.0  # seconds: the longest wait before a retry that a server may request


class _RetryableError(Exception):
    """A temporary failure; `wait` is the number of seconds that the server requested."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class JsonEndpoint:
    """A URL that takes JSON by POST; errors call it `name`, and `setting` is its table in the settings."""

    def __init__(
        self,
        url: str,
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
        address = urlsplit(url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise SettingsError(f"{setting}.url must be an http:// or https:// address")
        if not (api_key.isascii() and api_key.isprintable()) or " " in api_key:
            raise SettingsError(f"{setting}.api_key contains a character that no key has; copy it again")
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self.host = address.hostname
        self._label = f"{name} at {address.hostname}"
        self._url = url
        self._api_key = api_key
        self._attempts = attempts
        self._backoff = backoff
        self._client = httpx2.Client(headers=headers, timeout=timeout)
        weakref.finalize(self, self._client.close)

    def __repr__(self) -> str:
        return f"JsonEndpoint({self._label})"

    def post(self, body: dict[str, Any]) -> Any:
        """Post a body and return the JSON of the response.

        Raises RequestRefused if retrying will not help, DriverFailed after the last attempt.
        """
        import stamina

        try:
            for attempt in stamina.retry_context(
                on=_decide_retry,
                attempts=self._attempts,
                timeout=None,
                wait_initial=self._backoff,
                wait_max=MAX_WAIT,
                wait_jitter=self._backoff,
            ):
                with attempt:
                    answer = self._post_once(body)
        except _RetryableError as error:
            raise DriverFailed(f"{self._label} {error}, {self._attempts} times; try again later") from None
        return answer

    def _post_once(self, body: dict[str, Any]) -> Any:
        import httpx2

        try:
            response = self._client.post(self._url, json=body)
        except httpx2.TimeoutException:
            raise _RetryableError("did not answer in time") from None
        except httpx2.TransportError as error:
            raise _RetryableError(f"could not be reached ({self._mask_key(str(error))})") from None
        status = response.status_code
        if status in (408, 429) or status >= 500:
            wait = _parse_retry_after(response.headers.get("Retry-After", ""))
            raise _RetryableError(f"answered {status} ({self._extract_message(response)})", wait)
        if status != 200:
            raise RequestRefused(
                f"{self._label} refused with {status}: {self._extract_message(response)}; "
                "trying again will not help, check the model, the key and the address"
            )
        try:
            return response.json()
        except ValueError:
            raise DriverFailed(f"{self._label} answered with a body that is not JSON; check the address") from None

    def _extract_message(self, response: Any) -> str:
        """Extract the server's error message, shortened, and without the key that some servers echo."""
        try:
            body = response.json()
            error = next((body[key] for key in ("error", "message", "detail") if body.get(key)), body)
            message = error.get("message", error) if isinstance(error, dict) else error
        except (ValueError, AttributeError):
            message = response.text
        return self._mask_key(str(message).strip())[:300] or "no message"

    def _mask_key(self, text: str) -> str:
        return text.replace(self._api_key, "…") if self._api_key else text


def _decide_retry(error: Exception) -> bool | float:
    """Return whether to retry after an error, or the seconds to wait first, as the server requested."""
    if not isinstance(error, _RetryableError):
        return False
    return True if error.wait is None else min(error.wait, MAX_WAIT)


def _parse_retry_after(header: str) -> float | None:
    """Parse a Retry-After header, a number or a date, to seconds; None if it is neither."""
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time())
    except ValueError:
        return None
