"""What every verb works with, and how a document is found by what it is called."""

import difflib
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from clew import drivers
from clew.core.errors import NotFound
from clew.core.protocols import LLM, Embedder, Store
from clew.core.settings import DEFAULTS, Settings
from clew.core.types import DocumentRecord, Filter, Hit
from clew.index.chunk import cutter
from clew.index.read.address import ids_of
from clew.query.context.session import Sessions
from clew.query.search.find import Finder
from clew.query.search.strategies import STRATEGIES, StrategyFactory


class Held:
    """An open collection with its drivers and settings."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        *,
        llm: LLM | None = None,
        settings: Settings = DEFAULTS,
        strategies: Mapping[str, StrategyFactory] = STRATEGIES,
        root: Path | None = None,
    ) -> None:
        self._llm = llm
        self._settings = settings
        self._use(store, embedder, strategies)
        self.sessions = Sessions(
            most=settings.session.most, documents=settings.session.documents, idle=settings.session.idle
        )
        self._root = root or Path.cwd()
        self._talking = threading.Lock()  # messages are added by one at a time, or two would end one thread

    def _use(self, store: Store, embedder: Embedder, strategies: Mapping[str, StrategyFactory]) -> None:
        """Works with a store and its embedder from now on."""
        self._store = store
        self._embedder = embedder
        self._finder = Finder(
            store,
            embedder,
            llm=self._llm,
            load=drivers.reranker,
            cutter=partial(cutter, count=embedder.count),
            strategies=strategies,
            cache=self._settings.search.cache,
        )
        self.strategies = self._finder.strategies

    def records(self, hits: Sequence[Hit]) -> dict[str, DocumentRecord]:
        """The documents that hits come from, by id."""
        ids = frozenset(hit.chunk.doc_id for hit in hits)
        return {each.id: each for each in self._store.documents(Filter(documents=ids))} if ids else {}

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
