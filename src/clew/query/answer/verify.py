"""Does the stored text say so? Each sentence of a model is held against the passages that it cites.

What is quoted must stand there word for word; every number, date and name must stand there, and belong where the
sentence puts it; most of its other terms must be there; and it must not deny what the text affirms, or say the
contrary. A right sentence under a wrong number gets the right one. What nothing supports is not shown. Meaning beyond
that is not judged: `studies.support` measures what gets past.
"""

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

from clew.core.cite import Citation
from clew.core.languages import SENSE
from clew.core.text import terms
from clew.query.answer.denial import DENIALS, contradicted, denies
from clew.query.answer.facts import Fact, facts, facts_of
from clew.query.answer.passages import Shown, Span
from clew.query.answer.placement import laid, misplaced
from clew.query.answer.units import UNITS

SUPPORT = 0.6  # the share of a claim's terms that must be in what it cites
SHORT = 5  # terms up to which only one may be missing, and up to SHORTER none
SHORTER = 3
MOST = 20  # passages from the first to the last of a mark
NEAR = 0.8  # the share of them that a passage must have in two sentences to be cited where the model cited another
# The numbers of passages as models write them: [1], [1, 2], [1-3], [passage 1], 【1†source】.
MARK = (
    r"[\[【]\s*(?:(?:[Pp]assage|[Ss]ource|[Dd]ocument)s?\s+)?"
    r"\d+(?:\s*(?:[,;&–-]|and)\s*\d+)*(?:†[^\]】\n]*)?\s*[\]】]"
)
_MARKS = re.compile(rf"\s*({MARK})")
_NUMBERS = re.compile(r"(\d+)(?:\s*[–-]\s*(\d+))?")
# A quote between two marks, or from a mark to the end where the sentence ends before the quote does.
_QUOTED = re.compile(
    r"“([^”]+)(?:”|$)|„([^“”]+)(?:[“”]|$)|«([^»]+)(?:»|$)|\"([^\"]+)(?:\"|$)"
    r"|(?<!\w)‘((?:[^’]|’(?=\w))+)’|(?<!\w)'((?:[^']|'(?=\w))+)'(?!\w)|^\s*>\s*(.+)",
    re.MULTILINE,
)
_TAIL = re.compile(r"([^“„«\"]*\S)(?:[”»]|\"(?!\w))")  # of a quote that began in the sentence before
# What tells that somebody is quoted, and says nothing itself.
_FRAME = terms(
    "according document explains it line mentions notes page passage quotes quoted reads says said sentence source "
    "stands stated states tells text there words writes written"
).keys()


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence as it may be shown: its words without marks, and its citations; `reason` says why there are none."""

    text: str
    citations: tuple[Citation, ...] = ()
    reason: str = ""
    corrected: str = ""


def verified(sentence: str, shown: Sequence[Shown], *, question: str = "") -> Claim:
    """The sentence with the citations that hold; without any, the reason why it must not be shown."""
    named = [number for mark in _MARKS.findall(sentence) for number in _numbers(mark)]
    body = _MARKS.sub("", sentence)
    known = [each for each in shown if each.number in named]
    unknown = sorted({number for number in named if number not in {each.number for each in shown}})
    said = f"it cites [{', '.join(map(str, unknown))}], which was not shown" if unknown else ""
    reason = _wanting(body, known, question) if known else "it cites nothing that was shown"
    if not reason:
        return Claim(body, _citations(body, known, question), corrected=said)
    other = next((each for each in shown if not _wanting(body, [each], question) and _is_near(body, each)), None)
    if other is not None:
        held = f"it holds by [{other.number}]"
        return Claim(body, _citations(body, [other], question), corrected=said or f"{reason}; {held}" if named else "")
    return Claim(body, reason=reason if known else said or reason)


def _numbers(mark: str) -> list[int]:
    """The passages that a mark names; of a stretch that is too long to be one, its ends."""
    found: list[int] = []
    for first, last in _NUMBERS.findall(mark.partition("†")[0]):
        low, high = int(first), int(last or first)
        found += range(low, high + 1) if low <= high < low + MOST else (low, high)
    return found


def _wanting(body: str, cited: Sequence[Shown], question: str) -> str:
    """What a sentence says that the passages together do not; empty where they do."""
    quotes = _quotes(body)
    for quote in quotes:
        found = [(each, span) for each in cited if (span := each.find(quote))]
        if not found and not _said_before(quote, question):
            return f"“{quote}” does not stand in what it cites"
        if found and all(each.denied(span) for each, span in found):
            return f"“{quote}” leaves out a denial"
    texts = [each.spoken for each in cited]
    about = " ".join(each.about for each in cited)
    said = [fact for fact in facts_of(body) if not any(fact.text in quote for quote in quotes)]
    asked = [fact for fact in said if _stands(fact, question, as_is=True) or _stands(fact, about, as_is=True)]
    for fact in said:
        if fact not in asked and not any(_stands(fact, text) for text in texts):
            return f"{fact.text} does not stand in what it cites"
    there = _terms("\n".join([*texts, about]))
    again = terms(question).keys() - there  # the question's own words may be said again
    if not _enough(_wanted(body) - again - _of_facts(said), there):
        return "what it cites does not say so"
    if quotes and _wanted(body) <= terms(" ".join(quotes)).keys():
        return "it denies what it cites" if denies(_between(body, quotes)) else ""
    return contradicted(body, texts) or misplaced(body, texts, said, asked=asked)


def _is_near(body: str, shown: Shown) -> bool:
    """Whether two sentences of a passage that was not cited, or the quotes, say nearly all of a sentence."""
    there = terms(" ".join([*map(shown.words, shown.says(body)), shown.about, *_quotes(body)])).keys()
    wanted = _wanted(body)
    return len(wanted & there) >= NEAR * len(wanted)


def _between(body: str, quotes: Sequence[str]) -> str:
    """A sentence without its quotes."""
    for quote in quotes:
        body = body.replace(quote, " ", 1)
    return body


def _wanted(body: str) -> Set[str]:
    """The terms of a sentence that say something."""
    return terms(body).keys() - DENIALS - SENSE - (_FRAME - terms(" ".join(_quotes(body))).keys())


def _of_facts(said: Sequence[Fact]) -> Set[str]:
    """The terms of numbers, dates and units, which may be written in another way."""
    units = {each.unit for each in said if each.unit}
    words = [word for word, unit in UNITS.items() if unit in units]
    return terms(" ".join([*words, *(each.text for each in said if each.kind != "name")])).keys()


def _enough(wanted: Set[str], there: Set[str]) -> bool:
    """Whether so many of a sentence's terms are there that the others may be another's words for the same."""
    missing = len(wanted - there)
    if len(wanted) <= SHORT:
        return missing <= (len(wanted) > SHORTER)
    return missing <= (1 - SUPPORT) * len(wanted)


def _stands(fact: Fact, text: str, *, as_is: bool = False) -> bool:
    """Whether a text has a fact, wherever; `as_is`: with its unit, or of the same things."""
    if fact.kind == "name":
        return all(stem in laid(text).places for stem in fact.key)
    found = (each for each in facts(text) if not as_is or (each.unit, each.counted) == (fact.unit, fact.counted))
    return any(fact.agrees(each) for each in found) or (fact.kind == "code" and fact.text in text)


def _citations(body: str, cited: Sequence[Shown], question: str) -> tuple[Citation, ...]:
    """The places that say it: of each quote, else of each passage that says it all, else of those that do together."""
    spans: list[tuple[Shown, Span]] = []
    for quote in _quotes(body):
        spans += [(each, span) for each in cited if (span := each.find(quote))][:1]
    if not spans:
        alone = [each for each in cited if not _wanting(body, [each], question)]
        spans = [(each, span) for each in alone for span in each.says(body)]
    if not spans:
        wanted = terms(body).keys()
        shares = [(len(wanted & _terms(each.text)), each) for each in cited]
        most = max(share for share, _ in shares)
        spans = [(each, each.says(body, most=1)[0]) for share, each in shares if 2 * share >= most]
    return tuple(dict.fromkeys(each.cite(span) for each, span in spans))


@lru_cache(maxsize=1024)  # every sentence of an answer is held against the same few passages
def _terms(text: str) -> Set[str]:
    return terms(text).keys()


def _quotes(body: str) -> list[str]:
    """What a sentence gives as somebody's words."""
    tail = _TAIL.match(body)
    if tail and tail[0].endswith('"') and body.count('"') % 2 == 0:
        tail = None
    rest = body[tail.end() :] if tail else body
    found = [tail[1]] if tail else []
    found += (next(filter(None, match), "") for match in _QUOTED.findall(rest))
    return [quote for quote in found if any(map(str.isalnum, quote))]


def _said_before(quote: str, question: str) -> bool:
    """Whether a single word in quotation marks is one of the question's."""
    return len(quote.split()) == 1 and quote.strip(".,;:!?").casefold() in question.casefold()
