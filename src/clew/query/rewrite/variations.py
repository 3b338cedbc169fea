"""One question said in several ways: by a language model, or by rule from the question and what a search found."""

import re
from collections.abc import Sequence

from clew.core.errors import DriverFailed, SettingsError
from clew.core.protocols import LLM
from clew.core.text import sentences
from clew.core.trace import step
from clew.query.rewrite.expand import is_ambiguous_query
from clew.query.rewrite.keywords import content_words, gist, stems, telling_terms
from clew.query.rewrite.parse_queries import distinct, query_lines, without_thinking

_SYSTEM = "You write search queries. Answer with the queries only, one a line: no numbers, no comments."
_PROMPT = """Write {n} other ways to search for what this question asks.
Use the words that documents may use instead of the question's own.
If it can be understood in several ways, let the queries cover the different readings.

Question: {query}"""
_LONGEST = 40  # words of a variation

# A conjunction after which a new question begins: "… and how do I …", "… or is there …".
_JOIN = re.compile(
    r"(?:\s*[,;]\s*|\s+)(?:and|or|but|then|plus)\s+(?:also\s+)?"
    r"(?=(?:who|what|when|where|why|which|whose|how)\b"
    r"|(?:is|are|was|were|do|does|did|can|could|should|would|will|has|have)\s+"
    r"(?:i|you|we|he|she|it|they|there|the|an?|my|our|your|this|that|these|those)\b)",
    re.IGNORECASE,
)
_SIDES = (
    re.compile(
        r"\b(?:differ|distin|compar|choice|choos|decid|relation|trade)\S*\s+between\s+(?P<one>.+?)\s+and\s+(?P<two>.+)",
        re.IGNORECASE,
    ),
    re.compile(r"\b(?:compare|comparing)\s+(?P<one>.+?)\s+(?:and|with|to|against)\s+(?P<two>.+)", re.IGNORECASE),
    re.compile(r"(?P<one>.+?)[\s,]+(?:vs\.?|versus|compared\s+(?:to|with))\s+(?P<two>.+)", re.IGNORECASE),
    re.compile(r"(?:which|who)\s[^,]+,\s*(?P<one>[^,]+?),?\s+or\s+(?P<two>[^,]+)", re.IGNORECASE),
)
_LIST = re.compile(r"[^,]+(?:,[^,]+)*,?\s(?:and|or)\s[^,]+")
_ITEMS = re.compile(r"\s*,\s*(?:(?:and|or)\s+)?|\s+(?:and|or)\s+", re.IGNORECASE)
_SHARED = re.compile(r"\s(?=(?:of|for|in|on|with|from|at|about)\s)", re.IGNORECASE)  # … and treatments of flu
_CLAUSE = 3  # content words; a list item of so many stands alone


def expand_query_variations(
    query: str, llm: LLM | None = None, *, n: int = 3, feedback: Sequence[str] = ()
) -> list[str]:
    """The query, then up to n variations of it, all different.

    A model is asked once; if it fails or says nothing usable, the query stays alone. Without one: the parts of a
    compound question, the question with the telling words of `feedback` (texts that a first search found, best first),
    and its content words alone.
    """
    if n < 0:
        raise SettingsError(f"n is {n}; it must be at least 0 variations")
    if not n:
        return [query]
    with step("variations") as trace:
        try:
            found = _by_model(query, llm, n) if llm is not None else _by_rule(query, feedback, n)
        except DriverFailed as failure:
            trace.notes["failed"] = str(failure)
            found = []
        kept = distinct([query, *found])[: n + 1] or [query]
        trace.out = len(kept)
    return kept


def parts(query: str) -> list[str]:
    """What a compound question asks: its questions, the sides it compares or the items it lists; one if it asks one."""
    asked = [query[start:end] for start, end in sentences(query)]
    asked = [_trimmed(part) for sentence in asked for part in _JOIN.split(sentence) if content_words(part)]
    if len(asked) > 1:
        return [asked[0], *(_with(gist(asked[0]), part) if is_ambiguous_query(part) else part for part in asked[1:])]
    whole = asked[0] if asked else _trimmed(query)
    sides = next((found for side in _SIDES if (found := side.search(whole))), None)
    if sides:
        return _sharing([sides["one"], sides["two"]])
    if "," in whole and _LIST.fullmatch(whole):
        return _sharing(_ITEMS.split(whole))
    return [whole]


def _by_model(query: str, llm: LLM, n: int) -> list[str]:
    """What the model says, one query a line."""
    answer = llm.complete(_PROMPT.format(n=n, query=query), system=_SYSTEM, max_tokens=100 + 50 * n)
    return query_lines(without_thinking(answer), longest=_LONGEST)


def _by_rule(query: str, feedback: Sequence[str], n: int) -> list[str]:
    """Parts, then the question with what the feedback adds, then its content words; parts leave room for the second."""
    telling = telling_terms(query, feedback)
    told = [" ".join([query, *telling])] if telling else []
    asked = parts(query)
    return [*asked[: max(1, n - len(told))], *told, *asked[n - len(told) :], gist(query)]


def _sharing(items: Sequence[str]) -> list[str]:
    """The items, each with what was said for all of them before the first and after the last.

    "How do I install docker, podman and kubernetes on arm" is install docker on arm, install podman on arm, …
    """
    *others, last = items
    last, *after = _SHARED.split(last, maxsplit=1)
    tail = content_words(" ".join(after))
    first, *more = ([*content_words(item)] or item.split() for item in [*others, last])
    heads = [] if len(items) == 2 else first[:-1]
    alone = (item if len(item) >= _CLAUSE else [*heads, *item] for item in more)
    return [" ".join([*item, *tail]) for item in (first, *alone)]


def _with(topic: str, part: str) -> str:
    """The part after those words of the topic that it does not have."""
    return " ".join([*(word for word in topic.split() if not stems(word) <= stems(part)), part])


def _trimmed(text: str) -> str:
    return text.strip().rstrip("?!.,;: ")
