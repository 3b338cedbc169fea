"""Rerankers behind an address: Cohere, Jina, vLLM and all that answer as they do, or text-embeddings-inference.

Most servers take `documents` and answer `{"results": [{"index", "relevance_score"}]}`. Text-embeddings-inference takes
`texts` and answers `[{"index", "score"}]`; it says so when it is asked in the other way, and is then asked in its own.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from clew.core.errors import DriverFailed, SettingsError
from clew.core.parallel import run_parallel
from clew.core.settings import RerankerConfig
from clew.drivers.http import Address, Refused
from clew.drivers.rerank.texts import best, both_ends, encodable, logistic, windows

MOST_DOCUMENTS = 100  # in one request: what Cohere counts as one search
MOST_TEXTS = 32  # the same for text-embeddings-inference, which by default takes no more
BYTES_PER_TOKEN = 3  # few for prose, so that a window fits the model; the server's tokeniser is not known here
SPECIAL_TOKENS = 8  # what the server may put around a pair
OVERLAP = 64  # tokens that two windows of a long text share at least
AT_ONCE = 4  # requests

Body = Callable[[str, Sequence[str]], dict[str, Any]]  # what is posted for a question and a batch


class HttpReranker:
    """The scores that a server gives for `POST {url}/rerank`."""

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
        self._address = Address(
            f"{url.rstrip('/')}/rerank",
            name=self.name,
            setting="reranker",
            api_key=api_key,
            timeout=timeout,
            attempts=attempts,
            backoff=backoff,
        )
        self._takes_texts = False  # known once the server has said so
        self._gives_logits = False  # known once a score was none from 0 to 1

    def __repr__(self) -> str:
        return f"HttpReranker({self._model!r} at {self._address.host})"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """How well each text answers, in order, on the server's scale; of a long text the score of its best window.

        A query is cut to half of what the model takes, and its start and end are kept.
        """
        room = (self.max_tokens - SPECIAL_TOKENS) * BYTES_PER_TOKEN
        query = encodable(query)
        asked = " … ".join(query[part] for part in both_ends(len(query), _letters(query, room // 2)))
        asked = asked or " "  # an empty one is refused
        left = room - len(asked.encode())
        pieces = [(owner, piece) for owner, text in enumerate(texts) for piece in _cut(encodable(text), left)]
        scores = self._scores(asked, [piece for _, piece in pieces])
        if any(not 0 <= score <= 1 for score in scores):
            self._gives_logits = True
        return best(scores, [owner for owner, _ in pieces], len(texts))

    def calibrated(self, score: float) -> float:
        """The score itself where the server gives chances; its logistic once a score was seen that is no chance."""
        return logistic(score) if self._gives_logits else min(max(score, 0.0), 1.0)

    def _scores(self, query: str, pieces: Sequence[str]) -> list[float]:
        if not pieces:
            return []
        if not self._takes_texts:
            try:
                return self._asked(query, pieces, MOST_DOCUMENTS, self._documents)
            except Refused as error:
                if "`texts`" not in str(error):
                    raise
                self._takes_texts = True
        return self._asked(query, pieces, MOST_TEXTS, _texts)

    def _asked(self, query: str, pieces: Sequence[str], most: int, body: Body) -> list[float]:
        batches = [pieces[at : at + most] for at in range(0, len(pieces), most)]
        answers = run_parallel(
            [partial(self._request, body(query, batch), len(batch)) for batch in batches], workers=AT_ONCE
        )
        return [score for answer in answers for score in answer]

    def _documents(self, query: str, batch: Sequence[str]) -> dict[str, Any]:
        return {"model": self._model, "query": query, "documents": list(batch), "top_n": len(batch)}

    def _request(self, body: dict[str, Any], count: int) -> list[float]:
        """The scores of one batch in the order of what was sent."""
        answer = self._address.ask(body)
        source = f"{self.name} at {self._address.host}"
        try:
            results = answer if isinstance(answer, list) else answer["results"]
            pairs = [(each["index"], float(each.get("relevance_score", each.get("score")))) for each in results]
            found = dict(pairs)
        except (TypeError, KeyError, ValueError, AttributeError):
            raise DriverFailed(f"{source} answered without scores; is it a rerank address?") from None
        if len(pairs) != count or found.keys() != set(range(count)):
            raise DriverFailed(
                f"{source}: count mismatch, {count} texts were sent and {len(pairs)} scores came back "
                f"for {len(found)} of them; trying again will not help"
            )
        if not all(map(math.isfinite, found.values())):
            raise DriverFailed(f"{source} gave a score that is no number; trying again will not help")
        return [found[at] for at in range(count)]


def configured(config: RerankerConfig) -> HttpReranker:
    """The reranker called "http:MODEL", at the address that is set."""
    _, _, model = config.name.partition(":")
    if not model:
        raise SettingsError("reranker.name is 'http:'; after it stands the model, as in http:rerank-v3.5")
    if not config.url:
        raise SettingsError(f"{config.name} needs an address: set reranker.url, as in https://api.cohere.com/v2")
    return HttpReranker(model, url=config.url, api_key=config.api_key)


def _texts(query: str, batch: Sequence[str]) -> dict[str, Any]:
    return {"query": query, "texts": list(batch)}


def _letters(text: str, most: int) -> int:
    """How many letters of the text have so many bytes, at the text's own mean."""
    size = len(text.encode())
    return len(text) if size <= most else max(1, most * len(text) // size)


def _cut(text: str, most: int) -> list[str]:
    """The text in overlapping pieces of about so many bytes at most."""
    room = _letters(text, most)
    overlap = _letters(text, OVERLAP * BYTES_PER_TOKEN)
    return [text[window] or " " for window in windows(len(text), room, overlap)]  # an empty text is refused
