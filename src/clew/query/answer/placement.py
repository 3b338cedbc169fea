"""Checks that the facts of a sentence are about the same things in the text, by the words around them.

A fact may occur in the text for another thing: the price of the pump under the name of the valve. So its surroundings
in the sentence are compared with those of its occurrences in the text, and of other facts of its kind. An occurrence
scores higher the nearer the words of the sentence are to it, in both. The numbers below were chosen on half of the
answers that `studies.support` reads.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from clew.core.languages import FUNCTION_WORDS
from clew.core.sentences import split_sentences
from clew.core.text import extract_terms
from clew.query.answer.facts import Fact, find_facts, find_opening_name

SENTENCE_DECAY = 6.0  # distance in words of a sentence at which a word's weight for a fact falls to 1/e
TEXT_DECAY = 10.0  # … and in words of the text
SENTENCE_GAP = 8.0  # distance that a sentence boundary adds, in words
MARGIN = 1.2  # factor by which another fact must score higher
NAME_MARGIN = 1.4  # … for a name, which is near many others
SWAP_MARGIN = 1.15  # … for two facts that may be swapped
QUESTION_SHARE = 0.5  # score of a fact that only the question has, as a share of the best possible
OTHER_SIDE = 0.6  # factor for a word that is before a fact in one text and after it in the other
PLACED_KINDS = frozenset({"number", "year", "date", "weekday", "name", "code"})
_LISTED = re.compile(r"\s*(?:,|and|or|und|,\s*and|&)\s*")
_WORD = re.compile(r"\w+(?:['’]\w+)?")


@dataclass(frozen=True, slots=True)
class Tokenized:
    """A text as words: the stems, start and sentence of each, the positions of every stem, and the facts."""

    stems: tuple[frozenset[str], ...]
    starts: tuple[int, ...]
    sentence_of: tuple[int, ...]
    passive: tuple[bool, ...]  # of each sentence, whether it has "by"
    places: Mapping[str, Sequence[int]]
    facts: tuple[Fact, ...]

    def word_index_at(self, at: int) -> int:
        """The index of the word at a character position."""
        return max(0, bisect_right(self.starts, at) - 1)

    def word_distance(self, one: int, other: int) -> float:
        """The distance between two words, in words."""
        return abs(one - other) + SENTENCE_GAP * abs(self.sentence_of[one] - self.sentence_of[other])


@lru_cache(maxsize=512)  # every sentence of an answer is checked against the same few passages
def tokenize_with_facts(text: str) -> Tokenized:
    """The words, stems and facts of a text."""
    spans = split_sentences(text)
    found = list(_WORD.finditer(text))
    stems = tuple(_stem_word(match[0]) for match in found)
    places: dict[str, list[int]] = {}
    for place, word_stems in enumerate(stems):
        for stem in word_stems:
            places.setdefault(stem, []).append(place)
    ends = [high for _, high in spans]
    return Tokenized(
        stems,
        tuple(match.start() for match in found),
        tuple(min(bisect_right(ends, match.start()), len(ends) - 1) for match in found),
        tuple(" by " in text[low:high] for low, high in spans),
        places,
        (*find_facts(text), *(first for low, high in spans if (first := find_opening_name(text, low, high)))),
    )


def explain_misplaced_fact(
    sentence: str, texts: Sequence[str], stated_facts: Sequence[Fact], *, question_facts: Collection[Fact] = ()
) -> str:
    """Why a fact of a sentence is about something else in the texts; empty where none is.

    Facts of the question (`question_facts`) need not be in the texts, unless another fact fits better there.
    """
    claim = tokenize_with_facts(sentence)
    known = [tokenize_with_facts(text) for text in texts]
    for fact in stated_facts:
        if fact.kind not in PLACED_KINDS:
            continue
        weights = _weigh_words_by_nearness(fact, claim)
        mine = max(
            (_score_fact_place(weights, at, text) for text in known for at in _find_fact_places(fact, text)),
            default=0.0,
        )
        if fact in question_facts:
            mine = max(mine, QUESTION_SHARE * sum(map(abs, weights.values())))
        others = [
            (_score_fact_place(weights, text.word_index_at(each.start), text), each.text)
            for text in known
            for each in text.facts
            if _are_confusable_facts(fact, each) and not _is_fact_stated(each, claim)
        ]
        best, other = max(others, default=(0.0, ""))
        if best > (NAME_MARGIN if fact.kind == "name" else MARGIN) * mine:
            return f"the cited passage has {other} where it says {fact.text}"
    return _explain_swapped_facts(sentence, texts, stated_facts)


def _explain_swapped_facts(sentence: str, texts: Sequence[str], stated_facts: Sequence[Fact]) -> str:
    """Why two facts of a sentence are swapped; empty where no two are."""
    claim = tokenize_with_facts(sentence)
    known = [tokenize_with_facts(text) for text in texts]
    for one, other in combinations(sorted(stated_facts, key=lambda fact: fact.start), 2):
        if (
            one.kind not in PLACED_KINDS
            or not _are_confusable_facts(one, other)
            or _LISTED.fullmatch(sentence, one.end, other.start)
        ):
            continue
        if any(_has_reversed_facts(sentence, one, other, text) for text in texts):
            return f"it has {one.text} and {other.text} the other way round"
        mine, theirs = _weigh_words_by_nearness(one, claim, other), _weigh_words_by_nearness(other, claim, one)
        straight = max((_score_fact_pair(mine, theirs, one, other, claim, text) for text in known), default=0.0)
        crossed = max((_score_fact_pair(theirs, mine, one, other, claim, text) for text in known), default=0.0)
        if crossed > SWAP_MARGIN * straight:
            return f"it has {one.text} and {other.text} the other way round"
    return ""


def _score_fact_pair(
    mine: Mapping[str, float], theirs: Mapping[str, float], one: Fact, other: Fact, claim: Tokenized, text: Tokenized
) -> float:
    """How well the words around two facts match those around their occurrences in a text."""
    best = 0.0
    for here in _find_fact_places(one, text):
        for there in _find_fact_places(other, text):
            # Where one text is active and the other passive, the order is reversed.
            sides = [
                1.0 if text.passive[text.sentence_of[place]] != any(claim.passive) else OTHER_SIDE
                for place in (here, there)
            ]
            if here != there:
                best = max(
                    best,
                    _score_fact_place(mine, here, text, sides[0]) + _score_fact_place(theirs, there, text, sides[1]),
                )
    return best


def _has_reversed_facts(sentence: str, one: Fact, other: Fact, text: str) -> bool:
    """Whether a sentence of a text has the same words with the two facts in reverse order."""
    own = sorted(word.casefold() for word in _WORD.findall(sentence))
    for low, high in split_sentences(text):
        near = text[low:high]
        if sorted(word.casefold() for word in _WORD.findall(near)) == own:
            return 0 <= near.find(other.text) < near.find(one.text)
    return False


def _find_fact_places(fact: Fact, text: Tokenized) -> list[int]:
    """The positions of a fact in a text."""
    if fact.kind == "name":
        return [place for stem in fact.key for place in text.places.get(str(stem), ())]
    return [text.word_index_at(each.start) for each in text.facts if fact.agrees_with(each)]


def _are_confusable_facts(fact: Fact, other: Fact) -> bool:
    """Whether two facts could be confused."""
    alike = fact.unit == other.unit or fact.key == other.key  # 5 days may be confused with 6 days, and with 5 weeks
    return fact.kind == other.kind and alike and not fact.is_same_as(other) and not other.agrees_with(fact)


def _is_fact_stated(fact: Fact, claim: Tokenized) -> bool:
    """Whether a sentence states a fact, as a fact or as a word."""
    if fact.kind == "name":
        return any(stem in claim.places for stem in fact.key)
    return any(each.is_same_as(fact) for each in claim.facts)


def _weigh_words_by_nearness(fact: Fact, claim: Tokenized, *besides: Fact) -> dict[str, float]:
    """The weight of each word of a sentence for one of its facts, negative before it; without the fact's own words."""
    here = claim.word_index_at(fact.start)
    own = {
        place
        for each in (fact, *besides)
        for place in range(claim.word_index_at(each.start), claim.word_index_at(each.end - 1) + 1)
    }
    found: dict[str, float] = {}
    for place, word_stems in enumerate(claim.stems):
        weight = math.exp(-claim.word_distance(here, place) / SENTENCE_DECAY)
        for stem in word_stems:
            if place not in own and weight > abs(found.get(stem, 0.0)):
                found[stem] = weight if place > here else -weight
    return found


def _score_fact_place(weights: Mapping[str, float], at: int, text: Tokenized, other_side: float = 1.0) -> float:
    """How near the weighted words are to a position of a text."""
    return sum(
        abs(weight)
        * max(
            math.exp(-text.word_distance(at, place) / TEXT_DECAY)
            * (1.0 if (place > at) == (weight > 0) else other_side)
            for place in text.places[stem]
        )
        for stem, weight in weights.items()
        if stem in text.places
    )


@lru_cache(maxsize=1 << 14)
def _stem_word(word: str) -> frozenset[str]:
    return frozenset() if word.casefold() in FUNCTION_WORDS["en"] else frozenset(extract_terms(word))
