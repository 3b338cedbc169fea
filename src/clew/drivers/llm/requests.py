"""Requests to a language model: validation, concurrency limit, retries, and error messages without keys."""

import asyncio
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clew.core.errors import AttemptFailed, SettingsError
from clew.core.ids import digest
from clew.core.parallel import is_cancelled

if TYPE_CHECKING:
    from pydantic_ai.exceptions import ModelHTTPError

POLL_SECONDS = 0.01  # negligible: requests take far longer
MAX_RETRY_AFTER = 60.0  # seconds; no retry if the provider requests a longer wait
MAX_REASON_CHARS = 300  # of the provider's message
RETRYABLE_STATUS = frozenset({408, 409, 425, 429})  # and every 5xx: the same request may succeed later
KEY_PATTERN = re.compile(r"\b(?:sk|pk|rk|gsk|xai|hf)[-_][\w\-*.]{6,}|(?<=Bearer )\S+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A prompt and its options."""

    prompt: str
    system: str = ""
    max_tokens: int = 300
    temperature: float = 0.0

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise SettingsError(f"max_tokens is {self.max_tokens}; it must be at least 1")
        if not self.temperature >= 0:  # written so that NaN fails too
            raise SettingsError(f"temperature is {self.temperature}; it must be at least 0")

    def cache_key(self, model: str) -> str:
        """Return the cache key of this request to a model, a hash of everything that is sent."""
        return digest("answer", model, self.system, self.prompt, str(self.max_tokens), str(float(self.temperature)))


def make_requests(
    prompts: Sequence[str], *, system: str, max_tokens: int, temperature: float
) -> list[CompletionRequest]:
    """Make one request per prompt, in order, with the same options."""
    return [CompletionRequest(prompt, system, max_tokens, temperature) for prompt in prompts]


class ConcurrencyLimit:
    """A semaphore for `async with` that, unlike asyncio's, works across event loops."""

    def __init__(self, max_concurrent: int) -> None:
        if max_concurrent < 1:
            raise SettingsError(f"llm.max_concurrent is {max_concurrent}; it must be at least 1")
        self.max_concurrent = max_concurrent
        self._semaphore = threading.Semaphore(max_concurrent)

    async def __aenter__(self) -> None:
        while not self._semaphore.acquire(blocking=False):
            await asyncio.sleep(POLL_SECONDS)

    async def __aexit__(self, *_: object) -> None:
        self._semaphore.release()


class IncompleteStream(Exception):
    """A stream that ended without a finish reason."""


class Scrubber:
    """A function that masks secrets in texts; its repr shows none."""

    __slots__ = ("_secrets",)

    def __init__(self, secrets: Iterable[str]) -> None:
        # The longest first, so that a key that contains another is masked whole. Ignore very short ones.
        self._secrets = sorted({secret for secret in secrets if len(secret) > 3}, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "[key]")
        return KEY_PATTERN.sub("[key]", text)


def decide_retry(error: Exception) -> bool | float:
    """Return whether to retry, or after how many seconds; the backoff hook of stamina."""
    if not isinstance(error, AttemptFailed) or not error.is_retryable or is_cancelled():
        return False
    return True if error.retry_after is None else error.retry_after


def iterate_attempts(max_attempts: int) -> Any:
    """Return stamina's retry loop, for `for` and `async for`, with exponential backoff."""
    import stamina

    return stamina.retry_context(on=decide_retry, attempts=max_attempts, timeout=None, wait_initial=0.5, wait_max=20.0)


def to_attempt_failed(error: Exception, *, name: str, timeout: float, scrub: Scrubber) -> AttemptFailed:
    """Convert an error of pydantic-ai or its clients to an AttemptFailed with advice and without secrets."""
    from pydantic_ai import exceptions as ai

    if isinstance(error, ai.ModelHTTPError):
        return _explain_http_status(error, name=name, message=_shorten(scrub(_extract_message(error.body))))
    if isinstance(error, TimeoutError | ai.ModelTimeoutError | ai.ModelRequestTimeout):
        return AttemptFailed(
            f"{name} gave no answer within {timeout:g} s; try again later, or allow more time", is_retryable=True
        )
    if isinstance(error, ai.ModelConnectionError):
        reason = _shorten(scrub(str(error.__cause__ or error)))
        return AttemptFailed(
            f"{name} cannot be reached, or broke off ({reason}); try again when it is available", is_retryable=True
        )
    if isinstance(error, IncompleteStream) or "without a `finish_reason`" in str(error):
        return AttemptFailed(f"{name} broke off before its answer was complete; try again", is_retryable=True)
    if isinstance(error, ai.ModelServerError | ai.ModelUnavailableError | ai.ModelRateLimitError):  # inside a stream
        return AttemptFailed(
            f"{name} has a server error ({_shorten(scrub(str(error)))}); try again later", is_retryable=True
        )
    if isinstance(error, ai.ModelAPIError | ai.UnexpectedModelBehavior):
        reason = _shorten(scrub(str(error)))
        text = f"{name} sent a response that cannot be read ({reason}); check that its address serves language models"
        return AttemptFailed(text, is_retryable=False)
    reason = _shorten(scrub(f"{type(error).__name__}: {error}"))
    return AttemptFailed(f"{name} could not be called ({reason}); retrying will not help", is_retryable=False)


def _explain_http_status(error: "ModelHTTPError", *, name: str, message: str) -> AttemptFailed:
    from pydantic_ai.exceptions import ModelQuotaExceededError

    status = error.status_code
    why = f"{status}: {message}" if message else str(status)
    if isinstance(error, ModelQuotaExceededError):
        text = f"{name}: the account's quota is used up ({why}); raise the quota, or use another model"
        return AttemptFailed(text, is_retryable=False)
    if status in (401, 403):
        return AttemptFailed(f"{name} rejected the key ({why}); check the key, then try again", is_retryable=False)
    if status == 404:
        return AttemptFailed(
            f"{name} was not found ({why}); check the model's name and the address", is_retryable=False
        )
    if status not in RETRYABLE_STATUS and status < 500:
        return AttemptFailed(f"{name} rejected the request ({why}); retrying will not help", is_retryable=False)
    problem = "has reached its rate limit" if status == 429 else "has a server error"
    if error.retry_after is None:
        return AttemptFailed(f"{name} {problem} ({why}); try again later", is_retryable=True)
    text = f"{name} {problem} ({why}); try again in {error.retry_after:g} s"
    return AttemptFailed(text, is_retryable=error.retry_after <= MAX_RETRY_AFTER, retry_after=error.retry_after)


def _extract_message(body: object) -> str:
    """Extract the message from the body of an HTTP error, at any of the usual places."""
    while isinstance(body, Mapping):
        body = body.get("error") or body.get("message") or body.get("detail") or ""
    return str(body) if body else ""


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_REASON_CHARS else text[: MAX_REASON_CHARS - 1] + "…"
