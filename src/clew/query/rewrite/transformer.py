"""QueryTransformer: turns what a user says into short search queries, by a language model."""

from collections.abc import Callable
from dataclasses import dataclass, fields

from clew.core.errors import SettingsError
from clew.core.protocols import LLM
from clew.core.trace import step
from clew.query.rewrite.parse_queries import parse_query_lines, strip_thinking

_SYSTEM = "You turn what a user says into search queries. Answer with the queries only, one a line, without numbers."
_PROMPT = """Write {n} different search queries that together find what is needed to answer the user.
Each has 2 to 6 words: the terms that documents on the subject would use.
{domain}{context}
The user says: {input}"""


@dataclass(frozen=True, slots=True)
class TransformerConfig:
    """Settings of a QueryTransformer.

    llm_provider, llm_model: the model that `make` builds; domain_context: the subject of the documents.
    suppress_thinking: whether to ask for an answer without reasoning, and to drop what is in <think> tags.
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


class QueryTransformer:
    """Turns an input into short search queries by a language model.

    A model that is given (`provider`) is never closed here; one that `initialize` builds (by `make`) is, by `close`.
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
        """Uses this model from now on; closing it is up to the caller."""
        self.close()
        self._given = self._model = provider

    def initialize(self) -> None:
        """Builds the model; does nothing if disabled or ready."""
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
        """Releases the model, and closes it if it was built here."""
        close = getattr(self._built, "close", None)
        self._built = self._model = None
        if callable(close):
            close()

    def transform(self, input: str, num_queries: int | None = None) -> list[str]:  # noqa: A002 - the documented name
        """At most num_queries search queries for the input; the input itself if disabled or none is usable."""
        return self._transform(input, "", num_queries)

    def transform_with_context(
        self,
        input: str,  # noqa: A002 - the documented name
        conversation_context: str,
        num_queries: int | None = None,
    ) -> list[str]:
        """As `transform`, for an input that may refer to the conversation before it."""
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
    """The queries in a model's answer, one per line without markers; the fallback if there is none."""
    return parse_query_lines(response) or [fallback]


def _check_num_queries(num_queries: int) -> int:
    if num_queries < 1:
        raise SettingsError(f"num_queries is {num_queries}; it must be at least 1")
    return num_queries
