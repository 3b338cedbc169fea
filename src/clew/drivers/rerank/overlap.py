"""The reranker that needs no model: the share of the question's terms that a text has.

Meaning it does not know, and every term weighs the same. It is for tests and for machines without the weights, and
gives the same scores in every process and on every platform.
"""

from collections.abc import Sequence, Set
from itertools import pairwise

from clew.core.languages import FUNCTION_WORDS
from clew.core.settings import RerankerConfig
from clew.core.text import terms, words

PHRASE = 0.2  # what the phrases weigh; the terms weigh the rest
LANGUAGE = "en"  # one for all: what matters is that a word has the same stem on both sides

_COMMON = FUNCTION_WORDS[LANGUAGE]


class Overlap:
    """Counts the terms that a question and a text share, from 0 for none to 1 for all, in the question's order."""

    name = "overlap"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """For each text, in order, the share of the query's terms that it has and, less, of the query's word pairs."""
        wanted, phrases = terms(query, language=LANGUAGE).keys(), _phrases(query)
        return [_shared(wanted, phrases, text) for text in texts]

    def calibrated(self, score: float) -> float:
        """The score itself: it is between 0 and 1."""
        return score


def configured(config: RerankerConfig) -> Overlap:  # noqa: ARG001 - there is nothing to set
    """The reranker called "overlap"."""
    return Overlap()


def _shared(wanted: Set[str], phrases: Set[tuple[str, str]], text: str) -> float:
    if not wanted:
        return 0.0
    share = len(wanted & terms(text, language=LANGUAGE).keys()) / len(wanted)
    together = len(phrases & _phrases(text)) / len(phrases) if phrases else share
    return (1 - PHRASE) * share + PHRASE * together


def _phrases(text: str) -> set[tuple[str, str]]:
    """The words that stand side by side; two function words are no phrase."""
    return {pair for pair in pairwise(words(text)) if not _COMMON.issuperset(pair)}
