"""Checks each sentence of a model against the passages that it cites.

A verifier reads sentence and passages together, where one is set and reads the language. Even so quotes must be
verbatim, addresses must occur and amounts be paid for the same; and without its codes and numbers with units in the
passages a sentence is at most "unsure". Where nothing reads it, the rules decide.

By the rules, a sentence whose facts all hold, but whose other words are mostly not in the text, is "unsure": it may be
a paraphrase. A supported sentence with a wrong citation gets the right one. `studies.support` measures what both miss.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from clew.core.answer import SupportVerdict
from clew.core.cite import Citation
from clew.core.protocols import Verifier
from clew.core.text import extract_terms
from clew.query.answer.passages import NumberedPassage, Span
from clew.query.answer.question import is_question
from clew.query.answer.reading import MIN_OPEN, can_read, read_support, stands_verbatim
from clew.query.answer.rules import (
    FENCED,
    NOT_CLEAR,
    NOT_COVERED,
    NOT_VERBATIM,
    explain_misquote,
    explain_missing_fact,
    explain_other_rate,
    explain_strange_address,
    explain_unsupported,
    extract_terms_cached,
    find_quotes,
    has_nearly_all_terms,
    is_exact,
    is_value,
    may_be_paraphrase,
    says_only_quotes,
)

MAX_RANGE = 20  # passages in a cited range; a longer one is read as its two ends
# Citation marks as models write them: [1], [1, 2], [1-3], [passage 1], 【1†source】.
MARK = (
    r"[\[【]\s*(?:(?:[Pp]assage|[Ss]ource|[Dd]ocument)s?\s+)?"
    r"\d+(?:\s*(?:[,;&–-]|and)\s*\d+)*(?:†[^\]】\n]*)?\s*[\]】]"
)
_MARKS = re.compile(rf"\s*({MARK})")
_PARENTHESISED = re.compile(r"\s*\((\d{1,2})\)(?=\s*[.!?]?\s*$)")  # (1) at the end of a sentence
_ITEM = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")  # the bullet or number of a list item
_LABEL = re.compile(r"^(\*\*|__)([^*_\n]{1,60}?)(:?)\1(:?)(?=\s)")  # set off before a value: **Deadline:** 15 minutes
_NUMBERS = re.compile(r"(\d+)(?:\s*[–-]\s*(\d+))?")

UNCITED = "it cites no passage that was shown"
NOT_READ = "only its quotes, numbers, names and words were checked, since the verifier does not read this language"
# The chance that a sentence on which only the rules have a verdict is true, by `studies.support` with as many truths as
# lies: of what they label supported, unsure and unsupported.
RULES_SUPPORT: Mapping[SupportVerdict, float] = {"supported": 0.7, "unsure": 0.5, "unsupported": 0.2}


class Judgement(NamedTuple):
    """The verdict on a sentence, why it is not supported, and the chance that it is.

    The chance is 1 where it stands verbatim, and 0 where a quote, an address or an amount is wrong.
    """

    verdict: SupportVerdict
    reason: str
    support: float


@dataclass(frozen=True, slots=True)
class CheckedSentence:
    """A sentence without citation marks, the verdict on it, and its verified citations.

    `reason` says why it has none, or that its meaning could not be checked.

    `corrected` says which citation was wrong, where the sentence is supported by another; `contradicted_by` cites what
    the passages say instead, where a fact or a quote differs, and `nearest` what they say that is most like it.
    """

    text: str
    verdict: SupportVerdict
    citations: tuple[Citation, ...] = ()
    reason: str = ""
    corrected: str = ""
    contradicted_by: tuple[Citation, ...] = ()
    nearest: tuple[Citation, ...] = ()
    support: float = 0.0

    @property
    def is_read(self) -> bool:
        """Whether the verifier, where there is one, reads the language of the sentence."""
        return self.reason != NOT_READ


def check_sentence(
    sentence: str, passages: Sequence[NumberedPassage], *, question: str = "", verifier: Verifier | None = None
) -> CheckedSentence:
    """The sentence with the verdict on it and its verified citations; without any, the reason."""
    sentence = _PARENTHESISED.sub(r" [\1]", sentence)
    code = FENCED.match(sentence)
    at = code.end() if code else 0  # an index in a code block is no citation
    named = [number for mark in _MARKS.findall(sentence, at) for number in _parse_citation_numbers(mark)]
    text = sentence[:at] + _MARKS.sub("", sentence[at:])
    body = _LABEL.sub(r"\2\3\4", _ITEM.sub("", text))
    known = [each for each in passages if each.number in named]
    unknown = sorted({number for number in named if number not in {each.number for each in passages}})
    missing = f"it cites [{', '.join(map(str, unknown))}], which was not shown" if unknown else ""
    verdict, reason, support = judge_support(body, known, question, verifier=verifier)
    if verdict == "supported":
        cites = _cite_support(body, known, question)
        return CheckedSentence(text, verdict, cites, reason, corrected=missing, support=support)
    for other in passages:
        if (verifier is not None and other in known) or not _may_support(body, other, verifier):
            continue
        found, note, chance = judge_support(body, [other], question, verifier=verifier)
        if found == "supported":
            corrected = missing or f"{reason}; it is supported by [{other.number}]" if named else ""
            cites = _cite_support(body, [other], question)
            return CheckedSentence(text, found, cites, note, corrected=corrected, support=chance)
    near = _cite_nearest(body, known)
    against = near if verdict == "unsupported" and reason != NOT_COVERED else ()
    reason = reason if known else missing or reason
    return CheckedSentence(
        text, verdict, reason=reason, contradicted_by=against, nearest=() if against else near, support=support
    )


def judge_support(
    body: str, cited: Sequence[NumberedPassage], question: str, *, verifier: Verifier | None = None
) -> Judgement:
    """Whether the passages together support a sentence, and why not: the one place where a sentence is judged."""
    if not cited:
        return Judgement("unsupported", UNCITED, 0.0)
    if code := FENCED.fullmatch(body):
        if stands_verbatim(code["code"], cited):
            return Judgement("supported", "", 1.0)
        judged: SupportVerdict = "unsure" if may_be_paraphrase(code["code"], cited) else "unsupported"
        return Judgement(judged, NOT_VERBATIM, RULES_SUPPORT[judged])
    if wrong := explain_misquote(body, cited, question) or explain_strange_address(body, cited, question):
        return Judgement("unsupported", wrong, 0.0)
    if wrong := explain_other_rate(body, cited):
        return Judgement("unsupported", wrong, 0.0)
    reason = explain_unsupported(body, cited, question)
    is_quoted = stands_verbatim(body, cited) or (not reason and says_only_quotes(body))
    if is_quoted and (verifier is not None or not reason):
        return Judgement("supported", "", 1.0)
    if verifier is None or not can_read(verifier.languages, "\n".join([body, *(each.text for each in cited)])):
        verdict: SupportVerdict = "supported"
        if reason:
            verdict = "unsure" if reason == NOT_COVERED and may_be_paraphrase(body, cited) else "unsupported"
        return Judgement(verdict, reason or ("" if verifier is None else NOT_READ), RULES_SUPPORT[verdict])
    verdict, chance = read_support(verifier, body, cited)
    if verdict == "supported":
        missing = explain_missing_fact(body, cited, question, is_wanted=is_exact)
        return Judgement("unsure", missing, RULES_SUPPORT["unsure"]) if missing else Judgement(verdict, "", chance)
    if verdict == "unsure" and chance < MIN_OPEN and not may_be_paraphrase(body, cited):
        verdict = "unsupported"  # it is about something else
    missing = explain_missing_fact(body, cited, question, is_wanted=is_value)
    return Judgement(verdict, missing or (NOT_CLEAR if verdict == "unsure" else NOT_COVERED), chance)


def _may_support(body: str, passage: NumberedPassage, verifier: Verifier | None) -> bool:
    """Whether to judge a sentence by a passage that it does not cite; the rules alone would find lies there too."""
    if verifier is not None and can_read(verifier.languages, f"{body}\n{passage.text}"):
        return may_be_paraphrase(body, [passage])
    return has_nearly_all_terms(body, passage)


def _cite_nearest(body: str, cited: Sequence[NumberedPassage]) -> tuple[Citation, ...]:
    """The citation of what the passages say that is most like a sentence, and no question; none where nothing is."""
    wanted = extract_terms(body).keys()
    spans = [(each, span) for each in cited for span in each.find_supporting_sentences(body, max_sentences=3)]
    found = [(each, span) for each, span in spans if not is_question(each.read_span(span))]
    shares = [
        (len(wanted & extract_terms(each.read_span(span)).keys()), place) for place, (each, span) in enumerate(found)
    ]
    share, place = max(shares, key=lambda pair: (pair[0], -pair[1]), default=(0, 0))
    return (found[place][0].cite_span(found[place][1]),) if share else ()


def _parse_citation_numbers(mark: str) -> list[int]:
    """The passage numbers in a citation mark; of a range that is too long, its ends."""
    found: list[int] = []
    for first, last in _NUMBERS.findall(mark.partition("†")[0]):
        low, high = int(first), int(last or first)
        found += range(low, high + 1) if low <= high < low + MAX_RANGE else (low, high)
    return found


def _cite_support(body: str, cited: Sequence[NumberedPassage], question: str) -> tuple[Citation, ...]:
    """The citations of each quote, else of each passage that supports it alone, else of those that do together."""
    spans: list[tuple[NumberedPassage, Span]] = []
    code = FENCED.fullmatch(body)
    for quote in [code["code"]] if code else find_quotes(body):
        spans += [(each, span) for each in cited if (span := each.find_quote(quote))][:1]
    if not spans:
        alone = [each for each in cited if not explain_unsupported(body, [each], question)]
        spans = [(each, span) for each in alone for span in each.find_supporting_sentences(body)]
    if not spans:
        wanted = extract_terms(body).keys()
        shares = [(len(wanted & extract_terms_cached(each.text)), each) for each in cited]
        most = max(share for share, _ in shares)
        spans = [
            (each, each.find_supporting_sentences(body, max_sentences=1)[0])
            for share, each in shares
            if 2 * share >= most
        ]
    return tuple(dict.fromkeys(each.cite_span(span) for each, span in spans))
