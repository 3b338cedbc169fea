"""The MCP server and its tools: each calls one verb of its caller's engine, with the options of its request.

The text of a reply is for reading; for `search` and `fetch` it is JSON, as ChatGPT expects it.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from inspect import Parameter, Signature, get_annotations, getdoc
from itertools import islice
from typing import Annotated, Any, NotRequired, Protocol, TypeVar

from anyio import CapacityLimiter, to_thread
from mcp.server import MCPServer
from mcp.server.context import ServerMiddleware
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools.base import Tool
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import ConfigDict, Field, ValidationError
from typing_extensions import TypedDict

from clew.core import requests as q
from clew.core.attribution import make_passage_message
from clew.core.errors import ClewError, NotFound
from clew.core.filter import Filter
from clew.core.ids import make_document_id
from clew.core.types import Document, Hit
from clew.engine import Engine
from clew.engine.conversations import find_messages
from clew.engine.search import get_token_counter
from clew.query.context.format.messages import format_document_text
from clew.surface.advice import MCP_ADVICE, describe_problems, translate_advice
from clew.surface.bodies import build_request, parameters_of
from clew.surface.to_json import dump_json, to_json
from clew.surface.verbs import call_verb, explain_empty_result


class SearchResult(TypedDict):
    """A hit: `id` is for `fetch`, `relevance` is the chance that it answers; a message has its author and time."""

    id: str
    title: str
    url: str
    text: str
    relevance: float | None
    author: NotRequired[str]
    at: NotRequired[str | None]
    channel: NotRequired[str]


class SearchResults(TypedDict):
    """The hits of a search, best first; a reason if there are none."""

    results: list[SearchResult]
    reason: NotRequired[str]


class FetchedDocument(TypedDict):
    """A document with its text or a part of it; `next` is the start of the part after it."""

    id: str
    title: str
    text: str
    url: str
    metadata: dict[str, Any]
    next: NotRequired[int | None]


class Source(TypedDict):
    """The source of a number in the text."""

    number: int
    id: str
    url: str


class ContextText(TypedDict):
    """Prompt text with numbered passages, and their sources; a reason if there are none."""

    text: str
    tokens: int
    sources: list[Source]
    reason: str


class Quote(Source):
    """A citation: the quoted words, and for a message its author and time."""

    title: str
    quote: str
    author: str
    at: str | None


class AskedAnswer(TypedDict):
    """An answer with checked citations; `found` is false if there is none."""

    text: str
    found: bool
    confidence: float | None
    citations: list[Quote]
    reason: str


class DocumentList(TypedDict):
    """Documents by address; `next` is the start of the part after them."""

    documents: list[dict[str, Any]]
    next: int | None


class FoundMessage(TypedDict):
    """A message that was found."""

    id: str
    channel: str
    author: str
    at: str | None
    text: str
    relevance: float | None


class FoundMessages(TypedDict):
    """Messages, best first."""

    messages: list[FoundMessage]


class AddedDocument(TypedDict):
    """The result of `add`: the id of the document, and whether it was added, changed or neither."""

    id: str
    added: bool
    changed: bool
    chunks: int


class CollectionStatus(TypedDict):
    """The counts of the collection."""

    collection: str
    documents: int
    chunks: int
    embedder: str
    channels: list[str]


def _describe_answer(reply: Mapping[str, Any]) -> str:
    sources = (
        f"[{each['number']}] {', '.join(filter(None, (each['title'], each['author'], each['at'])))}  {each['url']}"
        for each in reply["citations"]
    )
    return "\n".join([reply["text"], *([reply["reason"]] if reply["reason"] else []), "", *sources]).strip()


def _describe_documents(reply: Mapping[str, Any]) -> str:
    lines = [f"{each['id']}  {each['kind']}  {each['title']}  {each['uri']}" for each in reply["documents"]]
    return "\n".join([*lines, f"more from start={reply['next']}"] if reply["next"] else lines) or "no documents"


def _describe_messages(reply: Mapping[str, Any]) -> str:
    return "\n".join(
        f"{each['author']}, {each['at'] or 'no time'}, #{each['channel']} ({each['id']}): {each['text']}"
        for each in reply["messages"]
    )


def _describe_status(reply: Mapping[str, Any]) -> str:
    channels = f"; channels: {', '.join(reply['channels'])}" if reply["channels"] else ""
    return f"{reply['collection']}: {reply['documents']} documents in {reply['chunks']} chunks{channels}"


# The text of a reply, by tool; other tools reply with JSON.
TEXTS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "context": lambda reply: reply["text"] or reply["reason"],
    "ask": _describe_answer,
    "list_documents": _describe_documents,
    "search_conversations": _describe_messages,
    "status": _describe_status,
    "add": lambda reply: (
        f"{'added' if reply['added'] else 'changed' if reply['changed'] else 'unchanged'}: {reply['id']}"
    ),
}


T = TypeVar("T")
MAX_PART = 20_000  # characters of a part of a document
SNIPPET = 500
WRITING = frozenset({"add"})  # the tools that change a collection


class CallEngine(Protocol):
    """A function that runs a verb in a thread, on the engine that the caller of a tool may use."""

    def __call__(self, context: Context, verb: Callable[[Engine], T], /, *, write: bool = False) -> Awaitable[T]:
        """Run the verb and return its result."""


# -- the tools; each calls its question `query`


def search(engine: Engine, **given: Any) -> SearchResults:
    """Search the collection's documents and conversations; `fetch` takes the id of a result."""
    asked = build_request(q.Search, {"k": 10, "group_by": "document", **given}, engine)
    hits = call_verb(engine, asked)
    if not hits:
        return {"results": [], "reason": explain_empty_result(engine, asked)}
    return {"results": [_describe_hit(hit) for hit in hits]}


def _describe_hit(hit: Hit) -> SearchResult:
    made: SearchResult = {
        "id": hit.document.id,
        "title": hit.document.title or hit.document.uri or hit.document.id,
        "url": hit.document.uri or hit.document.id,
        "text": hit.chunk.text[:SNIPPET],
        "relevance": to_json(round(hit.relevance, 2)),
    }
    if message := make_passage_message(hit.chunk.meta, hit.chunk.at, ""):
        made |= {"author": message.author, "at": to_json(message.at), "channel": message.channel}
    return made


def fetch(engine: Engine, *, id: str, start: int | None) -> FetchedDocument:  # noqa: A002 (so it must be named)
    """Return the whole text of a document, by the id of a search result or its address, or a part from `start` on."""
    document = engine.read(id)
    kept: dict[str, Any] = {**document.meta, "kind": document.kind}
    text = format_document_text(document)[0]
    reply: FetchedDocument = {
        "id": document.id,
        "title": document.title or document.uri or document.id,
        "text": text,
        "url": document.uri or document.id,
        "metadata": to_json(kept),
    }
    if start is not None:
        end = start + MAX_PART
        reply["text"], reply["next"] = text[start:end], end if end < len(text) else None
    return reply


def context(engine: Engine, **given: Any) -> ContextText:
    """Return numbered, cited passages for a question, ready for a prompt; the whole reply fits the token budget."""
    asked = build_request(q.Context, given, engine)
    settings = engine.settings.context
    count, budget = get_token_counter(settings.tokenizer), asked.tokens or settings.tokens
    tokens = budget
    while tokens > 0:
        made = call_verb(engine, replace(asked, tokens=tokens))
        sources: list[Source] = [
            {"number": number, "id": document, "url": records.get(document) or document}
            for records in [{each.document: each.uri for each in made.citations}]
            for document, number in made.numbers.items()
        ]
        reply: ContextText = {"text": made.text, "tokens": made.tokens, "sources": sources, "reason": made.reason}
        over = count(dump_json(reply)) - budget
        if over <= 0 or not made.passages:
            return reply
        tokens -= over  # what the sources and the JSON take
    return {"text": "", "tokens": 0, "sources": [], "reason": f"no passage and its source fit into {budget} tokens"}


def ask(engine: Engine, *, query: str, **given: Any) -> AskedAnswer:
    """Answer a question from the collection; every sentence is checked against the sources, and cited or marked."""
    made = call_verb(engine, build_request(q.Ask, {"question": query, **given}, engine))
    return {
        "text": made.text,
        "found": made.found,
        "confidence": to_json(made.confidence),
        "citations": [
            {
                "number": made.citation_number(place),
                "id": each.document,
                "url": each.uri or each.document,
                "title": each.title,
                "quote": each.quote,
                "author": each.author,
                "at": to_json(each.at),
            }
            for place, each in enumerate(made.citations)
        ],
        "reason": made.reason,
    }


def list_documents(engine: Engine, *, start: int, limit: int, **given: Any) -> DocumentList:
    """List the documents of the collection by address, a part at a time."""
    sets: dict[str, Any] = {name: frozenset(names) for name, names in given.items() if names}
    where = Filter(**sets)
    found = list(islice(engine.list(where), start, start + limit + 1))
    rows = [{name: getattr(each, name) for name in ("id", "title", "uri", "kind")} for each in found[:limit]]
    return {"documents": rows, "next": start + limit if len(found) > limit else None}


def search_conversations(engine: Engine, *, query: str, channel: str, k: int) -> FoundMessages:
    """Find the messages of chats and mails that are most like a text, in one channel or in all."""
    unknown = engine.unknown_names(Filter(channels={channel})) if channel else []
    if unknown:
        raise NotFound(unknown[0])
    return {
        "messages": [
            {
                "id": each.id,
                "channel": each.message.channel,
                "author": each.message.author,
                "at": to_json(each.message.at),
                "text": each.message.text,
                "relevance": to_json(each.relevance),
            }
            for each in find_messages(engine, query, channel=channel or None, k=k)
        ]
    }


def status(engine: Engine) -> CollectionStatus:
    """Return the number of documents of the collection, and its channels."""
    stats = engine.status()
    return {
        "collection": "",  # the caller knows
        "documents": stats.documents,
        "chunks": stats.chunks,
        "embedder": stats.embedder,
        "channels": engine.channels(),
    }


def add(engine: Engine, *, title: str, text: str) -> AddedDocument:
    """Add a text (Markdown) under a title; one of the same title is replaced."""
    document = Document(make_document_id(f"mcp:{title}"), text, title=title, uri=f"mcp:{title}")
    report = engine.add_documents([document])
    if report.failed:
        raise ToolError(report.failed[0].reason)
    made = bool(report.added)
    return {"id": document.id, "added": made, "changed": bool(report.changed), "chunks": report.chunks}


# -- the offer of the tools


def _take(name: str, kind: Any, default: Any = Parameter.empty, **bounds: Any) -> Parameter:
    """Make a parameter that no request has."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, Field(**bounds)])


QUERY = _take("query", str, min_length=1, max_length=20_000, description="A question or keywords.")
START = {"ge": 0, "le": 1_000_000_000}
COUNT = {"ge": 1, "le": 100}


def _take_options(request: Any, *without: str) -> Iterable[Parameter]:
    return (each for each in parameters_of(request) if each.name not in ("query", "question", *without))


TOOLS: dict[Callable[..., Any], Iterable[Parameter]] = {
    search: [QUERY, *_take_options(q.Search, "group_by")],
    fetch: [
        _take("id", str, min_length=1, max_length=2000),
        _take(
            "start", int | None, None, **START, description=f"Give {MAX_PART:,} characters from here on, and `next`."
        ),
    ],
    context: [QUERY, *_take_options(q.Context)],
    ask: [QUERY, *_take_options(q.Ask)],
    list_documents: [*_take_options(q.List), _take("start", int, 0, **START), _take("limit", int, 50, **COUNT)],
    search_conversations: [QUERY, _take("channel", str, "", max_length=500), _take("k", int, 10, **COUNT)],
    status: [],
    add: [
        _take("title", str, min_length=1, max_length=500),
        _take("text", str, min_length=1, max_length=1_000_000),
    ],
}


def make_tools(call: CallEngine, *, read_only: bool, collection: Callable[[Context], str]) -> list[Tool]:
    """Make the tools over engines that `call` opens; without `add` if read-only."""
    offered = {do: taken for do, taken in TOOLS.items() if not (read_only and do.__name__ in WRITING)}
    return [_make_tool(do, list(taken), call, collection) for do, taken in offered.items()]


class PlainTool(Tool):
    """A tool that says in plain words which of its arguments is wrong."""

    async def run(self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False) -> Any:
        """Run the tool and return its result."""
        try:
            return await super().run(arguments, context, convert_result)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            taken = ", ".join(self.parameters["properties"]) or "none"
            problems = describe_problems(error.__cause__.errors())
            raise ToolError(f"{self.name}: {problems}; its arguments are {taken}") from error.__cause__


def _make_tool(
    do: Callable[..., Any], taken: list[Parameter], call: CallEngine, collection: Callable[[Context], str]
) -> Tool:
    """Make a tool that refuses arguments it does not have."""
    name, is_writing = do.__name__, do.__name__ in WRITING

    async def run(context: Context, **given: Any) -> CallToolResult:
        options = {key: value for key, value in given.items() if value is not None or key == "start"}
        try:
            reply = await call(context, lambda engine: do(engine, **options), write=is_writing)
        except ClewError as error:
            raise ToolError(translate_advice(error.message, MCP_ADVICE)) from error
        if name == "status":
            reply["collection"] = collection(context)
        text = TEXTS[name](reply) if name in TEXTS else dump_json(reply)
        return CallToolResult(content=[TextContent(text=text)], structured_content=to_json(reply))

    within = Parameter("context", Parameter.POSITIONAL_OR_KEYWORD, annotation=Context)
    replies = Annotated[CallToolResult, get_annotations(do)["return"]]
    run.__signature__ = Signature([within, *taken], return_annotation=replies)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in (within, *taken)} | {"return": replies}
    hints = ToolAnnotations(
        read_only_hint=not is_writing,
        destructive_hint=is_writing,
        idempotent_hint=True,
        open_world_hint=False,
    )
    made = PlainTool.from_function(run, name=name, description=getdoc(do), annotations=hints, structured_output=True)
    arguments = made.fn_metadata.arg_model
    arguments.model_config = ConfigDict(**{**arguments.model_config, "extra": "forbid"})
    arguments.model_rebuild(force=True)
    made.parameters = arguments.model_json_schema(by_alias=True)
    return made


MAX_CONCURRENT = 4
INSTRUCTIONS = (
    "Clew finds passages in a collection of documents and conversations and says where they come from. Use `search` "
    "and `fetch` to look, `context` for passages to answer from, `ask` for an answer whose citations are checked."
)


def make_mcp_server(
    call: CallEngine,
    *,
    read_only: bool,
    collection: Callable[[Context], str],
    middleware: Sequence[ServerMiddleware[Any]] = (),
) -> MCPServer[Any]:
    """Make the MCP server over the engines that `call` opens; `middleware` is called around every request."""
    return MCPServer(
        "clew",
        instructions=INSTRUCTIONS,
        version=version("clew"),
        tools=make_tools(call, read_only=read_only, collection=collection),
        log_level="WARNING",
        middleware=middleware,
    )


def make_local_server(engine: Engine, *, collection: str, read_only: bool) -> MCPServer[Any]:
    """Make the MCP server over one open engine, for its local user."""
    limiter = CapacityLimiter(MAX_CONCURRENT)

    async def call(_: Context, verb: Callable[[Engine], T], *, write: bool = False) -> T:  # noqa: ARG001
        return await to_thread.run_sync(lambda: verb(engine), limiter=limiter)

    return make_mcp_server(call, read_only=read_only, collection=lambda _: collection)
