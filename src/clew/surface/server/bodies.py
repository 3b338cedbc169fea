"""What requests may say, field by field: strangers' input, so nothing is unbounded and unknown fields are refused."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from clew.core.cite import Citation
from clew.core.filter import Filter
from clew.core.settings import Settings
from clew.core.types import Message
from clew.engine import Engine
from clew.engine.names import resolve_documents
from clew.query.messages.table import AUTHOR_COLUMNS, ID_COLUMNS, TEXT_COLUMNS, TIME_COLUMNS
from clew.surface.citations import parse_citation
from clew.surface.filter_json import parse_filter, parse_time
from clew.surface.server.fields import (
    Budget,
    Candidates,
    Channel,
    Choice,
    Count,
    Grouping,
    Hits,
    IsAgent,
    Meta,
    Mode,
    Names,
    Now,
    Person,
    Position,
    Relevance,
    Rendering,
    Similarity,
    Text,
    Time,
)
from clew.surface.server.fields import Label as Label
from clew.surface.server.fields import Name as Name
from clew.surface.server.fields import Tokens as Tokens

MAX_FIELDS = 100  # of a body or a part of it, far more than any has


class Body(BaseModel):
    """A request body: strict types, no unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_many_fields(cls, given: object) -> object:
        """Each unknown field is an error of its own, so a body of a million would take seconds and gigabytes."""
        if isinstance(given, dict) and len(given) > MAX_FIELDS:
            raise ValueError(f"has {len(given):,} fields, and the limit is {MAX_FIELDS}")
        return given


class FilterBody(Body):
    """Which part of the collection may be seen: all conditions must hold, each by any of its values."""

    documents: Names | None = Field(None, description="Ids, addresses, folders or patterns.")
    kinds: Names | None = Field(None, description="Kinds of documents: `page`, `thread` (a conversation) and others.")
    channels: Names | None = Field(None, description="Channels of conversations.")
    authors: Names | None = Field(None, description="Who wrote it.")
    access: Names | None = Field(None, description="Labels of access that the asker has.")
    since: Time | None = Field(None, description="From this date or time on, by the time of a message or document.")
    until: Time | None = Field(None, description="Before this date or time.")
    meta: Meta = Field(default_factory=dict, description="Fields of the metadata and the value, or one of the values.")

    def build(self, engine: Engine) -> Filter:
        """The Filter; documents may be named by address, folder or pattern."""
        given = self.model_dump(exclude_none=True)
        names = given.pop("documents", None)
        made = parse_filter(given)
        if names is None:
            return made
        seen = engine.opened.within(made)
        return replace(made, documents=frozenset(doc for name in names for doc in resolve_documents(seen, name)))


Where = Annotated[FilterBody, Field(description="Which part of the collection may be seen; without it, all of it.")]


class MessageBody(Body):
    """One utterance; fields may also have the names of a table's columns: `message`, `timestamp`, `author_uuid` …"""

    text: Text = Field(validation_alias=AliasChoices("text", *TEXT_COLUMNS))
    author: Label = Field("", validation_alias=AliasChoices(*AUTHOR_COLUMNS))
    at: Time | None = Field(
        None,
        description="When it was sent: ISO 8601, in UTC if it names no zone.",
        validation_alias=AliasChoices("at", *TIME_COLUMNS),
    )
    id: Label = Field(
        "",
        description="Id within its channel; made of the content if it is empty.",
        validation_alias=AliasChoices(*ID_COLUMNS),
    )
    channel: Label = ""
    reply_to: Label | None = Field(None, description="Id of the message that it answers.")
    role: Annotated[str, Field(max_length=50)] = Field("user", description="Who speaks: `user` or `assistant`.")
    access: Names | None = Field(None, description="Labels, one of which an asker must have; null: anybody.")

    def build(self) -> Message:
        """The Message."""
        given = self.model_dump(exclude={"at", "access"})
        access = None if self.access is None else frozenset(self.access)
        return Message(**given, at=build_time("at", self.at), access=access)


Messages = Annotated[list[MessageBody], Field(max_length=500)]


class SearchOptions(Body):
    """How is searched: how many, by which strategy, in what part of the collection."""

    k: Hits | None = None
    strategy: Choice | None = None
    where: Where | None = None
    mode: Mode | None = None
    depth: Candidates | None = None
    min_relevance: Relevance | None = None
    min_similarity: Similarity | None = None

    def build_settings(self, engine: Engine) -> Settings:
        """The settings of the call: the engine's, with what the request sets."""
        given = {name: getattr(self, name) for name in ("mode", "depth", "min_relevance", "min_similarity")}
        own = {name: value for name, value in given.items() if value is not None}
        return replace(engine.settings, search=replace(engine.settings.search, **own)) if own else engine.settings

    def build_arguments(self, engine: Engine) -> dict[str, Any]:
        """What every verb that searches takes."""
        return {
            "k": self.k,
            "strategy": self.strategy,
            "where": build_filter(self.where, engine),
            "settings": self.build_settings(engine),
        }


def _take_rows(given: object) -> object:
    """The rows of {"messages": rows}, the body of a request to a chat model."""
    return given["messages"] if isinstance(given, dict) and given.keys() == {"messages"} else given


_Rows = BeforeValidator(_take_rows)


class QueryBody(SearchOptions):
    """What is searched with: a question, or a whole conversation."""

    query: Annotated[Text | Annotated[list[MessageBody], Field(min_length=1, max_length=500)], _Rows] = Field(
        description="A question, or the messages of a conversation, which is searched with as a whole."
    )
    history: Messages = Field([], description="What was said before the question, by which it is understood.")

    def build_query(self) -> str | list[Message]:
        """The query as the engine takes it."""
        return self.query if isinstance(self.query, str) else build_messages(self.query)

    def build_arguments(self, engine: Engine) -> dict[str, Any]:
        """What every verb takes that understands a query by the conversation before it."""
        return {**super().build_arguments(engine), "history": build_messages(self.history)}


class SearchManyBody(SearchOptions):
    """Several questions, each searched with by itself."""

    queries: Annotated[list[Text], Field(min_length=1, max_length=100)]


class SearchBody(QueryBody):
    """A search; `channel` and `now` say where and when it is asked."""

    channel: Channel | None = None
    now: Now | None = None
    group_by: Grouping | None = None


class ContextBody(QueryBody):
    """A context for a prompt."""

    tokens: Budget | None = None
    render: Rendering | None = None
    channel: Channel | None = None
    now: Now | None = None


class WhyNotBody(QueryBody):
    """The question why a document was not found."""

    target: Name = Field(description="Id or address of the document that was expected.")
    tokens: Budget | None = None


class AskBody(QueryBody):
    """A question to be answered; with `stream` the events are sent as they happen."""

    query: Text = Field(description="The question.")
    tokens: Budget | None = None
    person: Person | None = None
    agent: IsAgent = False
    stream: bool = Field(False, description="Send server-sent events as they happen, the answer last.")


class ChatBody(SearchOptions):
    """The next question of a conversation that is kept."""

    query: Text = Field(description="The question.")
    tokens: Budget | None = None
    person: Person | None = None
    agent: IsAgent = False


class SentMessageBody(MessageBody):
    """A message that was sent in a channel."""

    channel: Name


class MessagesBody(Body):
    """Messages to be added."""

    messages: Annotated[list[SentMessageBody], Field(min_length=1, max_length=5000)]


class WindowBody(Body):
    """A prompt in a channel."""

    channel: Name
    prompt: Text = Field(description="What is about to be answered.")
    tokens: Budget | None = None
    include_related_channels: bool = Field(False, description="Also search up to three related channels.")
    min_similarity: Similarity | None = None
    where: Where | None = None
    now: Now | None = None


class StyleBody(Body):
    """A message to be answered as a person would."""

    person: Name
    message: Text = Field(description="The message that is to be answered.")
    tokens: Budget | None = None
    where: Where | None = None
    now: Now | None = None


class CitationBody(Body):
    """A citation of a past answer, as it was replied; further fields are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True)
    document: Name
    version: Label
    start: Position
    end: Position
    hash: Label
    quote: Annotated[str, Field(max_length=100_000)] | None = None
    title: Label | None = None
    uri: Annotated[str, Field(max_length=4000)] | None = None
    page: Position | None = None
    message: Label | None = None
    author: Label | None = None
    at: Time | None = None
    section: Names | None = None
    line: Position | None = None

    def build(self) -> Citation:
        """The Citation."""
        at = build_time("at", self.at)
        return replace(parse_citation(self.model_dump(exclude_none=True, exclude={"at"})), at=at)


class CheckBody(Body):
    """The citations of a past answer, as they were sent."""

    citations: Annotated[list[CitationBody], Field(max_length=1000)]
    where: Where | None = None


class FeedbackBody(Body):
    """Whether an answer or its documents were good, or which result was opened."""

    question: Text
    good: Annotated[bool | None, Field(description="Whether the answer was good.")] = None
    opened: Annotated[Label | None, Field(description="Id of the document of a result that was opened.")] = None
    rank: Annotated[Count | None, Field(description="Rank of the result that was opened.")] = None
    comment: Annotated[str, Field(max_length=5000)] = ""
    answer: Annotated[str, Field(max_length=50_000)] = Field("", description="The answer that is judged.")
    documents: Annotated[list[Label], Field(max_length=100)] = Field(
        [], description="Ids of the documents that are judged."
    )


def build_filter(where: FilterBody | None, engine: Engine) -> Filter:
    """The Filter of a request; everything without one."""
    return Filter() if where is None else where.build(engine)


def build_messages(given: Sequence[MessageBody]) -> list[Message]:
    """The Messages of a request."""
    return [each.build() for each in given]


def build_time(name: str, given: str | None) -> datetime | None:
    """The time of a request, if it has one."""
    return None if given is None else parse_time(name, given)
