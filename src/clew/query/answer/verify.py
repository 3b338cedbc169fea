"""Checks each sentence of a model against the passages that it cites.

A verifier reads sentence and passages together, where one is set and reads the language. Even so quotes must be
verbatim, and addresses, codes and numbers with units must occur; and where the verifier is unsure, the rules decide.

The rules compare words: every number, date and name must occur, in the place where the sentence puts it; most other
terms must occur; and the sentence must not contradict the text by negation or opposites. A sentence whose facts all
hold, but whose other words are mostly not in the text, is "unsure": it may be a paraphrase. A supported sentence with
a wrong citation gets the right one. `studies.support` measures what both miss.
"""

import re
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

from clew.core.answer import SupportVerdict
from clew.core.cite import Citation
from clew.core.languages import MEANINGFUL_FUNCTION_WORDS
from clew.core.protocols import Verifier
from clew.core.text import extract_terms
from clew.query.answer.contradiction import CONTRADICTED, NEGATIONS, explain_contradiction, has_negation
from clew.query.answer.facts import Fact, find_facts, find_sentence_facts
from clew.query.answer.passages import NumberedPassage, Span
from clew.query.answer.placement import explain_misplaced_fact, tokenize_with_facts
from clew.query.answer.reading import can_read, read_support, stands_verbatim
from clew.query.answer.units import UNITS

MIN_SUPPORT = 0.6  # share of a sentence's terms that the cited passages must have
MIN_PARAPHRASE = 0.3  # share below which a sentence is no paraphrase but unsupported
SHORT_TERMS = 5  # up to so many terms only one may be missing
VERY_SHORT_TERMS = 3  # up to so many terms none may be missing
MAX_RANGE = 20  # passages in a cited range; a longer one is read as its two ends
CORRECTION_SHARE = 0.8  # share of the terms that two sentences of a passage must have to replace a wrong citation
# Citation marks as models write them: [1], [1, 2], [1-3], [passage 1], 【1†source】.
MARK = (
    r"[\[【]\s*(?:(?:[Pp]assage|[Ss]ource|[Dd]ocument)s?\s+)?"
    r"\d+(?:\s*(?:[,;&–-]|and)\s*\d+)*(?:†[^\]】\n]*)?\s*[\]】]"
)
_MARKS = re.compile(rf"\s*({MARK})")
_PARENTHESISED = re.compile(r"\s*\((\d{1,2})\)(?=\s*[.!?]?\s*$)")  # (1) at the end of a sentence
_NUMBERS = re.compile(r"(\d+)(?:\s*[–-]\s*(\d+))?")
# A quote between two quotation marks, or from one to the end where the sentence ends before the quote does.
_QUOTED = re.compile(
    r"“([^”]+)(?:”|$)|„([^“”]+)(?:[“”]|$)|«([^»]+)(?:»|$)|\"([^\"]+)(?:\"|$)"
    r"|(?<!\w)‘((?:[^’]|’(?=\w))+)’|(?<!\w)'((?:[^']|'(?=\w))+)'(?!\w)|^\s*>\s*(.+)",
    re.MULTILINE,
)
_ADDRESS = re.compile(r"https?://[^\s<>\"”»\]]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_TAIL = re.compile(r"([^“„«\"]*\S)(?:[”»]|\"(?!\w))")  # the end of a quote that began in the sentence before
# Words that only introduce a quote or a source.
_REPORTING_TERMS = extract_terms(
    "according document explains it line mentions notes page passage quotes quoted reads says said sentence source "
    "stands stated states tells text there words writes written"
).keys()


NOT_COVERED = "it is not supported by the cited passage"
UNCITED = "it cites no passage that was shown"
NOT_CLEAR = "the cited passage does not clearly say so"
NOT_READ = "only its quotes, numbers, names and words were checked, since the verifier does not read this language"


@dataclass(frozen=True, slots=True)
class CheckedSentence:
    """A sentence without citation marks, the verdict on it, and its verified citations.

    `reason` says why it has none, or that its meaning could not be checked.

    `corrected` says which citation was wrong, where the sentence is supported by another; `contradicted_by` cites what
    the passages say instead.
    """

    text: str
    verdict: SupportVerdict
    citations: tuple[Citation, ...] = ()
    reason: str = ""
    corrected: str = ""
    contradicted_by: tuple[Citation, ...] = ()


def check_sentence(
    sentence: str, passages: Sequence[NumberedPassage], *, question: str = "", verifier: Verifier | None = None
) -> CheckedSentence:
    """The sentence with the verdict on it and its verified citations; without any, the reason."""
    sentence = _PARENTHESISED.sub(r" [\1]", sentence)
    named = [number for mark in _MARKS.findall(sentence) for number in _parse_citation_numbers(mark)]
    body = _MARKS.sub("", sentence)
    known = [each for each in passages if each.number in named]
    unknown = sorted({number for number in named if number not in {each.number for each in passages}})
    missing = f"it cites [{', '.join(map(str, unknown))}], which was not shown" if unknown else ""
    verdict, reason = judge_support(body, known, question, verifier=verifier)
    if verdict == "supported":
        return CheckedSentence(body, verdict, _cite_support(body, known, question), reason, corrected=missing)
    for other in passages:
        if (verifier is not None and other in known) or not _has_nearly_all_terms(body, other):
            continue
        found, note = judge_support(body, [other], question, verifier=verifier)
        if found == "supported":
            corrected = missing or f"{reason}; it is supported by [{other.number}]" if named else ""
            return CheckedSentence(body, found, _cite_support(body, [other], question), note, corrected=corrected)
    against = _cite_nearest(body, known) if verdict == "unsupported" and known else ()
    return CheckedSentence(body, verdict, reason=reason if known else missing or reason, contradicted_by=against)


def judge_support(
    body: str, cited: Sequence[NumberedPassage], question: str, *, verifier: Verifier | None = None
) -> tuple[SupportVerdict, str]:
    """Whether the passages together support a sentence, and why not: the one place where a sentence is judged."""
    if not cited:
        return "unsupported", UNCITED
    if wrong := _explain_misquote(body, cited, question) or _explain_strange_address(body, cited, question):
        return "unsupported", wrong
    reason = _explain_unsupported(body, cited, question)
    if verifier is not None and stands_verbatim(body, cited):
        return "supported", ""
    if verifier is None or not can_read(verifier, "\n".join([body, *(each.text for each in cited)])):
        if not reason:
            return "supported", "" if verifier is None else NOT_READ
        return ("unsure" if reason == NOT_COVERED and _may_be_paraphrase(body, cited) else "unsupported"), reason
    if _explain_missing_fact(body, cited, question, is_wanted=_is_exact):
        return "unsupported", reason
    verdict = read_support(verifier, body, cited)
    if verdict == "supported" or (verdict == "unsure" and not reason):
        return "supported", ""
    if _explain_missing_fact(body, cited, question) or (reason and not _may_be_paraphrase(body, cited)):
        return "unsupported", reason
    return verdict, reason or (NOT_CLEAR if verdict == "unsure" else NOT_COVERED)


def _may_be_paraphrase(body: str, cited: Sequence[NumberedPassage]) -> bool:
    """Whether the passages have enough of a sentence's terms that it may say the same in other words."""
    wanted = _extract_content_terms(body)
    texts = [part for each in cited for part in (each.text_with_authors, each.title_and_headings)]
    return len(wanted & _extract_terms_cached("\n".join(texts))) >= MIN_PARAPHRASE * len(wanted)


def _cite_nearest(body: str, cited: Sequence[NumberedPassage]) -> tuple[Citation, ...]:
    """The citation of what the passages say where a sentence says something else; none where they share no term."""
    wanted = extract_terms(body).keys()
    found = [(each, span) for each in cited for span in each.find_supporting_sentences(body, max_sentences=1)]
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


def _explain_misquote(body: str, cited: Sequence[NumberedPassage], question: str) -> str:
    """Which quote of a sentence is not in the passages, or leaves out a negation; empty where all are right."""
    for quote in _find_quotes(body):
        found = [(each, span) for each in cited if (span := each.find_quote(quote))]
        if not found and not _is_word_of_question(quote, question):
            return f"“{quote}” is not supported by the cited passage"
        if found and all(each.omits_negation(span) for each, span in found):
            return f"“{quote}” leaves out a negation"
    return ""


def _explain_strange_address(body: str, cited: Sequence[NumberedPassage], question: str) -> str:
    """Which web or mail address of a sentence neither the passages nor the question have; empty where they have all."""
    known = "\n".join([question, *(each.text_with_authors for each in cited)]).lower()
    strange = (found for each in _ADDRESS.findall(body) if (found := each.rstrip(".,;:!?)")).lower() not in known)
    return f"{first} is not in the cited passage" if (first := next(strange, "")) else ""


def _find_stated(body: str, cited: Sequence[NumberedPassage], question: str) -> tuple[list[Fact], list[Fact]]:
    """The facts of a sentence outside of quotes, and those of them that the question or the headings have."""
    quotes, titles = _find_quotes(body), " ".join(each.title_and_headings for each in cited)
    texts = [each.text_with_authors for each in cited]
    lowercase = frozenset(re.findall(r"\w+", " ".join([*texts, titles, question])))
    stated = [
        fact
        for fact in find_sentence_facts(body)
        if not any(fact.text in quote for quote in quotes) and not _is_common_word(fact, lowercase)
    ]
    asked = [
        fact
        for fact in stated
        if _text_states_fact(fact, question, as_is=True) or _text_states_fact(fact, titles, as_is=True)
    ]
    return stated, asked


def _is_exact(fact: Fact) -> bool:
    """Whether a fact is one that has no other words: a code, or a number with its unit."""
    return fact.kind == "code" or bool(fact.unit)


def _explain_missing_fact(
    body: str,
    cited: Sequence[NumberedPassage],
    question: str,
    *,
    is_wanted: Callable[[Fact], bool] = lambda _: True,
) -> str:
    """Which number, date, code or name of a sentence is not in the passages; empty where all are."""
    stated, asked = _find_stated(body, cited, question)
    texts = [each.text_with_authors for each in cited]
    missing = (
        fact
        for fact in stated
        if is_wanted(fact) and fact not in asked and not any(_text_states_fact(fact, text) for text in texts)
    )
    return next((f"{fact.text} is not supported by the cited passage" for fact in missing), "")


def _explain_unsupported(body: str, cited: Sequence[NumberedPassage], question: str) -> str:
    """Why the passages together do not support a sentence by the rules; empty where they do."""
    if wrong := _explain_misquote(body, cited, question) or _explain_missing_fact(body, cited, question):
        return wrong
    quotes = _find_quotes(body)
    stated, asked = _find_stated(body, cited, question)
    texts = [each.text_with_authors for each in cited]
    titles = " ".join(each.title_and_headings for each in cited)
    present = _extract_terms_cached("\n".join([*texts, titles]))
    repeated = extract_terms(question).keys() - present  # the question's own words may be repeated
    if not _covers_enough_terms(_extract_content_terms(body) - repeated - _extract_fact_terms(stated), present):
        return NOT_COVERED
    if quotes and _extract_content_terms(body) <= extract_terms(" ".join(quotes)).keys():
        return CONTRADICTED if has_negation(_remove_quotes(body, quotes)) else ""
    return explain_contradiction(body, texts) or explain_misplaced_fact(body, texts, stated, question_facts=asked)


def _is_common_word(fact: Fact, written: Set[str]) -> bool:
    """Whether what looks like a name begins a sentence alone, and is written in lower case elsewhere."""
    return fact.kind == "name" and fact.start == 0 and fact.text.lower() in written


def _has_nearly_all_terms(body: str, passage: NumberedPassage) -> bool:
    """Whether two sentences of a passage, with its titles and the quotes, have nearly all terms of a sentence."""
    support = map(passage.read_span, passage.find_supporting_sentences(body))
    present = extract_terms(" ".join([*support, passage.title_and_headings, *_find_quotes(body)])).keys()
    wanted = _extract_content_terms(body)
    return len(wanted & present) >= CORRECTION_SHARE * len(wanted)


def _remove_quotes(body: str, quotes: Sequence[str]) -> str:
    """A sentence without its quotes."""
    for quote in quotes:
        body = body.replace(quote, " ", 1)
    return body


def _extract_content_terms(body: str) -> Set[str]:
    """The content terms of a sentence, without negations, function words and words that introduce a quote."""
    reporting = _REPORTING_TERMS - extract_terms(" ".join(_find_quotes(body))).keys()
    return extract_terms(body).keys() - NEGATIONS - MEANINGFUL_FUNCTION_WORDS - reporting


def _extract_fact_terms(stated: Sequence[Fact]) -> Set[str]:
    """The terms of numbers, dates and units, which a passage may write differently."""
    units = {each.unit for each in stated if each.unit}
    words = [word for word, unit in UNITS.items() if unit in units]
    return extract_terms(" ".join([*words, *(each.text for each in stated if each.kind != "name")])).keys()


def _covers_enough_terms(wanted: Set[str], present: Set[str]) -> bool:
    """Whether enough of a sentence's terms are present that the others may be paraphrases."""
    missing = len(wanted - present)
    if len(wanted) <= SHORT_TERMS:
        return missing <= (len(wanted) > VERY_SHORT_TERMS)
    return missing <= (1 - MIN_SUPPORT) * len(wanted)


def _text_states_fact(fact: Fact, text: str, *, as_is: bool = False) -> bool:
    """Whether a text has a fact anywhere; `as_is`: with the same unit or counted noun."""
    if fact.kind == "name":
        return all(stem in tokenize_with_facts(text).places for stem in fact.key)
    found = (each for each in find_facts(text) if not as_is or (each.unit, each.counted) == (fact.unit, fact.counted))
    return any(fact.agrees_with(each) for each in found) or (fact.kind == "code" and fact.text in text)


def _cite_support(body: str, cited: Sequence[NumberedPassage], question: str) -> tuple[Citation, ...]:
    """The citations of each quote, else of each passage that supports it alone, else of those that do together."""
    spans: list[tuple[NumberedPassage, Span]] = []
    for quote in _find_quotes(body):
        spans += [(each, span) for each in cited if (span := each.find_quote(quote))][:1]
    if not spans:
        alone = [each for each in cited if not _explain_unsupported(body, [each], question)]
        spans = [(each, span) for each in alone for span in each.find_supporting_sentences(body)]
    if not spans:
        wanted = extract_terms(body).keys()
        shares = [(len(wanted & _extract_terms_cached(each.text)), each) for each in cited]
        most = max(share for share, _ in shares)
        spans = [
            (each, each.find_supporting_sentences(body, max_sentences=1)[0])
            for share, each in shares
            if 2 * share >= most
        ]
    return tuple(dict.fromkeys(each.cite_span(span) for each, span in spans))


@lru_cache(maxsize=1024)  # every sentence of an answer is checked against the same few passages
def _extract_terms_cached(text: str) -> Set[str]:
    return extract_terms(text).keys()


def _find_quotes(body: str) -> list[str]:
    """The quotes in a sentence."""
    tail = _TAIL.match(body)
    if tail and tail[0].endswith('"') and body.count('"') % 2 == 0:
        tail = None
    rest = body[tail.end() :] if tail else body
    found = [tail[1]] if tail else []
    found += (next(filter(None, match), "") for match in _QUOTED.findall(rest))
    return [quote for quote in found if any(map(str.isalnum, quote))]


def _is_word_of_question(quote: str, question: str) -> bool:
    """Whether a quote is a single word of the question."""
    return len(quote.split()) == 1 and quote.strip(".,;:!?").casefold() in question.casefold()
