"""What `auto` does with a question that names no strategy: decided by what a first hybrid search found.

A hit that is almost certainly the answer needs nothing more. A reranker orders prose in its own language better; it
loses on code, in languages that it does not know, and on messages, which say little without those before them.
`python -m studies.auto` compares this with every strategy, and leaves each set out of the choice of the threshold.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from clew.core.detect import detect_language
from clew.core.languages import RERANKER_LANGUAGES
from clew.core.protocols import Reranker
from clew.core.types import Hit, Query
from clew.query.rank.thread_smoothing import is_message_chunk
from clew.query.rewrite.code import MAX_SYMBOLS, measure_symbols
from clew.query.search.evidence import EvidenceSource

FIRST = 10  # hits whose texts are looked at
CERTAIN = 0.9  # relevance of a hit from which nothing more is done
_LOOKED_AT = 1_000  # characters of a text


@dataclass(frozen=True, slots=True)
class Signs:
    """What a first search says of a question: how sure its best hit is, and of what kind the hits are."""

    relevance: float
    symbols: float
    language: str
    messages: int  # of the first hits
    asked_in: str = ""  # the language of the question, where that is sure


def read_signs(source: EvidenceSource, query: Query, hits: Sequence[Hit]) -> Signs:
    """The signs of the hits of a hybrid search."""
    texts = [hit.chunk.text[:_LOOKED_AT] for hit in hits[:FIRST]]
    known = [hit.relevance for hit in hits if not math.isnan(hit.relevance)]
    return Signs(
        max(known, default=0.0),
        measure_symbols(texts),
        _find_language(texts),
        sum(is_message_chunk(hit.chunk) for hit in hits[:FIRST]),
        source.find_language(query),
    )


def choose_by_signs(
    signs: Signs, load_reranker: Callable[[], Reranker | None], *, certain: float = CERTAIN
) -> tuple[str, str]:
    """The strategy, and the reason; the reranker is loaded only where it may be used."""
    if signs.relevance >= certain:
        return "hybrid", "its first hit is almost certain"
    if signs.messages:
        return (
            "hybrid",
            f"{signs.messages} of its first hits {'is a message' if signs.messages == 1 else 'are messages'}",
        )
    if signs.symbols < MAX_SYMBOLS and _knows(load_reranker(), {signs.language, signs.asked_in}):
        return "rerank", "the reranker knows texts of this kind"
    return "hybrid", "it is a plain question"


def _knows(reranker: Reranker | None, languages: Set[str]) -> bool:
    """Whether there is a reranker that knows the languages; one of which that is not known is taken to know all."""
    if reranker is None:
        return False
    known = RERANKER_LANGUAGES.get(reranker.name)
    return known is None or (bool(known) and languages <= {"", *known})


def _find_language(texts: Sequence[str]) -> str:
    """The language of most of the texts."""
    found = Counter(filter(None, map(detect_language, texts)))
    return found.most_common(1)[0][0] if found else ""
