"""What a text is about, in words that can be read: for rewriting a question, before any search."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache

from clew.core.languages import FUNCTION_WORDS, SENSE
from clew.core.text import terms

# An identifier or a compound is one word: few-shot, max_skew_ms, v2.1, C#.
_WORD = re.compile(r"\w+(?:[-‐.'’@]\w+)*(?:\+\+|#(?!\w))?")
_POSSESSIVE = re.compile(r"['’]s$")
# How one asks, not what about.
_ASKING = """
tell show give explain describe name list provide find look talk talking speak speaking know want need like help please
let lets make get see say said mean meant think thank thanks hello hi hey ok okay yes sure right well now really
actually maybe going thing things something anything way lot much many more most less few other others another else
example examples similar question questions answer again further once yet because until while without every one good
great kind got gonna
"""
ASKING = frozenset(_ASKING.split())


def said(text: str) -> list[str]:
    """All words as written, in order, without possessives."""
    return [_POSSESSIVE.sub("", word) for word in _WORD.findall(text)]


def content_words(text: str, *, keep: frozenset[str] = frozenset()) -> list[str]:
    """The words that say what the text is about, as written and in order: no function words, no words of asking.

    `keep` are words to leave in all the same. A word of one or two letters stays if it looks like a name.
    """
    spoken = said(text)
    plain = [word.casefold().replace("’", "'") for word in spoken]
    function = _function_words(frozenset(plain))
    shouted = text.isupper()

    def telling(word: str, folded: str) -> bool:
        if len(word) == 2 and word.isupper() and not shouted:  # IT, US
            return folded not in ASKING
        forms = {folded, folded.replace("'", ""), folded.split("'")[0], folded.removesuffix("n't")}
        return _long(word) and forms.isdisjoint(function) and forms.isdisjoint(ASKING)

    return [word for word, folded in zip(spoken, plain, strict=True) if folded in keep or telling(word, folded)]


def gist(text: str) -> str:
    """The text without what only makes it a sentence; words such as not, before and only stay."""
    return " ".join(content_words(text, keep=SENSE))


@lru_cache(maxsize=1 << 14)
def stems(text: str) -> frozenset[str]:
    """By what two words or texts count as the same; several stems for a compound."""
    return frozenset(terms(text, language="en"))


def telling_terms(query: str, texts: Sequence[str], *, most: int = 5) -> list[str]:
    """Words of the texts, best first, that are likely in a text which answers the query, and are not in the query.

    A relevance model (Lavrenko and Croft 2001, RM1): P(w|R) = Σ P(d|q) · tf(w, d) / |d|. The texts come best first, so
    P(d|q) is taken as the share of the query's terms in d over its rank. Two texts must agree on a word.
    """
    asked = stems(query)
    weights: dict[str, float] = defaultdict(float)
    places: Counter[str] = Counter()
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    for rank, text in enumerate(texts, 1):
        found = stems(text)
        belief = len(asked & found) / max(1, len(asked)) / rank
        spoken = content_words(text)
        named = [(word, min(stems(word), default="")) for word in spoken if not word.isdigit()]
        for word, stem in named:
            weights[stem] += belief / len(spoken)
            spellings[stem][word] += 1
        places.update({stem for _, stem in named})
    agreed = [stem for stem in weights if weights[stem] > 0 and stem not in asked and places[stem] > 1]
    best = sorted(agreed, key=lambda stem: (-weights[stem], stem))[:most]
    return [spellings[stem].most_common(1)[0][0] for stem in best]


def _long(word: str) -> bool:
    """Whether the word has three letters, or is shorter and looks like a name: AI, 5G, C#, vitamin C."""
    if len(word) == 1:
        return word.isupper() and word not in "AI"
    return len(word) > 2 or (not word.isdigit() and (word.isupper() or not word.isalpha()))


def _function_words(words: frozenset[str]) -> frozenset[str]:
    """The function words of English, and of the language that the words are in."""
    code = max(FUNCTION_WORDS, key=lambda code: len(words & FUNCTION_WORDS[code]))
    return FUNCTION_WORDS["en"] | FUNCTION_WORDS[code]
