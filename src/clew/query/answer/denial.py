"""Does a sentence say the contrary of what it cites? By denials and opposites in the clauses most like its own.

A clause of the sentence is held against the clause of the text that has most of its terms: if one denies and the other
does not, or one says "before" where the other says "after", it is contradicted.
"""

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from clew.core.languages import FUNCTION_WORDS
from clew.core.text import sentences, terms, words
from clew.query.answer.units import listed

NEAR = 0.6  # the share of a clause's terms that one of the text must have to be held against it
FEW = 2  # terms that a clause needs to be one
DENIALS = frozenset(
    listed(
        "not no never none nobody nothing nowhere neither nor without cannot cant wont dont doesnt didnt isnt arent "
        "wasnt werent couldnt wouldnt shouldnt hasnt havent hadnt unable impossible forbidden prohibited banned lacks "
        "lacked lacking fails refuses refused hardly rarely seldom except excluding "
        "nicht kein keine keinen keiner nie niemals niemand nichts ohne pas jamais sin nunca non"
    )
)
_SIDES = (
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
for _one, _other in _SIDES:
    for _these, _those in ((_one, _other), (_other, _one)):
        for _word in _these.split():
            _OPPOSITES[_word] = _OPPOSITES.get(_word, frozenset()) | frozenset(_those.split())
_PRONOUNS = frozenset(listed("he she it they him her them his hers its their this that these those er sie es"))
_CLAUSE = re.compile(
    r"[,;:()—–]\s|\s-\s|"
    r"\b(?:but|although|though|while|whereas|because|which|who|where|when|and|so that|since|however)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause: its terms, those with what its pronouns stand for, and whether it denies something.

    `open` is one that a denial before it may reach: "no deploys and migrations".
    """

    own: Set[str]
    meant: Set[str]
    denies: bool
    open: bool = False

    def against(self, other: "Clause") -> bool:
        """Whether one denies and the other does not."""
        return self.denies != other.denies and not self.open and not other.open


def contradicted(sentence: str, texts: Sequence[str]) -> str:
    """Why the texts say the contrary; empty where they do not."""
    known = [each for text in texts for each in clauses(text)]
    whole = [text[low:high] for text in texts for low, high in sentences(text)]
    for clause in clauses(sentence):
        wanted = clause.own - DENIALS - FUNCTION_WORDS["en"]  # a clause may be too short to tell its language
        if len(wanted) < FEW:
            continue
        near = _nearest(wanted, known)
        if near and all(map(clause.against, near)):
            return "it denies what it cites"
        if not near and clause.denies and not any(wanted & _terms(each) and denies(each) for each in whole):
            return "it denies what it cites"
    return _opposed(sentence, whole)


def cut_short(text: str, low: int, high: int) -> bool:
    """Whether a stretch of a text leaves out a denial of the clauses that it is part of."""
    for start, end in sentences(text):
        if start >= high or end <= low:
            continue
        cuts = [start, *(start + mark.start() for mark in _CLAUSE.finditer(text[start:end])), end]
        for begin, stop in pairwise(cuts):
            outside = text[begin : min(low, stop)] + " " + text[max(high, begin) : stop]
            if begin < high and stop > low and denies(outside):
                return True
    return False


def denies(text: str) -> bool:
    """Whether a text says that something is not."""
    return bool(DENIALS.intersection(words(text))) or "n't" in text or "n’t" in text


@lru_cache(maxsize=1024)  # every sentence of an answer is held against the same few passages
def clauses(text: str) -> tuple[Clause, ...]:
    """The clauses of a text; what is too short to be one belongs to the one before."""
    found: list[Clause] = []
    before: Set[str] = frozenset()
    for low, high in sentences(text):
        parts: list[str] = []
        joins: list[str] = []
        marks = ["", *_CLAUSE.findall(text[low:high])]
        for mark, part in zip(marks, _CLAUSE.split(text[low:high]), strict=True):
            if parts and len(_terms(part)) < FEW:
                parts[-1] += f" {part}"
            else:
                parts.append(part)
                joins.append(mark.strip().casefold())
        reached = False
        for join, part in zip(joins, parts, strict=True):
            own, denied = _terms(part), denies(part)
            meant = own | before if _PRONOUNS.intersection(words(part)) else own
            reached = reached and join == "and"
            found.append(Clause(own, meant, denied, open=reached and not denied))
            reached = reached or denied
        before = _terms(text[low:high])
    return tuple(found)


def _nearest(wanted: Set[str], known: Sequence[Clause]) -> list[Clause]:
    """Those clauses that have most of the terms, by their own words rather than by pronouns; none that has few."""
    shares = [((len(wanted & each.meant), len(wanted & each.own)), each) for each in known if wanted & each.own]
    most = max((share for share, _ in shares), default=(0, 0))
    return [each for share, each in shares if share == most] if most[0] >= NEAR * len(wanted) else []


def _opposed(sentence: str, whole: Sequence[str]) -> str:
    """Why a word of the sentence has its opposite in the place where it should stand."""
    own = words(sentence)
    for word in own:
        others = _OPPOSITES.get(word, frozenset()).difference(own)
        if not others:
            continue
        wanted = _terms(sentence) - _terms(word)
        best = max((len(wanted & _terms(each)) for each in whole), default=0)
        near = [each for each in whole if best and len(wanted & _terms(each)) == best]
        has = any(word in words(each) or _terms(word) & _terms(each) for each in near)
        if not has and any(others.intersection(words(each)) for each in near):
            return f"what it cites says the contrary of “{word}”"
    return ""


@lru_cache(maxsize=4096)
def _terms(text: str) -> Set[str]:
    return terms(text).keys()
