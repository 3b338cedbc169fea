"""Extractive answers, without a model: the best sentences verbatim, each with its citation."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clew.core.cite import Citation
from clew.core.protocols import Reranker
from clew.core.text import extract_terms, prepend_headings, split_sentences
from clew.core.types import Chunk, DocumentRecord, Hit
from clew.query.answer.confidence import ConfidenceSignals, Probe, compute_confidence, compute_signals
from clew.query.context.cite import cite_chunk
from clew.query.search.rerank import score_texts

READ_HITS = 5  # hits whose sentences are read
MIN_WORDS = 3  # shorter sentences are skipped
_MARKUP = re.compile(r"^\s*(#{1,6}\s|```|---|\|[\s:|-]+\|\s*$|>\s*$)")


@dataclass(frozen=True, slots=True)
class ExtractedAnswer:
    """The citations of the answer's sentences, best first, and the confidence that they answer."""

    citations: tuple[Citation, ...]
    confidence: float
    signals: ConfidenceSignals | None = None  # the inputs of the confidence; None where there are no hits


def extract_answer(
    question: str,
    hits: Sequence[Hit],
    records: Mapping[str, DocumentRecord],
    reranker: Reranker,
    *,
    probe: Probe | None = None,
    max_sentences: int = 3,
    min_confidence: float = 0.5,
) -> ExtractedAnswer:
    """The best sentences of the best hits, up to `max_sentences`, each at least half as probable as the first.

    A whole chunk shows better than a sentence of it whether the answer is there, so the confidence is computed from the
    reranker's probabilities of chunks and from the `probe` (None: the hits). Below `min_confidence` there are no
    sentences.
    """
    subset = [hit for hit in hits[:READ_HITS] if hit.chunk.doc_id in records]
    if not subset:
        return ExtractedAnswer((), 0.0)
    chunk_scores = score_texts(reranker, question, [hit.chunk.index_text for hit in subset])
    probe = probe or Probe(hits, extract_terms(question).keys())
    signals = compute_signals(probe, map(reranker.calibrate, chunk_scores))
    confidence = compute_confidence(signals)
    spans = [(hit.chunk, low, high) for hit in subset for low, high in _split_citable_sentences(hit.chunk)]
    if confidence < min_confidence or not spans:
        return ExtractedAnswer((), confidence, signals)
    scores = score_texts(reranker, question, [_prepend_headings_to_sentence(*span) for span in spans])
    probabilities = [reranker.calibrate(score) for score in scores]
    order = sorted(range(len(spans)), key=lambda place: (-scores[place], place))
    best = [place for place in order if probabilities[place] >= probabilities[order[0]] / 2]
    citations: dict[str, Citation] = {}
    for place in best:
        chunk, low, high = spans[place]
        citation = cite_chunk(chunk, records[chunk.doc_id], chunk.start + low, chunk.start + high)
        citations.setdefault(" ".join(citation.quote.split()), citation)  # overlapping chunks repeat a sentence
        if len(citations) == max_sentences:
            break
    return ExtractedAnswer(tuple(citations.values()), confidence, signals)


def _split_citable_sentences(chunk: Chunk) -> list[tuple[int, int]]:
    return [
        (low, high)
        for low, high in split_sentences(chunk.text)
        if len(chunk.text[low:high].split()) >= MIN_WORDS and not _MARKUP.match(chunk.text[low:high])
    ]


def _prepend_headings_to_sentence(chunk: Chunk, low: int, high: int) -> str:
    return prepend_headings(chunk.headings, chunk.text[low:high])
