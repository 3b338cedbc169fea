"""The verbs that ask a collection."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeVar, overload

from clew import drivers
from clew.core.errors import NotFound, SettingsError
from clew.core.outcome import Outcome, Record, Success
from clew.core.settings import Settings
from clew.core.text import estimate_tokens
from clew.core.types import (
    EVERYTHING,
    Context,
    Document,
    DocumentRecord,
    Filter,
    Hit,
    Message,
    Query,
    StoreStats,
)
from clew.engine.held import Held
from clew.query.context.assemble import assemble
from clew.query.context.budget import Count
from clew.query.context.cite import citations
from clew.query.context.format import RENDERERS
from clew.query.context.format.renderers import document_of
from clew.query.messages import rag_outcome as posts
from clew.query.search.conversation import messages_of
from clew.query.search.find import build_query
from clew.query.search.tables import Table

Hits = list[Hit]  # `list` is a verb below
T = TypeVar("T")


class Reading(Held):
    """Listing, reading, searching, and making a context of what was found."""

    def list(self, where: Filter = EVERYTHING) -> Iterator[DocumentRecord]:
        """The records of the documents there are, by address."""
        return self._store.documents(where)

    def read(self, document: str) -> Document:
        """The whole document of an id or address."""
        return self._store.document(self._resolve(document))

    def search(
        self,
        asked: str | Table,
        *,
        k: int | None = None,
        strategy: str | None = None,
        where: Filter = EVERYTHING,
        history: Sequence[Message] = (),
        settings: Settings | None = None,
    ) -> Hits:
        """The k best chunks for a question, best first.

        What is asked may be a whole conversation: an Arrow table, rows or messages; then each of its topics asks.
        """
        settings = settings or self._settings
        query = self._query(asked, settings.search.k if k is None else k, where, history, settings)
        return self._finder.find(query, strategy or self._strategy(asked, settings), settings)

    def search_many(
        self,
        texts: Sequence[str],
        *,
        k: int | None = None,
        strategy: str | None = None,
        where: Filter = EVERYTHING,
        settings: Settings | None = None,
    ) -> "Sequence[Hits]":
        """The k best chunks for each of several questions, embedded in one call and searched at once."""
        settings = settings or self._settings
        asked = [build_query(text, settings.search.k if k is None else k, where, (), settings) for text in texts]
        return self._finder.find_many(asked, strategy or settings.search.strategy, settings)

    def context(
        self,
        asked: str | Table,
        *,
        tokens: int | None = None,
        k: int | None = None,
        strategy: str | None = None,
        where: Filter = EVERYTHING,
        history: Sequence[Message] = (),
        render: str | None = None,
        session: str | None = None,
        settings: Settings | None = None,
    ) -> Context:
        """What a prompt should hold to answer a question or a whole conversation, within a budget of tokens.

        Within a `session` a document keeps the number that it was first shown with.
        """
        settings = settings or self._settings
        budget = settings.context.tokens if tokens is None else tokens
        if not budget >= 1 or budget % 1:  # neither is 2.5
            raise SettingsError(f"tokens is {budget}; it must be at least 1, and a whole number")
        form = _named(render or settings.context.render, RENDERERS, "renderer")
        query = self._query(asked, settings.context.k if k is None else k, where, history, settings)
        hits = self._finder.find(query, strategy or self._strategy(asked, settings), settings)
        records = self.records(hits)
        with self.sessions.numbered(session) as numbers:
            context = assemble(
                query,
                hits,
                records,
                read=self._store.document,
                chunks=self._store.chunks,
                tokens=budget,
                render=form,
                settings=settings,
                count=self._count(settings.context.tokenizer),
                numbers=numbers.known,
            )
            context = replace(
                context,
                citations=citations(context.passages, records),
                numbers=numbers.taken(dict.fromkeys(document_of(passage) for passage in context.passages)),
            )
        if not hits and not self._store.stats().chunks:
            return replace(context, reason="the collection is empty")
        return context

    def message_with_context(
        self, message: str, *, rag_query: str | None = None, k: int = 10, settings: Settings | None = None
    ) -> str:
        """A user's message with what the collection knows before it; where that is nothing, the message alone."""
        settings = settings or self._settings
        if settings.context.wrap == "none":
            settings = replace(settings, context=replace(settings.context, wrap="xml"))
        found = self.context(rag_query or message, k=k, settings=settings)
        return f"{found.text}\n\nUser: {message}" if found.passages else message

    @overload
    def query_rag_for_context(
        self,
        table: Table,
        *,
        k: int | None = None,
        where: Filter = EVERYTHING,
        return_records: Literal[False] = False,
        settings: Settings | None = None,
    ) -> Outcome: ...

    @overload
    def query_rag_for_context(
        self,
        table: Table,
        *,
        k: int | None = None,
        where: Filter = EVERYTHING,
        return_records: Literal[True],
        settings: Settings | None = None,
    ) -> "tuple[str, Sequence[Record]]": ...

    def query_rag_for_context(
        self,
        table: Table,
        *,
        k: int | None = None,
        where: Filter = EVERYTHING,
        return_records: bool = False,
        settings: Settings | None = None,
    ) -> "Outcome | tuple[str, Sequence[Record]]":
        """The posts that a conversation is about: Success with text and records, or Failure: `no_hits`, `rag_error`.

        It never raises; what failed is in the log. Each topic asks for itself, however few messages there are.
        `return_records` gives the text and the records alone, which are empty for both kinds of failure.
        """
        given = settings or self._settings
        by_topic = replace(given, conversation=replace(given.conversation, single_below=0))
        outcome = posts.query_rag_for_context(
            table,
            search=lambda messages: self.search(messages, k=k, where=where, settings=by_topic),
            records=self.records,
        )
        if not return_records:
            return outcome
        return (outcome.value.text, [*outcome.value.records]) if isinstance(outcome, Success) else ("", [])

    def status(self) -> StoreStats:
        """How much there is, what embedded it, and the number of its last change."""
        return self._store.stats()

    # -- inside

    def _query(
        self, asked: str | Table, k: int, where: Filter, history: Sequence[Message], settings: Settings
    ) -> Query:
        """The query that a question makes, or a conversation, which is then its history."""
        if isinstance(asked, str):
            return build_query(asked, k, where, history, settings)
        return replace(build_query("-", k, where, messages_of(asked), settings), text="")

    def _strategy(self, asked: str | Table, settings: Settings) -> str:
        return settings.search.strategy if isinstance(asked, str) else "chunked"

    def _count(self, tokenizer: str) -> Count:
        """How the tokens of a prompt are counted."""
        return drivers.token_counter(tokenizer) if tokenizer else estimate_tokens


def _named(name: str, table: Mapping[str, T], what: str) -> T:
    if name not in table:
        raise NotFound(f"there is no {what} {name!r}; there are {', '.join(table)}")
    return table[name]
