"""A question before the search: as several short queries, in other words, with what the conversation was about.

`variations` and `with_history` are Rewrites for `compose.fanned`; `history_aware` changes a query and asks it once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from clew.core.errors import SettingsError
from clew.core.protocols import LLM, Rewrite, Strategy
from clew.core.trace import step
from clew.core.types import Query
from clew.query.rewrite.expand import ContextualExpander, is_ambiguous_query
from clew.query.rewrite.parse_queries import query_lines, without_thinking
from clew.query.rewrite.variations import expand_query_variations

__all__ = [
    "ContextualExpander",
    "QueryTransformer",
    "TransformerConfig",
    "create_transformer",
    "expand_query_variations",
    "history_aware",
    "is_ambiguous_query",
    "parse_query_response",
    "variations",
    "with_history",
]

FEEDBACK = 10  # hits of a first search whose words may widen the question
# Measured on MTRAG: three keywords, weighed by what the answers took up, lead astray less often than five.
HISTORY = ContextualExpander(include_assistant=True, max_keywords=3)

_SYSTEM = "You turn what a user says into search queries. Answer with the queries only, one a line, without numbers."
_PROMPT = """Write {n} different search queries that together find what is needed to answer the user.
Each has 2 to 6 words: the terms that documents on the subject would use.
{domain}{context}
The user says: {input}"""


@dataclass(frozen=True, slots=True)
class TransformerConfig:
    """How to turn an input into search queries.

    llm_provider, llm_model: the model that `make` is asked for; domain_context: what the documents are about.
    suppress_thinking: whether to ask for an answer without reasoning, and to drop what stands in <think> tags.
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
        _at_least_one(self.num_queries)


Make = Callable[[TransformerConfig], LLM]


class QueryTransformer:
    """Turns an input into short search queries by a language model.

    The model is given (`provider`) and then never closed here, or made by `initialize` (`make`) and closed by `close`.
    """

    def __init__(
        self, config: TransformerConfig | None = None, provider: LLM | None = None, *, make: Make | None = None
    ) -> None:
        self.config = config or TransformerConfig()
        self._given = provider
        self._make = make
        self._made: LLM | None = None
        self._model = provider

    def set_provider(self, provider: LLM) -> None:
        """Uses this model from now on; it stays the caller's to close."""
        self.close()
        self._given = self._model = provider

    def initialize(self) -> None:
        """Makes the model ready; nothing to do if disabled or ready."""
        if not self.config.enabled or self._model is not None:
            return
        if self._given is None and self._make is None:
            raise SettingsError("QueryTransformer has no model; give provider=, or make= that makes one of the config")
        if self._given is None and self._make is not None:
            self._made = self._make(self.config)
        self._model = self._given or self._made

    def close(self) -> None:
        """Lets go of the model, and closes it if it was made here."""
        close = getattr(self._made, "close", None)
        self._made = self._model = None
        if callable(close):
            close()

    def transform(self, input: str, num_queries: int | None = None) -> list[str]:  # noqa: A002 - the documented name
        """At most num_queries search queries for the input; the input itself if disabled or none is usable."""
        return self._ask(input, "", num_queries)

    def transform_with_context(
        self,
        input: str,  # noqa: A002 - the documented name
        conversation_context: str,
        num_queries: int | None = None,
    ) -> list[str]:
        """As `transform`, for an input that may lean on what was said before it."""
        return self._ask(input, conversation_context, num_queries)

    def _ask(self, text: str, context: str, num_queries: int | None) -> list[str]:
        most = _at_least_one(self.config.num_queries if num_queries is None else num_queries)
        if not self.config.enabled:
            return [text]
        if self._model is None:
            raise SettingsError("QueryTransformer is not initialized; call initialize(), or give it a provider")
        quiet = self.config.suppress_thinking
        system = f"{_SYSTEM} Answer at once, without reasoning." if quiet else _SYSTEM
        with step("transform") as trace:
            answer = self._model.complete(self._prompt(text, context, most), system=system)
            queries = parse_query_response(without_thinking(answer) if quiet else answer, text)[:most]
            trace.out = len(queries)
        return queries

    def _prompt(self, text: str, context: str, n: int) -> str:
        domain = self.config.domain_context
        before = (
            f"Conversation context, to know what the user refers to:\n{context.strip()}\n" if context.strip() else ""
        )
        return _PROMPT.format(
            n=n, domain=f"The documents are about: {domain}\n" if domain else "", context=before, input=text
        )


def create_transformer(
    config: Mapping[str, Any], *, provider: LLM | None = None, make: Make | None = None
) -> QueryTransformer:
    """A transformer by the settings of a plain dict; a name that is no setting is refused."""
    known = [field.name for field in fields(TransformerConfig)]
    unknown = [str(name) for name in config if name not in known]
    if unknown:
        raise SettingsError(f"{', '.join(unknown)}: no such setting of a transformer; there are {', '.join(known)}")
    return QueryTransformer(TransformerConfig(**config), provider, make=make)


def parse_query_response(response: str, fallback: str) -> list[str]:
    """The queries in a model's answer, one a line and bare; the fallback if there is none."""
    return query_lines(response) or [fallback]


def variations(llm: LLM | None = None, *, n: int = 3, feedback: Strategy | None = None) -> Rewrite:
    """A Rewrite: the query, then up to n variations of it, as `expand_query_variations` makes them.

    Without a model, the first hits of `feedback` lend their telling words.
    """

    def rewrite(query: Query) -> list[Query]:
        texts: list[str] = []
        if llm is None and feedback is not None and n:
            with step("feedback") as trace:
                texts = [hit.chunk.text for hit in feedback(replace(query, k=FEEDBACK, depth=FEEDBACK))[:FEEDBACK]]
                trace.out = len(texts)
        _, *others = expand_query_variations(query.text, llm, n=n, feedback=texts)
        return [query, *(replace(query, text=text, vector=None) for text in others)]

    return rewrite


def history_aware(expander: ContextualExpander = HISTORY) -> Callable[[Query], Query]:
    """A function that gives an ambiguous query the keywords of its history, and leaves any other as it is."""

    def rewrite(query: Query) -> Query:
        return _expanded(query, expander) if is_ambiguous_query(query.text) else query

    return rewrite


def with_history(expander: ContextualExpander = HISTORY) -> Rewrite:
    """A Rewrite: the query and, if its history says more, the query with the keywords of its history.

    For `fanned(with_history(), strategy, by=rrf())`: what both find comes first, so keywords that lead astray cost
    little and every query may be expanded, not only one that looks ambiguous.
    """

    def rewrite(query: Query) -> list[Query]:
        expanded = _expanded(query, expander)
        return [query] if expanded is query else [query, expanded]

    return rewrite


def _expanded(query: Query, expander: ContextualExpander) -> Query:
    """The query with the keywords of its history; the same object if there are none."""
    with step("expand") as trace:
        text = expander.expand(query.text, query.history)
        trace.notes["query"] = text
    return query if text == query.text else replace(query, text=text, vector=None)


def _at_least_one(num_queries: int) -> int:
    if num_queries < 1:
        raise SettingsError(f"num_queries is {num_queries}; it must be at least 1")
    return num_queries
