"""Query variations: several phrasings of a question, by a language model or by rule with relevance feedback."""

import re
from collections.abc import Sequence

from clew.core.detect import find_main_script
from clew.core.errors import DriverFailed, SettingsError
from clew.core.pattern import compile_pattern
from clew.core.protocols import LLM
from clew.core.scripts import UNSPACED
from clew.core.sentences import split_sentences
from clew.core.trace import step
from clew.query.rewrite.code import MAX_SYMBOLS, measure_symbols
from clew.query.rewrite.ellipsis import is_elliptic, is_fragment
from clew.query.rewrite.expand import is_ambiguous_query
from clew.query.rewrite.keywords import condense_query, extract_content_words, extract_stems, select_expansion_terms
from clew.query.rewrite.parse_queries import dedupe_queries, parse_query_lines, strip_thinking

_SYSTEM = "You write search queries. Answer with the queries only, one a line: no numbers, no comments."
_PROMPT = """Write {n} other ways to search for what this question asks.
Use the words that documents may use instead of the question's own.
If it can be understood in several ways, let the queries cover the different readings.

Question: {query}"""
_MAX_WORDS = 40  # of a variation

# A conjunction before a new question: "… and how do I …", "… or is there …".
_JOIN = compile_pattern(
    r"(?:\s*[,;]\s*|\s+)(?:and|or|but|then|plus)\s+(?:also\s+)?"
    r"(?=(?:who|what|when|where|why|which|whose|how)\b"
    r"|(?:is|are|was|were|do|does|did|can|could|should|would|will|has|have)\s+"
    r"(?:i|you|we|he|she|it|they|there|the|an?|my|our|your|this|that|these|those)\b)",
    re.IGNORECASE,
)
_SPACES = compile_pattern(r"[^\S\n]{2,}")
_COMPARISONS = (
    compile_pattern(
        r"\b(?:differ|distin|compar|choice|choos|decid|relation|trade)\S*\s+between\s+(?P<one>.+?)\s+and\s+(?P<two>.+)",
        re.IGNORECASE,
    ),
    compile_pattern(r"\b(?:compare|comparing)\s+(?P<one>.+?)\s+(?:and|with|to|against)\s+(?P<two>.+)", re.IGNORECASE),
    compile_pattern(r"(?P<one>.+?)[\s,]+(?:vs\.?|versus|compared\s+(?:to|with))\s+(?P<two>.+)", re.IGNORECASE),
    compile_pattern(r"(?:which|who)\s[^,]+,\s*(?P<one>[^,]+?),?\s+or\s+(?P<two>[^,]+)", re.IGNORECASE),
)
_LIST = compile_pattern(r"[^,]+(?:,[^,]+)*,?\s(?:and|or)\s[^,]+")
_ITEM_SEPARATOR = compile_pattern(r"\s*,\s*(?:(?:and|or)\s+)?|\s+(?:and|or)\s+", re.IGNORECASE)
_SHARED_TAIL = compile_pattern(r"\s(?=(?:of|for|in|on|with|from|at|about)\s)", re.IGNORECASE)  # … and treatments of flu
_MAX_COMPOUND_CHARS = 1_000  # of a question that is searched for what it compares or lists
_MIN_QUESTION_WORDS = 2  # content words of a question that is searched by itself
_MIN_CLAUSE_WORDS = 3  # content words from which a list item needs no shared words


def expand_query_variations(
    query: str, llm: LLM | None = None, *, n: int = 3, feedback: Sequence[str] = ()
) -> list[str]:
    """The query, then up to n variations of it, all different.

    A model is called once; if it fails or returns nothing usable, there is only the query. Without one: the questions
    of a request of several, the question with expansion terms of `feedback` (texts of a first search, best first), and
    its content words alone; nothing where other words lead away from it, in a script without spaces and about code.
    """
    if n < 0:
        raise SettingsError(f"n is {n}; it must be at least 0 variations")
    if not n:
        return [query]
    with step("variations") as trace:
        try:
            found = _ask_for_variations(query, llm, n) if llm is not None else _vary_by_rule(query, feedback, n)
        except DriverFailed as failure:
            trace.notes["failed"] = str(failure)
            found = []
        kept = dedupe_queries([query, *found])[: n + 1] or [query]
        trace.out = len(kept)
    return kept


def split_question(query: str) -> list[str]:
    """The parts of a compound question: its questions, the sides it compares or the items it lists; else itself."""
    questions = _list_questions(query)
    if len(questions) > 1:
        first, *others = questions
        topic = condense_query(first)
        return [first, *(_prepend_topic(topic, each) if is_ambiguous_query(each) else each for each in others)]
    whole = questions[0] if questions else _trim_punctuation(query)
    if len(whole) > _MAX_COMPOUND_CHARS:
        return [whole]
    sides = next((found for side in _COMPARISONS if (found := side.search(whole))), None)
    if sides:
        return _distribute_shared_words([sides["one"], sides["two"]])
    if "," in whole and _LIST.fullmatch(whole):
        return _distribute_shared_words(_ITEM_SEPARATOR.split(whole))
    return [whole]


def _ask_for_variations(query: str, llm: LLM, n: int) -> list[str]:
    """Variations of the query written by the model."""
    answer = llm.complete(_PROMPT.format(n=n, query=query), system=_SYSTEM, max_tokens=100 + 50 * n)
    return parse_query_lines(strip_thinking(answer), max_words=_MAX_WORDS)


def _vary_by_rule(query: str, feedback: Sequence[str], n: int) -> list[str]:
    """Variations without a model: separate questions, the question with feedback terms, its content words.

    The sides of a comparison and the items of a list are no questions: the query names them all, and what is found for
    one alone would rank above what is about both. So would what a question says that needs the one before it.
    """
    if measure_symbols(feedback) >= MAX_SYMBOLS or find_main_script(query) in UNSPACED:
        return []
    terms = select_expansion_terms(query, feedback)
    expanded = [" ".join([query, *terms])] if terms else []
    parts = _list_separate_questions(query)
    return [*parts[: max(1, n - len(expanded))], *expanded, *parts[n - len(expanded) :], condense_query(query)]


def _list_questions(query: str) -> list[str]:
    """The questions of a query: its sentences, and what a conjunction joins in them, that have a content word."""
    query = _SPACES.sub(" ", query)  # each place in a long gap would be tried for the conjunction after it
    parts = [part for start, end in split_sentences(query) for part in _JOIN.split(query[start:end])]
    return [_trim_punctuation(part) for part in parts if extract_content_words(part)]


def _list_separate_questions(query: str) -> list[str]:
    """The questions of a query that can be understood each by itself and share no content word; none if some cannot."""
    questions = _list_questions(query)
    seen: set[str] = set()
    for each in questions:
        stems = extract_stems(" ".join(extract_content_words(each)))  # in its language: no article is shared
        if is_elliptic(each) or is_fragment(each) or len(stems) < _MIN_QUESTION_WORDS or stems & seen:
            return []
        seen |= stems
    return questions if len(questions) > 1 else []


def _distribute_shared_words(items: Sequence[str]) -> list[str]:
    """The items, each with the words before the first and after the last that belong to all of them.

    "How do I install docker, podman and kubernetes on arm" gives install docker on arm, install podman on arm, …
    """
    *others, last = items
    last, *after = _SHARED_TAIL.split(last, maxsplit=1)
    tail = extract_content_words(" ".join(after))
    first, *more = ([*extract_content_words(item)] or item.split() for item in [*others, last])
    heads = [] if len(items) == 2 else first[:-1]
    completed = (item if len(item) >= _MIN_CLAUSE_WORDS else [*heads, *item] for item in more)
    return [" ".join([*item, *tail]) for item in (first, *completed)]


def _prepend_topic(topic: str, part: str) -> str:
    """The part, preceded by those words of the topic that it does not have."""
    return " ".join([*(word for word in topic.split() if not extract_stems(word) <= extract_stems(part)), part])


def _trim_punctuation(text: str) -> str:
    return text.strip().rstrip("?!.,;: ")
