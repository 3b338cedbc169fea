"""Extractive answers, without a model: what the collection says verbatim, each part with its citation."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from clew.core.cite import Citation
from clew.core.protocols import Reranker
from clew.core.text import extract_terms
from clew.core.types import Chunk, DocumentRecord, Hit
from clew.query.answer.absent import explain_absent, explain_lacking, explain_unnamed
from clew.query.answer.candidates import Candidate, collect_candidates
from clew.query.answer.confidence import (
    MIN_PROBABILITY,
    WEIGHTS,
    ConfidenceSignals,
    ConfidenceWeights,
    Probe,
    compute_confidence,
    compute_signals,
)
from clew.query.answer.features import MIN_PROBABILITY as MIN_PART_PROBABILITY
from clew.query.answer.features import compute_features, score_candidates, score_chunks, to_log_odds
from clew.query.answer.objections import find_objection
from clew.query.answer.revise import find_revision
from clew.query.answer.supersede import find_superseded
from clew.query.answer.widen import widen_part
from clew.query.context.cite import make_citation
from clew.query.search.rerank import score_texts

READ_HITS = 6  # hits whose sentences are read
SURE = 0.6  # the confidence by a reader from which on no word speaks against a part
MAX_LAG = 1.0  # in the summed log-odds of a reader, behind the best part, of parts that are shown too
ABSENT_CONFIDENCE = 0.05  # where what is asked about is not mentioned, but its like is
UNNAMED_CONFIDENCE = 0.3  # where a name of the question is not mentioned: the passages may call it otherwise


@dataclass(frozen=True, slots=True)
class ExtractedPart:
    """A part of an answer: the hit that it stands in, its citation, and the position of the part that replaces it."""

    hit: Hit
    citation: Citation
    superseded_by: int | None = None


@dataclass(frozen=True, slots=True)
class ExtractedAnswer:
    """The parts of an answer, best first, and the confidence that they answer.

    With `is_nearest` the confidence is too low for an answer, and the part is only the nearest that was found.
    """

    parts: tuple[ExtractedPart, ...]
    confidence: float
    signals: ConfidenceSignals | None = None  # the inputs of the confidence; None where there are no hits
    absent: str = ""  # what is asked for and not in the passages, in words
    is_nearest: bool = False

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The citations of the parts."""
        return tuple(part.citation for part in self.parts)


def _read_no_chunks(_: str) -> Sequence[Chunk]:
    return ()


def _find_nothing(_: Candidate) -> Sequence[Hit]:
    return ()


def extract_answer(
    question: str,
    hits: Sequence[Hit],
    records: Mapping[str, DocumentRecord],
    reranker: Reranker,
    *,
    read_chunks: Callable[[str], Sequence[Chunk]] = _read_no_chunks,
    find_later: Callable[[Candidate], Sequence[Hit]] = _find_nothing,
    probe: Probe | None = None,
    max_sentences: int = 3,
    min_confidence: float = 0.4,
    min_nearest: float = 1.0,
    every: bool = False,
    reads_words: bool = True,
    weights: ConfidenceWeights = WEIGHTS,
    topics: Reranker | None = None,
) -> ExtractedAnswer:
    """The best part of the best hits; more, up to `max_sentences`, only where they add what the question asks for.

    A whole chunk shows better than a part of it whether the answer is there, so the confidence is computed from the
    reranker's probabilities of chunks and from the `probe` (None: the hits), and by its `weights` from the best part
    too. Below `min_confidence`, if that is
    not 0, and where what is asked about is not mentioned but its like is, there are no parts; but from `min_nearest` on
    the nearest one, marked as such.
    `read_chunks` reads a conversation, in which the answer follows the question; `find_later` finds what was said in
    the channel of a message after it, which may replace it. `every`: also parts that add nothing, each a sentence
    alone. `reads_words`: the reranker reads meaning, so a word may speak against a part. `topics`: where `reranker` is
    a reader, the reranker that says what a chunk is about.
    """
    subset = [hit for hit in hits[:READ_HITS] if hit.chunk.doc_id in records]
    if not subset:
        return ExtractedAnswer((), 0.0)
    probabilities = score_chunks(question, subset, reranker)
    probe = probe or Probe(hits, extract_terms(question).keys())
    signals = compute_signals(probe, probabilities)
    confidence = compute_confidence(signals, weights)
    if not weights.part and confidence < min(min_confidence, min_nearest):
        return ExtractedAnswer((), confidence, signals)
    candidates = collect_candidates(subset, read_chunks)
    features = (
        compute_features(question, candidates, subset, reranker, probabilities, topics=topics) if candidates else []
    )
    citable = _select_citable(subset, candidates, probabilities)  # what cannot be cited speaks for no answer
    signals = compute_signals(
        probe,
        citable or probabilities,
        [each.part for each in features],
        min_probability=MIN_PART_PROBABILITY if weights.part else MIN_PROBABILITY,
    )
    confidence = compute_confidence(signals, weights)
    is_nearest = confidence < min_confidence
    if is_nearest and confidence < min_nearest:
        return ExtractedAnswer((), confidence, signals)
    seen = [*(hit.chunk.index_text for hit in (*hits, *probe.hits)), *(each.shown for each in candidates)]
    if absent := "" if min_confidence == 0 else explain_absent(question, seen):
        return ExtractedAnswer((), min(confidence, ABSENT_CONFIDENCE), signals, absent)
    if not is_nearest and (absent := "" if min_confidence == 0 else explain_unnamed(question, seen)):
        confidence = min(confidence, UNNAMED_CONFIDENCE)
        is_nearest = confidence < min_confidence
        if is_nearest and confidence < min_nearest:
            return ExtractedAnswer((), confidence, signals, absent)
    if not candidates:
        return ExtractedAnswer((), confidence, signals)
    odds = score_candidates(features)
    order = sorted(range(len(candidates)), key=lambda place: (-odds[place], place))
    best = [candidates[place] for place in order if _is_near(odds[place], odds[order[0]], is_sum=bool(weights.part))]
    on_topic = [candidates[at] for at in order if _is_near(features[at].topic, features[order[0]].topic, is_sum=False)]
    chosen = find_superseded(
        question,
        _choose_parts(question, best, max_sentences=1 if is_nearest else max_sentences, every=every),
        [*best, *(each for each in on_topic if each not in best)] if topics else best,  # a reader may dislike a change
        [candidates[place] for place in order],
        max_sentences=max_sentences,
    )
    nearest = chosen[0][0]
    is_replaced = any(newer is not None for _, newer in chosen)
    if not every and not is_replaced and (newest := find_revision(question, nearest, read_chunks, find_later)):
        others = [each for each in chosen[1:] if not _overlaps(newest, each[0])]
        chosen = [(newest, None), (nearest, 0), *others][: max(1 if is_nearest else max_sentences, 2)]
    elif not every and not is_replaced:
        parts = [each.part for each in features]
        nearest = widen_part(question, nearest, candidates, parts, max_sentences=max_sentences)
        chosen = [(nearest, None), *(each for each in chosen[1:] if not _overlaps(nearest, each[0]))]
    if not is_nearest and min_confidence > 0:
        doubts = reads_words and (topics is None or confidence < SURE)
        absent = _explain_no_answer(question, nearest, topics or reranker, reads_words=doubts)
        if absent:
            confidence = min(confidence, UNNAMED_CONFIDENCE)
            is_nearest = confidence < min_confidence
            chosen = chosen if not is_nearest else chosen[:1] if confidence >= min_nearest else []
    return ExtractedAnswer(tuple(_make_parts(chosen, records)), confidence, signals, absent, is_nearest)


def _explain_no_answer(question: str, part: Candidate, reranker: Reranker, *, reads_words: bool) -> str:
    """Why a part does not answer: what is asked for that it and its chunk do not say; empty where nothing is found."""
    chunk = part.hit.chunk.index_text
    if author := part.hit.chunk.meta.get("author"):
        chunk = f"{author}: {chunk}"
    if part.replies_to:
        chunk = f"{part.replies_to}\n{chunk}"
    if lacking := explain_lacking(question, f"{part.hit.document.title}\n{chunk}\n{part.text}", part.shown):
        return lacking
    if not reads_words:
        return ""

    def score(asked: str, text: str) -> float:
        return to_log_odds(reranker.calibrate(score_texts(reranker, asked, [text])[0]))

    word = find_objection(question, part.text, chunk, score)
    return f"the nearest passage says nothing of “{word}”" if word else ""


def _select_citable(
    hits: Sequence[Hit], candidates: Sequence[Candidate], probabilities: Sequence[float]
) -> list[float]:
    """The probabilities of the hits that have candidates; a message has them where its conversation has."""
    chunks = {each.hit.chunk.id for each in candidates}
    talks = {each.hit.chunk.doc_id for each in candidates if each.hit.chunk.meta.get("message")}
    return [
        chance
        for hit, chance in zip(hits, probabilities, strict=True)
        if hit.chunk.id in chunks or hit.chunk.doc_id in talks
    ]


def _is_near(odds: float, best: float, *, is_sum: bool) -> bool:
    """Whether log-odds are half as probable as the best; sums of several are compared by their difference."""
    if is_sum:
        return odds >= best - MAX_LAG
    return 1 / (1 + math.exp(-odds)) >= 0.5 / (1 + math.exp(-best))


def _choose_parts(question: str, ranked: Sequence[Candidate], *, max_sentences: int, every: bool) -> list[Candidate]:
    """The best candidate, and those that add terms of the question."""
    wanted = set(extract_terms(question))
    chosen: list[Candidate] = []
    texts: set[str] = set()
    for each in ranked:
        plain = " ".join(each.shown.split())
        added = wanted & extract_terms(f"{each.text} {each.shown}").keys()
        if plain in texts or (chosen and not every and not added):
            continue
        if any(_overlaps(each, other) or _are_rows(each, other) for other in chosen):
            continue
        chosen.append(each)
        texts.add(plain)
        wanted -= added
        if len(chosen) == max_sentences:
            break
    return chosen


def _overlaps(one: Candidate, other: Candidate) -> bool:
    same = one.hit.chunk.doc_id == other.hit.chunk.doc_id
    return same and one.start < other.end and other.start < one.end


def _are_rows(one: Candidate, other: Candidate) -> bool:
    """Whether both are rows of the tables of one document: a row is about what it names, its neighbour is not."""
    return one.hit.chunk.doc_id == other.hit.chunk.doc_id and one.is_row and other.is_row


def _make_parts(
    chosen: Sequence[tuple[Candidate, int | None]], records: Mapping[str, DocumentRecord]
) -> Sequence[ExtractedPart]:
    return [
        ExtractedPart(
            each.hit,
            make_citation(
                each.hit.chunk,
                records.get(each.hit.chunk.doc_id, each.hit.document),
                each.start,
                each.hit.chunk.text[each.start - each.hit.chunk.start : each.end - each.hit.chunk.start],
            ),
            newer,
        )
        for each, newer in chosen
    ]
