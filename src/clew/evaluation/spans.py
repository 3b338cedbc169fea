"""Arithmetic of spans: how many characters of one set of spans lie in another."""

from collections.abc import Iterable, Sequence

Span = tuple[int, int]  # start and end, in characters


def intersect_spans(left: Iterable[Span], right: Sequence[Span]) -> list[Span]:
    """The intersection of each left span with each right one, where there is one."""
    return [
        (max(start, low), min(end, high)) for start, end in left for low, high in right if start < high and low < end
    ]


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """The same characters as disjoint spans, in order."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def count_characters(spans: Iterable[Span]) -> int:
    """The total length of the spans; an overlap counts twice."""
    return sum(end - start for start, end in spans)


def measure_cover(spans: Iterable[Span], wanted: Span) -> float:
    """The share of the wanted characters that the spans hold."""
    held = count_characters(merge_spans(intersect_spans(spans, [wanted])))
    return held / (wanted[1] - wanted[0]) if wanted[1] > wanted[0] else 0.0
