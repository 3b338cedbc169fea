"""Option groups, each one parameter of a command: for a request, for a filter, and for adding documents.

`asked: Asked[q.Search]` stands for all options of the request `core.requests.Search` that the command line has.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import wraps
from pathlib import Path
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

import typer

from clew.core.errors import SettingsError
from clew.surface.cli import options as o

if TYPE_CHECKING:
    from clew.core.filter import Filter
    from clew.core.requests import FieldOption, Option, Request
    from clew.core.trace import Trace
    from clew.core.types import Message
    from clew.engine import Engine

Command = Callable[..., None]
R = TypeVar("R", bound="Request[Any]")
STDIN: Final = "-"
CONVERSATION: Final = "conversation"


class Group:
    """Several options as one parameter of a command; `values` has the value of each Typer parameter."""

    kind: ClassVar[Any] = None  # the type of the request

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    @classmethod
    def list_parameters(cls) -> Iterable[inspect.Parameter]:
        """List the parameters of its options."""
        raise NotImplementedError


class Seen(Group):
    """The filter options of a command."""

    @classmethod
    def list_parameters(cls) -> Iterable[inspect.Parameter]:
        """List an option for each condition of a Filter."""
        from clew.core.requests import CONDITIONS

        for name, option in CONDITIONS.items():
            kind: Any = str if name in ("since", "until") else list[str]
            yield _make_parameter(f"where_{name}", kind | None, name, option, None, panel="Filters")

    def build_filter(self, engine: "Engine", *, warn: bool = True) -> "Filter":
        """Build the Filter; documents may be named by URI, folder or pattern. `warn` of unknown names on stderr."""
        where = self.make_filter_without_documents()
        if documents := self.values.get("where_documents"):
            where = replace(where, documents=frozenset(_resolve_documents(documents, engine, where)))
        if warn:
            warn_of_unknown_names(engine, where)
        return where

    def make_filter_without_documents(self) -> "Filter":
        """Make the Filter of all options but documents; this needs no open collection."""
        from clew.core.filter import Filter

        given = {name.removeprefix("where_"): each for name, each in self.values.items() if each and "where_" in name}
        sets: dict[str, Any] = {
            name: frozenset(given[name]) for name in ("kinds", "authors", "access", "channels") if name in given
        }
        times: dict[str, Any] = {name: o.parse_time_option(f"--{name}", given.get(name)) for name in ("since", "until")}
        return Filter(**sets, **times, meta=_parse_meta_pairs(given.get("meta", ())))


class Asked(Group, Generic[R]):
    """The options of a request; a conversation in a file replaces the question, or is its history."""

    @classmethod
    def list_parameters(cls) -> Iterable[inspect.Parameter]:
        """List an argument or option for each field; a Filter has one for each condition."""
        for each in _list_options(cls.kind):
            if _is_filter(each):
                yield from Seen.list_parameters()
            else:
                kind = _get_plain_type(each)
                is_argument = each.is_required and "query" not in cls._list_arguments()
                default = inspect.Parameter.empty if is_argument else False if kind is bool else None
                kind = kind if is_argument or kind is bool else kind | None
                yield _make_parameter(each.name, kind, each.name, each.option, default, as_argument=each.is_required)
        if "query" in cls._list_arguments():
            yield inspect.Parameter(
                CONVERSATION, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_Conversation
            )

    @contextmanager
    def open(
        self, ctx: typer.Context, overrides: Mapping[str, Any] | None = None, *, warn: bool = False
    ) -> "Iterator[tuple[Engine, R]]":
        """Open the engine with the settings of the options and of `overrides`, and yield it with the request.

        `warn` of unknown names in the filter, for commands that do not explain an empty result.
        """
        from clew.surface.cli.program import open_engine

        given, messages = self._read_question(ctx)
        own = {each.option.setting: self.values[each.name] for each in self._list_settings()}
        with open_engine(ctx, {**own, **(overrides or {})}) as engine:
            for each in _list_options(self.kind):
                if _is_filter(each):
                    given[each.name] = Seen(self.values).build_filter(engine, warn=warn)
            if messages:
                given["history" if given.get("query") else "query"] = messages
            yield engine, self.kind(**{name: value for name, value in given.items() if value is not None})

    def _read_question(self, ctx: typer.Context) -> "tuple[dict[str, Any], tuple[Message, ...]]":
        """Read the given fields and the messages of the conversation; a missing question is a usage error."""
        settings = {each.name for each in self._list_settings()}
        given = {each.name: self._parse(each) for each in _list_options(self.kind) if each.name not in settings}
        file, arguments = self.values.get(CONVERSATION), self._list_arguments()
        if file is not None and given[arguments[-1]] is None:  # the question was left out
            given |= zip(arguments, (None, *(given[name] for name in arguments)), strict=False)
        for name in arguments:
            if given[name] is None and not (name == "query" and file is not None):
                hint = ", or --conversation FILE." if name == "query" else "."
                ctx.fail(f"Missing argument '{name.upper()}'{hint}")
        if given.get("query") == STDIN and str(file) == STDIN:
            ctx.fail("QUERY and --conversation cannot both be read from standard input.")
        given |= {name: read_question(given[name]) for name in ("query", "question") if given.get(name) is not None}
        if file is None:
            return given, ()
        from clew.surface.cli.files import load_conversation

        return given, load_conversation(file)

    def _parse(self, option: "FieldOption") -> Any:
        """Parse the value of an option; None if it was not given."""
        value = self.values.get(option.name)
        if value is not None and option.type == datetime | None:
            return o.parse_time_option(f"--{option.name}", value)
        return (tuple(value) or None) if isinstance(value, list) else value

    def _list_settings(self) -> "list[FieldOption]":
        return [each for each in _list_options(self.kind) if each.option.setting]

    @classmethod
    def _list_arguments(cls) -> list[str]:
        return [each.name for each in _list_options(cls.kind) if each.is_required]


class IngestOptions(Group):
    """The options of add and plan; all but `sync` are settings."""

    # The setting of each, the value that a flag gives it, and the type, metavar and help of the option.
    table: ClassVar[Mapping[str, tuple[str, Any, Any, str | None, str]]] = {
        "chunk_size": ("chunk_size", None, int | None, "N", "Tokens per chunk."),
        "chunk_overlap": ("chunk_overlap", None, int | None, "N", "Tokens shared by neighbouring chunks."),
        "no_semantic": ("use_semantic_chunking", False, bool, None, "Split between paragraphs only; ignore headings."),
        "contextual": (
            *("use_contextual_enrichment", True, bool, None),
            "Embed each chunk with a sentence that places it in its document.",
        ),
        "summaries": (
            *("summaries", "llm", bool, None),
            "Let the language model write the summaries: one paid call per document.",
        ),
        "sections": ("sections", True, bool, None, "Add each chapter of a file or page as a document of its own."),
        "include": (
            *("include", None, list[str] | None, "PATTERN"),
            "Add only files that match this .gitignore pattern (repeatable).",
        ),
        "exclude": (
            "exclude",
            None,
            list[str] | None,
            "PATTERN",
            "Leave out files and folders that match (repeatable).",
        ),
        "no_ignore": (
            *("ignore", False, bool, None),
            "Also add what .gitignore, .clewignore or the rules for build folders leave out.",
        ),
        "sync": ("", True, bool, None, "Also drop documents whose files are gone."),
    }

    @classmethod
    def list_parameters(cls) -> Iterable[inspect.Parameter]:
        """List the options of the table."""
        for name, (_, _, kind, metavar, text) in cls.table.items():
            option = typer.Option(f"--{name.replace('_', '-')}", metavar=metavar, help=text)
            default = False if kind is bool else None
            annotation: Any = Annotated[(kind, option)]
            yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)

    @property
    def sync(self) -> bool:
        """Whether documents whose files are gone are dropped."""
        return bool(self.values["sync"])

    def to_setting_overrides(self) -> dict[str, Any]:
        """Return the options that are settings, by dotted name; None if not given."""
        made: dict[str, Any] = {}
        for name, (setting, value, kind, _, _) in self.table.items():
            given = self.values[name]
            if setting:
                made[f"ingestion.{setting}"] = (
                    (value if given else None) if kind is bool else None if given == [] else given
                )
        return made


def expand_option_groups(command: Command) -> Command:
    """Replace each parameter of a command that is an option group by the options of the group.

    Typer makes one option of each parameter in a function's signature and has no notion of a group. So the wrapper
    declares the flat list of options as its signature, and collects their values into the group before the call.
    """
    signature = inspect.signature(command)
    groups = {name: group for name, each in signature.parameters.items() if (group := _find_group(each.annotation))}
    if not groups:
        return command
    parameters = {name: [*group.list_parameters()] for name, group in groups.items()}

    @wraps(command)
    def call(*args: Any, **values: Any) -> None:
        for name, group in groups.items():
            values[name] = group({option.name: values.pop(option.name) for option in parameters[name]})
        command(*args, **values)

    flat = [option for each in signature.parameters.values() for option in parameters.get(each.name, [each])]
    call.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return call


def _find_group(annotation: Any) -> type[Group] | None:
    """Find the group of a parameter: a class, or `Asked[q.Search]` in quotes: requests are imported only here."""
    if isinstance(annotation, str) and annotation.startswith("Asked["):
        from clew.core import requests

        kind = getattr(requests, annotation.removeprefix("Asked[q.").removesuffix("]"))
        return type(f"Asked{kind.__name__}", (Asked,), {"kind": kind})
    return annotation if isinstance(annotation, type) and issubclass(annotation, Group) else None


_Conversation = Annotated[
    Path | None,
    typer.Option(
        "--conversation",
        metavar="FILE",
        help="Search with a conversation: JSON or JSON Lines of messages (timestamp, author, message; or role, "
        "content); - reads standard input.",
    ),
]


def _list_options(request: Any) -> "list[FieldOption]":
    from clew.core.requests import list_options

    return [*list_options(request, "cli")]


def _is_filter(option: "FieldOption") -> bool:
    from clew.core.filter import Filter

    return option.type is Filter


def _get_plain_type(option: "FieldOption") -> Any:
    """Return the plain type of an option for Typer; the engine checks bounds, the settings loader choices."""
    kind = next(each for each in _list_sides(option.type) if each is not type(None))
    if kind is datetime or (option.option.setting and get_origin(kind) is Literal):
        return str
    return list[str] if get_origin(kind) is Sequence else kind


def _list_sides(kind: Any) -> list[Any]:
    """List the sides of a union, without their bounds."""
    if get_origin(kind) is Annotated:
        return _list_sides(get_args(kind)[0])
    is_union = get_origin(kind) in (Union, UnionType)
    return [each for side in get_args(kind) for each in _list_sides(side)] if is_union else [kind]


def _make_parameter(
    name: str, kind: Any, field: str, option: "Option", default: Any, *, as_argument: bool = False, panel: str = ""
) -> inspect.Parameter:
    long = f"--{field.replace('_', '-')}"
    flags = [*option.flag.split(), *([] if option.flag.startswith("--") else [long])]
    is_list = kind == list[str] | None
    more: dict[str, Any] = {
        "metavar": option.metavar or None,
        "help": f"{option.help.removesuffix('.')} (repeatable)." if is_list else option.help,
        "rich_help_panel": panel or None,
    }
    info = typer.Argument(**more) if as_argument else typer.Option(*flags, **more)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info])


def read_question(text: str) -> str:
    """Return the question, read from standard input for `-`; raise SourceError if that is empty."""
    if text != STDIN:
        return text
    import sys

    from clew.core.errors import SourceError

    question = sys.stdin.read().strip()
    if not question:
        raise SourceError("standard input", "has no question")
    return question


def warn_of_unknown_names(engine: "Engine", where: "Filter") -> None:
    """Report unknown authors, channels and kinds of a filter on stderr, with the most similar known ones."""
    from clew.surface.cli import render

    for sentence in engine.unknown_names(where):
        render.print_line((sentence, "yellow"), err=True)


def report_notes(trace: "Trace") -> None:
    """Report on stderr how a query was corrected, and how many chunks are not yet searchable by meaning."""
    from clew.surface.cli import render

    if corrected := trace.find_note("did_you_mean"):
        render.print_line((f"did you mean: {corrected}", "yellow"), err=True)
    if pending := trace.find_note("pending"):
        render.print_line((str(pending), "yellow"), err=True)


def _resolve_documents(names: Sequence[str], engine: "Engine", rest: "Filter") -> list[str]:
    """Resolve names to document ids; a source that is split stands for all its sections, a folder for its content.

    An unknown name is an error, whose suggestions stay within the rest of the filter.
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
    """Parse the values by key; a key that is given twice matches either value."""
    pairs: dict[str, list[str]] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise SettingsError(f"--meta is {text!r}; it must be KEY=VALUE")
        pairs.setdefault(key, []).append(value)
    return pairs
