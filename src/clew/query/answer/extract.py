"""An answer without a model: the sentences that answer best, word for word, each with its citation."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clew.core.cite import Citation
from clew.core.protocols import Reranker
from clew.core.text import sentences, terms, with_headings
from clew.core.types import Chunk, DocumentRecord, Hit
from clew.query.answer.confidence import Look, Signals, confidence, signals
from clew.query.context.cite import cited

READ = 5  # hits whose sentences are read
WORDS = 3  # a sentence of fewer says nothing by itself
_MARKUP = re.compile(r"^\s*(#{1,6}\s|```|---|\|[\s:|-]+\|\s*$|>\s*$)")


@dataclass(frozen=True, slots=True)
class Extract:
    """The sentences of an answer with their citations, best first, and the chance that they answer."""

    citations: tuple[Citation, ...]
    confidence: float
    signals: Signals | None = None  # what the chance is made of; None where nothing was read


def extracted(
    question: str,
    hits: Sequence[Hit],
    records: Mapping[str, DocumentRecord],
    reranker: Reranker,
    *,
    look: Look | None = None,
    most: int = 3,
    least: float = 0.5,
) -> Extract:
    """The best sentences of the best hits: at most so many, none of which is less than half as likely as the first.

    A chunk as a whole tells better than any sentence of it whether the answer is there, so the confidence is made of
    the chances of chunks and of what a `look` at the collection shows (None: the hits are all that it shows); below
    `least` there are no sentences.
    """
    few = [hit for hit in hits[:READ] if hit.chunk.doc_id in records]
    if not few:
        return Extract((), 0.0)
    whole = reranker.score(question, [hit.chunk.embed_text for hit in few])
    seen = look or Look(hits, terms(question).keys())
    made = signals(seen, map(reranker.calibrated, whole))
    sure = confidence(made)
    spans = [(hit.chunk, low, high) for hit in few for low, high in _sentences(hit.chunk)]
    if sure < least or not spans:
        return Extract((), sure, made)
    scores = reranker.score(question, [_read(*span) for span in spans])
    chances = [reranker.calibrated(score) for score in scores]
    order = sorted(range(len(spans)), key=lambda place: (-scores[place], place))
    best = [place for place in order if chances[place] >= chances[order[0]] / 2]
    taken: dict[str, Citation] = {}
    for place in best:
        chunk, low, high = spans[place]
        citation = cited(chunk, records[chunk.doc_id], chunk.start + low, chunk.start + high)
        taken.setdefault(" ".join(citation.quote.split()), citation)  # overlapping chunks say it twice
        if len(taken) == most:
            break
    return Extract(tuple(taken.values()), sure, made)


def _sentences(chunk: Chunk) -> list[tuple[int, int]]:
    return [
        (low, high)
        for low, high in sentences(chunk.text)
        if len(chunk.text[low:high].split()) >= WORDS and not _MARKUP.match(chunk.text[low:high])
    ]


def _read(chunk: Chunk, low: int, high: int) -> str:
    return with_headings(chunk.headings, chunk.text[low:high])
