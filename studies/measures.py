"""The measures of the studies: those of `clew.evaluation`, and how well retrieved characters cover the gold ones."""

from collections.abc import Sequence
from dataclasses import dataclass

from clew.evaluation.measures import (
    Interval,
    Span,
    bootstrap,
    count_characters,
    intersect_spans,
    merge_spans,
    ndcg_at,
    recall_at,
    reciprocal_rank,
)

__all__ = [
    "Interval",
    "Span",
    "SpanScores",
    "bootstrap",
    "count_characters",
    "intersect_spans",
    "merge_spans",
    "ndcg_at",
    "precision_omega",
    "recall_at",
    "reciprocal_rank",
    "score_spans",
]

# Smith and Troynikov, "Evaluating Chunking Strategies for Retrieval", Chroma, 2024


@dataclass(frozen=True, slots=True)
class SpanScores:
    """How well the retrieved spans cover the gold spans, in characters."""

    recall: float
    precision: float
    iou: float


def score_spans(retrieved: Sequence[Span], elsewhere: int, gold: Sequence[Span]) -> SpanScores:
    """Recall, precision and IoU of retrieved spans of the gold text; `elsewhere` characters came from other texts.

    Recall = gold covered / gold; precision = gold covered / retrieved; IoU = gold covered / (retrieved + gold missed).
    An overlap of two chunks counts twice as retrieved and once as covered.
    """
    wanted = count_characters(merge_spans(gold))
    covered = count_characters(merge_spans(intersect_spans(retrieved, gold)))
    retrieved_length = count_characters(retrieved) + elsewhere
    return SpanScores(
        recall=covered / wanted if wanted else 1.0,
        precision=covered / retrieved_length if retrieved_length else 0.0,
        iou=covered / (retrieved_length + wanted - covered) if retrieved_length + wanted else 0.0,
    )


def precision_omega(chunks: Sequence[Span], gold: Sequence[Span]) -> float:
    """The precision if exactly the chunks that touch the gold were retrieved."""
    touching = [(start, end) for start, end in chunks if any(start < high and low < end for low, high in gold)]
    covered = count_characters(merge_spans(intersect_spans(touching, gold)))
    retrieved_length = count_characters(merge_spans(touching))
    missed = count_characters(merge_spans(gold)) - covered
    return covered / (retrieved_length + missed) if retrieved_length + missed else 0.0
