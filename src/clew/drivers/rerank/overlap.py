"""A reranker without a model: the share of the query's terms that a text contains.

For tests and for machines without model weights: it ignores meaning, weighs all terms alike, and gives the same scores
in every process and on every platform.
"""

from collections.abc import Sequence, Set
from itertools import pairwise

from clew.core.languages import FUNCTION_WORDS
from clew.core.settings import RerankerConfig
from clew.core.text import extract_terms, tokenize_words

PHRASE_WEIGHT = 0.2  # of the word pairs; the rest is the weight of the terms
LANGUAGE = "en"  # fixed: a word only needs the same stem on both sides

_COMMON = FUNCTION_WORDS[LANGUAGE]


class OverlapReranker:
    """A reranker by shared terms, from 0 for none to 1 for all terms in the order of the query."""

    name = "overlap"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return, for each text, the share of the query's terms and, with less weight, word pairs that it has."""
        query_terms, phrases = extract_terms(query, language=LANGUAGE).keys(), _find_phrases(query)
        return [_score_text(query_terms, phrases, text) for text in texts]

    def calibrate(self, score: float) -> float:
        """Return the score itself, which is between 0 and 1."""
        return score


def make_overlap_reranker(config: RerankerConfig) -> OverlapReranker:  # noqa: ARG001 - nothing can be set
    """Make the reranker "overlap"."""
    return OverlapReranker()


def _score_text(query_terms: Set[str], phrases: Set[tuple[str, str]], text: str) -> float:
    if not query_terms:
        return 0.0
    share = len(query_terms & extract_terms(text, language=LANGUAGE).keys()) / len(query_terms)
    together = len(phrases & _find_phrases(text)) / len(phrases) if phrases else share
    return (1 - PHRASE_WEIGHT) * share + PHRASE_WEIGHT * together


def _find_phrases(text: str) -> set[tuple[str, str]]:
    """Find the pairs of adjacent words, without pairs of two function words."""
    return {pair for pair in pairwise(tokenize_words(text)) if not _COMMON.issuperset(pair)}
