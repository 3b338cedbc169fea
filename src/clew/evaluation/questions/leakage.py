"""Questions that are not worth asking: those that repeat their evidence, and those that ask the same as another."""

from collections.abc import Sequence

import numpy as np

from clew.core.protocols import Embedder
from clew.core.text import extract_terms, tokenize_words
from clew.evaluation.questions.judged import JudgedQuestion

MAX_RUN = 0.7  # of a question's words that may stand in the evidence in one piece
MIN_RUN = 4  # words; a shorter run is a name
MAX_SIMILARITY = 0.97  # cosine from which two questions ask the same
_BLOCK = 512


def is_leaking(question: str, evidence: str) -> bool:
    """Whether a question repeats the evidence word for word: most of its words stand there in one piece."""
    words = [word.casefold() for word in tokenize_words(question)]
    text = [word.casefold() for word in tokenize_words(evidence)]
    longest = find_longest_run(words, text)
    return longest >= MIN_RUN and longest > MAX_RUN * len(words)


def find_longest_run(words: Sequence[str], text: Sequence[str]) -> int:
    """How many words one after the other both have, at most."""
    longest, before = 0, [0] * (len(text) + 1)
    for word in words:
        now = [0] * (len(text) + 1)
        for at, other in enumerate(text, 1):
            if word == other:
                now[at] = before[at - 1] + 1
                longest = max(longest, now[at])
        before = now
    return longest


def drop_duplicates(questions: Sequence[JudgedQuestion], embedder: Embedder) -> list[JudgedQuestion]:
    """The questions, of those that ask the same the first: with the same terms, or of nearly the same vector."""
    distinct: dict[frozenset[str], JudgedQuestion] = {}
    for question in questions:
        distinct.setdefault(frozenset(extract_terms(question.question)), question)
    left = list(distinct.values())
    if not left:
        return []
    vectors = embedder.embed([question.question for question in left], role="query")
    kept: list[int] = []
    for start in range(0, len(left), _BLOCK):
        block = range(start, min(start + _BLOCK, len(left)))
        near = vectors[start : block.stop] @ vectors[: block.stop].T
        for at in block:
            if not kept or float(np.max(near[at - start, kept])) < MAX_SIMILARITY:
                kept.append(at)
    return [left[at] for at in kept]
