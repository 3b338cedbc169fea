"""The requests: a frozen value for each verb. Every surface takes its options from the fields.

The annotation of a field has its type with bounds, and an `Option`: a line of help, and the surfaces that offer it. The
HTTP bodies and schema, the options of the command line, the arguments of MCP tools and the calls of a client are made
from these. The methods of `Engine` have their own signatures, so that an editor shows them with their docstrings; a
test compares them with the fields.

    @dataclass(frozen=True)
    class Search(Conversing[SearchReply], http="POST /v1/search"):
        query: ...
        group_by: Annotated[Literal["document"] | None, Option("document: at most one hit of each document.")] = None
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, Field, dataclass, fields
from datetime import datetime
from functools import cache
from sys import modules
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from clew.core import replies as r
from clew.core.errors import SettingsError
from clew.core.filter import EVERYTHING, Filter

if TYPE_CHECKING:
    from clew.core.cite import Citation
    from clew.core.types import Document, Message

R = TypeVar("R")  # the return type of a client
Surface = Literal["python", "cli", "http", "mcp"]
EVERYWHERE: Final[frozenset[Surface]] = frozenset({"python", "cli", "http", "mcp"})
PROGRAMS: Final[frozenset[Surface]] = frozenset({"python", "http"})
NO_TOOL: Final[frozenset[Surface]] = frozenset({"python", "cli", "http"})


@dataclass(frozen=True, slots=True)
class Option:
    """The presentation of a field: its help, its surfaces, and its names there.

    `flag` (a short one, or all) and `metavar` are for the command line, `wire` is the name in JSON if it differs. A
    field with a `setting` overrides that setting for the call; in Python, pass `settings=` instead.
    """

    help: str
    on: frozenset[Surface] = EVERYWHERE
    flag: str = ""
    metavar: str = ""
    wire: str = ""
    setting: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of a value; `says` is the text of the error, where a pattern would explain nothing."""

    ge: float | None = None
    le: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    says: str = ""


def bounded(low: int, high: int) -> Bounds:
    """Make the bounds of a length."""
    return Bounds(min_length=low, max_length=high)


Text = Annotated[
    str,
    Bounds(min_length=1, max_length=20_000, pattern=r"[^\s\x00-\x1f\x7f-\xa0]", says="is blank; give a text"),
]
Name = Annotated[str, bounded(1, 500)]
Label = Annotated[str, bounded(0, 500)]
Address = Annotated[str, bounded(1, 2000)]
Url = Annotated[
    str,
    Bounds(max_length=2000, pattern=r"^https?://[!-~]+$", says="is no web address; give one with http:// or https://"),
]
Names = Annotated[Sequence[Label], bounded(0, 1000)]
Count = Annotated[int, Bounds(ge=1, le=1000)]
Tokens = Annotated[int, Bounds(ge=1, le=1_000_000)]
Similarity = Annotated[float, Bounds(ge=-1, le=1)]
Row = Mapping[str, Any]  # a message of a conversation: columns by name
History = Annotated[Sequence["Message | Row"], bounded(0, 500), Option("What was said before the question.", PROGRAMS)]
Strategy = Annotated[
    Name | None,
    Option("Search strategy: hybrid, semantic, lexical, auto … (default: search.strategy).", metavar="NAME"),
]
Where = Annotated[Filter, Option("The part of the collection to look in (default: all of it).")]
Budget = Annotated[Tokens | None, Option("Token budget of the passages (default: context.tokens).", metavar="N")]
Person = Annotated[
    Name | None,
    Option("Answer in the style of this author; needs a language model.", NO_TOOL, "--as", "PERSON"),
]
Channel = Annotated[Name | None, Option("The channel where the question is asked: its messages rank higher.", PROGRAMS)]
AskedAt = Annotated[datetime | None, Option("When the question is asked (default: now).", PROGRAMS)]
Now = Annotated[datetime | None, Option("When the question is asked (default: now).", NO_TOOL, metavar="TIME")]
# The conditions of a Filter, each by the name of its field.
CONDITIONS: Final[Mapping[str, Option]] = {
    "kinds": Option("Only this kind: page, thread (a conversation) …", flag="--kind", metavar="KIND"),
    "authors": Option("Only this author.", flag="--author", metavar="NAME"),
    "since": Option("Only from this date or time on (UTC): 2025-05-31, yesterday, 7d.", metavar="DATE"),
    "until": Option("Only before this date or time (UTC).", metavar="DATE"),
    "meta": Option("Only with this metadata.", NO_TOOL, metavar="KEY=VALUE"),
    "access": Option("Only what somebody with this label may see.", NO_TOOL, metavar="LABEL"),
    "documents": Option("Only this id, address, folder or pattern.", flag="--document", metavar="DOC"),
    "channels": Option("Only this channel.", flag="--channel", metavar="NAME"),
}
DocumentName = Annotated[Address, Option("Document id or address.", metavar="DOCUMENT", wire="id")]
MessageId = Annotated[
    str, bounded(1, 1000), Option("Id of a message, or channel/id.", metavar="MESSAGE", wire="message")
]
DryRun = Annotated[bool, Option("Remove nothing; tell what would go.")]
HasPattern = Annotated[
    bool, Option("The name is a folder or a pattern such as notes/*.md: all that it stands for goes.", PROGRAMS)
]


@dataclass(frozen=True)
class Request(Generic[R]):
    """The arguments of a verb. A client returns an `R` for it: the reply, or a `part` of it."""

    verb: ClassVar[str]  # as in Python: why_not
    method: ClassVar[Literal["GET", "POST", "DELETE"]]
    path: ClassVar[str]
    result: ClassVar[Any]  # the type R
    reply: ClassVar[Any]
    part: ClassVar[str]
    fixed: ClassVar[Mapping[str, Any]]  # constant values in its body, besides the fields
    one_of: ClassVar[tuple[str, ...]]  # fields of which exactly one must be given

    def __init_subclass__(
        cls,
        *,
        http: str = "",
        verb: str = "",
        reply: Any = None,
        part: str = "",
        fixed: Mapping[str, Any] | None = None,
        one_of: tuple[str, ...] = (),
    ) -> None:
        if http:
            cls.verb = verb or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()
            cls.method, _, cls.path = http.partition(" ")  # type: ignore[assignment]
            [base] = cls.__orig_bases__[:1]  # type: ignore[attr-defined]
            cls.result = get_args(base)[0]
            cls.part, cls.fixed, cls.one_of = part, fixed or {}, one_of
            cls.reply = reply or (r.make_reply(cls, part) if part else cls.result)


@dataclass(frozen=True, kw_only=True)
class Searching(Request[R]):
    """The options of every verb that searches."""

    k: Annotated[Count | None, Option("Number of results, best first (default: search.k).", flag="-k", metavar="N")] = (
        None
    )
    strategy: Strategy = None
    where: Where = EVERYTHING
    mode: Annotated[
        Literal["ann", "exact"] | None,
        Option("Vector search: ann (approximate, fast) or exact.", NO_TOOL, metavar="MODE", setting="search.mode"),
    ] = None
    depth: Annotated[
        Annotated[int, Bounds(ge=1, le=10_000)] | None,
        Option("Candidates from each ranking.", NO_TOOL, metavar="N", setting="search.depth"),
    ] = None
    min_relevance: Annotated[
        Annotated[float, Bounds(ge=0, le=1)] | None,
        Option(
            "Minimum relevance, 0 to 1: the chance that a result answers; comparable across queries.",
            metavar="X",
            setting="search.min_relevance",
        ),
    ] = None
    min_similarity: Annotated[
        Similarity | None,
        Option(
            "Minimum cosine of query and result; its scale depends on the embedder.",
            NO_TOOL,
            metavar="X",
            setting="search.min_similarity",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Conversing(Searching[R]):
    """The options of a verb that interprets a question with the conversation before it."""

    history: History = ()


SessionName = Annotated[
    str,
    Bounds(
        pattern=r"^\w[\w.-]{0,99}$",
        says="is no plain name; use letters, digits, dots and dashes, 100 at most",
    ),
    Option("Name of a chat."),
]
CollectionName = Annotated[
    str,
    Bounds(
        min_length=1,
        max_length=200,
        pattern=r'^[^./\\\x00:*?"<>|][^/\\\x00:*?"<>|]*$',
        says='is no name of a collection; it begins with no dot and has no slash, and none of : * ? " < > |',
    ),
]
JobId = Annotated[
    str,
    Bounds(min_length=1, max_length=100, pattern=r"^[!-~]+$", says="is no id of a job"),
    Option("Id of a job.", metavar="JOB", wire="job"),
]
Asked = Annotated[
    Text | Annotated[Sequence["Message | Row"], bounded(1, 500)],
    Option("A question or keywords; or the messages of a conversation, to search with all of it.", metavar="QUERY"),
]
Question = Annotated[Text, Option("The question.", metavar="QUESTION", wire="query")]


@dataclass(frozen=True)
class Search(Conversing[r.SearchReply], http="POST /v1/search"):
    """Find the most relevant chunks, best first, or the reason why there are none."""

    query: Asked
    _: KW_ONLY
    channel: Channel = None
    now: AskedAt = None
    group_by: Annotated[
        Literal["document"] | None, Option("document: each document once, by its best chunk; k counts documents.")
    ] = None
    without: Annotated[Names, Option("Leave out this id, address, folder or pattern.", metavar="DOC")] = ()


@dataclass(frozen=True)
class SearchMany(Searching[Sequence[r.HitsReply]], http="POST /v1/search-many", part="results"):
    """Find the most relevant chunks for each of several questions, embedded in one batch."""

    queries: Annotated[Sequence[Text], bounded(1, 100), Option("The questions.")]


@dataclass(frozen=True)
class Context(Conversing[r.ContextReply], http="POST /v1/context"):
    """Make the context for a prompt: cited passages within a token budget."""

    query: Asked
    _: KW_ONLY
    tokens: Budget = None
    channel: Channel = None
    now: AskedAt = None
    render: Annotated[
        Name | None, Option("Format of the text: numbered, knowledge_base … (default: context.render).", NO_TOOL)
    ] = None


@dataclass(frozen=True)
class Ask(Conversing[r.AnswerReply], http="POST /v1/ask"):
    """Answer a question with checked citations; without a language model, quote the best passages."""

    question: Question
    _: KW_ONLY
    tokens: Budget = None
    person: Person = None


@dataclass(frozen=True)
class Agent(Request[r.AnswerReply], http="POST /v1/ask", fixed={"agent": True}):
    """Answer a question with a language model that chooses its own searches."""

    question: Question
    _: KW_ONLY
    strategy: Strategy = None
    where: Where = EVERYTHING
    history: History = ()


@dataclass(frozen=True)
class Chat(Searching[r.AnswerReply], http="POST /v1/sessions/{session}"):
    """Answer the next question of a saved chat; start a new one if the name is new."""

    session: SessionName
    question: Question
    _: KW_ONLY
    tokens: Budget = None
    person: Person = None
    agent: Annotated[bool, Option("Let the language model choose its own searches.", frozenset({"cli", "http"}))] = (
        False
    )


@dataclass(frozen=True)
class Explain(Conversing[r.ExplainReply], http="POST /v1/explain"):
    """Show the stages of a search with counts and times, and every number of each result."""

    query: Asked
    _: KW_ONLY
    channel: Channel = None
    now: AskedAt = None


@dataclass(frozen=True)
class WhyNot(Conversing[r.WhyNotReply], http="POST /v1/why-not"):
    """Show which stage lost a missing result, and the smallest change of a setting that finds it."""

    query: Asked
    target: Annotated[Name, Option("Document, chunk or message, by id, address or path.", metavar="TARGET")]
    _: KW_ONLY
    tokens: Budget = None


@dataclass(frozen=True)
class Check(Request[r.CheckReply], http="POST /v1/check"):
    """Check whether the citations of a past answer still match the documents."""

    citations: Annotated[
        Sequence["Citation | Mapping[str, Any]"],
        bounded(0, 1000),
        Option("The citations, as the answer has them."),
    ]
    _: KW_ONLY
    where: Where = EVERYTHING


@dataclass(frozen=True)
class Feedback(Request[r.FeedbackReply], http="POST /v1/feedback", one_of=("good", "opened")):
    """Say whether an answer was good, or which result was opened."""

    question: Annotated[Text, Option("The question.")]
    _: KW_ONLY
    good: Annotated[bool | None, Option("Whether the answer was good.")] = None
    opened: Annotated[Name | None, Option("Id of the document of a result that was opened.")] = None
    rank: Annotated[Count | None, Option("Rank of the result that was opened.")] = None
    comment: Annotated[str, bounded(0, 5000), Option("What else is to be said.")] = ""
    answer: Annotated[str, bounded(0, 50_000), Option("The answer that is judged.")] = ""
    documents: Annotated[Sequence[Label], bounded(0, 100), Option("Ids of the documents that are judged.")] = ()


@dataclass(frozen=True)
class ListFeedback(Request[Sequence[r.FeedbackReply]], http="GET /v1/feedback", part="feedback"):
    """List the last thousand judgements and opened results of the collection, the oldest first."""


# Documents


@dataclass(frozen=True)
class Add(Request[r.JobReply], http="POST /v1/add"):
    """Queue web addresses to be fetched and added; upload files instead."""

    sources: Annotated[Sequence[Url], bounded(1, 100), Option("Web addresses.")]


@dataclass(frozen=True)
class Plan(Request[r.PlanReply], http="POST /v1/plan"):
    """Estimate what adding these web addresses would do and cost; nothing is stored."""

    sources: Annotated[Sequence[Url], bounded(1, 100), Option("Web addresses.")]


@dataclass(frozen=True)
class AddDocuments(Request[r.ReportReply], http="POST /v1/add-documents"):
    """Add documents made by a program; they are found once this returns."""

    documents: Annotated[Sequence["Document"], bounded(1, 1000), Option("The documents.")]


@dataclass(frozen=True)
class List(Request[r.RecordReply], http="GET /v1/documents", reply=r.DocumentsReply, part="documents"):
    """List the documents by address, page by page."""

    _: KW_ONLY
    kinds: Annotated[Sequence[Label], bounded(0, 100), Option("Kinds of documents: page, thread …", wire="kind")] = ()
    channels: Annotated[Sequence[Label], bounded(0, 100), Option("Channels of conversations.", wire="channel")] = ()
    authors: Annotated[Sequence[Label], bounded(0, 100), Option("Who wrote it.", wire="author")] = ()


@dataclass(frozen=True)
class Read(Request[r.DocumentReply], http="GET /v1/document"):
    """Read a document with its whole text."""

    document: DocumentName


@dataclass(frozen=True)
class Chunks(Request[r.ChunkReply], http="GET /v1/document/chunks", reply=r.ChunksReply, part="chunks"):
    """List the chunks of a document, in order."""

    document: DocumentName


@dataclass(frozen=True)
class Links(Request[r.LinksReply], http="GET /v1/document/links"):
    """List the documents that a document links to, and the threads that link to it."""

    document: DocumentName


@dataclass(frozen=True)
class Drop(Request[int], http="DELETE /v1/document", reply=r.DroppedDocumentsReply, part="dropped"):
    """Remove one document by its id or address; with `pattern`, all documents in a folder or matching a pattern.

    Returns the number of removed documents; `preview_drop` lists them without removing.
    """

    document: DocumentName
    _: KW_ONLY
    pattern: HasPattern = False


@dataclass(frozen=True)
class PreviewDrop(
    Request[list[str]],
    http="DELETE /v1/document",
    reply=r.DroppedDocumentsReply,
    part="documents",
    fixed={"dry_run": True},
):
    """List the addresses of the documents that `drop` would remove, without removing them."""

    document: DocumentName
    _: KW_ONLY
    pattern: HasPattern = False


@dataclass(frozen=True)
class Erase(Request[r.ReceiptReply], http="POST /v1/erase", one_of=("documents", "author", "channel")):
    """Erase documents, all messages of an author, or a channel, with all derived data; return the receipt."""

    documents: Annotated[Sequence[Name], bounded(1, 1000), Option("Documents, by id or address.")] = ()
    _: KW_ONLY
    author: Annotated[Name | None, Option("Author of the messages to remove.")] = None
    channel: Annotated[Name | None, Option("Channel to remove.")] = None
    dry_run: DryRun = False


# Conversations


@dataclass(frozen=True)
class AddMessages(Request[r.ReportReply], http="POST /v1/messages"):
    """Add messages as they are sent; skip stored ones, and replace edited ones."""

    messages: Annotated[Sequence["Message"], bounded(1, 5000), Option("The messages, each with its channel.")]


@dataclass(frozen=True)
class ReadMessage(Request[r.MessageReply], http="GET /v1/messages/{message}", verb="message"):
    """Read one message by its id, or channel/id."""

    id: MessageId


@dataclass(frozen=True)
class DropMessages(Request[int], http="DELETE /v1/messages/{message}", part="dropped"):
    """Remove one message by its id, or channel/id."""

    id: MessageId


@dataclass(frozen=True)
class Channels(Request[list[str]], http="GET /v1/channels", part="channels"):
    """List the channels that have messages."""


@dataclass(frozen=True)
class Window(Request[r.WindowReply], http="POST /v1/window"):
    """Choose the messages of a channel for a prompt: whole threads within a token budget."""

    channel: Annotated[Name, Option("Channel in which the prompt is asked.", metavar="CHANNEL")]
    prompt: Annotated[Text, Option("The question or message to find messages for.", metavar="PROMPT")]
    _: KW_ONLY
    tokens: Annotated[Tokens | None, Option("Token budget of the window (default: 4000).", metavar="N")] = None
    include_related_channels: Annotated[bool, Option("Also search up to three related channels.", flag="--related")] = (
        False
    )
    min_similarity: Annotated[
        Similarity | None,
        Option("Minimum cosine similarity of a message.", flag="--min-similarity --min-score", metavar="X"),
    ] = None
    where: Where = EVERYTHING
    now: Now = None


@dataclass(frozen=True)
class Profile(Request[r.ProfileReply], http="GET /v1/profile/{person}"):
    """Describe how a person writes: tone, vocabulary, length, phrases and habits."""

    person: Annotated[Name, Option("Author of messages, by name.", metavar="PERSON")]


@dataclass(frozen=True)
class StylePrompt(Request[str], http="POST /v1/style-prompt", reply=r.StylePromptReply, part="prompt"):
    """Make a system prompt for a model to answer a message as a person would."""

    person: Annotated[Name, Option("Author of messages, by name.", metavar="PERSON")]
    message: Annotated[Text, Option("The message to answer.", metavar="MESSAGE")]
    _: KW_ONLY
    tokens: Annotated[Tokens | None, Option("Token budget of the prompt (default: 1000).", metavar="N")] = None
    where: Where = EVERYTHING
    now: Now = None


@dataclass(frozen=True)
class Sessions(Request[Sequence[str]], http="GET /v1/sessions", part="sessions"):
    """List the saved chats."""


@dataclass(frozen=True)
class Session(Request[r.SessionReply], http="GET /v1/sessions/{session}"):
    """Read the last messages of a chat, and the numbers of the documents that it cited."""

    session: SessionName


@dataclass(frozen=True)
class DropSession(Request[int], http="DELETE /v1/sessions/{session}", part="dropped"):
    """Delete a chat with its messages."""

    session: SessionName


# The collection, its jobs and its evaluations


@dataclass(frozen=True)
class Status(Request[r.StatusReply], http="GET /v1/status"):
    """Return the counts of a collection: documents, chunks, languages and more."""


@dataclass(frozen=True)
class Doctor(Request[r.DoctorReply], http="GET /v1/doctor"):
    """Check the stored data for defects, in a sample of a large collection; repair nothing."""

    _: KW_ONLY
    full: Annotated[bool, Option("Read every document, not a sample of a large collection.")] = False


@dataclass(frozen=True)
class Collections(Request[Sequence[r.CollectionReply]], http="GET /v1/collections", part="collections"):
    """List the collections that the key opens; only the name of a collection that it sees in part."""


@dataclass(frozen=True)
class DropCollection(Request[r.DroppedCollectionReply], http="DELETE /v1/collections/{name}"):
    """Remove a collection with all its documents, jobs, saved chats, uploads and feedback, for good."""

    name: Annotated[CollectionName, Option("Name of a collection.", metavar="NAME")]


@dataclass(frozen=True)
class Jobs(Request[list[r.JobReply]], http="GET /v1/jobs", part="jobs"):
    """List the jobs of the collection, the oldest first."""


@dataclass(frozen=True)
class Job(Request[r.JobReply], http="GET /v1/jobs/{job}"):
    """Show a job as it is now."""

    job_id: JobId


@dataclass(frozen=True)
class CancelJob(Request[r.JobReply], http="DELETE /v1/jobs/{job}"):
    """Cancel a job; documents that it has added stay."""

    job_id: JobId


@dataclass(frozen=True)
class ListRuns(Request[Sequence[r.RunReply]], http="GET /v1/evaluations", part="runs"):
    """List the stored evaluations, the oldest first."""


@dataclass(frozen=True)
class ReadRun(Request[r.EvaluationReply], http="GET /v1/evaluations/{run}"):
    """Read one evaluation: the measures of each system, and their differences from the first."""

    run: Annotated[str, bounded(1, 30), Option("Id of a run, or last.", metavar="RUN")]


@dataclass(frozen=True)
class EnqueueEvaluation(Request[r.JobReply], http="POST /v1/evaluations"):
    """Queue a job that measures strategies on judged questions; its result names the run."""

    questions: Annotated[
        Sequence[Mapping[str, Any]],
        bounded(1, 10_000),
        Option("Judged questions, as the lines of a file for `clew evaluate`: question, relevant, evidence …"),
    ]
    _: KW_ONLY
    strategies: Annotated[
        Sequence[Name], bounded(0, 20), Option("Strategies to measure; the first is the baseline.")
    ] = ()
    k: Annotated[Count, Option("Cutoff: the measures look at the first k documents.")] = 10
    tokens: Annotated[
        Annotated[int, Bounds(ge=0, le=1_000_000)] | None, Option("Budget of the context; 0: none is made.")
    ] = None
    answers: Annotated[bool, Option("Also answer each question; this calls the language model.")] = False


@dataclass(frozen=True)
class MakeQuestions(
    Request[Sequence[dict[str, Any]]],
    http="POST /v1/evaluations/questions",
    part="questions",
):
    """Make judged questions from headings, titles and replies of the collection, a model, or users' feedback."""

    _: KW_ONLY
    sources: Annotated[
        Sequence[Literal["headings", "titles", "replies", "model", "feedback"]],
        bounded(0, 5),
        Option("Default: the language model, or without one all but feedback."),
    ] = ()
    count: Annotated[Count, Option("Maximum number of questions.")] = 200


@dataclass(frozen=True, slots=True)
class FieldOption:
    """A field of a request as a surface sees it."""

    name: str
    type: Any  # the type with its bounds, without the Option
    option: Option
    default: Any  # MISSING for a required field

    @property
    def is_required(self) -> bool:
        """Whether the field has no default."""
        return self.default is MISSING


def list_options(request: Any, surface: Surface | None = None) -> tuple[FieldOption, ...]:
    """List the fields of a request, required ones first; with a surface, only those that it offers."""
    return _read_options(request, surface)


@cache
def _read_options(request: Any, surface: Surface | None) -> tuple[FieldOption, ...]:
    hints = get_types(request, with_bounds=True, with_nouns=surface != "cli")
    found = sorted(
        (_read_field(each, hints[each.name]) for each in fields(request)), key=lambda each: not each.is_required
    )
    return tuple(each for each in found if surface is None or surface in each.option.on)


def get_types(request: type, *, with_bounds: bool = False, with_nouns: bool = True) -> dict[str, Any]:
    """Return the types of the fields.

    with_nouns: False replaces Citation, Document and Message by `object`: the command line has no such arguments, and
        starts faster without these imports.
    """
    names: dict[str, Any] = dict.fromkeys(("Citation", "Document", "Message"), object)
    if with_nouns:
        from clew.core.cite import Citation
        from clew.core.types import Document, Message

        names = {"Citation": Citation, "Document": Document, "Message": Message}
    known = {**vars(modules[request.__module__]), **globals(), **names}
    return get_type_hints(request, known, include_extras=with_bounds)


def _read_field(field: "Field[Any]", hint: Any) -> FieldOption:
    inner, *more = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    option = next((each for each in more if isinstance(each, Option)), None)
    if option is None:
        raise SettingsError(f"the field {field.name} has no Option: give it a line of help")
    kept = tuple(each for each in more if isinstance(each, Bounds))
    return FieldOption(field.name, Annotated[(inner, *kept)] if kept else inner, option, field.default)


def list_requests() -> list[type[Request[Any]]]:
    """List every request above."""
    return [each for each in globals().values() if isinstance(each, type) and "verb" in vars(each)]
