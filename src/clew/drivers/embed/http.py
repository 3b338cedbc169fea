"""Embedders over HTTP: OpenAI, or any server with the same API."""

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
from clew.drivers.http import JsonEndpoint
from clew.drivers.tokenizer import replace_surrogates
from clew.drivers.windows import normalize, pool_windows

OPENAI_URL = "https://api.openai.com/v1"
MAX_INPUTS = 128  # texts per request
MAX_BYTES = 400_000  # of text per request: under OpenAI's 300,000 tokens even at two bytes per token
BYTES_PER_TOKEN = 4  # for English prose; the server's tokenizer is unknown
SAFE_BYTES_PER_TOKEN = 2  # nearly every text has more, so a window of this size fits the model
MAX_CONCURRENT = 4  # requests


class HttpEmbedder:
    """An embedder on a server that answers `POST {url}/embeddings`."""

    min_similarity = 0.0  # the model behind the address is unknown, so nothing is ruled out

    def __init__(
        self,
        model: str,
        *,
        url: str = OPENAI_URL,
        api_key: str = "",
        max_tokens: int = 8191,
        timeout: float = 60.0,
        attempts: int = 6,
        backoff: float = 0.5,
    ) -> None:
        self.name = f"openai:{model}"
        self.max_tokens = max_tokens
        self._model = model
        self._endpoint = JsonEndpoint(
            f"{url.rstrip('/')}/embeddings",
            name=self.name,
            setting="embedder",
            api_key=api_key,
            timeout=timeout,
            attempts=attempts,
            backoff=backoff,
        )
        self._host = self._endpoint.host
        self._dim = 0
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"HttpEmbedder({self._model!r} at {self._host})"

    @property
    def dim(self) -> int:
        """The dimension of the vectors; determined by a request if there was none yet."""
        if not self._dim:
            self._embed_batch(["width"])
        return self._dim

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:  # noqa: ARG002 - the API knows no roles
        """Return one unit vector per text, in order; a text over the token limit is embedded in windows and pooled."""
        pieces = [
            (owner, piece)
            for owner, text in enumerate(texts)
            for piece in _split_windows(
                replace_surrogates(text) or " ", SAFE_BYTES_PER_TOKEN * self.max_tokens
            )  # servers reject an empty text
        ]
        if not pieces:
            return np.zeros((0, self.dim), np.float32)
        answers = run_parallel(
            [partial(self._embed_batch, batch) for batch in _make_batches([piece for _, piece in pieces])],
            max_concurrent=MAX_CONCURRENT,
        )
        rows: Matrix = np.concatenate(answers)
        if len(pieces) > len(texts):
            weights = [len(piece.encode()) for _, piece in pieces]
            rows = normalize(pool_windows(rows, weights, [owner for owner, _ in pieces], len(texts)), source=self.name)
        return rows

    def count(self, texts: Sequence[str]) -> list[int]:
        """Estimate the number of tokens of each text as a quarter of its bytes, rounded up."""
        return [-(-len(replace_surrogates(text).encode()) // BYTES_PER_TOKEN) for text in texts]

    def _embed_batch(self, batch: Sequence[str]) -> Matrix:
        return self._parse_rows(self._endpoint.post({"model": self._model, "input": list(batch)}), len(batch))

    def _parse_rows(self, answer: Any, count: int) -> Matrix:
        """Parse the unit vectors of a response, in the order of the texts sent."""
        source = f"{self.name} at {self._host}"
        try:
            found = {int(entry.get("index", at)): entry["embedding"] for at, entry in enumerate(answer["data"])}
            size = len(answer["data"])
        except (TypeError, KeyError, ValueError, AttributeError):
            raise DriverFailed(
                f"{source} answered without vectors; check that the address is an embeddings API"
            ) from None
        if size != count or set(found) != set(range(count)):
            raise DriverFailed(f"{source}: count mismatch, {count} texts were sent and {size} vectors came back")
        try:
            rows = normalize([found[at] for at in range(count)], source=source)
        except (TypeError, ValueError, np.exceptions.AxisError):
            raise DriverFailed(f"{source} answered with vectors that are not rows of numbers of one length") from None
        with self._lock:
            self._dim = self._dim or rows.shape[1]
        if rows.shape[1] != self._dim:
            raise DriverFailed(
                f"{source} changed the vector length from {self._dim} to {rows.shape[1]}; check that one model answers"
            )
        return rows


def make_http_embedder(config: EmbedderConfig) -> HttpEmbedder:
    """Make the embedder "openai:MODEL" at OpenAI's address or the one in the settings."""
    _, _, model = config.name.partition(":")
    if not model:
        raise SettingsError("embedder.name is 'openai:'; add the model, as in openai:text-embedding-3-small")
    if not config.url and not config.api_key:
        raise SettingsError(
            f"{config.name} needs a key: set embedder.api_key, or embedder.url for a server of your own"
        )
    return HttpEmbedder(model, url=config.url or OPENAI_URL, api_key=config.api_key)


def _split_windows(text: str, max_bytes: int) -> list[str]:
    """Halve the text until each piece has at most `max_bytes`, at a space near the middle if there is one."""
    if len(text.encode()) <= max_bytes or len(text) < 2:
        return [text]
    middle = len(text) // 2
    space = text.find(" ", middle, middle + 200)
    cut = space if space > 0 else middle
    return _split_windows(text[:cut], max_bytes) + _split_windows(text[cut:], max_bytes)


def _make_batches(texts: Sequence[str]) -> list[list[str]]:
    batches: list[list[str]] = []
    size_of_last = MAX_BYTES
    for text in texts:
        size = len(text.encode())
        if size_of_last + size > MAX_BYTES or len(batches[-1]) == MAX_INPUTS:
            batches.append([])
            size_of_last = 0
        batches[-1].append(text)
        size_of_last += size
    return batches
