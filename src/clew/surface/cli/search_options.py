"""The options of every command that searches, said once: such a command takes them together, as `wanted`."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any

from clew.core.errors import SettingsError
from clew.surface.cli import options as o

if TYPE_CHECKING:
    from clew.core.types import Filter
    from clew.engine import Engine

Command = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is searched for and how, as the options gave it."""

    k: o.K = None
    strategy: o.Strategy = None
    mode: o.Mode = None
    depth: o.Depth = None
    min_similarity: o.MinSimilarity = None
    kind: o.Kinds = None
    document: o.Documents = None
    channel: o.Channels = None
    author: o.Authors = None
    since: o.Since = None
    until: o.Until = None
    meta: o.Metas = None

    def flags(self) -> dict[str, Any]:
        """The settings that some of them stand for."""
        return {
            "search.mode": self.mode,
            "search.depth": self.depth,
            "search.min_similarity": self.min_similarity,
        }

    def where(self, engine: "Engine") -> "Filter":
        """The Filter that the others make together; a document may be named by its uri."""
        from clew.core.types import Filter

        return Filter(
            documents=frozenset(engine.read(name).id for name in self.document or ()),
            kinds=frozenset(self.kind or ()),
            channels=frozenset(_channels(self.channel, engine) if self.channel else ()),
            authors=frozenset(self.author or ()),
            since=o.time_of("--since", self.since),
            until=o.time_of("--until", self.until),
            meta=_pairs(self.meta or ()),
        )


def searching(command: Command) -> Command:
    """A command with all options of a search where it takes `wanted`."""
    own = inspect.signature(command, eval_str=True).parameters
    options = inspect.signature(Wanted, eval_str=True).parameters
    given = {field.name for field in fields(Wanted)}

    @wraps(command)
    def run(*args: Any, **values: Any) -> None:
        wanted = Wanted(**{name: values.pop(name) for name in given & values.keys()})
        command(*args, wanted=wanted, **values)

    shown: list[inspect.Parameter] = []
    for parameter in own.values():
        if parameter.name == "wanted":
            shown += [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options.values()]
        else:
            shown.append(parameter)
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return run


def _channels(names: Sequence[str], engine: "Engine") -> list[str]:
    """The channels as they are called there: `#` may be written before a name that has none."""
    known = set(engine.channels())
    return [name if name in known or name.removeprefix("#") not in known else name.removeprefix("#") for name in names]


def _pairs(texts: Sequence[str]) -> dict[str, list[str]]:
    """The values by key; a key that is given twice is met by either value."""
    pairs: dict[str, list[str]] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise SettingsError(f"--meta is {text!r}; it must be KEY=VALUE")
        pairs.setdefault(key, []).append(value)
    return pairs
