"""Search queries written by a language model: short queries for an input, and variations of a question."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields

from clew.core.errors import DriverFailed, SettingsError
from clew.core.patterns import compile_pattern
from clew.core.protocols import LLM
from clew.core.text import tokenize_words
from clew.core.trace import step

_THINKING = compile_pattern(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_THINKING_TAIL = compile_pattern(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)  # opened by the prompt's template
_JSON = compile_pattern(r"\[\s*\".*\]|\{.*\}", re.DOTALL)
_BULLET = compile_pattern(r"[-*+•‣▪·–—]\s+")
_NUMBER = compile_pattern(r"\(?(\d{1,2})(?:\)\s*|[.:](?:\s+|(?=[^\W\d]{3})))")
_LABEL = compile_pattern(r"(?:search |alternative )?(?:query|variation|question)\s*\d*\s*:\s*", re.IGNORECASE)
_EMPHASIS = compile_pattern(r"(\*\*|__|\*|`)(.+)\1")
_DOUBLE = compile_pattern(r"[\"“”„«»]([^\"“”„«»]+)(?:[\"“”«»][.,;]?|\Z)")  # the closing quote may be cut off
_SINGLE = compile_pattern(r"['‘’‚]((?:[^'‘’]|(?<=\w)['’](?=\w))+)['‘’][.,;]?")
_FILLERS = frozenset(
    {"yes", "yeah", "yep", "nope", "none", "okay", "sure", "done", "thanks", "hello", "null", "nothing"}
)
_MIN_WORD_LENGTH = 3  # of a query of one word
_VARIATION_SYSTEM = "You write search queries. Answer with the queries only, one a line: no numbers, no comments."
_VARIATION_PROMPT = """Write {n} other ways to search for what this question asks.
Use the words that documents may use instead of the question's own.
If it can be understood in several ways, let the queries cover the different readings.

Question: {query}"""
_MAX_WORDS = 40  # of a variation
_SYSTEM = "You turn what a user says into search queries. Answer with the queries only, one a line, without numbers."
_PROMPT = """Write {n} different search queries that together find what is needed to answer the user.
Each has 2 to 6 words: the terms that documents on the subject would use.
{domain}{context}
The user says: {input}"""


def strip_thinking(answer: str) -> str:
    """Return the answer without the reasoning in `<think>` tags, closed or cut off."""
    return _THINKING_TAIL.sub("", _THINKING.sub("", answer))


def parse_query_lines(answer: str, *, max_words: int = 12) -> list[str]:
    """Parse the queries of an answer in order, each once: no numbers, bullets, quotes, headings, fillers or prose.

    A number belongs to the query if it is greater than the line number ("2. Liga results" on the first line). A line of
    more than `max_words` words is prose. A single word must be long enough and no filler. A JSON list of strings is
    read as one query per string.
    """
    lines = _parse_json_list(answer) or [line.strip() for line in answer.splitlines() if line.strip()]
    queries = [_strip_markers(line, number) for number, line in enumerate(lines, 1)]
    return dedupe_queries(query for query in queries if _is_searchable(query, max_words))


def _parse_json_list(answer: str) -> list[str]:
    """Parse the strings of a JSON list in an answer, or of the first list in its JSON object; empty without one."""
    found = _JSON.search(answer)
    try:
        value = json.loads(found[0]) if found else None
    except ValueError:
        return []
    if isinstance(value, dict):
        value = next((each for each in value.values() if isinstance(each, list)), None)
    return [each.strip() for each in value if isinstance(each, str)] if isinstance(value, list) else []


def dedupe_queries(queries: Iterable[str]) -> list[str]:
    """Return each query once, in its first position and spelling; blank ones are dropped."""
    kept: dict[str, str] = {}
    for query in queries:
        if query.strip():
            kept.setdefault(normalise_query(query), query)
    return list(kept.values())


def normalise_query(query: str) -> str:
    """Return the query without differences of case, space and punctuation, as a key for comparison."""
    return " ".join(tokenize_words(query)) or " ".join(query.casefold().split())


def _strip_markers(line: str, line_number: int) -> str:
    """Return the line without bullet, number, label, emphasis and quotes."""
    line = _strip_wrapping(line)
    line = _BULLET.sub("", line, count=1) if _BULLET.match(line) else line
    number = _NUMBER.match(line)
    if number and int(number[1]) <= line_number:
        line = line[number.end() :]
    line = _strip_wrapping(line)
    label = _LABEL.match(line)
    return " ".join((_strip_wrapping(line[label.end() :]) if label else line).split())


def _strip_wrapping(line: str) -> str:
    """Return the line without emphasis and quotes around the whole of it."""
    for mark in (_EMPHASIS, _DOUBLE, _SINGLE):
        found = mark.fullmatch(line.strip())
        line = found[found.lastindex or 0] if found else line
    return line.strip()


def _is_searchable(line: str, max_words: int) -> bool:
    """Return whether the line can be a search query."""
    found = tokenize_words(line)
    if not found or line.endswith((":", "：")) or line.startswith("```") or len(line.split()) > max_words:
        return False
    return len(found) > 1 or (len(line) >= _MIN_WORD_LENGTH and found[0] not in _FILLERS)


def expand_query_variations(query: str, llm: LLM | None = None, *, n: int = 3) -> list[str]:
    """Return the query and up to n different variations; the query alone if there is no model or it fails."""
    if n < 0:
        raise SettingsError(f"n is {n}; it must be at least 0 variations")
    if not n or llm is None:
        return [query]
    with step("variations") as trace:
        try:
            answer = llm.complete(
                _VARIATION_PROMPT.format(n=n, query=query), system=_VARIATION_SYSTEM, max_tokens=100 + 50 * n
            )
            found = parse_query_lines(strip_thinking(answer), max_words=_MAX_WORDS)
        except DriverFailed as failure:
            trace.notes["failed"] = str(failure)
            found = []
        kept = dedupe_queries([query, *found])[: n + 1] or [query]
        trace.out = len(kept)
    return kept


@dataclass(frozen=True, slots=True)
class TransformerConfig:
    """Settings of a QueryTransformer.

    llm_provider, llm_model: the model that `make` builds; domain_context: the subject of the documents.
    suppress_thinking: whether to ask for an answer without reasoning, and to drop text in <think> tags.
    """

    enabled: bool = False
    llm_provider: str = "ollama"
    llm_model: str = "llama3.2"
    num_queries: int = 3
    domain_context: str = ""
    suppress_thinking: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not type(field.default):
                wanted = type(field.default).__name__
                raise SettingsError(f"{field.name} is {value!r}; it must be of type {wanted}")
        _check_num_queries(self.num_queries)


MakeModel = Callable[[TransformerConfig], LLM]


class Transformer:
    """Turns an input into short search queries by a language model.

    A given model (`provider`) is never closed here; a model that `initialize` builds with `make` is closed by `close`.
    """

    def __init__(
        self, config: TransformerConfig | None = None, provider: LLM | None = None, *, make: MakeModel | None = None
    ) -> None:
        self.config = config or TransformerConfig()
        self._given = provider
        self._make = make
        self._built: LLM | None = None
        self._model = provider

    def set_provider(self, provider: LLM) -> None:
        """Use this model from now on; closing it is up to the caller."""
        self.close()
        self._given = self._model = provider

    def initialize(self) -> None:
        """Build the model; do nothing if disabled or ready."""
        if not self.config.enabled or self._model is not None:
            return
        if self._given is None and self._make is None:
            raise SettingsError(
                "QueryTransformer has no model; give provider=, or make= that builds one from the config"
            )
        if self._given is None and self._make is not None:
            self._built = self._make(self.config)
        self._model = self._given or self._built

    def close(self) -> None:
        """Release the model, and close it if it was built here."""
        close = getattr(self._built, "close", None)
        self._built = self._model = None
        if callable(close):
            close()

    def transform(self, input: str, num_queries: int | None = None) -> list[str]:  # noqa: A002 - the documented name
        """Return at most num_queries search queries for the input; the input itself if disabled or none is usable."""
        return self._transform(input, "", num_queries)

    def transform_with_context(
        self,
        input: str,  # noqa: A002 - the documented name
        conversation_context: str,
        num_queries: int | None = None,
    ) -> list[str]:
        """Transform an input that may refer to the conversation before it."""
        return self._transform(input, conversation_context, num_queries)

    def _transform(self, text: str, context: str, num_queries: int | None) -> list[str]:
        limit = _check_num_queries(self.config.num_queries if num_queries is None else num_queries)
        if not self.config.enabled:
            return [text]
        if self._model is None:
            raise SettingsError("QueryTransformer is not initialized; call initialize(), or give it a provider")
        suppress = self.config.suppress_thinking
        system = f"{_SYSTEM} Answer at once, without reasoning." if suppress else _SYSTEM
        with step("transform") as trace:
            answer = self._model.complete(self._build_prompt(text, context, limit), system=system)
            queries = parse_query_response(strip_thinking(answer) if suppress else answer, text)[:limit]
            trace.out = len(queries)
        return queries

    def _build_prompt(self, text: str, context: str, n: int) -> str:
        domain = self.config.domain_context
        context = context.strip()
        return _PROMPT.format(
            n=n,
            domain=f"The documents are about: {domain}\n" if domain else "",
            context=f"Conversation context, to know what the user refers to:\n{context}\n" if context else "",
            input=text,
        )


def parse_query_response(response: str, fallback: str) -> list[str]:
    """Parse the queries in a model's answer, one per line without markers; the fallback if there is none."""
    return parse_query_lines(response) or [fallback]


def _check_num_queries(num_queries: int) -> int:
    if num_queries < 1:
        raise SettingsError(f"num_queries is {num_queries}; it must be at least 1")
    return num_queries
