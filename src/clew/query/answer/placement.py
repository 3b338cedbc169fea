"""Does a fact belong where a sentence puts it? By the words around it, there and in the text.

A fact that stands in the text may still be another's: the price of the pump under the name of the valve. So its place
in the sentence is held against its places in the text, and against the places of others of its kind. A place is as good
as the words of the sentence stand near it there, the nearer in both the better. The numbers below were chosen on half
of the answers that `studies.support` reads.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from clew.core.languages import FUNCTION_WORDS
from clew.core.text import sentences, terms
from clew.query.answer.facts import Fact, facts, opening

NEAR_SAID = 6.0  # words of a sentence over which a word loses two thirds of its weight for a fact
NEAR_TEXT = 10.0  # … and words of the text
APART = 8.0  # words that the end of a sentence counts for
MARGIN = 1.2  # so much better another place must be
NAMES = 1.4  # … for a name, which stands near many others
SWAPPED = 1.15  # … for two that may stand in each other's place
ASKED = 0.5  # the place of a fact that only the question has, as a share of the best there could be
BEYOND = 0.6  # what a word counts for that stands before a fact here and behind it there
RIVALS = frozenset({"number", "year", "date", "weekday", "name", "code"})
_LISTED = re.compile(r"\s*(?:,|and|or|und|,\s*and|&)\s*")
_WORD = re.compile(r"\w+(?:['’]\w+)?")


@dataclass(frozen=True, slots=True)
class Laid:
    """A text word by word: where each begins, in which sentence, and the places of every stem; and its facts."""

    stems: tuple[frozenset[str], ...]
    starts: tuple[int, ...]
    within: tuple[int, ...]
    passive: tuple[bool, ...]  # of each sentence, whether something is done by somebody in it
    places: Mapping[str, Sequence[int]]
    facts: tuple[Fact, ...]

    def word(self, at: int) -> int:
        """The word that stands at a place of the text."""
        return max(0, bisect_right(self.starts, at) - 1)

    def far(self, one: int, other: int) -> float:
        """How many words two are apart."""
        return abs(one - other) + APART * abs(self.within[one] - self.within[other])


@lru_cache(maxsize=512)  # every sentence of an answer is held against the same few passages
def laid(text: str) -> Laid:
    """A text word by word."""
    spans = sentences(text)
    found = list(_WORD.finditer(text))
    stems = tuple(_stems(match[0]) for match in found)
    places: dict[str, list[int]] = {}
    for place, few in enumerate(stems):
        for stem in few:
            places.setdefault(stem, []).append(place)
    ends = [high for _, high in spans]
    return Laid(
        stems,
        tuple(match.start() for match in found),
        tuple(min(bisect_right(ends, match.start()), len(ends) - 1) for match in found),
        tuple(" by " in text[low:high] for low, high in spans),
        places,
        (*facts(text), *(first for low, high in spans if (first := opening(text, low, high)))),
    )


def misplaced(sentence: str, texts: Sequence[str], held: Sequence[Fact], *, asked: Collection[Fact] = ()) -> str:
    """Why one of the facts of a sentence belongs elsewhere in the texts; empty where each stands where it should.

    Those that were `asked` with need not stand in the texts, unless another has their place.
    """
    said = laid(sentence)
    known = [laid(text) for text in texts]
    for fact in held:
        if fact.kind not in RIVALS:
            continue
        weights = _weights(fact, said)
        mine = max((_score(weights, at, text) for text in known for at in _at(fact, text)), default=0.0)
        if fact in asked:
            mine = max(mine, ASKED * sum(map(abs, weights.values())))
        others = [
            (_score(weights, text.word(each.start), text), each.text)
            for text in known
            for each in text.facts
            if _rivals(fact, each) and not _is_said(each, said)
        ]
        best, other = max(others, default=(0.0, ""))
        if best > (NAMES if fact.kind == "name" else MARGIN) * mine:
            return f"the text has {other} where it says {fact.text}"
    return _swapped(sentence, texts, held)


def _swapped(sentence: str, texts: Sequence[str], held: Sequence[Fact]) -> str:
    """Why two facts of a sentence stand in each other's place; empty where no two do."""
    said = laid(sentence)
    known = [laid(text) for text in texts]
    for one, other in combinations(sorted(held, key=lambda fact: fact.start), 2):
        if one.kind not in RIVALS or not _rivals(one, other) or _LISTED.fullmatch(sentence, one.end, other.start):
            continue
        if any(_turned(sentence, one, other, text) for text in texts):
            return f"it has {one.text} and {other.text} in each other's place"
        mine, theirs = _weights(one, said, other), _weights(other, said, one)
        straight = max((_pair(mine, theirs, one, other, said, text) for text in known), default=0.0)
        crossed = max((_pair(theirs, mine, one, other, said, text) for text in known), default=0.0)
        if crossed > SWAPPED * straight:
            return f"it has {one.text} and {other.text} in each other's place"
    return ""


def _pair(
    mine: Mapping[str, float], theirs: Mapping[str, float], one: Fact, other: Fact, said: Laid, text: Laid
) -> float:
    """How well the words around two facts stand around their places in a text."""
    best = 0.0
    for here in _at(one, text):
        for there in _at(other, text):
            # Where something is done here and was done by somebody there, all stands the other way round.
            sides = [
                1.0 if text.passive[text.within[place]] != any(said.passive) else BEYOND for place in (here, there)
            ]
            if here != there:
                best = max(best, _score(mine, here, text, sides[0]) + _score(theirs, there, text, sides[1]))
    return best


def _turned(sentence: str, one: Fact, other: Fact, text: str) -> bool:
    """Whether a sentence of a text has the very same words, the two facts the other way round."""
    own = sorted(word.casefold() for word in _WORD.findall(sentence))
    for low, high in sentences(text):
        near = text[low:high]
        if sorted(word.casefold() for word in _WORD.findall(near)) == own:
            return 0 <= near.find(other.text) < near.find(one.text)
    return False


def _at(fact: Fact, text: Laid) -> list[int]:
    """The places of a text that say the same."""
    if fact.kind == "name":
        return [place for stem in fact.key for place in text.places.get(str(stem), ())]
    return [text.word(each.start) for each in text.facts if fact.agrees(each)]


def _rivals(fact: Fact, other: Fact) -> bool:
    """Whether one could stand in the place of the other."""
    alike = fact.unit == other.unit or fact.key == other.key  # 5 days may be mixed up with 6 days, and with 5 weeks
    return fact.kind == other.kind and alike and not fact.same(other) and not other.agrees(fact)


def _is_said(fact: Fact, said: Laid) -> bool:
    """Whether a sentence says a fact, as a fact or as a word."""
    if fact.kind == "name":
        return any(stem in said.places for stem in fact.key)
    return any(each.same(fact) for each in said.facts)


def _weights(fact: Fact, said: Laid, *besides: Fact) -> dict[str, float]:
    """How much each word of a sentence counts for a fact of it, below 0 if it stands before; its own words do not."""
    here = said.word(fact.start)
    own = {place for each in (fact, *besides) for place in range(said.word(each.start), said.word(each.end - 1) + 1)}
    found: dict[str, float] = {}
    for place, few in enumerate(said.stems):
        weight = math.exp(-said.far(here, place) / NEAR_SAID)
        for stem in few:
            if place not in own and weight > abs(found.get(stem, 0.0)):
                found[stem] = weight if place > here else -weight
    return found


def _score(weights: Mapping[str, float], at: int, text: Laid, beyond: float = 1.0) -> float:
    """How near the words stand to a place of a text."""
    return sum(
        abs(weight)
        * max(
            math.exp(-text.far(at, place) / NEAR_TEXT) * (1.0 if (place > at) == (weight > 0) else beyond)
            for place in text.places[stem]
        )
        for stem, weight in weights.items()
        if stem in text.places
    )


@lru_cache(maxsize=1 << 14)
def _stems(word: str) -> frozenset[str]:
    return frozenset() if word.casefold() in FUNCTION_WORDS["en"] else frozenset(terms(word))
