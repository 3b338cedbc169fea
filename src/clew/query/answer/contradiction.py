"""Detects contradictions between a sentence and a text, by negations and opposites in the most similar clauses.

A clause of the sentence is compared with the clause of the text that shares most of its terms: if only one of them is
negated, or one says "before" where the other says "after", they contradict each other.
"""

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from clew.core.languages import FUNCTION_WORDS
from clew.core.sentences import split_sentences
from clew.core.text import extract_terms, tokenize_words
from clew.query.answer.units import split_word_list

MIN_SHARED = 0.6  # share of a clause's terms that a clause of the text must have to be compared with it
MIN_TERMS = 2  # a shorter clause is joined to the one before
CONTRADICTED = "it contradicts the cited passage"
NEGATIONS = frozenset(
    split_word_list(
        "not no never none nobody nothing nowhere neither nor without cannot cant wont dont doesnt didnt isnt arent "
        "wasnt werent couldnt wouldnt shouldnt hasnt havent hadnt unable impossible forbidden prohibited banned lacks "
        "lacked lacking fails refuses refused hardly rarely seldom except excluding "
        "nicht kein keine keinen keiner nie niemals niemand nichts ohne pas jamais sin nunca non"
    )
)
_OPPOSITE_PAIRS = (
    ("before", "after"),
    ("first", "last second third"),
    ("more", "less fewer"),
    ("most", "least"),
    ("increase increases increased increasing rise rises rose grew", "decrease decreases decreased fall falls fell"),
    ("high higher highest", "low lower lowest"),
    ("large larger largest big bigger biggest", "small smaller smallest"),
    ("old older oldest", "young younger youngest new newer newest"),
    ("long longer longest", "short shorter shortest"),
    ("north northern", "south southern"),
    ("east eastern", "west western"),
    ("male men man boys father son brother husband king", "female women woman girls mother daughter sister wife queen"),
    ("won win wins winning", "lost lose loses losing"),
    (
        "began begin begins started start starts opened open opens",
        "ended end ends stopped stop stops closed close closes",
    ),
    ("always", "never sometimes rarely"),
    ("all every each", "some few most several"),
    ("above over", "below under beneath"),
    ("early earlier earliest", "late later latest"),
    ("minimum", "maximum"),
    ("allowed permitted", "forbidden prohibited banned"),
    ("true", "false"),
    ("left", "right"),
    ("inside", "outside"),
    ("buy buys bought", "sell sells sold"),
    ("import imports imported", "export exports exported"),
    ("accept accepts accepted", "reject rejects rejected refuse refuses refused"),
    ("enable enables enabled", "disable disables disabled"),
    ("public", "private"),
    ("hot hotter", "cold colder"),
    ("fast faster", "slow slower"),
)
_OPPOSITES: Final[dict[str, frozenset[str]]] = {}
for _one, _other in _OPPOSITE_PAIRS:
    for _these, _those in ((_one, _other), (_other, _one)):
        for _word in _these.split():
            _OPPOSITES[_word] = _OPPOSITES.get(_word, frozenset()) | frozenset(_those.split())
_PRONOUNS = frozenset(split_word_list("he she it they him her them his hers its their this that these those er sie es"))
_CLAUSE_BREAK = re.compile(
    r"[,;:()—–]\s|\s-\s|"
    r"\b(?:but|although|though|while|whereas|because|which|who|where|when|and|so that|since|however)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause: its terms, the same with those its pronouns refer to, and whether it is negated.

    `may_be_negated`: a negation before it may reach it, as in "no deploys and migrations".
    """

    terms: Set[str]
    resolved_terms: Set[str]
    is_negated: bool
    may_be_negated: bool = False

    def differs_in_negation(self, other: "Clause") -> bool:
        """Whether exactly one of the two clauses is negated, as far as that is certain."""
        return self.is_negated != other.is_negated and not self.may_be_negated and not other.may_be_negated


def explain_contradiction(sentence: str, texts: Sequence[str]) -> str:
    """Why the texts contradict a sentence; empty where they do not."""
    known = [each for text in texts for each in split_clauses(text)]
    whole = [text[low:high] for text in texts for low, high in split_sentences(text)]
    for clause in split_clauses(sentence):
        wanted = clause.terms - NEGATIONS - FUNCTION_WORDS["en"]  # a clause may be too short to tell its language
        if len(wanted) < MIN_TERMS:
            continue
        near = _find_nearest_clauses(wanted, known)
        if near and all(map(clause.differs_in_negation, near)):
            return CONTRADICTED
        if (
            not near
            and clause.is_negated
            and not any(wanted & _extract_terms_cached(each) and has_negation(each) for each in whole)
        ):
            return CONTRADICTED
    return _explain_opposite_word(sentence, whole)


def omits_negation(text: str, low: int, high: int) -> bool:
    """Whether a span of a text leaves out a negation of the clauses that it is part of."""
    for start, end in split_sentences(text):
        if start >= high or end <= low:
            continue
        cuts = [start, *(start + mark.start() for mark in _CLAUSE_BREAK.finditer(text[start:end])), end]
        for begin, stop in pairwise(cuts):
            outside = text[begin : min(low, stop)] + " " + text[max(high, begin) : stop]
            if begin < high and stop > low and has_negation(outside):
                return True
    return False


def has_negation(text: str) -> bool:
    """Whether a text has a negation."""
    return bool(NEGATIONS.intersection(tokenize_words(text))) or "n't" in text or "n’t" in text


@lru_cache(maxsize=1024)  # every sentence of an answer is checked against the same few passages
def split_clauses(text: str) -> tuple[Clause, ...]:
    """The clauses of a text; one with too few terms is joined to the one before."""
    found: list[Clause] = []
    before: Set[str] = frozenset()
    for low, high in split_sentences(text):
        parts: list[str] = []
        joins: list[str] = []
        marks = ["", *_CLAUSE_BREAK.findall(text[low:high])]
        for mark, part in zip(marks, _CLAUSE_BREAK.split(text[low:high]), strict=True):
            if parts and len(_extract_terms_cached(part)) < MIN_TERMS:
                parts[-1] += f" {part}"
            else:
                parts.append(part)
                joins.append(mark.strip().casefold())
        in_scope = False  # whether a negation may reach on
        for join, part in zip(joins, parts, strict=True):
            own, is_negated = _extract_terms_cached(part), has_negation(part)
            resolved = own | before if _PRONOUNS.intersection(tokenize_words(part)) else own
            in_scope = in_scope and join == "and"
            found.append(Clause(own, resolved, is_negated, may_be_negated=in_scope and not is_negated))
            in_scope = in_scope or is_negated
        before = _extract_terms_cached(text[low:high])
    return tuple(found)


def _find_nearest_clauses(wanted: Set[str], known: Sequence[Clause]) -> list[Clause]:
    """The clauses that share the most terms, own words before resolved pronouns; none where they share too few."""
    shares = [
        ((len(wanted & each.resolved_terms), len(wanted & each.terms)), each) for each in known if wanted & each.terms
    ]
    most = max((share for share, _ in shares), default=(0, 0))
    return [each for share, each in shares if share == most] if most[0] >= MIN_SHARED * len(wanted) else []


def _explain_opposite_word(sentence: str, whole: Sequence[str]) -> str:
    """Why the most similar sentences have the opposite of a word instead of the word; empty where they do not."""
    own = tokenize_words(sentence)
    for word in own:
        others = _OPPOSITES.get(word, frozenset()).difference(own)
        if not others:
            continue
        wanted = _extract_terms_cached(sentence) - _extract_terms_cached(word)
        best = max((len(wanted & _extract_terms_cached(each)) for each in whole), default=0)
        near = [each for each in whole if best and len(wanted & _extract_terms_cached(each)) == best]
        has = any(
            word in tokenize_words(each) or _extract_terms_cached(word) & _extract_terms_cached(each) for each in near
        )
        if not has and any(others.intersection(tokenize_words(each)) for each in near):
            return f"the cited passage says the opposite of “{word}”"
    return ""


@lru_cache(maxsize=4096)
def _extract_terms_cached(text: str) -> Set[str]:
    return extract_terms(text).keys()
