"""Embedders behind an address: OpenAI, or any server that answers as it does.

The key goes into one header and nowhere else: not into an error, a log or a repr.
"""

import weakref
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from functools import partial
from threading import Lock
from time import time
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from clew.core.errors import DriverFailed, DriverMissing, SettingsError
from clew.core.parallel import gather
from clew.core.protocols import Role
from clew.core.settings import EmbedderConfig
from clew.core.types import Matrix
from clew.drivers.embed.vectors import encodable, pooled, unit

OPENAI = "https://api.openai.com/v1"
MOST_INPUTS = 128  # texts in one request
MOST_BYTES = 400_000  # of text in one request: under OpenAI's 300,000 tokens even where a token is two bytes
BYTES_PER_TOKEN = 4  # of English prose; the server's tokeniser is not known here
SAFE_BYTES = 2  # a token of nearly any text has more, so a window of so many fits the model
AT_ONCE = 4  # requests
LONGEST_WAIT = 60.0  # seconds that a server may ask us to wait before trying again


class _Again(Exception):
    """An answer that may be better the next time; `wait` is what the server asked for, in seconds."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class HttpEmbedder:
    """The vectors that a server gives for `POST {url}/embeddings`."""

    min_similarity = 0.0  # which model answers is not known here, so nothing is ruled out

    def __init__(
        self,
        model: str,
        *,
        url: str = OPENAI,
        api_key: str = "",
        max_tokens: int = 8191,
        timeout: float = 60.0,
        attempts: int = 6,
        backoff: float = 0.5,
    ) -> None:
        try:
            import httpx2
        except ImportError as error:
            raise DriverMissing("an embedder behind an address needs the package httpx2; install clew again") from error
        address = urlsplit(url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise SettingsError("embedder.url must be an http:// or https:// address")
        if not (api_key.isascii() and api_key.isprintable()) or " " in api_key:
            raise SettingsError("embedder.api_key holds a sign that no key has; copy it again")
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self.name = f"openai:{model}"
        self.max_tokens = max_tokens
        self._model = model
        self._host = address.hostname
        self._endpoint = f"{url.rstrip('/')}/embeddings"
        self._api_key = api_key
        self._attempts = attempts
        self._backoff = backoff
        self._client = httpx2.Client(headers=headers, timeout=timeout)
        self._dim = 0
        self._lock = Lock()
        weakref.finalize(self, self._client.close)

    def __repr__(self) -> str:
        return f"HttpEmbedder({self._model!r} at {self._host})"

    @property
    def dim(self) -> int:
        """The width of a vector; the server is asked once if it has not answered yet."""
        if not self._dim:
            self._request(["width"])
        return self._dim

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:  # noqa: ARG002 - the protocol knows no roles
        """One unit row a text, in order; a text longer than the model takes is embedded in windows and pooled."""
        pieces = [
            (owner, piece)
            for owner, text in enumerate(texts)
            for piece in _windows(encodable(text) or " ", SAFE_BYTES * self.max_tokens)  # an empty text is refused
        ]
        if not pieces:
            return np.zeros((0, self.dim), np.float32)
        answers = gather(
            [partial(self._request, batch) for batch in _batches([piece for _, piece in pieces])], workers=AT_ONCE
        )
        rows: Matrix = np.concatenate(answers)
        if len(pieces) > len(texts):
            weights = [len(piece.encode()) for _, piece in pieces]
            rows = unit(pooled(rows, weights, [owner for owner, _ in pieces], len(texts)), of=self.name)
        return rows

    def count(self, texts: Sequence[str]) -> list[int]:
        """About how many tokens each text has: a quarter of its bytes, rounded up."""
        return [-(-len(encodable(text).encode()) // BYTES_PER_TOKEN) for text in texts]

    def _request(self, batch: Sequence[str]) -> Matrix:
        """The unit rows of one batch, tried again while the server is busy or out of reach."""
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
                    answer = self._post(batch)
        except _Again as error:
            raise DriverFailed(
                f"{self.name} at {self._host} {error}, {self._attempts} times; try again later"
            ) from None
        return self._rows(answer, len(batch))

    def _post(self, batch: Sequence[str]) -> Any:
        import httpx2

        try:
            response = self._client.post(self._endpoint, json={"model": self._model, "input": list(batch)})
        except httpx2.TimeoutException:
            raise _Again("did not answer in time") from None
        except httpx2.TransportError as error:
            raise _Again(f"could not be reached ({self._safe(str(error))})") from None
        status = response.status_code
        if status in (408, 429) or status >= 500:
            wait = _seconds(response.headers.get("Retry-After", ""))
            raise _Again(f"answered {status} ({self._said(response)})", wait)
        if status != 200:
            raise DriverFailed(
                f"{self.name} at {self._host} refused with {status}: {self._said(response)}; "
                "trying again will not help, check the model, the key and the address"
            )
        try:
            return response.json()
        except ValueError:
            raise DriverFailed(f"{self.name} at {self._host} answered with something that is not JSON") from None

    def _rows(self, answer: Any, count: int) -> Matrix:
        """The vectors of an answer as unit rows in the order of what was sent."""
        source = f"{self.name} at {self._host}"
        try:
            found = {int(entry.get("index", at)): entry["embedding"] for at, entry in enumerate(answer["data"])}
            size = len(answer["data"])
        except (TypeError, KeyError, ValueError, AttributeError):
            raise DriverFailed(f"{source} answered without vectors; is it an embeddings address?") from None
        if size != count or set(found) != set(range(count)):
            raise DriverFailed(f"{source}: count mismatch, {count} texts were sent and {size} vectors came back")
        try:
            rows = unit([found[at] for at in range(count)], of=source)
        except (TypeError, ValueError, np.exceptions.AxisError):
            raise DriverFailed(f"{source} answered with vectors that are not rows of numbers of one width") from None
        with self._lock:
            self._dim = self._dim or rows.shape[1]
        if rows.shape[1] != self._dim:
            raise DriverFailed(f"{source} changed its width from {self._dim} to {rows.shape[1]}; is it one model?")
        return rows

    def _said(self, response: Any) -> str:
        """The server's own words, short, and without the key that some servers repeat."""
        try:
            body = response.json()
            error = body.get("error", body)
            said = error.get("message", error) if isinstance(error, dict) else error
        except (ValueError, AttributeError):
            said = response.text
        return self._safe(str(said).strip()[:300]) or "no message"

    def _safe(self, text: str) -> str:
        return text.replace(self._api_key, "…") if self._api_key else text


def configured(config: EmbedderConfig) -> HttpEmbedder:
    """The embedder called "openai:MODEL", at OpenAI's address or the one that is set."""
    _, _, model = config.name.partition(":")
    if not model:
        raise SettingsError(
            "embedder.name is 'openai:'; after it stands the model, as in openai:text-embedding-3-small"
        )
    if not config.url and not config.api_key:
        raise SettingsError(
            f"{config.name} needs a key: set embedder.api_key, or embedder.url for a server of your own"
        )
    return HttpEmbedder(model, url=config.url or OPENAI, api_key=config.api_key)


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


def _windows(text: str, most: int) -> list[str]:
    """The text in pieces of at most so many bytes, cut between words where there are any near the middle."""
    if len(text.encode()) <= most or len(text) < 2:
        return [text]
    middle = len(text) // 2
    space = text.find(" ", middle, middle + 200)
    cut = space if space > 0 else middle
    return _windows(text[:cut], most) + _windows(text[cut:], most)


def _batches(texts: Sequence[str]) -> list[list[str]]:
    """The texts in order, in groups that one request carries."""
    batches: list[list[str]] = []
    held = MOST_BYTES
    for text in texts:
        size = len(text.encode())
        if held + size > MOST_BYTES or len(batches[-1]) == MOST_INPUTS:
            batches.append([])
            held = 0
        batches[-1].append(text)
        held += size
    return batches
