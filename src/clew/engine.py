"""The composition root: the one file where reading, storing and finding meet. One method a verb."""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from clew import drivers
from clew.core.errors import DriverMissing, NotFound, SettingsError
from clew.core.protocols import LLM, Embedder, Store
from clew.core.report import Plan, Report, Watcher
from clew.core.settings import DEFAULTS, Settings
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
from clew.drivers.store.embedded import EmbeddedStore, kept_embedder
from clew.index import write
from clew.index.chunk import cutter
from clew.index.read.address import ids_of
from clew.index.write import Desk
from clew.query.assemble import assemble
from clew.query.conversation import messages_of
from clew.query.find import Finder, asked_query
from clew.query.format import RENDERERS
from clew.query.rows import Table
from clew.query.strategies import STRATEGIES, Maker

Hits = list[Hit]  # `list` is a verb below
T = TypeVar("T")
MEMORY = ":memory:"
DEFAULT_EMBEDDER = "bge-small"


class Engine:
    """A collection that is open: add to it, search it, ask it for context.

    `Engine.open(path)` makes one. Calls may come from several threads.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        *,
        llm: LLM | None = None,
        settings: Settings = DEFAULTS,
        strategies: Mapping[str, Maker] = STRATEGIES,
        root: Path | None = None,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._llm = llm
        self._finder = Finder(
            store,
            embedder,
            llm=llm,
            load=drivers.reranker,
            cutter=partial(cutter, count=embedder.count),
            strategies=strategies,
            cache=settings.search.cache,
        )
        self.strategies = self._finder.strategies
        self._settings = settings
        self._root = root or Path.cwd()

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        collection: str = "default",
        embedder: str | Embedder | None = None,
        llm: str | LLM | None = None,
        settings: Settings = DEFAULTS,
        strategies: Mapping[str, Maker] | None = None,
        create: bool = True,
    ) -> Self:
        """An engine over the collection in a folder (":memory:" for one that lasts as long as the engine).

        Without an embedder named here or in the settings, the collection's own is used, bge-small for a new one.
        Without a language model, what could use one does without.
        `create=False` raises NotFound where there is no such collection.
        """
        if "://" in str(path):
            raise DriverMissing(f"{path}: this version keeps collections in folders; give the path of one")
        if not collection or collection.startswith(".") or any(sign in collection for sign in '/\\\0:*?"<>|'):
            raise SettingsError(f"collection {collection!r} must be a plain name: no slashes, no leading dot")
        in_memory = str(path) == MEMORY
        folder = Path(path).resolve() / collection
        kept = None if in_memory else kept_embedder(folder)
        if not in_memory and not create and kept is None:
            raise NotFound(f"there is no collection {collection!r} in {path}; `clew add` makes one")
        if embedder is None or isinstance(embedder, str):
            name = embedder or settings.embedder.name or kept or DEFAULT_EMBEDDER
            embedder = drivers.embedder(replace(settings.embedder, name=name))
        if llm is None or isinstance(llm, str):
            llm = drivers.language_model(replace(settings.llm, name=llm or settings.llm.name))
        place = None if in_memory else folder
        store = EmbeddedStore(place, embedder=embedder.name, dim=embedder.dim, config=settings.store)
        return cls(
            store,
            embedder,
            llm=llm,
            settings=settings,
            strategies={**STRATEGIES, **(strategies or {})},
            root=Path.cwd() if in_memory else folder.parent.parent,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the store."""
        self._store.close()

    # -- the write path

    def add(
        self,
        *sources: str | Path,
        sync: bool = False,
        max_cost: float | None = None,
        settings: Settings | None = None,
        progress: Watcher | None = None,
    ) -> Report:
        """What was added of files, folders and web pages: new and changed ones are read, the unchanged are skipped.

        `sync` also drops what has vanished from the folders. The work stops before it costs more than `max_cost`.
        """
        return write.add_places(self._desk(settings), sources, sync=sync, max_cost=max_cost, watch=progress)

    def add_documents(
        self,
        documents: Iterable[Document],
        *,
        max_cost: float | None = None,
        settings: Settings | None = None,
        progress: Watcher | None = None,
    ) -> Report:
        """What was added of documents that a program made; one without sections is read as markdown."""
        return write.add_documents(self._desk(settings), documents, max_cost=max_cost, watch=progress)

    def plan(self, *sources: str | Path, sync: bool = False, settings: Settings | None = None) -> Plan:
        """What `add` would read, reuse, embed, ask and drop, and what it would cost; nothing is asked or stored."""
        return write.plan_places(self._desk(settings), sources, sync=sync)

    def backfill(self, *, max_cost: float | None = None, progress: Watcher | None = None) -> Report:
        """Which documents without a summary were given one."""
        return write.fill(self._desk(None), max_cost=max_cost, watch=progress)

    def drop(self, *documents: str) -> int:
        """How many documents were removed, each named by its id or address."""
        return self._store.drop([self._resolve(each) for each in documents])

    # -- the read path

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

    def records(self, hits: Sequence[Hit]) -> dict[str, DocumentRecord]:
        """The documents that hits come from, by id."""
        ids = frozenset(hit.chunk.doc_id for hit in hits)
        return {each.id: each for each in self._store.documents(Filter(documents=ids))} if ids else {}

    # -- inside

    def _desk(self, settings: Settings | None) -> Desk:
        return Desk(self._store, self._embedder, self._llm, settings or self._settings, self._root)

    def _resolve(self, document: str) -> str:
        """The id of the document that an id, an address or a path names."""
        for candidate in ids_of(document, self._root):
            if any(True for _ in self._store.documents(Filter(documents=frozenset({candidate})))):
                return candidate
        names = {each.uri or each.id: each.id for each in self._store.documents()}
        if document in names:
            return names[document]
        near = difflib.get_close_matches(document, names, n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(near)}?" if near else "`clew list` shows what there is"
        raise NotFound(f"there is no document {document!r}; {hint}")


def _named(name: str, table: Mapping[str, T], what: str) -> T:
    if name not in table:
        raise NotFound(f"there is no {what} {name!r}; there are {', '.join(table)}")
    return table[name]
