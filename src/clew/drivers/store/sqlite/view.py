"""A view of the exact index: its columns at one moment, and the searches in them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clew.core.candidates import Depth
from clew.core.cosine import compute_cosines
from clew.core.stored import PackedTerms
from clew.core.types import Matrix, Vector
from clew.drivers.store import bm25, order
from clew.drivers.store.backend import RowCandidates
from clew.drivers.store.bm25 import Floats
from clew.drivers.store.sqlite.postings import Postings, Slots, find_postings
from clew.drivers.store.sqlite.signals import Rows

GATHER_SHARE = 4  # a filter that admits fewer than one chunk in this many is searched by gathering its rows
SlotScores = list[tuple[int, float]]  # slots and their scores, best first


@dataclass(frozen=True, slots=True)
class ChunkColumns:
    """What is known of the chunks, one slot each; the first `used` are filled."""

    used: int
    vectors: Matrix
    rows: Rows
    messages: NDArray[np.bool_]
    seconds: Floats
    lengths: Floats


@dataclass(frozen=True, slots=True)
class View:
    """The index at one moment, and the slots that a filter admits in it (None: all but the removed ones)."""

    columns: ChunkColumns
    ids: list[str]
    postings: Postings
    removed: NDArray[np.intp]
    admitted: NDArray[np.intp] | None


@dataclass(frozen=True, slots=True)
class QueryPostings:
    """The chunks that have the terms of a query, one term after the other, with the weight of the term and its score.

    The scores of a chunk add up to BM25; `total` is the weight of all terms.
    """

    slots: Slots
    weights: Floats
    scores: Floats
    total: float


def find_query_postings(view: View, queries: Sequence[PackedTerms], chunks: int, norms: Floats) -> list[QueryPostings]:
    """The postings of each query in a collection of so many chunks; `norms` are the normalised lengths of all."""
    found = find_postings(view.postings, np.concatenate([each.hashes for each in queries]))
    made, end = [], 0
    for each in queries:
        start, end = end, end + len(each.hashes)
        own = found[start:end]
        weights = bm25.weigh_terms(each.counts, count_having(view, own), chunks)
        slots = np.concatenate([slots for slots, _ in own]) if own else view.postings.slots[:0]
        counts = np.concatenate([counts for _, counts in own]) if own else view.postings.counts[:0]
        of_posting = np.repeat(weights, [len(slots) for slots, _ in own])
        scores = of_posting * bm25.saturate(counts, norms[slots])
        made.append(QueryPostings(slots, of_posting, scores, weights.sum() or 1.0))
    return made


def count_having(view: View, found: Sequence[tuple[Slots, NDArray[np.float32]]]) -> list[int]:
    """How many chunks have each word whose postings were found, without the removed ones."""
    if not len(view.removed):
        return [len(slots) for slots, _ in found]
    exists = np.ones(view.columns.used, bool)
    exists[view.removed] = False
    return [int(np.count_nonzero(exists[slots])) for slots, _ in found]


def find_nearest(view: View, vector: Vector, k: int, all_scores: Vector | None = None) -> SlotScores:
    """The k slots of greatest cosine; `all_scores` are those of all slots, roughly, if they are known."""
    vectors, slots = view.columns.vectors[: view.columns.used], view.admitted
    if slots is not None and all_scores is None and len(slots) * GATHER_SHARE < len(vectors):
        scores = vectors[slots] @ vector
    else:
        scores = vectors @ vector if all_scores is None else all_scores
        if slots is None:
            scores[view.removed] = -np.inf
        else:
            scores = scores[slots]
    scores = np.where(np.isnan(scores), -np.inf, scores)  # a vector that is still to be made
    top = order.select_candidates(scores, k, order.SLACK)
    top = top[scores[top] > -np.inf]
    chosen = top if slots is None else slots[top]
    return _top_k(view, chosen, compute_cosines(vectors[chosen], vector), k)


def find_matching(view: View, found: QueryPostings, k: int) -> SlotScores:
    """The k slots of greatest BM25 score, of those that have a term."""
    used, slots = view.columns.used, view.admitted
    scores = np.bincount(found.slots, found.scores, minlength=used).astype(np.float64, copy=False)
    scores[view.removed] = 0.0
    if slots is not None:
        admitted = np.zeros(used)
        admitted[slots] = scores[slots]
        scores = admitted
    matching = np.flatnonzero(scores)
    top = matching[order.select_candidates(scores[matching], k, 10.0**-bm25.DIGITS)]
    return _top_k(view, top, scores[top].round(bm25.DIGITS), k)


def find_candidates(
    view: View, vectors: Matrix, queries: Sequence[QueryPostings], near: Depth, matching: Depth
) -> list[RowCandidates]:
    """The candidates of each query; the vectors of several are compared as one product of matrices."""
    every = view.columns.vectors[: view.columns.used]
    products = vectors @ every.T if len(vectors) > 1 else [None] * len(vectors)
    found = []
    for vector, scores, words in zip(vectors, products, queries, strict=True):
        nearest = find_nearest(view, vector, near.found, scores)[: near.kept]
        places = {slot: place for place, (slot, _) in enumerate(nearest)}
        by_words = {}
        for slot, score in find_matching(view, words, matching.found)[: matching.kept]:
            by_words[places.setdefault(slot, len(places))] = score
        slots = np.array(list(places), np.intp)
        cosines = np.empty(len(slots))
        cosines[: len(nearest)] = [cosine for _, cosine in nearest]
        cosines[len(nearest) :] = compute_cosines(every[slots[len(nearest) :]], vector)
        shares, strengths = _measure_slots(view, words, slots)
        rows: list[int] = view.columns.rows[slots].tolist()
        ids, has_messages = [view.ids[slot] for slot in places], bool(view.columns.messages[slots].any())
        found.append(RowCandidates(rows, ids, has_messages, len(nearest), by_words, cosines, shares, strengths))
    return found


def _measure_slots(view: View, words: QueryPostings, slots: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """The share and the strength of the chunks in some slots, as `bm25.measure_terms`."""
    place_of_slot = np.full(view.columns.used, -1, np.int32)
    place_of_slot[slots] = np.arange(len(slots), dtype=np.int32)
    places = place_of_slot[words.slots]
    at = np.flatnonzero(places >= 0)
    places = places[at]
    shares = np.bincount(places, words.weights[at], minlength=len(slots)) / words.total
    strengths = np.bincount(places, words.scores[at], minlength=len(slots)) / words.total
    return shares.round(bm25.DIGITS), strengths.round(bm25.DIGITS)


def _top_k(view: View, slots: NDArray[np.intp], scores: Floats, k: int) -> SlotScores:
    chosen = slots.tolist()
    return order.top_k(chosen, [view.ids[slot] for slot in chosen], scores, k)
