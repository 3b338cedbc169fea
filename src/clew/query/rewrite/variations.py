"""Query variations: several phrasings of a question, written by a language model."""

from clew.core.errors import DriverFailed, SettingsError
from clew.core.protocols import LLM
from clew.core.trace import step
from clew.query.rewrite.parse_queries import dedupe_queries, parse_query_lines, strip_thinking

_SYSTEM = "You write search queries. Answer with the queries only, one a line: no numbers, no comments."
_PROMPT = """Write {n} other ways to search for what this question asks.
Use the words that documents may use instead of the question's own.
If it can be understood in several ways, let the queries cover the different readings.

Question: {query}"""
_MAX_WORDS = 40  # of a variation


def expand_query_variations(query: str, llm: LLM | None = None, *, n: int = 3) -> list[str]:
    """The query, then up to n variations of it, all different; the query alone without a model, or where it fails."""
    if n < 0:
        raise SettingsError(f"n is {n}; it must be at least 0 variations")
    if not n or llm is None:
        return [query]
    with step("variations") as trace:
        try:
            answer = llm.complete(_PROMPT.format(n=n, query=query), system=_SYSTEM, max_tokens=100 + 50 * n)
            found = parse_query_lines(strip_thinking(answer), max_words=_MAX_WORDS)
        except DriverFailed as failure:
            trace.notes["failed"] = str(failure)
            found = []
        kept = dedupe_queries([query, *found])[: n + 1] or [query]
        trace.out = len(kept)
    return kept
