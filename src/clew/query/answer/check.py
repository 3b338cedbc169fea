"""Checks of a model's sentences against the passages that they cite.

A verifier, if one is set and reads the language, reads sentence and passages together. Quotes must still be verbatim,
and addresses must occur in the passages. A sentence is at most "unsure" if the passages lack its codes or its numbers
with units, or if the verifier does not read its language, unless it occurs verbatim. With the verifier "rules", words
alone decide: numbers, dates, codes and names must occur, and most other terms. A supported sentence with a wrong
citation gets the right one. `studies.support` measures the errors of both, and the worth of each rule.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from clew.core.answer import SupportVerdict
from clew.core.cite import Citation
from clew.core.languages import FUNCTION_WORDS, MEANINGFUL_FUNCTION_WORDS
from clew.core.protocols import Verifier
from clew.core.text import extract_terms, tokenize_words
from clew.query.answer.facts import UNITS, Fact, find_facts, find_sentence_facts
from clew.query.answer.passages import NEGATIONS, NumberedPassage, Span, has_negation
from clew.query.answer.question import is_question

MIN_SUPPORT = 0.6  # share of a sentence's terms that the passages must have, by the rules
MIN_PARAPHRASE = 0.3  # … below which it is no paraphrase but unsupported
SHORT_TERMS, VERY_SHORT_TERMS = 5, 3  # up to this many terms, only one may be missing, or none
CORRECTION_SHARE = 0.8  # of the terms that two sentences must have to replace a wrong citation, by the rules
OTHER_PASSAGES = 3  # passages with the most shared terms, which a verifier reads instead of a wrong citation
MAX_RANGE = 20  # passages in a cited range; a longer one is read as its two ends
LATIN_END = "ɏ"  # letters above are of other scripts
LANGUAGE_MARGIN = 2  # function words by which a language must lead
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
# A quote between two quotation marks, or from one to the end where the sentence ends before the quote does.
_QUOTED = re.compile(
    r"“([^”]+)(?:”|$)|„([^“”]+)(?:[“”]|$)|«([^»]+)(?:»|$)|\"([^\"]+)(?:\"|$)"
    r"|(?<!\w)‘((?:[^’]|’(?=\w))+)’|(?<!\w)'((?:[^']|'(?=\w))+)'(?!\w)|^\s*>\s*(.+)",
    re.MULTILINE,
)
_TAIL = re.compile(r"([^“„«\"]*\S)(?:[”»]|\"(?!\w))")  # the end of a quote that began in the sentence before
_ADDRESS = re.compile(r"https?://[^\s<>\"”»\]]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
# Words that only introduce a quote or a source.
_REPORTING_TERMS = extract_terms(
    "according document explains it line mentions notes page passage quotes quoted reads says said sentence source "
    "stands stated states tells text there words writes written"
).keys()
# A fenced code block, or one that is not closed yet; models put citation marks behind the closing fence.
FENCED = re.compile(
    r"^[ \t]*(?P<fence>```|~~~)[^\n]*\n(?P<code>.*?)(?:^[ \t]*(?P=fence)[ \t]*(?=$|[\[【])|\Z)",
    re.DOTALL | re.MULTILINE,
)
UNCITED = "it cites no passage that was shown"
NOT_COVERED = "it is not supported by the cited passage"
CONTRADICTED = "it contradicts the cited passage"
NOT_CLEAR = "the cited passage does not clearly say so"
NOT_VERBATIM = "the cited passage does not have this code word for word"
NOT_READ = "only its quotes, numbers, names and words were checked, since the verifier does not read this language"
# The chance that a sentence judged by the rules alone is true, for each verdict: by `studies.support`, with as many
# true sentences as false ones.
RULES_SUPPORT: Mapping[SupportVerdict, float] = {"supported": 0.7, "unsure": 0.5, "unsupported": 0.2}


class Judgement(NamedTuple):
    """The verdict on a sentence, the reason if it is not supported, and the chance that it is.

    The chance is 1 for a verbatim sentence, and 0 if a quote or an address is wrong.
    """

    verdict: SupportVerdict
    reason: str
    support: float


@dataclass(frozen=True, slots=True)
class CheckedSentence:
    """A sentence without citation marks, the verdict on it, and its verified citations.

    reason: Why there are no citations, or that the meaning could not be checked.
    corrected: Which citation was wrong, if another passage supports the sentence.
    contradicted_by: What the passages say instead, if a fact or a quote differs.
    nearest: Otherwise, what they say that is most like the sentence.
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
        """Whether the verifier, if there is one, reads the language of the sentence."""
        return self.reason != NOT_READ


@dataclass(frozen=True, slots=True)
class Checker:
    """A checker of sentences against the given passages."""

    passages: Sequence[NumberedPassage]
    question: str = ""
    verifier: Verifier | None = None

    def check(self, sentence: str) -> CheckedSentence:
        """Check a sentence; see `check_sentence`."""
        return check_sentence(sentence, self.passages, question=self.question, verifier=self.verifier)

    def find_place(self, citation: Citation) -> tuple[str, int, str]:
        """Return the place of a citation: its document, the start of its piece of the passage, and its message."""
        starts = [
            at
            for each in self.passages
            for at, text in each.pieces
            if each.record.id == citation.document and at <= citation.start and citation.end <= at + len(text)
        ]
        return citation.document, max(starts, default=citation.start), citation.message

    def join_citations(self, citations: Sequence[Citation]) -> Citation:
        """Join the citations of one piece of a passage into one."""
        low, high = min(each.start for each in citations), max(each.end for each in citations)
        for each in self.passages if len(citations) > 1 else ():
            if each.record.id == citations[0].document and any(
                at <= low and high <= at + len(text) for at, text in each.pieces
            ):
                return each.cite_span((low, high))
        return citations[0]


def check_sentence(
    sentence: str, passages: Sequence[NumberedPassage], *, question: str = "", verifier: Verifier | None = None
) -> CheckedSentence:
    """Check a sentence; return it with its verdict and verified citations, or the reason why it has none."""
    sentence = _PARENTHESISED.sub(r" [\1]", sentence)
    code = FENCED.match(sentence)
    at = code.end() if code else 0  # an index in a code block is no citation
    named = [number for mark in _MARKS.findall(sentence, at) for number in _parse_citation_numbers(mark)]
    text = sentence[:at] + _MARKS.sub("", sentence[at:])
    body = _LABEL.sub(r"\2\3\4", _ITEM.sub("", text))
    known = [each for each in passages if each.number in named]
    unknown = sorted(set(named) - {each.number for each in passages})
    missing = f"it cites [{', '.join(map(str, unknown))}], which was not shown" if unknown else ""
    judged = judge_support(body, known, question, verifier=verifier)
    if judged.verdict == "supported":
        cites = _cite_support(body, known, question)
        return CheckedSentence(text, judged.verdict, cites, judged.reason, corrected=missing, support=judged.support)
    for other in _find_others(body, passages, known, verifier):
        found = judge_support(body, [other], question, verifier=verifier)
        if found.verdict == "supported":
            corrected = missing or f"{judged.reason}; it is supported by [{other.number}]" if named else ""
            cites = _cite_support(body, [other], question)
            return CheckedSentence(text, found.verdict, cites, found.reason, corrected=corrected, support=found.support)
    near = _cite_nearest(body, known)
    against = near if judged.verdict == "unsupported" and judged.reason != NOT_COVERED else ()
    reason = judged.reason if known else missing or judged.reason
    nearest = () if against else near
    return CheckedSentence(
        text, judged.verdict, reason=reason, contradicted_by=against, nearest=nearest, support=judged.support
    )


def judge_support(
    body: str, cited: Sequence[NumberedPassage], question: str, *, verifier: Verifier | None = None
) -> Judgement:
    """Judge whether the passages together support a sentence, and why not. No other function judges this."""
    if not cited:
        return Judgement("unsupported", UNCITED, 0.0)
    if code := FENCED.fullmatch(body):
        if stands_verbatim(code["code"], cited):
            return Judgement("supported", "", 1.0)
        judged: SupportVerdict = "unsure" if _may_be_paraphrase(code["code"], cited) else "unsupported"
        return Judgement(judged, NOT_VERBATIM, RULES_SUPPORT[judged])
    if wrong := _explain_misquote(body, cited, question) or _explain_strange_address(body, cited, question):
        return Judgement("unsupported", wrong, 0.0)
    if stands_verbatim(body, cited) or (_says_only_quotes(body) and not has_negation(_remove_quotes(body))):
        return Judgement("supported", "", 1.0)
    if verifier is None or not can_read(verifier.languages, "\n".join([body, *(each.text for each in cited)])):
        return _judge_by_rules(body, cited, question, can_support=verifier is None)
    chance = verifier.support([("\n\n".join(map(_write_passage, cited)), body)])[0]
    verdict = verifier.judge(chance)
    if verdict == "supported":
        missing = explain_missing_fact(body, cited, question, is_wanted=_is_exact)
        return Judgement("unsure", missing, RULES_SUPPORT["unsure"]) if missing else Judgement(verdict, "", chance)
    missing = explain_missing_fact(body, cited, question, is_wanted=_is_value)
    if missing not in ("", NOT_CLEAR) and explain_missing_fact(body, cited, question, is_wanted=_is_exact) == missing:
        verdict = "unsupported"  # a value that no passage has
    elif verdict == "unsure" and not any(_count_shared(body, each.text_with_authors) for each in cited):
        verdict = "unsupported"  # it is about something else
    return Judgement(verdict, missing or (NOT_CLEAR if verdict == "unsure" else NOT_COVERED), chance)


def _judge_by_rules(body: str, cited: Sequence[NumberedPassage], question: str, *, can_support: bool) -> Judgement:
    """Judge by words alone; at most "unsure" in a language that the verifier does not read.

    In such a language, a false sentence that changes a word shares more words with a passage than a true paraphrase.
    """
    reason = explain_unsupported(body, cited, question)
    verdict: SupportVerdict = "supported" if can_support else "unsure"
    if reason:
        verdict = "unsure" if reason == NOT_COVERED and _may_be_paraphrase(body, cited) else "unsupported"
    return Judgement(verdict, NOT_READ if verdict == "unsure" and not can_support else reason, RULES_SUPPORT[verdict])


def can_read(languages: Set[str], text: str) -> bool:
    """Return whether a text is in one of the languages, as far as its letters and function words tell."""
    letters = [sign for sign in text if sign.isalpha()]
    if not letters or 2 * sum(sign > LATIN_END for sign in letters) > len(letters):
        return False
    votes: Counter[str] = Counter()
    for word in tokenize_words(text):
        votes.update(code for code, words in FUNCTION_WORDS.items() if word in words)
    known = max((votes[code] for code in languages), default=0)
    return all(votes[code] < known + LANGUAGE_MARGIN for code in votes)


def stands_verbatim(body: str, cited: Sequence[NumberedPassage]) -> bool:
    """Return whether a passage has the sentence word for word, with its negations; then no model needs to read it."""
    spans = [(each, span) for each in cited if (span := each.find_quote(body.strip()))]
    return any(not each.omits_negation(span) for each, span in spans)


def explain_unsupported(body: str, cited: Sequence[NumberedPassage], question: str) -> str:
    """Explain why the passages together do not support a sentence by the rules; empty if they do."""
    if wrong := _explain_misquote(body, cited, question) or explain_missing_fact(body, cited, question):
        return wrong
    stated, _ = _find_stated(body, cited, question)
    texts = [part for each in cited for part in (each.text_with_authors, each.title_and_headings)]
    present = _extract_terms("\n".join(texts))
    repeated = extract_terms(question).keys() - present  # the question's own words may be repeated
    wanted = _extract_content_terms(body) - repeated - _extract_fact_terms(stated)
    if not _covers_enough_terms(wanted, present):
        return NOT_COVERED
    near = (each.read_span(span) for each in cited for span in each.find_supporting_sentences(body))
    return CONTRADICTED if has_negation(_remove_quotes(body)) and not any(map(has_negation, near)) else ""


def explain_missing_fact(
    body: str,
    cited: Sequence[NumberedPassage],
    question: str,
    *,
    is_wanted: Callable[[Fact], bool] = lambda _: True,
) -> str:
    """Name a number, date, code or name of a sentence that the passages lack; empty if they have all.

    If a passage has the value with another bound or unit ("up to 5", "5 weeks"), the reason is NOT_CLEAR.
    """
    stated, asked = _find_stated(body, cited, question)
    texts = [each.text_with_authors for each in cited]
    missing = [
        fact
        for fact in stated
        if is_wanted(fact) and fact not in asked and not any(_text_states_fact(fact, text) for text in texts)
    ]
    values = {each.key for text in texts for each in find_facts(text)}
    absent = (fact for fact in missing if fact.key not in values)
    return next((f"{fact.text} is not in the cited passage" for fact in absent), NOT_CLEAR if missing else "")


def find_quotes(body: str) -> list[str]:
    """Return the quotes in a sentence."""
    tail = _TAIL.match(body)
    if tail and tail[0].endswith('"') and body.count('"') % 2 == 0:
        tail = None
    rest = body[tail.end() :] if tail else body
    found = [tail[1]] if tail else []
    found += (next(filter(None, match), "") for match in _QUOTED.findall(rest))
    return [quote for quote in found if any(map(str.isalnum, quote))]


def _find_others(
    body: str, passages: Sequence[NumberedPassage], known: Sequence[NumberedPassage], verifier: Verifier | None
) -> list[NumberedPassage]:
    """Return passages that may support a miscited sentence; by rules only very similar ones, or lies would pass."""
    wanted = _extract_content_terms(body)
    is_read = verifier is not None and can_read(verifier.languages, body)
    if not is_read:
        return [each for each in passages if _has_nearly_all_terms(body, each)]
    shared = [
        (len(wanted & _extract_terms(each.text_with_authors)), each)
        for each in passages
        if len(known) > 1 or each not in known
    ]
    shared.sort(key=lambda pair: -pair[0])
    return [each for count, each in shared[:OTHER_PASSAGES] if count]


def _write_passage(passage: NumberedPassage) -> str:
    """Return a passage for the verifier, under a line with the document's title and the headings."""
    headings = [heading for hit in passage.passage.chunks for heading in hit.chunk.headings]
    line = " > ".join(filter(None, dict.fromkeys([passage.record.title, *headings])))
    return f"{line}\n{passage.text_with_authors}" if line else passage.text_with_authors


def _explain_misquote(body: str, cited: Sequence[NumberedPassage], question: str) -> str:
    """Name a quote that is not in the passages, or leaves out a negation; empty if all are right."""
    for quote in find_quotes(body):
        found = [(each, span) for each in cited if (span := each.find_quote(quote))]
        if not found and not _is_word_of_question(quote, question):
            return f"“{quote}” is not in the cited passage"
        if found and all(each.omits_negation(span) for each, span in found):
            return f"“{quote}” leaves out a negation"
    return ""


def _explain_strange_address(body: str, cited: Sequence[NumberedPassage], question: str) -> str:
    """Name a web or mail address that neither the passages nor the question have; empty if there is none."""
    known = "\n".join([question, *(each.text_with_authors for each in cited)]).lower()
    strange = (found for each in _ADDRESS.findall(body) if (found := each.rstrip(".,;:!?)")).lower() not in known)
    return f"{first} is not in the cited passage" if (first := next(strange, "")) else ""


def _says_only_quotes(body: str) -> bool:
    """Return whether a sentence says nothing besides its quotes and their source."""
    quotes = find_quotes(body)
    return bool(quotes) and _extract_content_terms(body) <= extract_terms(" ".join(quotes)).keys()


def _remove_quotes(body: str) -> str:
    for quote in find_quotes(body):
        body = body.replace(quote, " ", 1)
    return body


def _is_exact(fact: Fact) -> bool:
    """Return whether a fact has no paraphrase: a code, or a number with its unit."""
    return fact.kind == "code" or bool(fact.unit)


def _is_value(fact: Fact) -> bool:
    """Return whether a fact is a number, a date or a code, and not a name."""
    return fact.kind != "name"


def _may_be_paraphrase(body: str, cited: Sequence[NumberedPassage]) -> bool:
    """Return whether the passages have enough terms of a sentence that it may be a paraphrase."""
    wanted = _extract_content_terms(body)
    texts = [part for each in cited for part in (each.text_with_authors, each.title_and_headings)]
    return len(wanted & _extract_terms("\n".join(texts))) >= MIN_PARAPHRASE * len(wanted)


def _has_nearly_all_terms(body: str, passage: NumberedPassage) -> bool:
    """Return whether two sentences of a passage, with titles and the quotes, have nearly all terms of a sentence."""
    support = map(passage.read_span, passage.find_supporting_sentences(body))
    present = extract_terms(" ".join([*support, passage.title_and_headings, *find_quotes(body)])).keys()
    wanted = _extract_content_terms(body)
    return len(wanted & present) >= CORRECTION_SHARE * len(wanted)


def _find_stated(body: str, cited: Sequence[NumberedPassage], question: str) -> tuple[list[Fact], list[Fact]]:
    """Return the facts of a sentence outside quotes, and those among them that the question or the headings state."""
    quotes, titles = find_quotes(body), " ".join(each.title_and_headings for each in cited)
    lowercase = frozenset(re.findall(r"\w+", " ".join([*(each.text_with_authors for each in cited), titles, question])))
    stated = [
        fact
        for fact in find_sentence_facts(body)
        if not any(fact.text in quote for quote in quotes) and not _is_common_word(fact, lowercase)
    ]
    asked = [fact for fact in stated if any(_text_states_fact(fact, text, as_is=True) for text in (question, titles))]
    return stated, asked


def _is_common_word(fact: Fact, written: Set[str]) -> bool:
    """Return whether a name is only the first word of a sentence, and elsewhere in lower case."""
    return fact.kind == "name" and fact.start == 0 and fact.text.lower() in written


def _text_states_fact(fact: Fact, text: str, *, as_is: bool = False) -> bool:
    """Return whether a text has a fact anywhere; `as_is`: with the same unit or counted noun."""
    if fact.kind == "name":
        return _extract_terms(text).issuperset(fact.key) or set(tokenize_words(text)).issuperset(
            tokenize_words(fact.text)
        )
    found = (each for each in find_facts(text) if not as_is or (each.unit, each.counted) == (fact.unit, fact.counted))
    return any(fact.agrees_with(each) for each in found) or (fact.kind == "code" and fact.text in text)


@lru_cache(maxsize=1024)  # every sentence of an answer is checked against the same few passages
def _extract_terms(text: str) -> frozenset[str]:
    return frozenset(extract_terms(text))


def _extract_content_terms(body: str) -> Set[str]:
    """Return the content terms of a sentence, without negations, function words and words that introduce a quote."""
    reporting = _REPORTING_TERMS - extract_terms(" ".join(find_quotes(body))).keys()
    return extract_terms(body).keys() - NEGATIONS - MEANINGFUL_FUNCTION_WORDS - reporting


def _extract_fact_terms(stated: Sequence[Fact]) -> Set[str]:
    """Return the terms of numbers, dates and units, which a passage may write differently."""
    units = {each.unit for each in stated if each.unit}
    words = [word for word, unit in UNITS.items() if unit in units]
    return extract_terms(" ".join([*words, *(each.text for each in stated if each.kind != "name")])).keys()


def _covers_enough_terms(wanted: Set[str], present: Set[str]) -> bool:
    """Return whether enough of a sentence's terms are present that the others may be paraphrases."""
    missing = len(wanted - present)
    if len(wanted) <= SHORT_TERMS:
        return missing <= (len(wanted) > VERY_SHORT_TERMS)
    return missing <= (1 - MIN_SUPPORT) * len(wanted)


def _is_word_of_question(quote: str, question: str) -> bool:
    return len(quote.split()) == 1 and quote.strip(".,;:!?").casefold() in question.casefold()


def _cite_nearest(body: str, cited: Sequence[NumberedPassage]) -> tuple[Citation, ...]:
    """Cite the statement of the passages that is most like a sentence, questions aside; empty if none is."""
    found = [
        (_count_shared(body, each.read_span(span)), each, span)
        for each in cited
        for span in each.find_supporting_sentences(body, max_sentences=3)
        if not is_question(each.read_span(span))
    ]
    share, passage, span = max(found, key=lambda row: row[0], default=(0, None, (0, 0)))
    return (passage.cite_span(span),) if share and passage else ()


def _count_shared(body: str, text: str) -> int:
    return len(_extract_terms(body) & _extract_terms(text))


def _parse_citation_numbers(mark: str) -> list[int]:
    """Return the passage numbers in a citation mark; of a range that is too long, only its ends."""
    found: list[int] = []
    for first, last in _NUMBERS.findall(mark.partition("†")[0]):
        low, high = int(first), int(last or first)
        found += range(low, high + 1) if low <= high < low + MAX_RANGE else (low, high)
    return found


def _cite_support(body: str, cited: Sequence[NumberedPassage], question: str) -> tuple[Citation, ...]:
    """Cite each quote, else each passage that supports the sentence alone, else the passages that do together."""
    spans: list[tuple[NumberedPassage, Span]] = []
    code = FENCED.fullmatch(body)
    for quote in [code["code"]] if code else find_quotes(body):
        spans += [(each, span) for each in cited if (span := each.find_quote(quote))][:1]
    if not spans:
        alone = [each for each in cited if not explain_unsupported(body, [each], question)]
        spans = [(each, span) for each in alone for span in each.find_supporting_sentences(body)]
    if not spans:
        wanted = extract_terms(body).keys()
        shares = [(len(wanted & _extract_terms(each.text)), each) for each in cited]
        most = max(share for share, _ in shares)
        spans = [
            (each, each.find_supporting_sentences(body, max_sentences=1)[0])
            for share, each in shares
            if 2 * share >= most
        ]
    return tuple(dict.fromkeys(each.cite_span(span) for each, span in spans))
