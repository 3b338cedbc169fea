"""The words of a question that a passage does not answer to.

A reranker says how well a passage fits a question as a whole: "the salary in Norway" fits a table of salaries, whatever
the countries in it. But if the question fits the passage clearly better without one of its words, the passage says
nothing of that word, or something else. A paraphrase has no such word: each of its words, read with the others, makes
it fit better. `python -m studies.answers` and `studies.abstention --pairs` show what this does.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from clew.core.languages import FUNCTION_WORDS
from clew.core.unicode import MARKS
from clew.query.answer.absent import list_missing_names

Score = Callable[[str, str], float]  # the log-odds that a text answers a question

MIN_GAIN = 0.5  # in log-odds, without a word: the passage does not answer to it
MIN_NAME_GAIN = 0.12  # without a name that the passage does not have
MAX_WORDS = 16
READ_WORDS = 3  # words with the most gain by the part that are compared with the whole chunk too
_WORD = re.compile(rf"\w[\w{MARKS}'’./-]*")
_COMMON = frozenset[str]().union(*(FUNCTION_WORDS[code] for code in ("en", "de", "fr", "es")))
_ASKING = frozenset(
    {"much", "many", "long", "often", "please", "tell", "what's", "where's", "who's", "when's", "how's"}
)


def find_objection(question: str, part: str, chunk: str, score: Score) -> str:
    """The word of a question that speaks most against a part and its chunk together; empty where none does."""
    shorter = list(_leave_out_words(question))[:MAX_WORDS]
    if len(shorter) < 2:  # without its only word, nothing is asked
        return ""
    here = score(question, part)
    gains = sorted(((score(rest, part) - here, word, rest) for word, rest in shorter), reverse=True)
    names = find_missing_names(question, [part, chunk])
    there: float | None = None
    for gain, word, rest in gains[:READ_WORDS]:
        least = MIN_NAME_GAIN if word in names else MIN_GAIN
        if gain <= 0:
            break
        there = score(question, chunk) if there is None else there
        if (gain + score(rest, chunk) - there) / 2 >= least:
            return word
    return ""


def find_missing_names(question: str, texts: Sequence[str]) -> frozenset[str]:
    """The words of the question's names of which no text has a word."""
    return frozenset(chain.from_iterable(map(_WORD.findall, list_missing_names(question, texts))))


def _leave_out_words(question: str) -> Iterator[tuple[str, str]]:
    """Each word of a question that means something by itself, and the question without it."""
    for found in _WORD.finditer(question):
        word = found[0].casefold()
        if word not in _COMMON and word not in _ASKING:
            yield found[0], " ".join(f"{question[: found.start()]} {question[found.end() :]}".split())
