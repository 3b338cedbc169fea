"""The composition root: the one file where reading, storing and finding meet. One method a verb."""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from clew import drivers
from clew.core.errors import DriverMissing, NotFound, SettingsError, SourceError
from clew.core.ids import digest, document_id
from clew.core.protocols import Embedder, Store, Strategy
from clew.core.report import Report, Watcher
from clew.core.settings import DEFAULTS, Settings
from clew.core.text import estimate_tokens
from clew.core.trace import record, step
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
    Query,
)
from clew.drivers.store.embedded import EmbeddedStore, kept_embedder
from clew.drivers.store.memory import MemoryStore
from clew.index import pipeline
from clew.index.chunk import chunker
from clew.index.read import read
from clew.index.read.files import find
from clew.index.read.given import prepared
from clew.index.read.source import stamp
from clew.query.budget import fit
from clew.query.dedupe import by_chunk
from clew.query.format import RENDERERS
from clew.query.merge import merge
from clew.query.strategies import STRATEGIES, Drivers, Maker

Hits = list[Hit]  # `list` is a verb below
T = TypeVar("T")
MEMORY = ":memory:"
DEFAULT_EMBEDDER = "bge-small"
READING = "1"  # changed when the same file would now be read or cut differently, so that the next add does it again


class Engine:
    """A collection that is open: add to it, search it, ask it for context.

    `Engine.open(path)` makes one. Calls may come from several threads.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        *,
        settings: Settings = DEFAULTS,
        strategies: Mapping[str, Maker] = STRATEGIES,
        root: Path | None = None,
    ) -> None:
        self.strategies = dict(strategies)
        self._store = store
        self._embedder = embedder
        self._settings = settings
        self._root = root or Path.cwd()

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        collection: str = "default",
        embedder: str | Embedder | None = None,
        settings: Settings = DEFAULTS,
        strategies: Mapping[str, Maker] | None = None,
        create: bool = True,
    ) -> Self:
        """An engine over the collection in a folder (":memory:" for one that lasts as long as the engine).

        Without an embedder named here or in the settings, the collection's own is used, bge-small for a new one.
        `create=False` raises NotFound where there is no such collection.
        """
        if "://" in str(path):
            raise DriverMissing(f"{path}: this version keeps collections in folders; give the path of one")
        if not collection or collection.startswith(".") or any(sign in collection for sign in '/\\\0:*?"<>|'):
            raise SettingsError(f"collection {collection!r} must be a plain name: no slashes, no leading dot")
        in_memory = str(path) == MEMORY
        folder = Path(path).absolute() / collection
        kept = None if in_memory else kept_embedder(folder)
        if not in_memory and not create and kept is None:
            raise NotFound(f"there is no collection {collection!r} in {path}; `clew add` makes one")
        if embedder is None or isinstance(embedder, str):
            name = embedder or settings.embedder.name or kept or DEFAULT_EMBEDDER
            embedder = drivers.embedder(replace(settings.embedder, name=name))
        store: Store = (
            MemoryStore(embedder=embedder.name, dim=embedder.dim)
            if in_memory
            else EmbeddedStore(folder, embedder=embedder.name, dim=embedder.dim, config=settings.store)
        )
        return cls(
            store,
            embedder,
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

    def add(self, *sources: str | Path, settings: Settings | None = None, progress: Watcher | None = None) -> Report:
        """What was added of files and folders: new and changed documents are read, the unchanged are skipped."""
        paths = [Path(source) for source in sources]
        total = sum(1 for _ in find(paths)) if progress else None
        found = (self._source(path, settings) for path in find(paths))
        return self._add(found, total=total, settings=settings, progress=progress)

    def add_documents(
        self, documents: Iterable[Document], *, settings: Settings | None = None, progress: Watcher | None = None
    ) -> Report:
        """What was added of documents that a program made; one without sections is read as markdown."""
        sources = (pipeline.Source(each.id, each.uri or each.id, partial(prepared, each)) for each in documents)
        return self._add(sources, total=None, settings=settings, progress=progress)

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
        text: str,
        *,
        k: int | None = None,
        strategy: str | None = None,
        where: Filter = EVERYTHING,
        history: Sequence[Message] = (),
        settings: Settings | None = None,
    ) -> Hits:
        """The k best chunks for a question, best first."""
        settings = settings or self._settings
        query = _query(text, settings.search.k if k is None else k, where, history, settings)
        name = strategy or settings.search.strategy
        with step("search") as trace:
            hits = by_chunk(self._strategy(name, settings)(query))[: query.k]
            trace.out = len(hits)
            trace.notes["strategy"] = name
        return hits

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
        records = self.records(hits)
        with step("merge") as trace:
            passages = merge(hits, records, self._store.document)
            trace.out = len(passages)
        with step("budget") as trace:
            kept, dropped = fit(passages, tokens=budget, render=form, count=estimate_tokens)
            trace.out = len(kept)
        shown = form(kept)
        held = dict.fromkeys(hit.chunk.doc_id for passage in kept for hit in passage.chunks)
        return Context(
            query=_query(text, k, where, history, settings),
            passages=tuple(kept),
            text=shown,
            tokens=estimate_tokens(shown),
            documents=tuple(records[doc_id] for doc_id in held),
            dropped=tuple(dropped),
            reason="" if kept else self._why_empty(hits, budget),
        )

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
            query=_query(text, k, where, history, settings),
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

    def _add(
        self,
        sources: Iterable[pipeline.Source | SourceError],
        *,
        total: int | None,
        settings: Settings | None,
        progress: Watcher | None,
    ) -> Report:
        config = (settings or self._settings).ingestion
        recipe = pipeline.Recipe(
            chunker=chunker(config, self._embedder.count),
            embedder=self._embedder,
            language=config.language,
            key=digest(READING, self._embedder.name, repr(config)),
        )
        try:
            return pipeline.add(sources, store=self._store, recipe=recipe, total=total, watch=progress)
        finally:
            self._store.flush()

    def _source(self, path: Path | SourceError, settings: Settings | None) -> pipeline.Source | SourceError:
        if isinstance(path, SourceError):
            return path
        uri = self._uri(path)
        if not uri.isprintable() and any("\ud800" <= sign <= "\udfff" for sign in uri):
            return SourceError(ascii(uri), "has a name that is not Unicode; rename it")
        limit = (settings or self._settings).ingestion.max_file_bytes
        return pipeline.Source(document_id(uri), uri, lambda: read(path, uri=uri, max_bytes=limit), stamp(path))

    def _uri(self, path: Path) -> str:
        """The address of a file: from the folder that holds the collection where it lies below, else the whole path."""
        whole = path.absolute().resolve()
        return (whole.relative_to(self._root) if whole.is_relative_to(self._root) else whole).as_posix()

    def _resolve(self, document: str) -> str:
        """The id of the document that an id, an address or a path names."""
        for candidate in (document, document_id(document), document_id(self._uri(Path(document)))):
            if any(True for _ in self._store.documents(Filter(documents=frozenset({candidate})))):
                return candidate
        names = {each.uri or each.id: each.id for each in self._store.documents()}
        if document in names:
            return names[document]
        near = difflib.get_close_matches(document, names, n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(near)}?" if near else "`clew list` shows what there is"
        raise NotFound(f"there is no document {document!r}; {hint}")

    def _strategy(self, name: str, settings: Settings) -> Strategy:
        return _named(name, self.strategies, "strategy")(Drivers(self._store, self._embedder, settings))

    def _why_empty(self, hits: Sequence[Hit], budget: int) -> str:
        if hits:
            return f"nothing of what was found fits in {budget} tokens"
        return "nothing in the collection matches" if self._store.facts().chunks else "the collection is empty"


def _query(text: str, k: int, where: Filter, history: Sequence[Message], settings: Settings) -> Query:
    if not text.strip():
        raise SettingsError("the query is empty; ask something")
    if k < 1:
        raise SettingsError(f"k is {k}; it must be at least 1")
    return Query(text, k=k, depth=max(settings.search.depth, k), history=tuple(history), where=where)


def _named(name: str, table: Mapping[str, T], what: str) -> T:
    if name not in table:
        raise NotFound(f"there is no {what} {name!r}; there are {', '.join(table)}")
    return table[name]
