"""The composition root: `Engine`. Each verb is a function in a module of this package."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from clew import drivers
from clew.core.errors import NotFound, SettingsError
from clew.core.filter import Filter
from clew.core.protocols import LLM, Embedder
from clew.core.settings import DEFAULTS, EmbedderConfig, LLMConfig, SessionConfig, Settings
from clew.core.settings.override import check_setting_types
from clew.drivers.store.store import Store
from clew.engine import collections as _collections
from clew.engine.lazy import LazyModule
from clew.engine.opened import (
    Extensions,
    Opened,
    add_plugins,
    apply_tuned_settings,
    check_embedder,
    check_implements,
    check_settings,
    make_finder,
)
from clew.query.context.session import Sessions
from clew.query.search.strategies import StrategyFactory

if TYPE_CHECKING:
    from clew.drivers.store.base import BaseBackend
    from clew.engine import add as _add
    from clew.engine import agent as _agent
    from clew.engine import answer as _answer
    from clew.engine import conversations as _conversations
    from clew.engine import doctor as _doctor
    from clew.engine import erase as _erase
    from clew.engine import explain as _explain
    from clew.engine import jobs as _jobs
    from clew.engine import names as _names
    from clew.engine import search as _search
    from clew.engine import sessions as _sessions
    from clew.engine import transfer as _transfer
else:
    _VERBS = "add agent answer conversations doctor erase explain jobs names search sessions transfer"
    globals().update({f"_{module}": LazyModule(f"clew.engine.{module}") for module in _VERBS.split()})

MEMORY = drivers.MEMORY


class Engine:
    """An open collection to add to, search and ask. Open it with `Engine.open(path)`; threads may share it.

    `opened` holds the store, models and settings; the verbs below are functions over it. Many verbs take `where`, a
    Filter of what to look at, `settings` for this call alone, `on_progress`, a function that is called with a Progress,
    and `max_cost`, above which no further model is called.
    """

    def __init__(self, opened: Opened, *, whole: "Engine | None" = None) -> None:
        if not isinstance(opened, Opened):
            raise SettingsError("open a collection with Engine.open(path)")
        self.opened = opened
        self.whole = whole  # the engine of the whole collection, if this one sees a part

    @classmethod
    def open(
        cls,
        path: "str | Path | BaseBackend",
        *,
        collection: str = "default",
        embedder: str | Embedder | None = None,
        llm: str | LLM | None = None,
        extensions: Extensions | None = None,
        settings: Settings | None = None,
        create: bool = True,
    ) -> Self:
        """Open a collection, creating it if there is none.

        path: A folder, ":memory:", a server ("postgresql://…"), object storage ("s3://…", "lance:///folder"), the
            address of a plugin's store, or a backend of your own (`clew.BaseBackend`).
        collection: The name of the collection at `path`.
        embedder: By name or as an object. Default: the one in the settings, else the collection's own, else bge-small.
        llm: The language model, by name or as an object; optional.
        extensions: Your own reranker, chunker, enrichers, readers, renderers and strategies.
        settings: The tree of all settings. Tuned settings (`tune`) replace those at their default. With `store.access`
            the engine sees only what these labels admit, as by `within`; on a server, row-level security enforces it.
        create: If False, raise NotFound if there is no such collection.
        """
        settings = DEFAULTS if settings is None else check_setting_types(check_settings(settings))
        _collections.check_collection_name(collection)
        if isinstance(path, str | Path) and not drivers.is_address(path) and Path(path).is_file():
            raise SettingsError(f"{path} is a file; name a folder for the collections, and give files to `clew add`")
        parts = add_plugins(extensions)
        if isinstance(parts.reranker, str):
            settings = replace(settings, reranker=replace(settings.reranker, name=parts.reranker))
        stored = drivers.read_stored_embedder_name(path, collection, as_of=settings.store.as_of)
        access = settings.store.access
        if stored is None and (not create or access is not None) and path != MEMORY:
            raise _no_collection_error(path, collection)
        embedder, embedder_config = _choose_embedder(embedder, settings, stored)
        llm, llm_config = _choose_language_model(llm, settings)
        store = drivers.open_store(path, collection, embedder=embedder, config=settings.store)
        try:
            settings = apply_tuned_settings(settings, store.records, embedder.name)
        except BaseException:
            store.close()
            raise
        opened = Opened(
            store=store,
            embedder=embedder,
            llm=llm,
            settings=settings,
            root=drivers.find_source_root(path),
            folder=drivers.find_collection_folder(path, collection),
            finder=make_finder(store, embedder, llm, settings, parts),
            sessions=_open_sessions(store, settings.session),
            extensions=parts,
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
        """Return a read-only engine that sees only the documents the filter admits, in every verb.

        A server gives one to each user. It shares the open collection; closing it closes nothing. Its sessions are its
        own, in memory: the collection's sessions may quote any document.
        """
        opened = self.opened.within(where, is_limit=True)
        if opened is not self.opened:
            opened = replace(opened, sessions=opened.sessions.make_private())
        return Engine(opened, whole=self.whole or self)

    # Writing
    add = _add.add
    add_distributed = _add.add_distributed
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
    feedback = _explain.feedback
    list_feedback = _explain.list_feedback
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
        """The settings of the engine. Derive the settings of a call with `dataclasses.replace`."""
        return self.opened.settings

    @property
    def sessions(self) -> Sessions:
        """The sessions by name: their document numbers, and the messages of their chats."""
        return self.opened.sessions

    @property
    def strategies(self) -> Mapping[str, StrategyFactory]:
        """The strategies by name, both built in and added."""
        return self.opened.finder.strategies

    def close(self) -> None:
        """Close the store."""
        if self.opened.closes:
            self.opened.store.whole.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _no_collection_error(path: "str | Path | BaseBackend", collection: str) -> NotFound:
    place = drivers.describe_place(path)
    return NotFound(f"there is no collection {collection!r} in {place}; `clew add` makes one")


def _open_sessions(store: Store, config: SessionConfig) -> Sessions:
    return Sessions(store.sessions, max_sessions=config.max_sessions, max_idle=config.idle)


def _choose_embedder(
    given: str | Embedder | None, settings: Settings, stored: str | None
) -> tuple[Embedder, EmbedderConfig | None]:
    """Choose the embedder and its config (None if given as an object).

    The name is the given one, else the one in the settings, else the one that filled the collection.
    """
    config = None
    if given is None or isinstance(given, str):
        name = drivers.choose_embedder_name(given or settings.embedder.name, stored)
        config = replace(settings.embedder, name=name)
        given = drivers.make_embedder(config)
    check_embedder(given)
    return drivers.round_vectors(given, settings.store), config


def _choose_language_model(given: str | LLM | None, settings: Settings) -> tuple[LLM | None, LLMConfig | None]:
    """Choose the language model and its config (None if given as an object)."""
    config = None
    if given is None or isinstance(given, str):
        config = replace(settings.llm, name=given or settings.llm.name)
        given = drivers.make_language_model(config)
    if given is not None:
        check_implements(given, LLM, "language model")
    return given, config
