"""The composition root: `Engine` joins reading, storing and finding. Each verb is a function in a module beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from clew import drivers
from clew.core.errors import NotFound, SettingsError
from clew.core.filter import Filter
from clew.core.protocols import LLM, Chunker, Embedder, Enricher, Reader, Reranker
from clew.core.secret import mask_secrets
from clew.core.settings import DEFAULTS, Settings
from clew.engine import collections as _collections
from clew.engine.lazy import LazyModule
from clew.engine.opened import Extensions, Opened, make_finder
from clew.engine.tuned import apply_tuned_settings
from clew.engine.validate import check_callable, check_embedder, check_function_table, check_implements
from clew.query.context.format.renderers import RENDERERS, Render, Renderer
from clew.query.context.session import Sessions
from clew.query.search.strategies import StrategyFactory

if TYPE_CHECKING:
    from clew.drivers.store.base import BaseBackend
    from clew.engine import add as _add
    from clew.engine import agent as _agent
    from clew.engine import answer as _answer
    from clew.engine import conversations as _conversations
    from clew.engine import distributed as _distributed
    from clew.engine import doctor as _doctor
    from clew.engine import erase as _erase
    from clew.engine import explain as _explain
    from clew.engine import feedback as _feedback
    from clew.engine import jobs as _jobs
    from clew.engine import names as _names
    from clew.engine import search as _search
    from clew.engine import sessions as _sessions
    from clew.engine import transfer as _transfer
else:
    _add = LazyModule("clew.engine.add")
    _agent = LazyModule("clew.engine.agent")
    _answer = LazyModule("clew.engine.answer")
    _conversations = LazyModule("clew.engine.conversations")
    _distributed = LazyModule("clew.engine.distributed")
    _doctor = LazyModule("clew.engine.doctor")
    _erase = LazyModule("clew.engine.erase")
    _explain = LazyModule("clew.engine.explain")
    _feedback = LazyModule("clew.engine.feedback")
    _jobs = LazyModule("clew.engine.jobs")
    _names = LazyModule("clew.engine.names")
    _search = LazyModule("clew.engine.search")
    _sessions = LazyModule("clew.engine.sessions")
    _transfer = LazyModule("clew.engine.transfer")

MEMORY = drivers.MEMORY
DEFAULT_EMBEDDER = "bge-small"


class Engine:
    """An open collection: add to it, search it, ask it. `Engine.open(path)` makes one; threads may share it.

    `opened` is the frozen value of what is open; the verbs below are functions over it.
    """

    def __init__(self, opened: Opened, *, whole: "Engine | None" = None) -> None:
        if not isinstance(opened, Opened):
            raise SettingsError("open a collection with Engine.open(path)")
        self.opened = opened
        self.whole = whole  # of which this one sees a part

    @classmethod
    def open(
        cls,
        path: str | Path | None = None,
        *,
        backend: "BaseBackend | None" = None,
        collection: str = "default",
        embedder: str | Embedder | None = None,
        llm: str | LLM | None = None,
        reranker: str | Reranker | None = None,
        chunker: Chunker | None = None,
        enrichers: Sequence[Enricher] = (),
        readers: Mapping[str, Reader] | None = None,
        renderers: Mapping[str, Render] | None = None,
        strategies: Mapping[str, StrategyFactory] | None = None,
        settings: Settings | None = None,
        create: bool = True,
    ) -> Self:
        """Opens a collection: in a folder, on a server ("postgresql://…"), in object storage ("s3://…"), or in memory.

        Drivers are given by name or as objects. Without an embedder here or in the settings the collection's own is
        used, bge-small for a new one. A language model is optional. `create=False` raises NotFound where there is no
        such collection. Settings that `tune` kept hold where those given are at their default. With
        `settings.store.access` it is an engine within these labels, as by `within`; on a server row-level security
        shows it nothing else. In memory it is ":memory:", Lance datasets in a folder are "lance:///folder", and
        `backend` is a store of your own in place of a path.
        """
        path = _check_place(path, backend, collection, settings)
        if settings is not None and not isinstance(settings, Settings):
            raise SettingsError(f"settings has the type {type(settings).__name__}; give a clew.Settings")
        settings = settings or DEFAULTS
        _collections.check_collection_name(collection)
        extensions = _build_checked_extensions(reranker, chunker, enrichers, readers, renderers, strategies)
        if isinstance(reranker, str):
            settings = replace(settings, reranker=replace(settings.reranker, name=reranker))
        stored = backend.read_embedder() if backend else drivers.read_stored_embedder_name(path, collection)
        access = settings.store.access
        if (not create or access is not None) and stored is None and (backend or str(path) != MEMORY):
            place = backend.place if backend else mask_secrets(str(path))
            raise NotFound(f"there is no collection {collection!r} in {place}; `clew add` makes one")
        embedder_config = None
        if embedder is None or isinstance(embedder, str):
            name = drivers.pin_embedder_name(embedder or settings.embedder.name, stored) or DEFAULT_EMBEDDER
            embedder_config = replace(settings.embedder, name=name)
            embedder = drivers.make_embedder(embedder_config)
        llm_config = None
        if llm is None or isinstance(llm, str):
            llm_config = replace(settings.llm, name=llm or settings.llm.name)
            llm = drivers.make_language_model(llm_config)
        check_embedder(embedder)
        embedder = drivers.round_vectors(embedder, settings.store)
        if llm is not None:
            check_implements(llm, LLM, "language model")
        folder = drivers.find_collection_folder(path, collection)
        if backend:
            store = drivers.open_backend(backend, embedder)
        else:
            store = drivers.open_store(path, collection, embedder=embedder, config=settings.store)
        try:
            settings = apply_tuned_settings(settings, store.records, embedder.name)
        except BaseException:
            store.close()
            raise
        session = settings.session
        opened = Opened(
            store=store,
            embedder=embedder,
            llm=llm,
            settings=settings,
            root=drivers.find_source_root(path),
            folder=folder,
            finder=make_finder(store, embedder, llm, settings, extensions),
            sessions=Sessions(
                store.sessions,
                max_sessions=session.max_sessions,
                max_documents=session.max_documents,
                max_idle=session.idle,
            ),
            extensions=extensions,
            records=store.records,
            llm_config=llm_config,
            embedder_config=embedder_config,
            address=str(path) if drivers.is_shared(path) else "",
            collection=collection,
        )
        if access is not None:
            part = opened.within(Filter(access=frozenset(access)), is_limit=True)
            opened = replace(part, closes=True, sessions=part.sessions.make_private())
        return cls(opened)

    def within(self, where: Filter) -> "Engine":
        """An engine that sees nothing but what the filter admits, by any verb, and changes nothing.

        It is what a server hands to a user. It shares the open collection and is not closed by itself. Its sessions
        are its own, in memory: those of the collection quote all of it.
        """
        opened = self.opened.within(where, is_limit=True)
        if opened is not self.opened:
            opened = replace(opened, sessions=opened.sessions.make_private())
        return Engine(opened, whole=self.whole or self)

    # Writing
    add = _add.add
    add_distributed = _distributed.add_distributed
    add_documents = _add.add_documents
    add_messages = _add.add_messages
    plan = _add.plan
    backfill = _add.backfill
    calibrate = _add.calibrate
    drop = _add.drop
    drop_messages = _add.drop_messages
    erase = _erase.erase
    # Reading
    list = _search.list_documents
    read = _search.read
    message = _names.message
    status = _search.status
    search = _search.search
    search_many = _search.search_many
    context = _search.context
    # Answering
    ask = _answer.ask
    ask_stream = _answer.ask_stream
    chat = _sessions.open_chat
    agent = _agent.agent
    agent_stream = _agent.agent_stream
    tools = _agent.tools
    # Accounting for results
    explain = _explain.explain
    why_not = _explain.why_not
    check = _explain.check
    feedback = _feedback.feedback
    list_feedback = _feedback.list_feedback
    # Conversations
    window = _conversations.window
    channels = _conversations.channels
    unknown_names = _names.unknown_names
    profile = _conversations.profile
    style_prompt = _conversations.style_prompt
    links = _conversations.links
    # Moving
    export = _transfer.export
    restore = _transfer.restore
    reembed = _transfer.reembed
    doctor = _doctor.doctor
    accept_missing_changes = staticmethod(_collections.accept_missing_changes)
    # Jobs
    enqueue_add = _jobs.enqueue_add
    enqueue_maintenance = _jobs.enqueue_maintenance
    jobs = _jobs.list_jobs
    job = _jobs.get_job
    cancel_job = _jobs.cancel_job
    run_jobs = _jobs.run_jobs
    # Whole collections, none of them open
    collections = staticmethod(_collections.list_collections)
    drop_collection = staticmethod(_collections.drop_collection)

    @property
    def settings(self) -> Settings:
        """The settings it was opened with; `dataclasses.replace` derives those of a call from them."""
        return self.opened.settings

    @property
    def sessions(self) -> Sessions:
        """The sessions by name: their document numbers, and the messages of their chats."""
        return self.opened.sessions

    @property
    def strategies(self) -> Mapping[str, StrategyFactory]:
        """The strategies by name, built in and given."""
        return self.opened.finder.strategies

    def close(self) -> None:
        """Closes the store."""
        if self.opened.closes:
            self.opened.store.whole.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _check_place(
    path: str | Path | None, backend: "BaseBackend | None", collection: str, settings: Settings | None
) -> str | Path:
    """The path of the collection, that of one in memory for a backend; SettingsError unless one of them is given."""
    if backend is None and path is not None:
        return path
    if backend is None or path is not None:
        both = "both were given" if backend else "neither was given"
        raise SettingsError(f"Engine.open takes a path or a backend, and {both}; a backend is one collection by itself")
    drivers.check_backend(backend)
    if collection != "default":
        raise SettingsError(f"a backend is one collection; leave out collection={collection!r}")
    if settings and settings.store.as_of:
        raise SettingsError("store.as_of needs a collection in Lance (s3://…, lance:///folder); leave it out")
    return MEMORY


def _build_checked_extensions(
    reranker: str | Reranker | None,
    chunker: Chunker | None,
    enrichers: Sequence[Enricher],
    readers: Mapping[str, Reader] | None,
    renderers: Mapping[str, Render] | None,
    strategies: Mapping[str, StrategyFactory] | None,
) -> Extensions:
    """The Extensions: the user's own parts, each checked, together with the built-in ones."""
    if reranker is not None and not isinstance(reranker, str):
        check_implements(reranker, Reranker, "reranker")
    if chunker is not None:
        check_callable(chunker, "chunker", "chunker(document) -> list[Chunk]")
    enrichers = tuple(enrichers)
    for enricher in enrichers:
        check_callable(enricher, "enricher", "enricher(document, chunks) -> list[Chunk]")
    check_function_table(readers, "reader", "reader(data, uri) -> Document")
    if readers:
        from clew.index.read import check_reader_suffixes

        check_reader_suffixes(readers)
    check_function_table(renderers, "renderer", "renderer(passages, sheet) -> str")
    check_function_table(strategies, "strategy", "factory(drivers) -> strategy")
    return Extensions(
        strategies=dict(strategies or {}),
        renderers={**RENDERERS, **{name: Renderer(write) for name, write in (renderers or {}).items()}},
        readers=dict(readers or {}),
        chunker=chunker,
        enrichers=enrichers,
        reranker=None if isinstance(reranker, str) else reranker,
    )
