"""Does the stored text say so? Each sentence of a model is held against the passages that it cites.

What is quoted must stand there word for word, every number must stand there, and most of its terms; a sentence that
denies what the text affirms is not supported. A right sentence under a wrong number gets the right one. What nothing
supports is not shown. Meaning beyond that is not judged.
"""

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

from clew.core.cite import Citation
from clew.core.text import sentences, terms, words
from clew.query.answer.shown import Shown, Span

SUPPORT = 0.6  # the share of a claim's terms that must be in what it cites
NEAR = 0.8  # the share of a claim's terms that a single sentence must have to be held against it
_MARKS = re.compile(r"\s*\[(\d+(?:\s*[,;]\s*\d+)*)\]")
# A quote between two marks, or from a mark to the end where the sentence ends before the quote does.
_QUOTED = re.compile(
    r"“([^”]+)(?:”|$)|„([^“”]+)(?:[“”]|$)|«([^»]+)(?:»|$)|\"([^\"]+)(?:\"|$)"
    r"|(?<!\w)‘((?:[^’]|’(?=\w))+)’|(?<!\w)'((?:[^']|'(?=\w))+)'(?!\w)|^\s*>\s*(.+)",
    re.MULTILINE,
)
_TAIL = re.compile(r"([^“„«\"]*\S)(?:[”»]|\"(?!\w))")  # of a quote that began in the sentence before
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
_DENIALS = frozenset({"not", "no", "never", "none", "nobody", "nothing", "without", "cannot", "nicht", "kein", "keine"})
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
    named = [int(number) for mark in _MARKS.findall(sentence) for number in re.findall(r"\d+", mark)]
    body = _MARKS.sub("", sentence)
    known = [each for each in shown if each.number in named]
    unknown = sorted({number for number in named if number not in {each.number for each in shown}})
    said = f"it cites [{', '.join(map(str, unknown))}], which was not shown" if unknown else ""
    reason = _wanting(body, known, question) if known else "it cites nothing that was shown"
    if not reason:
        return Claim(body, _citations(body, known), corrected=said)
    other = next((each for each in shown if not _wanting(body, [each], question)), None)
    if other is not None:
        held = f"it holds by [{other.number}]"
        return Claim(body, _citations(body, [other]), corrected=said or f"{reason}; {held}" if named else "")
    return Claim(body, reason=reason if known else said or reason)


def _wanting(body: str, cited: Sequence[Shown], question: str) -> str:
    """What a sentence says that the passages together do not; empty where they do."""
    for quote in _quotes(body):
        if not any(each.find(quote) for each in cited) and not _said_before(quote, question):
            return f"“{quote}” does not stand in what it cites"
    text = "\n".join(each.text for each in cited)
    there = set(_numbers(text)) | set(_numbers(question))
    missing = [number for number in _numbers(body) if number not in there]
    if missing:
        return f"{missing[0]} does not stand in what it cites"
    there_too = _terms("\n".join([text, *(each.about for each in cited)]))
    again = terms(question).keys() - there_too  # the question's own words may be said again
    wanted = terms(body).keys() - again - _DENIALS
    if quotes := _quotes(body):
        wanted -= _FRAME - terms(" ".join(quotes)).keys()
    if wanted and len(wanted & there_too) < SUPPORT * len(wanted):
        return "what it cites does not say so"
    return "it denies what it cites" if _contradicts(body, wanted, cited) else ""


def _contradicts(body: str, wanted: Set[str], cited: Sequence[Shown]) -> bool:
    """Whether a sentence denies what the nearest one says, or says what that one denies.

    Where none is that near, a denial must at least rest on a sentence that denies something.
    """
    spans = [text[low:high] for each in cited for _, text in each.pieces for low, high in sentences(text)]
    shares = [(len(wanted & _terms(span)), span) for span in spans]
    most = max((share for share, _ in shares), default=0)
    if wanted and most >= NEAR * len(wanted):
        return all(_denies(span) != _denies(body) for share, span in shares if share == most)
    return _denies(body) and not any(share and _denies(span) for share, span in shares)


def _citations(body: str, cited: Sequence[Shown]) -> tuple[Citation, ...]:
    """The places that say it: of each quote, else the nearest sentence of each passage that has some of it."""
    spans: list[tuple[Shown, Span]] = []
    for quote in _quotes(body):
        found = next(((each, span) for each in cited if (span := each.find(quote))), None)
        if found:
            spans.append(found)
    if not spans:
        wanted = terms(body).keys()
        shares = [(len(wanted & _terms(each.text)), each) for each in cited]
        most = max(share for share, _ in shares)
        spans = [(each, each.nearest(body)) for share, each in shares if 2 * share >= most]
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


def _numbers(text: str) -> list[str]:
    """The numbers of a text, those of thousands without their separators."""
    return [re.sub(r"(?<=\d),(?=\d{3}\b)", "", number) for number in _NUMBER.findall(text)]


def _denies(text: str) -> bool:
    return bool(_DENIALS.intersection(words(text))) or "n't" in text or "n’t" in text
