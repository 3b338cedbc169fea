"""What went wrong with a request, in our own words and without the key."""

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from clew.core.errors import DriverFailed
from clew.drivers.llm.batch import is_over

if TYPE_CHECKING:
    from pydantic_ai.exceptions import ModelHTTPError

PATIENCE = 60.0  # seconds: a provider that asks for a longer wait is not waited for
SAID = 300  # characters of the provider's own words that are shown
TRANSIENT = frozenset({408, 409, 425, 429})  # with every 5xx: the same request may pass later
KEY_LIKE = re.compile(r"\b(?:sk|pk|rk|gsk|xai|hf)[-_][\w\-*.]{6,}|(?<=Bearer )\S+", re.IGNORECASE)


class Trouble(DriverFailed):
    """One try that failed: whether another may pass, and after how many seconds if the provider said so."""

    def __init__(self, text: str, *, again: bool, after: float | None = None) -> None:
        super().__init__(text)
        self.again = again
        self.after = after


class HalfAnAnswer(Exception):
    """A stream that ended without the word that says so."""


class Scrubber:
    """Takes secrets out of texts. It never shows them itself."""

    __slots__ = ("_secrets",)

    def __init__(self, secrets: Iterable[str]) -> None:
        # The longest first, so that a key inside another leaves nothing behind; very short ones are no secrets.
        self._secrets = sorted({secret for secret in secrets if len(secret) > 3}, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "[key]")
        return KEY_LIKE.sub("[key]", text)


def pause(error: Exception) -> bool | float:
    """Whether to try again, or the seconds to wait before."""
    if not isinstance(error, Trouble) or not error.again or is_over():
        return False
    return True if error.after is None else error.after


def explained(error: Exception, *, name: str, timeout: float, scrub: Scrubber) -> Trouble:
    """The Trouble that an error of pydantic-ai, or of what it calls, amounts to."""
    from pydantic_ai import exceptions as ai

    if isinstance(error, ai.ModelHTTPError):
        return _refused(error, name=name, said=_short(scrub(_said(error.body))))
    if isinstance(error, TimeoutError | ai.ModelTimeoutError | ai.ModelRequestTimeout):
        return Trouble(f"{name} gave no answer within {timeout:g} s; try again later, or allow more time", again=True)
    if isinstance(error, ai.ModelConnectionError):
        reason = _short(scrub(str(error.__cause__ or error)))
        return Trouble(f"{name} cannot be reached, or broke off ({reason}); try again when it can", again=True)
    if isinstance(error, HalfAnAnswer) or "without a `finish_reason`" in str(error):
        return Trouble(f"{name} broke off before its answer was whole; try again", again=True)
    if isinstance(error, ai.ModelServerError | ai.ModelUnavailableError | ai.ModelRateLimitError):  # inside a stream
        return Trouble(f"{name} is in trouble ({_short(scrub(str(error)))}); try again later", again=True)
    if isinstance(error, ai.ModelAPIError | ai.UnexpectedModelBehavior):
        reason = _short(scrub(str(error)))
        text = f"{name} sent an answer that cannot be read ({reason}); check that its address serves language models"
        return Trouble(text, again=False)
    reason = _short(scrub(f"{type(error).__name__}: {error}"))
    return Trouble(f"{name} could not be asked ({reason}); trying again will not help", again=False)


def _refused(error: "ModelHTTPError", *, name: str, said: str) -> Trouble:
    from pydantic_ai.exceptions import ModelQuotaExceededError

    status = error.status_code
    why = f"{status}: {said}" if said else str(status)
    if isinstance(error, ModelQuotaExceededError):
        return Trouble(
            f"{name} refuses because the account is used up ({why}); trying again will not help", again=False
        )
    if status in (401, 403):
        return Trouble(f"{name} does not accept the key ({why}); check the key, then try again", again=False)
    if status == 404:
        return Trouble(f"{name} is not there ({why}); check the model's name and the address", again=False)
    if status not in TRANSIENT and status < 500:
        return Trouble(f"{name} refuses the request ({why}); trying again will not help", again=False)
    problem = "is asked too often" if status == 429 else "is in trouble"
    if error.retry_after is None:
        return Trouble(f"{name} {problem} ({why}); try again later", again=True)
    text = f"{name} {problem} ({why}); try again in {error.retry_after:g} s"
    return Trouble(text, again=error.retry_after <= PATIENCE, after=error.retry_after)


def _said(body: object) -> str:
    """The message in the body of an error, wherever the provider put it."""
    while isinstance(body, Mapping):
        body = body.get("error") or body.get("message") or body.get("detail") or ""
    return str(body) if body else ""


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= SAID else text[: SAID - 1] + "…"
