"""What requests may say, field by field: strangers' input, so nothing is unbounded and unknown fields are refused."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, model_validator

from clew.core.cite import Citation
from clew.core.filter import Filter
from clew.core.settings import Settings
from clew.core.types import Message
from clew.engine import Engine
from clew.engine.names import resolve_documents
from clew.surface.citations import parse_citation
from clew.surface.filter_json import parse_filter, parse_time

Text = Annotated[str, Field(min_length=1, max_length=20_000, pattern=r"[^\s\x00-\x1f\x7f-\xa0]")]  # not blank
LongText = Annotated[str, Field(max_length=4_000_000)]
Name = Annotated[str, Field(min_length=1, max_length=500)]
Label = Annotated[str, Field(max_length=500)]
Names = Annotated[list[Label], Field(max_length=1000)]
Time = Annotated[str, Field(max_length=40, json_schema_extra={"anyOf": [{"format": "date-time"}, {"format": "date"}]})]
WHOLE = BeforeValidator(lambda given: int(given) if _is_whole(given) else given)  # in JSON 5.0 is a whole number too
Count = Annotated[int, Field(ge=1, le=1000), WHOLE]
Tokens = Annotated[int, Field(ge=1, le=1_000_000), WHOLE]
Depth = Annotated[int, Field(ge=1, le=10_000), WHOLE]
Position = Annotated[int, Field(ge=0, le=2**53), WHOLE]
Share = Annotated[float, Field(ge=-1, le=1)]
Scalar = str | Annotated[int, Strict(), Field(ge=-(2**53), le=2**53)] | Annotated[float, Strict()] | bool
Meta = Annotated[dict[Label, Scalar | Annotated[list[Scalar], Field(max_length=100)]], Field(max_length=100)]


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
    kinds: Names | None = None
    channels: Names | None = None
    authors: Names | None = None
    access: Names | None = None
    since: Time | None = None
    until: Time | None = None
    meta: Meta = Field(default_factory=dict)

    def build(self, engine: Engine) -> Filter:
        """The Filter; documents may be named by address, folder or pattern."""
        given = self.model_dump(exclude_none=True)
        names = given.pop("documents", None)
        made = parse_filter(given)
        if names is None:
            return made
        seen = engine.opened.within(made)
        return replace(made, documents=frozenset(doc for name in names for doc in resolve_documents(seen, name)))


class MessageBody(Body):
    """One utterance."""

    text: Text
    author: Label = ""
    at: Time | None = None
    id: Label = ""
    channel: Label = ""
    reply_to: Label | None = None
    role: Annotated[str, Field(max_length=50)] = "user"
    access: Names | None = None

    def build(self) -> Message:
        """The Message."""
        given = self.model_dump(exclude={"at", "access"})
        access = None if self.access is None else frozenset(self.access)
        return Message(**given, at=build_time("at", self.at), access=access)


Messages = Annotated[list[MessageBody], Field(max_length=500)]


class SearchOptions(Body):
    """How is searched: how many, by which strategy, in what part of the collection."""

    k: Count | None = None
    strategy: Name | None = None
    where: FilterBody | None = None
    mode: Literal["ann", "exact"] | None = None
    depth: Depth | None = None
    min_relevance: Annotated[float, Field(ge=0, le=1)] | None = None
    min_similarity: Share | None = None

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


class QueryBody(SearchOptions):
    """What is searched with: a question, or a whole conversation."""

    query: Text | Annotated[list[MessageBody], Field(min_length=1, max_length=500)]
    history: Messages = []

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

    channel: Name | None = None
    now: Time | None = None
    group_by: Literal["document"] | None = None


class ContextBody(QueryBody):
    """A context for a prompt."""

    tokens: Tokens | None = None
    render: Name | None = None
    channel: Name | None = None
    now: Time | None = None


class WhyNotBody(QueryBody):
    """The question why a document was not found."""

    target: Name
    tokens: Tokens | None = None


class AskBody(QueryBody):
    """A question to be answered; with `stream` the events are sent as they happen."""

    query: Text
    tokens: Tokens | None = None
    person: Name | None = None
    agent: bool = False
    stream: bool = False


class ChatBody(SearchOptions):
    """The next question of a conversation that is kept."""

    query: Text
    tokens: Tokens | None = None
    person: Name | None = None
    agent: bool = False


class SentMessageBody(MessageBody):
    """A message that was sent in a channel."""

    channel: Name


class MessagesBody(Body):
    """Messages to be added."""

    messages: Annotated[list[SentMessageBody], Field(min_length=1, max_length=5000)]


class WindowBody(Body):
    """A prompt in a channel."""

    channel: Name
    prompt: Text
    tokens: Tokens | None = None
    include_related_channels: bool = False
    min_similarity: Share | None = None
    where: FilterBody | None = None
    now: Time | None = None


class StyleBody(Body):
    """A message to be answered as a person would."""

    person: Name
    message: Text
    tokens: Tokens | None = None
    where: FilterBody | None = None
    now: Time | None = None


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
    where: FilterBody | None = None


class FeedbackBody(Body):
    """Whether an answer or its documents were good."""

    question: Text
    good: bool
    comment: Annotated[str, Field(max_length=5000)] = ""
    answer: Annotated[str, Field(max_length=50_000)] = ""
    documents: Names = []


def _is_whole(given: object) -> bool:
    return isinstance(given, float) and given.is_integer()


def build_filter(where: FilterBody | None, engine: Engine) -> Filter:
    """The Filter of a request; everything without one."""
    return Filter() if where is None else where.build(engine)


def build_messages(given: Sequence[MessageBody]) -> list[Message]:
    """The Messages of a request."""
    return [each.build() for each in given]


def build_time(name: str, given: str | None) -> datetime | None:
    """The time of a request, if it has one."""
    return None if given is None else parse_time(name, given)
