"""The verbs that ask a collection."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from clew.core.errors import NotFound, SettingsError
from clew.core.settings import Settings
from clew.core.trace import record
from clew.core.types import (
    EVERYTHING,
    Context,
    Document,
    DocumentRecord,
    Explanation,
    Facts,
    Filter,
    Hit,
    Message,
)
from clew.engine.held import Held
from clew.query.assemble import assemble
from clew.query.conversation import messages_of
from clew.query.find import asked_query
from clew.query.format import RENDERERS
from clew.query.rows import Table

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
        k = settings.search.k if k is None else k
        if isinstance(asked, str):
            query = asked_query(asked, k, where, history, settings)
            return self._finder.find(query, strategy or settings.search.strategy, settings)
        query = replace(asked_query("-", k, where, messages_of(asked), settings), text="")
        return self._finder.find(query, strategy or "chunked", settings)

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
        asked = [asked_query(text, settings.search.k if k is None else k, where, (), settings) for text in texts]
        return self._finder.find_many(asked, strategy or settings.search.strategy, settings)

    def context(
        self,
        text: str,
        *,
        tokens: int | None = None,
        k: int | None = None,
        strategy: str | None = None,
        where: Filter = EVERYTHING,
        history: Sequence[Message] = (),
        render: str | None = None,
        settings: Settings | None = None,
    ) -> Context:
        """What a prompt should hold to answer a question, within a budget of tokens."""
        settings = settings or self._settings
        budget = settings.context.tokens if tokens is None else tokens
        if budget < 1:
            raise SettingsError(f"tokens is {budget}; it must be at least 1")
        form = _named(render or settings.context.render, RENDERERS, "renderer")
        k = settings.context.k if k is None else k
        hits = self.search(text, k=k, strategy=strategy, where=where, history=history, settings=settings)
        query = asked_query(text, k, where, history, settings)
        context = assemble(query, hits, self.records(hits), read=self._store.document, tokens=budget, render=form)
        if not hits and not self._store.facts().chunks:
            return replace(context, reason="the collection is empty")
        return context

    def explain(
        self,
        text: str,
        *,
        k: int | None = None,
        strategy: str | None = None,
        where: Filter = EVERYTHING,
        history: Sequence[Message] = (),
        settings: Settings | None = None,
    ) -> Explanation:
        """How a search came to its hits: its stages with counts and times, and every score of each hit."""
        settings = settings or self._settings
        with record("explain") as trace:
            hits = self.search(text, k=k, strategy=strategy, where=where, history=history, settings=settings)
        k = settings.search.k if k is None else k
        return Explanation(
            query=asked_query(text, k, where, history, settings),
            strategy=strategy or settings.search.strategy,
            hits=tuple(hits),
            documents=tuple(self.records(hits).values()),
            trace=trace,
        )

    def status(self) -> Facts:
        """How much there is, what embedded it, and the number of its last change."""
        return self._store.facts()


def _named(name: str, table: Mapping[str, T], what: str) -> T:
    if name not in table:
        raise NotFound(f"there is no {what} {name!r}; there are {', '.join(table)}")
    return table[name]
