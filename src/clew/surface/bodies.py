"""The input that strangers may send, over HTTP and to tools: pydantic models made from the requests.

Everything is bounded, types are strict, and an unknown field is refused by its name.
"""

import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import reduce
from inspect import Parameter
from types import UnionType
from typing import Annotated, Any, ClassVar, Final, NamedTuple, Self, TypeVar, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    create_model,
    model_validator,
)

from clew.core.cite import Citation
from clew.core.filter import EVERYTHING, Filter
from clew.core.requests import CONDITIONS, Bounds, FieldOption, Name, Request, Row, Surface, Text, list_options
from clew.core.time import assume_utc, parse_time
from clew.core.types import Document, Message
from clew.engine import Engine
from clew.engine.names import resolve_documents
from clew.query.messages.table import read_rows_by_time

R = TypeVar("R", bound=Request[Any])
MAX_FIELDS: Final = 100  # of a body or a part of it, far more than any has
SAYS: Final[dict[str, str]] = {}  # the error message for a text that does not match, by pattern


class Body(BaseModel):
    """A request body: strict types, no unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True)
    one_of: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _refuse_many_fields(cls, given: object) -> object:
        """Refuse very many fields: pydantic reports each unknown one, which takes seconds and gigabytes."""
        if isinstance(given, dict) and len(given) > MAX_FIELDS:
            raise ValueError(f"has {len(given):,} fields, and the limit is {MAX_FIELDS}")
        return given

    @model_validator(mode="after")
    def _check_one_is_given(self) -> Self:
        given = [name for name in self.one_of if name in self.model_fields_set]
        if self.one_of and len(given) != 1:
            raise ValueError(f"takes one of {join_names(self.one_of)}, and {join_names(given) or 'none'} is given")
        return self


def join_names(names: Sequence[str]) -> str:
    """Join names as people list them: a, b and c."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def read_time(text: str) -> datetime:
    """Parse a time; ValueError names the valid forms."""
    try:
        return assume_utc(parse_time(text))
    except (ValueError, OverflowError):
        raise ValueError(f"is {text!r}; give a date or time such as 2025-05-31T14:00:00Z, yesterday or 7d") from None


# In JSON 5.0 is a whole number too.
WHOLE: Final = BeforeValidator(lambda given: int(given) if isinstance(given, float) and given.is_integer() else given)
Time = Annotated[
    str,
    Field(max_length=40, json_schema_extra={"anyOf": [{"format": "date-time"}, {"format": "date"}]}),
    AfterValidator(read_time),
]
Position = Annotated[int, Field(ge=0, le=2**53), WHOLE]
Scalar = str | Annotated[int, Strict(), Field(ge=-(2**53), le=2**53)] | Annotated[float, Strict()] | bool
ShortText = Annotated[str, Field(max_length=500)]
Labels = Annotated[list[ShortText], Field(max_length=1000)]
Access = Annotated[Labels | None, Field(description="Labels, one of which an asker must have; null: anybody.")]
Meta = Annotated[dict[ShortText, Scalar | Annotated[list[Scalar], Field(max_length=100)]], Field(max_length=100)]


_NOUNS: dict[Any, Any] = {datetime: Time, Row: dict[str, Any]}  # completed below


def wire_of(given: Any) -> Any:
    """Return the pydantic type for the type of a request's field."""
    origin, arguments = get_origin(given), get_args(given)
    if given in _NOUNS:
        return _NOUNS[given]
    if origin is Annotated:
        bounds = [_constrain(each) for each in arguments[1:] if isinstance(each, Bounds)]
        inner = arguments[0]
        return annotate(int, *bounds, WHOLE) if inner is int else annotate(wire_of(inner), *bounds)
    if _is_union(given):
        return reduce(operator.or_, map(wire_of, arguments))
    if origin is not Sequence:
        return given
    items: Any = list.__class_getitem__(wire_of(arguments[0]))
    return annotate(items, BeforeValidator(_take_messages)) if arguments[0] == Message | Row else items


def _take_messages(given: object) -> object:
    """Return the messages of a chat request, {"messages": […]}; any other value unchanged."""
    return given["messages"] if isinstance(given, dict) and given.keys() == {"messages"} else given


def _is_union(given: Any) -> bool:
    return get_origin(given) in (Union, UnionType)


def bounds_to_arguments(bounds: Bounds) -> dict[str, Any]:
    """Return the bounds as the keyword arguments of pydantic's Field and FastAPI's Query."""
    if bounds.pattern:
        SAYS[bounds.pattern] = bounds.says
    given = {name: getattr(bounds, name) for name in ("ge", "le", "min_length", "max_length", "pattern")}
    return {name: value for name, value in given.items() if value is not None}


def _constrain(bounds: Bounds) -> Any:
    return Field(**bounds_to_arguments(bounds))


def annotate(kind: Any, *about: Any) -> Any:
    """Annotate a type with metadata."""
    return Annotated[(kind, *about)]


TextField = Annotated[str, _constrain(get_args(Text)[1])]
NameField = Annotated[str, _constrain(get_args(Name)[1])]


class FilterBody(Body):
    """The part of the collection to see: all conditions must hold, each by any of its values."""

    kinds: Labels | None = Field(None, description=CONDITIONS["kinds"].help)
    authors: Labels | None = Field(None, description=CONDITIONS["authors"].help)
    since: Time | None = Field(None, description=CONDITIONS["since"].help)
    until: Time | None = Field(None, description=CONDITIONS["until"].help)
    meta: Meta = Field(default_factory=dict, description=CONDITIONS["meta"].help)
    access: Labels | None = Field(None, description=CONDITIONS["access"].help)
    documents: Labels | None = Field(None, description=CONDITIONS["documents"].help)
    channels: Labels | None = Field(None, description=CONDITIONS["channels"].help)

    def build(self, engine: Engine) -> Filter:
        """Build the Filter; documents may be named by address, folder or pattern."""
        given: dict[str, Any] = {name: getattr(self, name) for name in type(self).model_fields if name != "documents"}
        given |= {name: frozenset(each) for name, each in given.items() if isinstance(each, list)}
        made = Filter(**given)
        if self.documents is None:
            return made
        seen = engine.opened.within(made)
        return replace(
            made, documents=frozenset(doc for name in self.documents for doc in resolve_documents(seen, name))
        )


class MessageBody(Body):
    """One utterance."""

    text: TextField
    author: ShortText = ""
    at: Time | None = Field(None, description="When it was sent: ISO 8601, in UTC if it names no zone.")
    id: ShortText = Field("", description="Id within its channel; made of the content if it is empty.")
    channel: ShortText = ""
    reply_to: ShortText | None = Field(None, description="Id of the message that it answers.")
    role: Annotated[str, Field(max_length=50)] = Field("user", description="Who speaks: `user` or `assistant`.")
    access: Access = None

    def build(self, _: Engine) -> Message:
        """Build the Message."""
        return Message(**dict(self))


class SentMessageBody(MessageBody):
    """A message that was sent in a channel."""

    channel: NameField


class RowBody(MessageBody):
    """One utterance of a conversation, or its row as in Python: timestamp, author, message; or role, content."""

    @model_validator(mode="before")
    @classmethod
    def _read_row(cls, given: object) -> object:
        if not isinstance(given, dict) or ("text" in given and not {"timestamp", "ts"} & given.keys()):
            return given
        try:
            [row] = read_rows_by_time([given])
        except (TypeError, ValueError) as error:
            raise ValueError(str(error).removeprefix("a row ")) from error
        said = {name: getattr(row.message, name) for name in ("text", "author", "channel", "role")}
        return {**said, "id": row.id, "at": row.message.at and row.message.at.isoformat()}


class DocumentBody(Body):
    """A document made by a program; its text is read as Markdown."""

    id: NameField = Field(description="A document of the same id is replaced.")
    text: Annotated[str, Field(max_length=4_000_000)] = Field(description="Markdown.")
    title: ShortText = ""
    uri: ShortText = Field("", description="Where it comes from; shown with citations, and a name for it as the id is.")
    kind: Annotated[str, Field(min_length=1, max_length=100)] = "page"
    access: Access = None
    meta: Meta = Field(default_factory=dict, description="Anything that is to be filtered by or shown.")

    def build(self, _: Engine) -> Document:
        """Build the Document."""
        return Document(**dict(self), sections=())


class CitationBody(Body):
    """A citation of a past answer, as the server returned it; other fields are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True)
    document: NameField
    version: ShortText
    start: Position
    end: Position
    hash: ShortText
    quote: Annotated[str, Field(max_length=100_000)] = ""
    title: ShortText = ""
    uri: Annotated[str, Field(max_length=4000)] = ""
    page: Position | None = None
    message: ShortText = ""
    author: ShortText = ""
    at: Time | None = None
    section: Labels = []
    line: Position | None = None
    second: Position | None = None

    def build(self, _: Engine) -> Citation:
        """Build the Citation."""
        return Citation(**{**dict(self), "section": tuple(self.section)})


_NOUNS |= {
    Filter: FilterBody | None,
    Message: SentMessageBody,
    Message | Row: RowBody,
    Document: DocumentBody,
    Citation | Row: CitationBody,
}
_TOOL_CONDITIONS: Final = tuple(name for name, option in CONDITIONS.items() if "mcp" in option.on)


class WireField(NamedTuple):
    """A field of a request as pydantic checks it; `name` is its name on the wire."""

    name: str
    kind: Any
    default: Any  # ... if it is required
    help: str
    field: str  # its name in the request

    def make_field(self) -> Any:
        """Make the field with its default and help."""
        return Field(self.default, description=self.help)


def list_fields(request: type[Request[Any]], surface: Surface) -> Iterator[WireField]:
    """List the fields that a surface takes; a tool has conditions in place of a Filter."""
    for each in list_options(request, surface):
        if surface == "mcp" and each.type is Filter:
            for name in _TOOL_CONDITIONS:
                yield WireField(name, FilterBody.model_fields[name].annotation, None, CONDITIONS[name].help, name)
            continue
        name = each.name if surface == "mcp" else each.option.wire or each.name
        yield WireField(name, wire_of(each.type), _get_default(each), each.option.help, each.name)


def _get_default(given: FieldOption) -> Any:
    if given.is_required:
        return ...
    return None if given.type is Filter else [] if given.default == () else given.default


def body_of(
    request: type[Request[Any]], surface: Surface = "http", *, leave_out: Collection[str] = (), **more: Any
) -> type[Body]:
    """Build the model of a request's body on a surface; `more` are fields of that surface alone."""
    made: dict[str, Any] = {
        each.name: (_drop_none(each.kind) if each.field in request.one_of else each.kind, each.make_field())
        for each in list_fields(request, surface)
        if each.field not in leave_out
    }
    model: type[Body] = create_model(f"{request.__name__}Body", __base__=Body, __doc__=request.__doc__, **made, **more)
    if request.one_of:
        model.one_of = request.one_of
        choice: list[Any] = [{"required": [name]} for name in request.one_of]
        model.model_config = ConfigDict(**model.model_config, json_schema_extra={"oneOf": choice})
        model.model_rebuild(force=True)
    return model


def _drop_none(kind: Any) -> Any:
    return (
        reduce(operator.or_, (each for each in get_args(kind) if each is not type(None))) if _is_union(kind) else kind
    )


def parameters_of(request: type[Request[Any]], surface: Surface = "mcp") -> list[Parameter]:
    """Return the fields of a request as function parameters, as the MCP SDK reads them."""
    return [
        Parameter(
            each.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if each.default is ... else each.default,
            annotation=annotate(each.kind, Field(description=each.help)),
        )
        for each in list_fields(request, surface)
    ]


def build_request(request: type[R], given: Mapping[str, Any], engine: Engine) -> R:
    """Build a request from checked values by field name; the conditions of a tool make its Filter."""
    options = {each.name: each for each in list_options(request)}
    values = {name: _build(value, engine) for name, value in given.items() if name in options}
    conditions = {name: value for name, value in given.items() if name not in options and value is not None}
    where = FilterBody.model_construct(**conditions).build(engine) if conditions else EVERYTHING
    for name, option in options.items():
        if option.type is Filter and values.get(name) is None:
            values[name] = where
    return request(**values)


def _build(value: Any, engine: Engine) -> Any:
    if isinstance(value, list):
        return tuple(_build(each, engine) for each in value)
    return value.build(engine) if isinstance(value, BaseModel) else value  # type: ignore[attr-defined]
