"""The verbs that say why: how hits came about, what became of the rest, and whether past citations still stand."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from clew.core.cite import Citation, CitationCheck
from clew.core.errors import ClewError, NotFound, SourceError
from clew.core.settings import Settings
from clew.core.thread import first_chunk
from clew.core.trace import record
from clew.core.types import EVERYTHING, Chunk, Document, Explanation, Filter, Hit, Message
from clew.core.why import WhyNot
from clew.engine.reading import Reading
from clew.index.read import read
from clew.index.read.address import uri_of
from clew.query import why
from clew.query.context import cite
from clew.query.context.format import RENDERERS
from clew.query.search.find import build_query
from clew.query.search.tables import Table
from clew.query.why import Attempt


class Explaining(Reading):
    """Explaining a search, asking why not, and checking citations."""

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
            query=build_query(text, k, where, history, settings),
            strategy=strategy or settings.search.strategy,
            hits=tuple(hits),
            documents=tuple(self.records(hits).values()),
            trace=trace,
        )

    def why_not(
        self,
        asked: str | Table,
        target: str,
        *,
        k: int | None = None,
        tokens: int | None = None,
        strategy: str | None = None,
        where: Filter = EVERYTHING,
        history: Sequence[Message] = (),
        settings: Settings | None = None,
    ) -> WhyNot:
        """Which stage lost a document, chunk or message that a search did not find, and what brings it back.

        With `tokens` it is asked of the context of so many tokens, else of the hits of the search. The suggested
        setting was tried; nothing that the collection holds is changed.
        """
        given = settings or self._settings
        search = replace(given.search, cache=0, k=given.search.k if k is None else k)
        context = given.context if k is None else replace(given.context, k=k)
        if tokens is not None:
            context = replace(context, tokens=tokens)
        base = replace(given, search=search, context=context)
        question = asked if isinstance(asked, str) else "the conversation"

        def run(tried: Settings, wider: Filter) -> Attempt:
            name = strategy if tried.search.strategy == base.search.strategy else None  # a fix may name another
            with record("why_not", keep=True) as trace:
                if tokens is None:
                    return Attempt(
                        self.search(asked, strategy=name, where=wider, history=history, settings=tried), trace
                    )
                found = self.context(asked, strategy=name, where=wider, history=history, settings=tried)
            step = trace.find("search")
            hits = [hit for hit in (step.output or ()) if isinstance(hit, Hit)] if step else []
            return Attempt(hits, trace, found, RENDERERS[tried.context.render].shows)

        try:
            document, chunks = self._target(target)
        except NotFound as error:
            return self._never_added(question, target, str(error))
        return why.why_not(question, target, document=document, chunks=chunks, run=run, settings=base, where=where)

    def check(self, citations: Iterable[Citation]) -> list[CitationCheck]:
        """How each citation of a past answer stands against the documents as they are now."""
        return [*cite.check(citations, self._store.document)]

    def _target(self, name: str) -> tuple[Document, list[Chunk]]:
        """The document that is called so with its chunks, or the one chunk or message with the document around it."""
        try:
            doc_id = self._resolve(name)
        except NotFound:
            found = self._store.chunks_by_id([name, first_chunk(name)])
            if not found:
                raise
            chunk = next(iter(found.values()))
            document = self._store.document(chunk.doc_id)
            if name in found:
                return document, [chunk]
            return document, [each for each in self._store.chunks(chunk.doc_id) if each.meta.get("message") == name]
        return self._store.document(doc_id), self._store.chunks(doc_id)

    def _never_added(self, question: str, target: str, missing: str) -> WhyNot:
        """A file that was never added, or one that cannot be read; else a name that stands for nothing."""
        for path in (Path(target), self._root / target):
            if path.is_file():
                uri = uri_of(path, self._root)
                try:
                    read(path, uri=uri, max_bytes=self._settings.ingestion.max_file_bytes)
                except SourceError as error:
                    return WhyNot(question, target, "parse", f"the file cannot be read: {error.reason}")
                except ClewError as error:
                    return WhyNot(question, target, "parse", f"the file cannot be read: {error}")
                return WhyNot(question, target, "not ingested", f"the file was never added; `clew add {target}` does")
        return WhyNot(question, target, "not ingested", missing)
