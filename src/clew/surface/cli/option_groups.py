"""Groups of options that several commands take together, and how Typer is made to accept a group as one parameter."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any

import typer

from clew.core.errors import SettingsError
from clew.surface.cli import options as o

if TYPE_CHECKING:
    from clew.core.filter import Filter
    from clew.core.trace import Trace
    from clew.core.types import Message
    from clew.engine import Engine

Command = Callable[..., None]
STDIN = "-"


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """What is searched with: a question, a conversation, or a question asked after a conversation."""

    query: o.QueryText = None
    conversation: o.Conversation = None

    def load(self, ctx: typer.Context) -> "LoadedQuery":
        """The question and the messages of the conversation file; a usage error if neither was given."""
        if self.query is None and self.conversation is None:
            ctx.fail("Missing argument 'QUERY', or --conversation FILE.")
        if self.query == STDIN and self.conversation is not None and str(self.conversation) == STDIN:
            ctx.fail("QUERY and --conversation cannot both be read from standard input.")
        question = None if self.query is None else read_question(self.query)
        if self.conversation is None:
            return LoadedQuery(question)
        from clew.surface.cli.conversation_file import load_conversation

        return LoadedQuery(question, load_conversation(self.conversation))


@dataclass(frozen=True, slots=True)
class LoadedQuery:
    """A question and the conversation before it, as the verbs of the engine take them."""

    question: str | None
    messages: "tuple[Message, ...]" = ()

    @property
    def query(self) -> "str | tuple[Message, ...]":
        """The question; without one, the whole conversation."""
        return self.messages if self.question is None else self.question

    @property
    def history(self) -> "tuple[Message, ...]":
        """The conversation before the question."""
        return () if self.question is None else self.messages

    @property
    def text(self) -> str:
        """The text of the query, for highlighting its words."""
        return "\n".join(message.text for message in self.messages) if self.question is None else self.question


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """What may be seen by a command that names a document or channel itself."""

    kind: o.Kinds = None
    author: o.Authors = None
    since: o.Since = None
    until: o.Until = None
    meta: o.Metas = None
    access: o.Access = None

    def build_filter(self, engine: "Engine") -> "Filter":
        """The Filter of the options; names that nothing has are reported on stderr."""
        where = self.make_filter(engine)
        warn_of_unknown_names(engine, where)
        return where

    def make_filter(self, _: "Engine") -> "Filter":
        """The Filter of the options."""
        return self.make_plain_filter()

    def make_plain_filter(self) -> "Filter":
        """The Filter of the options that are conditions by themselves."""
        from clew.core.filter import Filter

        return Filter(
            kinds=_to_set(self.kind),
            authors=_to_set(self.author),
            since=o.parse_time_option("--since", self.since),
            until=o.parse_time_option("--until", self.until),
            meta=_parse_meta_pairs(self.meta or ()),
            access=_to_set(self.access),
        )


@dataclass(frozen=True, slots=True)
class CollectionFilterOptions(FilterOptions):
    """What may be seen by a command on the whole collection."""

    document: o.Documents = None
    channel: o.Channels = None

    def make_filter(self, engine: "Engine") -> "Filter":
        """The Filter of the options; documents may be named by URI, folder or pattern."""
        made = self.make_filter_without_documents()
        documents = _resolve_documents(self.document, engine, made) if self.document else None
        return replace(made, documents=_to_set(documents))

    def make_filter_without_documents(self) -> "Filter":
        """The Filter of the other options, for which no collection need be open."""
        return replace(self.make_plain_filter(), channels=_to_set(self.channel))


@dataclass(frozen=True, slots=True)
class SearchOptions(CollectionFilterOptions):
    """The options of every command that searches."""

    k: o.K = None
    strategy: o.Strategy = None
    mode: o.Mode = None
    depth: o.Depth = None
    min_relevance: o.MinRelevance = None
    min_similarity: o.MinSimilarity = None

    def build_filter(self, engine: "Engine") -> "Filter":
        """The Filter of the options; what a search finds, or why it finds nothing, tells of names that nothing has."""
        return self.make_filter(engine)

    def to_setting_overrides(self) -> dict[str, Any]:
        """The options that are settings, by dotted name; None is one that was not given."""
        return {
            "search.mode": self.mode,
            "search.depth": self.depth,
            "search.min_relevance": self.min_relevance,
            "search.min_similarity": self.min_similarity,
        }


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """The options of add and of its dry run, plan."""

    chunk_size: o.ChunkSize = None
    chunk_overlap: o.ChunkOverlap = None
    no_semantic: o.NoSemantic = False
    contextual: o.Contextual = False
    summaries: o.Summaries = False
    sections: o.Sections = False
    include: o.Include = None
    exclude: o.Exclude = None
    no_ignore: o.NoIgnore = False
    sync: o.Sync = False

    def to_setting_overrides(self) -> dict[str, Any]:
        """The options that are settings, by dotted name; None is one that was not given."""
        return {
            "ingestion.chunk_size": self.chunk_size,
            "ingestion.chunk_overlap": self.chunk_overlap,
            "ingestion.use_semantic_chunking": False if self.no_semantic else None,
            "ingestion.use_contextual_enrichment": True if self.contextual else None,
            "ingestion.summaries": "llm" if self.summaries else None,
            "ingestion.sections": True if self.sections else None,
            "ingestion.include": self.include or None,
            "ingestion.exclude": self.exclude or None,
            "ingestion.ignore": False if self.no_ignore else None,
        }


def expand_option_groups(command: Command) -> Command:
    """The command with each parameter that is an option group replaced by the options of the group.

    Typer makes one option of each parameter in a function's signature and has no notion of a group. So the wrapper
    declares the flat list of options as its signature, and collects their values into the group before the call.
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        name: each.annotation for name, each in signature.parameters.items() if is_dataclass(each.annotation)
    }
    if not groups:
        return command

    @wraps(command)
    def call(*args: Any, **values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{option.name: values.pop(option.name) for option in fields(group)})
        command(*args, **values)

    flat: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.name in groups:
            options = inspect.signature(groups[parameter.name], eval_str=True).parameters.values()
            flat += [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]
        else:
            flat.append(parameter)
    call.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return call


def _to_set(values: Sequence[str] | None) -> frozenset[str] | None:
    """The values as a set; None, which admits all, where none were given."""
    return frozenset(values) if values else None


def read_question(text: str) -> str:
    """The question, or that on standard input for `-`; SourceError if there is none."""
    if text != STDIN:
        return text
    import sys

    from clew.core.errors import SourceError

    question = sys.stdin.read().strip()
    if not question:
        raise SourceError("standard input", "has no question")
    return question


def warn_of_unknown_names(engine: "Engine", where: "Filter") -> None:
    """Reports the authors, channels and kinds of a filter that nothing has on stderr, with those most like them."""
    from clew.surface.cli import render

    for sentence in engine.unknown_names(where):
        render.print_line((sentence, "yellow"), err=True)


def report_notes(trace: "Trace") -> None:
    """Reports on stderr how a query was corrected, and how many chunks are not yet searchable by meaning."""
    from clew.surface.cli import render

    if corrected := trace.find_note("did_you_mean"):
        render.print_line((f"did you mean: {corrected}", "yellow"), err=True)
    if pending := trace.find_note("pending"):
        render.print_line((str(pending), "yellow"), err=True)


def _resolve_documents(names: Sequence[str], engine: "Engine", rest: "Filter") -> list[str]:
    """The ids of the documents; a source that is split stands for all of its sections, a folder for what is in it.

    An unknown name is an error, which names others only within the rest of the filter.
    """
    from clew.core.errors import NotFound
    from clew.engine.names import resolve_documents

    ids: list[str] = []
    for name in names:
        try:
            ids += resolve_documents(engine.opened, name)
        except NotFound:
            ids += resolve_documents(engine.opened.within(rest), name)
    return ids


def _parse_meta_pairs(texts: Sequence[str]) -> dict[str, list[str]]:
    """The values by key; a key that is given twice matches either value."""
    pairs: dict[str, list[str]] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise SettingsError(f"--meta is {text!r}; it must be KEY=VALUE")
        pairs.setdefault(key, []).append(value)
    return pairs
