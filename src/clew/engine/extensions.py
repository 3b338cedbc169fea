"""The user's own parts: given to `Engine.open`, or added by installed packages. Half-built ones fail at the door."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from clew import drivers
from clew.core.errors import SettingsError
from clew.core.protocols import Chunker, Embedder, Enricher, Reader, Reranker
from clew.query.context.format.renderers import RENDERERS, Render, Renderer
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
        """Return the renderers by name, the built-in ones too."""
        return {**RENDERERS, **{name: Renderer(write) for name, write in self.renderers.items()}}


def add_plugins(given: Extensions | None) -> Extensions:
    """Return the parts that were given, and the readers and strategies of installed packages beneath them.

    A plugin replaces nothing: neither a part that was given nor a strategy that is built in.
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
    """The object, or SettingsError with the protocol members that it lacks or that cannot be called."""
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
    """Raises SettingsError for an embedder that lacks a member, or whose name or dim a collection cannot store."""
    check_implements(given, Embedder, "embedder")
    name: object = given.name
    dim: object = given.dim
    if not isinstance(name, str) or not name:
        raise SettingsError(f"the name of the embedder is {name!r}; it must be a text that is not empty")
    if isinstance(dim, bool) or not isinstance(dim, int) or dim < 1:
        raise SettingsError(f"the dim of the embedder {name} is {dim!r}; it must be a whole number of at least 1")


def _check_callable(given: T, what: str, call: str) -> T:
    """Returns the object, or raises SettingsError if it is not a function; `call` shows how it will be called."""
    if not callable(given):
        raise SettingsError(f"the {what} has the type {type(given).__name__}; give a function: {call}")
    return given


def _check_function_table(given: object, what: str, call: str) -> None:
    """Raises SettingsError for an entry of a table that is not a function, or whose name is not a text."""
    if not isinstance(given, Mapping):
        table = "strategies" if what == "strategy" else f"{what}s"
        raise SettingsError(f"{table} has the type {type(given).__name__}; give a dictionary: {call} by name")
    for name, function in given.items():
        if not isinstance(name, str):
            raise SettingsError(f"a {what} is named {name!r}; its name must be a text")
        _check_callable(function, f"{what} {name!r}", call)
