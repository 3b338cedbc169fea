"""What the rerankers that have a limit do to their texts, so that each does it alike.

A long text is scored in windows, of which the best one counts: one passage that answers is an answer, whatever stands
around it (MaxP: Dai and Callan, "Deeper Text Understanding for IR with Contextual Neural Language Modeling", 2019).
A long question stands beside every window, so it is cut: what is asked is said at the start or at the end of a long
message, so both stay and the middle goes.
"""

import math
from collections.abc import Sequence


def windows(length: int, room: int, overlap: int) -> list[slice]:
    """The fewest windows of at most `room` that cover the length, spread evenly; neighbours share `overlap` or more."""
    if length <= room:
        return [slice(0, length)]
    shared = min(overlap, room // 2)
    count = math.ceil((length - shared) / (room - shared))
    last = length - room
    return [slice(at * last // (count - 1), at * last // (count - 1) + room) for at in range(count)]


def both_ends(length: int, most: int) -> list[slice]:
    """The start and the end, together `most` long, of what is longer; else all of it."""
    if length <= most:
        return [slice(0, length)]
    return [slice(0, most - most // 2), slice(length - most // 2, length)]


def best(scores: Sequence[float], owners: Sequence[int], count: int) -> list[float]:
    """For each owner the greatest score of its windows."""
    found = [-math.inf] * count
    for owner, score in zip(owners, scores, strict=True):
        found[owner] = max(found[owner], score)
    return found


def logistic(value: float) -> float:
    """1 / (1 + e^-value), without overflow."""
    return 0.5 * (1.0 + math.tanh(0.5 * value))


def encodable(text: str) -> str:
    """The text with lone surrogates replaced: neither a tokeniser nor JSON can carry them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
