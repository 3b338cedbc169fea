"""The rules of support: what can be told from words alone whether passages support a sentence.

Every number, date and name must occur, in the place where the sentence puts it; most other terms must occur; quotes
must be verbatim; and the sentence must not contradict the text by negation or opposites.
"""

import re
from collections.abc import Callable, Sequence, Set
from functools import lru_cache

from clew.core.languages import MEANINGFUL_FUNCTION_WORDS
from clew.core.text import extract_terms
from clew.query.answer.contradiction import CONTRADICTED, NEGATIONS, explain_contradiction, has_negation
from clew.query.answer.facts import Fact, find_facts, find_sentence_facts
from clew.query.answer.passages import NumberedPassage
from clew.query.answer.placement import explain_misplaced_fact, tokenize_with_facts
from clew.query.answer.rates import explain_wrong_rate, normalize_amounts
from clew.query.answer.units import UNITS

MIN_SUPPORT = 0.6  # share of a sentence's terms that the cited passages must have
MIN_PARAPHRASE = 0.3  # share below which a sentence is no paraphrase but unsupported
SHORT_TERMS = 5  # up to so many terms only one may be missing
VERY_SHORT_TERMS = 3  # up to so many terms none may be missing
CORRECTION_SHARE = 0.8  # share of the terms that two sentences of a passage must have to replace a wrong citation
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
# A fenced code block, or one that is not closed yet; models put citation marks behind the closing fence.
FENCED = re.compile(
    r"^[ \t]*(?P<fence>```|~~~)[^\n]*\n(?P<code>.*?)(?:^[ \t]*(?P=fence)[ \t]*(?=$|[\[【])|\Z)",
    re.DOTALL | re.MULTILINE,
)
NOT_COVERED = "it is not supported by the cited passage"
NOT_CLEAR = "the cited passage does not clearly say so"
NOT_VERBATIM = "the cited passage does not have this code word for word"


def explain_unsupported(body: str, cited: Sequence[NumberedPassage], question: str) -> str:
    """Why the passages together do not support a sentence by the rules; empty where they do."""
    if wrong := explain_misquote(body, cited, question) or explain_missing_fact(body, cited, question):
        return wrong
    body, question, texts = _normalize(body, cited, question)
    quotes = find_quotes(body)
    stated, asked = _find_stated(body, cited, question)
    titles = " ".join(each.title_and_headings for each in cited)
    present = extract_terms_cached("\n".join([*texts, titles]))
    repeated = extract_terms(question).keys() - present  # the question's own words may be repeated
    if not _covers_enough_terms(_extract_content_terms(body) - repeated - _extract_fact_terms(stated), present):
        return NOT_COVERED
    if says_only_quotes(body):
        return CONTRADICTED if has_negation(_remove_quotes(body, quotes)) else ""
    return explain_contradiction(body, texts) or explain_misplaced_fact(body, texts, stated, question_facts=asked)


def explain_misquote(body: str, cited: Sequence[NumberedPassage], question: str) -> str:
    """Which quote of a sentence is not in the passages, or leaves out a negation; empty where all are right."""
    for quote in find_quotes(body):
        found = [(each, span) for each in cited if (span := each.find_quote(quote))]
        if not found and not _is_word_of_question(quote, question):
            return f"“{quote}” is not supported by the cited passage"
        if found and all(each.omits_negation(span) for each, span in found):
            return f"“{quote}” leaves out a negation"
    return ""


def says_only_quotes(body: str) -> bool:
    """Whether a sentence says nothing beside its quotes but where they stand."""
    quotes = find_quotes(body)
    return bool(quotes) and _extract_content_terms(body) <= extract_terms(" ".join(quotes)).keys()


def explain_strange_address(body: str, cited: Sequence[NumberedPassage], question: str) -> str:
    """Which web or mail address of a sentence neither the passages nor the question have; empty where they have all."""
    known = "\n".join([question, *(each.text_with_authors for each in cited)]).lower()
    strange = (found for each in _ADDRESS.findall(body) if (found := each.rstrip(".,;:!?)")).lower() not in known)
    return f"{first} is not in the cited passage" if (first := next(strange, "")) else ""


def explain_missing_fact(
    body: str,
    cited: Sequence[NumberedPassage],
    question: str,
    *,
    is_wanted: Callable[[Fact], bool] = lambda _: True,
) -> str:
    """Name a number, date, code or name of a sentence that the passages lack; empty where they have all.

    Where a passage has the value, but not as the sentence puts it ("up to 5", "5 weeks"), the reason names nothing.
    """
    body, question, texts = _normalize(body, cited, question)
    stated, asked = _find_stated(body, cited, question)
    missing = [
        fact
        for fact in stated
        if is_wanted(fact) and fact not in asked and not any(_text_states_fact(fact, text) for text in texts)
    ]
    values = {each.key for text in texts for each in find_facts(text)}
    absent = (fact for fact in missing if fact.key not in values)
    return next((f"{fact.text} is not in the cited passage" for fact in absent), NOT_CLEAR if missing else "")


def explain_other_rate(body: str, cited: Sequence[NumberedPassage]) -> str:
    """Which amount of a sentence the passages have for another period or thing; empty where none."""
    return explain_wrong_rate(body, [each.text_with_authors for each in cited])


def is_exact(fact: Fact) -> bool:
    """Whether a fact is one that has no other words: a code, or a number with its unit."""
    return fact.kind == "code" or bool(fact.unit)


def is_value(fact: Fact) -> bool:
    """Whether a fact is a number, a date or a code, and not a name."""
    return fact.kind != "name"


def may_be_paraphrase(body: str, cited: Sequence[NumberedPassage]) -> bool:
    """Whether the passages have enough of a sentence's terms that it may say the same in other words."""
    wanted = _extract_content_terms(body)
    texts = [part for each in cited for part in (each.text_with_authors, each.title_and_headings)]
    return len(wanted & extract_terms_cached("\n".join(texts))) >= MIN_PARAPHRASE * len(wanted)


def has_nearly_all_terms(body: str, passage: NumberedPassage) -> bool:
    """Whether two sentences of a passage, with its titles and the quotes, have nearly all terms of a sentence."""
    support = map(passage.read_span, passage.find_supporting_sentences(body))
    present = extract_terms(" ".join([*support, passage.title_and_headings, *find_quotes(body)])).keys()
    wanted = _extract_content_terms(body)
    return len(wanted & present) >= CORRECTION_SHARE * len(wanted)


def find_quotes(body: str) -> list[str]:
    """The quotes in a sentence."""
    tail = _TAIL.match(body)
    if tail and tail[0].endswith('"') and body.count('"') % 2 == 0:
        tail = None
    rest = body[tail.end() :] if tail else body
    found = [tail[1]] if tail else []
    found += (next(filter(None, match), "") for match in _QUOTED.findall(rest))
    return [quote for quote in found if any(map(str.isalnum, quote))]


@lru_cache(maxsize=1024)  # every sentence of an answer is checked against the same few passages
def extract_terms_cached(text: str) -> Set[str]:
    return extract_terms(text).keys()


def _normalize(body: str, cited: Sequence[NumberedPassage], question: str) -> tuple[str, str, list[str]]:
    """A sentence, the question and the texts of the passages with amounts of money in one form."""
    texts = [normalize_amounts(each.text_with_authors) for each in cited]
    return normalize_amounts(body), normalize_amounts(question), texts


def _find_stated(body: str, cited: Sequence[NumberedPassage], question: str) -> tuple[list[Fact], list[Fact]]:
    """The facts of a sentence outside of quotes, and those of them that the question or the headings have."""
    quotes, titles = find_quotes(body), " ".join(each.title_and_headings for each in cited)
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


def _is_common_word(fact: Fact, written: Set[str]) -> bool:
    """Whether what looks like a name begins a sentence alone, and is written in lower case elsewhere."""
    return fact.kind == "name" and fact.start == 0 and fact.text.lower() in written


def _text_states_fact(fact: Fact, text: str, *, as_is: bool = False) -> bool:
    """Whether a text has a fact anywhere; `as_is`: with the same unit or counted noun."""
    if fact.kind == "name":
        return all(stem in tokenize_with_facts(text).places for stem in fact.key)
    found = (each for each in find_facts(text) if not as_is or (each.unit, each.counted) == (fact.unit, fact.counted))
    return any(fact.agrees_with(each) for each in found) or (fact.kind == "code" and fact.text in text)


def _remove_quotes(body: str, quotes: Sequence[str]) -> str:
    """A sentence without its quotes."""
    for quote in quotes:
        body = body.replace(quote, " ", 1)
    return body


def _extract_content_terms(body: str) -> Set[str]:
    """The content terms of a sentence, without negations, function words and words that introduce a quote."""
    reporting = _REPORTING_TERMS - extract_terms(" ".join(find_quotes(body))).keys()
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


def _is_word_of_question(quote: str, question: str) -> bool:
    """Whether a quote is a single word of the question."""
    return len(quote.split()) == 1 and quote.strip(".,;:!?").casefold() in question.casefold()
