"""Rerankers over HTTP: Cohere, Jina, vLLM and servers with the same API, or text-embeddings-inference.

Most servers take `documents` and answer `{"results": [{"index", "relevance_score"}]}`. Text-embeddings-inference takes
`texts` and answers `[{"index", "score"}]`; it is recognised by its error message for the other form.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from clew.core.errors import DriverFailed, RequestRefused, SettingsError
from clew.core.parallel import run_parallel
from clew.core.settings import RerankerConfig
from clew.drivers.http import JsonEndpoint
from clew.drivers.tokenizer import replace_surrogates
from clew.drivers.windows import keep_both_ends, logistic, max_score_per_text, split_windows

MAX_DOCUMENTS = 100  # per request: Cohere bills them as one search
MAX_TEXTS = 32  # per request: the default limit of text-embeddings-inference
BYTES_PER_TOKEN = 3  # low for prose, so that a window fits the model; the server's tokenizer is unknown
SPECIAL_TOKENS = 8  # that the server may add to a pair
OVERLAP = 64  # minimum tokens that two windows of a long text share
MAX_CONCURRENT = 4  # requests

MakeBody = Callable[[str, Sequence[str]], dict[str, Any]]  # makes the request for a query and a batch of texts


class HttpReranker:
    """A reranker on a server that answers `POST {url}/rerank`."""

    def __init__(
        self,
        model: str,
        *,
        url: str,
        api_key: str = "",
        max_tokens: int = 512,
        timeout: float = 60.0,
        attempts: int = 6,
        backoff: float = 0.5,
    ) -> None:
        if max_tokens < 4 * SPECIAL_TOKENS:
            raise SettingsError(f"reranker.max_tokens is {max_tokens}; it must be at least {4 * SPECIAL_TOKENS}")
        self.name = f"http:{model}"
        self.max_tokens = max_tokens
        self._model = model
        self._endpoint = JsonEndpoint(
            f"{url.rstrip('/')}/rerank",
            name=self.name,
            setting="reranker",
            api_key=api_key,
            timeout=timeout,
            attempts=attempts,
            backoff=backoff,
        )
        self._takes_texts = False  # detected by the first error message
        self._gives_logits = False  # detected by the first score outside 0 to 1

    def __repr__(self) -> str:
        return f"HttpReranker({self._model!r} at {self._endpoint.host})"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Score how well each text answers, on the server's scale; a long text gets the score of its best window.

        A query over half of the token limit loses its middle.
        """
        max_bytes = (self.max_tokens - SPECIAL_TOKENS) * BYTES_PER_TOKEN
        query = replace_surrogates(query)
        query = " … ".join(query[part] for part in keep_both_ends(len(query), _estimate_chars(query, max_bytes // 2)))
        query = query or " "  # servers reject an empty query
        left = max_bytes - len(query.encode())
        pieces = [
            (owner, piece) for owner, text in enumerate(texts) for piece in _split_text(replace_surrogates(text), left)
        ]
        scores = self._score_pieces(query, [piece for _, piece in pieces])
        if any(not 0 <= score <= 1 for score in scores):
            self._gives_logits = True
        return max_score_per_text(scores, [owner for owner, _ in pieces], len(texts))

    def calibrate(self, score: float) -> float:
        """Return the score as a probability, or its logistic once any score of the server was outside 0 to 1."""
        return logistic(score) if self._gives_logits else min(max(score, 0.0), 1.0)

    def _score_pieces(self, query: str, pieces: Sequence[str]) -> list[float]:
        if not pieces:
            return []
        if not self._takes_texts:
            try:
                return self._score_in_batches(query, pieces, MAX_DOCUMENTS, self._make_documents_body)
            except RequestRefused as error:
                if "`texts`" not in str(error):
                    raise
                self._takes_texts = True
        return self._score_in_batches(query, pieces, MAX_TEXTS, _make_texts_body)

    def _score_in_batches(self, query: str, pieces: Sequence[str], max_batch: int, make_body: MakeBody) -> list[float]:
        batches = [pieces[at : at + max_batch] for at in range(0, len(pieces), max_batch)]
        answers = run_parallel(
            [partial(self._score_batch, make_body(query, batch), len(batch)) for batch in batches],
            max_concurrent=MAX_CONCURRENT,
        )
        return [score for answer in answers for score in answer]

    def _make_documents_body(self, query: str, batch: Sequence[str]) -> dict[str, Any]:
        return {"model": self._model, "query": query, "documents": list(batch), "top_n": len(batch)}

    def _score_batch(self, body: dict[str, Any], count: int) -> list[float]:
        """Return the scores of one batch, in the order of the texts sent."""
        answer = self._endpoint.post(body)
        source = f"{self.name} at {self._endpoint.host}"
        try:
            results = answer if isinstance(answer, list) else answer["results"]
            pairs = [(each["index"], float(each.get("relevance_score", each.get("score")))) for each in results]
            found = dict(pairs)
        except (TypeError, KeyError, ValueError, AttributeError):
            raise DriverFailed(f"{source} answered without scores; check that the address is a rerank API") from None
        if len(pairs) != count or found.keys() != set(range(count)):
            raise DriverFailed(
                f"{source}: count mismatch, {count} texts were sent and {len(pairs)} scores came back "
                f"for {len(found)} of them; trying again will not help"
            )
        if not all(map(math.isfinite, found.values())):
            raise DriverFailed(f"{source} gave a score that is not a number; trying again will not help")
        return [found[at] for at in range(count)]


def make_http_reranker(config: RerankerConfig) -> HttpReranker:
    """Make the reranker "http:MODEL" at the address in the settings."""
    _, _, model = config.name.partition(":")
    if not model:
        raise SettingsError("reranker.name is 'http:'; add the model, as in http:rerank-v3.5")
    if not config.url:
        raise SettingsError(f"{config.name} needs an address: set reranker.url, as in https://api.cohere.com/v2")
    return HttpReranker(model, url=config.url, api_key=config.api_key)


def _make_texts_body(query: str, batch: Sequence[str]) -> dict[str, Any]:
    return {"query": query, "texts": list(batch)}


def _estimate_chars(text: str, max_bytes: int) -> int:
    """Estimate how many characters take `max_bytes`, from the text's mean bytes per character."""
    size = len(text.encode())
    return len(text) if size <= max_bytes else max(1, max_bytes * len(text) // size)


def _split_text(text: str, max_bytes: int) -> list[str]:
    room = _estimate_chars(text, max_bytes)
    overlap = _estimate_chars(text, OVERLAP * BYTES_PER_TOKEN)
    return [text[window] or " " for window in split_windows(len(text), room, overlap)]  # servers reject an empty text
