"""The open collection that every verb works on: store, models, the user's extensions and settings in a frozen value."""

import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, partial
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar

from clew import drivers
from clew.core.errors import CollectionDamaged, DriverFailed, DriverMissing, NotFound, SettingsError
from clew.core.filter import EVERYTHING, Filter
from clew.core.languages import RERANKER_LANGUAGES, UNSPACED, detect_language, list_scripts
from clew.core.protocols import (
    LLM,
    AnswerReader,
    Chunker,
    Embedder,
    Enricher,
    Reader,
    RecordStore,
    Reranker,
    Verifier,
)
from clew.core.settings import (
    DEFAULTS,
    AnswerConfig,
    ConversationConfig,
    EmbedderConfig,
    LLMConfig,
    RerankerConfig,
    Settings,
)
from clew.core.settings.override import check_tunable, flatten_settings, override_settings
from clew.core.suggest import format_suggestion
from clew.core.text import extract_terms
from clew.core.thread import THREAD_KIND
from clew.core.types import Hit
from clew.drivers.store.store import Store
from clew.drivers.tuned import read_tuned_settings
from clew.query.context.format.renderers import RENDERERS, Render, Renderer
from clew.query.context.session import Sessions
from clew.query.search.conversation import SplitText
from clew.query.search.find import Finder
from clew.query.search.strategies import STRATEGIES, StrategyFactory

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extensions:
    """Your own parts for `Engine.open`, each checked here.

    reranker: By name or as an object.
    chunker: Cuts pages into chunks; messages are cut by Clew.
    enrichers: Run in order over the chunks of a document.
    readers: By file suffix, as ".org".
    renderers: By the name that `context(render=…)` takes.
    strategies: Factories by the name that `search(strategy=…)` takes.
    """

    reranker: str | Reranker | None = None
    chunker: Chunker | None = None
    enrichers: Sequence[Enricher] = ()
    readers: Mapping[str, Reader] = field(default_factory=dict)
    renderers: Mapping[str, Render] = field(default_factory=dict)
    strategies: Mapping[str, StrategyFactory] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.reranker is not None and not isinstance(self.reranker, str):
            check_implements(self.reranker, Reranker, "reranker")
        if self.chunker is not None:
            _check_callable(self.chunker, "chunker", "chunker(document) -> list[Chunk]")
        for enricher in self.enrichers:
            _check_callable(enricher, "enricher", "enricher(document, chunks) -> list[Chunk]")
        _check_function_table(self.readers, "reader", "reader(data, uri) -> Document")
        if self.readers:
            from clew.index.read import check_reader_suffixes

            check_reader_suffixes(self.readers)
        _check_function_table(self.renderers, "renderer", "renderer(passages, sheet) -> str")
        _check_function_table(self.strategies, "strategy", "factory(drivers) -> strategy")

    def find_renderers(self) -> dict[str, Renderer]:
        """Return the renderers by name, including the built-in ones."""
        return {**RENDERERS, **{name: Renderer(write) for name, write in self.renderers.items()}}


def add_plugins(given: Extensions | None) -> Extensions:
    """Add the readers and strategies of installed plugins to the given extensions.

    A plugin replaces neither a given extension nor a built-in strategy.
    """
    given = Extensions() if given is None else given
    if not isinstance(given, Extensions):
        raise SettingsError(
            f"extensions has the type {type(given).__name__}; give clew.Extensions(…) with "
            f"{', '.join(each.name for each in fields(Extensions))}"
        )
    readers, strategies = drivers.find_plugins("readers"), drivers.find_plugins("strategies")
    if not readers and not strategies:
        return given
    new = {name: each for name, each in strategies.items() if name not in STRATEGIES}
    return replace(given, readers={**readers, **given.readers}, strategies={**new, **given.strategies})


def check_implements(given: T, protocol: type[Any], what: str) -> T:
    """Return the object; raise SettingsError with the protocol members that it lacks or that are not callable."""
    members = {name: member for name, member in vars(protocol).items() if not name.startswith("_")}
    missing = [
        f"{name}()" if callable(member) else name
        for name, member in members.items()
        if not hasattr(given, name) or (callable(member) and not callable(getattr(given, name)))
    ]
    if missing:
        kind = given.__name__ if isinstance(given, type) else type(given).__name__
        raise SettingsError(
            f"{kind} cannot be the {what}: it lacks {', '.join(missing)} (see clew.{protocol.__name__})"
        )
    if isinstance(given, type):
        raise SettingsError(f"the {what} is the class {given.__name__}; give an instance, {given.__name__}(…)")
    return given


def check_embedder(given: Embedder) -> None:
    """Raise SettingsError if an embedder lacks a member, or a collection cannot store its name or dim."""
    check_implements(given, Embedder, "embedder")
    name: object = given.name
    dim: object = given.dim
    if not isinstance(name, str) or not name:
        raise SettingsError(f"the name of the embedder is {name!r}; it must be a text that is not empty")
    if isinstance(dim, bool) or not isinstance(dim, int) or dim < 1:
        raise SettingsError(f"the dim of the embedder {name} is {dim!r}; it must be a whole number of at least 1")


def _check_callable(given: T, what: str, call: str) -> T:
    """Return the object, or raise SettingsError if it is not a function; `call` shows how it will be called."""
    if not callable(given):
        raise SettingsError(f"the {what} has the type {type(given).__name__}; give a function: {call}")
    return given


def _check_function_table(given: object, what: str, call: str) -> None:
    """Raise SettingsError unless the table maps texts to functions."""
    if not isinstance(given, Mapping):
        table = "strategies" if what == "strategy" else f"{what}s"
        raise SettingsError(f"{table} has the type {type(given).__name__}; give a dictionary: {call} by name")
    for name, function in given.items():
        if not isinstance(name, str):
            raise SettingsError(f"a {what} is named {name!r}; its name must be a text")
        _check_callable(function, f"{what} {name!r}", call)


def apply_tuned_settings(settings: Settings, records: RecordStore | None, embedder: str) -> Settings:
    """Replace default settings by those tuned for the collection with this embedder.

    Raise DriverFailed if the record has a setting that cannot be tuned: a foreign folder may bring one.
    """
    try:
        kept = read_tuned_settings(records)
    except CollectionDamaged as error:  # open anyway: a collection that does not open cannot be repaired
        logging.getLogger(__name__).warning("tuned settings are not used: %s", error)
        return settings
    if records is None or not kept or kept[-1].embedder != embedder:
        return settings
    now, default = dict(flatten_settings(settings)), dict(flatten_settings(DEFAULTS))
    wanted = {name: value for name, value in kept[-1].settings.items() if now.get(name) == default.get(name)}
    try:
        for name, value in kept[-1].settings.items():
            check_tunable(name, [value])
        return override_settings(settings, wanted)
    except SettingsError as error:
        raise DriverFailed(f"{records.describe('tuned')} cannot be used: {error}; delete it") from error


log = logging.getLogger(__name__)

MIN_TERMS = 2  # shorter questions are not given to the reader
_MODEL_FIELDS = ("name", "url", "api_key", "cache", "timeout", "retries", "max_concurrent")


@lru_cache(maxsize=16)
def _make_call_model(config: LLMConfig) -> LLM:
    """Make the language model for the settings of a call, cached for the next call with the same settings."""
    llm = drivers.make_language_model(config)
    assert llm is not None
    return llm


@dataclass(frozen=True, slots=True)
class Opened:
    """An open collection: its store, models, settings, and the document numbers of running sessions."""

    store: Store
    embedder: Embedder
    llm: LLM | None
    settings: Settings
    root: Path  # where relative file addresses start
    folder: Path | None  # where the collection is stored; None in memory and on a server
    finder: Finder
    sessions: Sessions
    extensions: Extensions = field(default_factory=Extensions)
    boundary: Filter = EVERYTHING  # the visible part
    closes: bool = True  # whether closing the engine closes the store
    is_upload: bool = False  # the files below the root are uploaded and will be deleted
    message_lock: threading.Lock = field(default_factory=threading.Lock)  # two writers could end the same thread
    records: RecordStore | None = None  # feedback, runs, tuned settings …; None if only a part is visible
    llm_config: LLMConfig | None = None  # how the language model was made; None: it was given as an object
    embedder_config: EmbedderConfig | None = None  # how the embedder was made; None: it was given as an object
    address: str = ""  # of a store that other machines can open; empty if they cannot
    collection: str = ""

    def resolve_settings(self, given: Settings | None) -> Settings:
        """Return the settings of a call: the given ones (not merged), else the engine's."""
        return self.settings if given is None else check_settings(given)

    def with_store(self, store: Store, embedder: Embedder, config: EmbedderConfig | None = None) -> "Opened":
        """Return a copy with another store and embedder, as after `reembed`; `config` is the embedder's."""
        finder = make_finder(store, embedder, self.llm, self.settings, self.extensions)
        sessions = self.sessions.with_store(store.sessions)
        return replace(
            self,
            store=store,
            embedder=embedder,
            embedder_config=config,
            finder=finder,
            sessions=sessions,
            records=store.records,
        )

    def with_llm(self, llm: LLM) -> "Opened":
        """Return a copy with another language model, such as a metered one for an agent."""
        return replace(self, llm=llm, finder=self.finder.with_llm(llm))

    def for_call(self, settings: Settings) -> "Opened":
        """Return a copy with the language model that the settings of a call ask for (name, address, retries …).

        A setting at its default keeps the engine's value. A model given as an object stays.
        """
        mine, given = self.llm_config, settings.llm
        if mine is None or settings is self.settings:
            return self
        default = LLMConfig()
        changed = {
            name: getattr(given, name) for name in _MODEL_FIELDS if getattr(given, name) != getattr(default, name)
        }
        config = replace(mine, **changed)
        if config == mine or not config.name:
            return self
        return self.with_llm(_make_call_model(config))

    def within(self, where: Filter, *, is_limit: bool = False) -> "Opened":
        """Return a read-only copy limited to the filter, and to this one's boundary; closing it closes nothing.

        is_limit: If True, scores may not depend on hidden documents: hits are compared only with each other.
        """
        boundary = self.boundary & check_filter(where)
        if boundary == self.boundary:
            return self
        store = self.store.whole.within(boundary)
        finder = self.finder.within(store, boundary, sees_more=not is_limit)
        return replace(self, store=store, finder=finder, boundary=boundary, closes=False, folder=None, records=None)

    def check_unbounded(self) -> None:
        """Raise SettingsError if only a part of the collection is visible."""
        if self.boundary != EVERYTHING:
            raise SettingsError("this engine sees a part of the collection and only reads; change the whole collection")

    def get_reranker_or_overlap(self, settings: Settings, question: str = "") -> Reranker:
        """Return the reranker of the settings, or the term-overlap one, which needs no model.

        Term overlap is the fallback if the reranker is missing, or if the question is in an unspaced script (Chinese,
        Japanese, Thai …) of a language the reranker does not know. In other scripts it still knows many words.
        """
        reranker = self.finder.get_reranker(settings.reranker)
        known, language = RERANKER_LANGUAGES.get(reranker.name) if reranker else None, detect_language(question)
        if reranker is None or (known and language not in known and list_scripts(language) & UNSPACED):
            reranker = drivers.make_reranker(RerankerConfig(name="overlap"))
        assert reranker is not None
        return reranker

    def get_reader(self, question: str, hits: Sequence[Hit], settings: Settings) -> AnswerReader | None:
        """Return the reader of the settings, or None to let the reranker read instead.

        None if it does not know the language of the question or of most hits. None for a statement, or a question of
        fewer than MIN_TERMS terms ("hello", "when?"): the reader was trained on questions. None with the term-overlap
        reranker, whose user wants no model.
        """
        from clew.query.answer.check import can_read
        from clew.query.answer.question import is_statement  # lazy: a search needs no answer module

        if is_statement(question) or len(extract_terms(question)) < MIN_TERMS:
            return None
        if self.get_reranker_or_overlap(settings, question).name == "overlap":
            return None
        reader = open_reader(settings.answer.reader)
        if reader is None or not can_read(reader.languages, question):
            return None
        known = [detect_language(hit.chunk.text) in ("", *reader.languages) for hit in hits]
        return reader if 2 * sum(known) >= len(known) else None

    def get_verifier(self, settings: Settings) -> Verifier | None:
        """Return the verifier of the settings; None for the rules."""
        return open_verifier(settings.answer.verifier)


@lru_cache(4)
def open_verifier(name: str) -> Verifier | None:
    """Open the verifier of that name, cached for the process; None for the rules."""
    return drivers.make_verifier(AnswerConfig(verifier=name))


@lru_cache(4)
def open_reader(name: str) -> AnswerReader | None:
    """Open the reader of that name, cached for the process; None for the reranker, or, with a warning, if missing."""
    try:
        return drivers.make_reader(AnswerConfig(reader=name))
    except DriverMissing as error:
        log.warning("%s; the reranker reads instead (answer.reader = reranker)", error)
        return None


def make_finder(
    store: Store, embedder: Embedder, llm: LLM | None, settings: Settings, extensions: Extensions
) -> Finder:
    """Make a Finder with the user's extensions."""
    reranker = extensions.reranker
    return Finder(
        store,
        embedder,
        llm=llm,
        load_reranker=drivers.make_reranker if isinstance(reranker, str | None) else lambda _: reranker,
        make_splitter=partial(_make_splitter, count=embedder.count),
        strategies=extensions.strategies,
        cache_size=settings.search.cache,
    )


def _make_splitter(config: ConversationConfig, *, count: Callable[[Sequence[str]], list[int]]) -> SplitText:
    """Make the splitter for a query that is a conversation, importing the chunker on first use."""

    def split(text: str) -> list[str]:
        from clew.index.chunk import make_query_splitter

        return make_query_splitter(config, count=count)(text)

    return split


def resolve_document(opened: Opened, name: str) -> str:
    """Resolve an id, address or path to the id of a document; raise NotFound with the nearest names."""
    from clew.index.walk.uri import resolve_document_ids

    for candidate in resolve_document_ids(name, opened.root):
        for record in opened.store.documents(Filter(documents=frozenset({candidate}))):
            if candidate == name or record.kind != THREAD_KIND:  # a thread's id derives from a message, maybe hidden
                return candidate
    ids = {record.uri or record.id: record.id for record in opened.store.documents()}
    if name in ids:
        return ids[name]
    hint = format_suggestion(name, ids) or "`clew list` shows the documents"
    raise NotFound(f"there is no document {name!r}; {hint}")


def check_settings(settings: Settings) -> Settings:
    """Return the settings; raise SettingsError if they are not a Settings."""
    if not isinstance(settings, Settings):
        raise SettingsError(f"settings has the type {type(settings).__name__}; give a clew.Settings")
    return settings


def check_filter(where: Filter) -> Filter:
    """Return the filter; raise SettingsError if it is not a Filter."""
    if not isinstance(where, Filter):
        raise SettingsError(f"where has the type {type(where).__name__}; give a Filter, as in Filter(kinds={{'page'}})")
    return where


def check_positive_count(name: str, value: int) -> int:
    """Return the number; raise SettingsError unless it is a whole number of at least 1."""
    given: object = value  # callers without a type checker pass anything
    number = float(given) if isinstance(given, Real) else math.nan
    if isinstance(given, bool) or not number >= 1 or number % 1:
        raise SettingsError(f"{name} is {value!r}; it must be a whole number of at least 1")
    return int(value)
