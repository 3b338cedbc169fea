"""Embedders behind an address: OpenAI, or any server that answers as it does.

The key goes into one header and nowhere else: not into an error, a log or a repr.
"""

from collections.abc import Sequence
from functools import partial
from threading import Lock
from typing import Any

import numpy as np

from clew.core.errors import DriverFailed, SettingsError
from clew.core.parallel import run_parallel
from clew.core.protocols import Role
from clew.core.settings import EmbedderConfig
from clew.core.types import Matrix
from clew.drivers.embed.vectors import encodable, pooled, unit
from clew.drivers.http import Address

OPENAI = "https://api.openai.com/v1"
MOST_INPUTS = 128  # texts in one request
MOST_BYTES = 400_000  # of text in one request: under OpenAI's 300,000 tokens even where a token is two bytes
BYTES_PER_TOKEN = 4  # of English prose; the server's tokeniser is not known here
SAFE_BYTES = 2  # a token of nearly any text has more, so a window of so many fits the model
AT_ONCE = 4  # requests


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
        self.name = f"openai:{model}"
        self.max_tokens = max_tokens
        self._model = model
        self._address = Address(
            f"{url.rstrip('/')}/embeddings",
            name=self.name,
            setting="embedder",
            api_key=api_key,
            timeout=timeout,
            attempts=attempts,
            backoff=backoff,
        )
        self._host = self._address.host
        self._dim = 0
        self._lock = Lock()

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
        answers = run_parallel(
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
        return self._rows(self._address.ask({"model": self._model, "input": list(batch)}), len(batch))

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
