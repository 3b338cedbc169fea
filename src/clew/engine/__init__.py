"""The composition root: where reading, storing and finding meet. One method a verb."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from clew import drivers
from clew.core.errors import NotFound, SettingsError
from clew.core.protocols import LLM, Embedder
from clew.core.secret import mask_secrets
from clew.core.settings import DEFAULTS, Settings
from clew.engine.agent import Agentic
from clew.engine.moving import Moving
from clew.engine.writing import Writing
from clew.query.search.strategies import STRATEGIES, StrategyFactory

MEMORY = drivers.MEMORY
DEFAULT_EMBEDDER = "bge-small"


class Engine(Writing, Moving, Agentic):
    """A collection that is open: add to it, search it, ask it for context.

    `Engine.open(path)` makes one. Calls may come from several threads.
    """

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        collection: str = "default",
        embedder: str | Embedder | None = None,
        llm: str | LLM | None = None,
        settings: Settings = DEFAULTS,
        strategies: Mapping[str, StrategyFactory] | None = None,
        create: bool = True,
    ) -> Self:
        """An engine over a collection: in a folder, on a server ("postgresql://…"), or in memory (":memory:").

        Without an embedder named here or in the settings, the collection's own is used, bge-small for a new one.
        Without a language model, what could use one does without.
        `create=False` raises NotFound where there is no such collection.
        """
        if not collection or collection.startswith(".") or any(sign in collection for sign in '/\\\0:*?"<>|'):
            raise SettingsError(f"collection {collection!r} must be a plain name: no slashes, no leading dot")
        kept = drivers.kept_embedder(path, collection)
        if not create and kept is None and str(path) != MEMORY:
            raise NotFound(f"there is no collection {collection!r} in {mask_secrets(str(path))}; `clew add` makes one")
        if embedder is None or isinstance(embedder, str):
            name = embedder or settings.embedder.name or kept or DEFAULT_EMBEDDER
            embedder = drivers.embedder(replace(settings.embedder, name=name))
        if llm is None or isinstance(llm, str):
            llm = drivers.language_model(replace(settings.llm, name=llm or settings.llm.name))
        return cls(
            drivers.open_store(path, collection, embedder=embedder, config=settings.store),
            embedder,
            llm=llm,
            settings=settings,
            strategies={**STRATEGIES, **(strategies or {})},
            root=drivers.root(path),
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
