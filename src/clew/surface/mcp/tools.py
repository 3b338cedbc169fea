"""The tools: each calls one verb of the engine of its caller."""

from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Annotated, Any, Protocol, TypeVar

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools.base import Tool
from mcp.types import ToolAnnotations
from pydantic import ConfigDict, Field, ValidationError

from clew.core.errors import ClewError, NotFound
from clew.core.filter import Filter
from clew.core.ids import make_document_id
from clew.core.trace import Trace
from clew.core.types import Document
from clew.engine import Engine
from clew.engine.conversations import find_messages
from clew.query.context.format.messages import format_document_text
from clew.surface.advice import MCP_ADVICE, describe_problems, translate_advice
from clew.surface.mcp import replies as r
from clew.surface.to_json import answer_to_json, context_to_json, to_json

T = TypeVar("T")
MAX_PART = 20_000  # characters of a part of a document
Question = Annotated[str, Field(min_length=1, max_length=20_000)]
Name = Annotated[str, Field(min_length=1, max_length=2000)]
Count = Annotated[int, Field(ge=1, le=100)]
Start = Annotated[int, Field(ge=0, le=1_000_000_000)]
SNIPPET = 500
WRITING = frozenset({"add"})  # the tools that change a collection


class CallEngine(Protocol):
    """Runs a verb on the engine that the caller of a tool may use, in a thread."""

    def __call__(self, context: Context, verb: Callable[[Engine], T], /, *, write: bool = False) -> Awaitable[T]:
        """The result of the verb."""


def make_tools(call: CallEngine, *, read_only: bool, collection: Callable[[Context], str]) -> list[Tool]:
    """The tools over engines that `call` opens; without `add` where nothing may be changed."""

    async def run(context: Context, verb: Callable[[Engine], T], *, write: bool = False) -> T:
        try:
            return await call(context, verb, write=write)
        except ClewError as error:
            raise ToolError(translate_advice(error.message, MCP_ADVICE)) from error

    async def search(query: Question, context: Context) -> r.SearchResults:
        """Search the collection's documents and conversations; gives results whose id `fetch` takes."""

        def verb(engine: Engine) -> r.SearchResults:
            hits = engine.search(query, k=10, group_by="document")
            return {
                "results": [
                    {
                        "id": hit.document.id,
                        "title": hit.document.title or hit.document.uri or hit.document.id,
                        "url": hit.document.uri or hit.document.id,
                        "text": hit.chunk.text[:SNIPPET],
                    }
                    for hit in hits
                ]
            }

        return await run(context, verb)

    async def fetch(id: Name, context: Context) -> r.FetchedDocument:  # noqa: A002 (so it must be named)
        """The whole text of a document, by the id of a search result."""

        def verb(engine: Engine) -> r.FetchedDocument:
            document = engine.read(id)
            kept: dict[str, Any] = {**document.meta, "kind": document.kind}
            return {
                "id": document.id,
                "title": document.title or document.uri or document.id,
                "text": format_document_text(document)[0],
                "url": document.uri or document.id,
                "metadata": to_json(kept),
            }

        return await run(context, verb)

    async def context_(
        query: Question, context: Context, tokens: Annotated[int, Field(ge=1, le=100_000)] = 2000
    ) -> r.ContextText:
        """Passages for a question within a token budget, numbered and cited, ready to be put into a prompt."""

        def verb(engine: Engine) -> r.ContextText:
            made = context_to_json(engine.context(query, tokens=tokens), trace=Trace("context"))
            return to_json({name: made[name] for name in r.ContextText.__annotations__})  # type: ignore[no-any-return]

        return await run(context, verb)

    async def ask(query: Question, context: Context) -> r.AskedAnswer:
        """Answer a question from the collection; every sentence is cited and checked against the sources."""

        def verb(engine: Engine) -> r.AskedAnswer:
            made = answer_to_json(engine.ask(query), trace=Trace("ask"))
            return to_json({name: made[name] for name in r.AskedAnswer.__annotations__})  # type: ignore[no-any-return]

        return await run(context, verb)

    async def read_document(document: Name, context: Context, start: Start = 0) -> r.DocumentPart:
        """A part of a document, by id or address; `next` continues it."""

        def verb(engine: Engine) -> r.DocumentPart:
            found = engine.read(document)
            text = format_document_text(found)[0]
            end = start + MAX_PART
            return {
                "id": found.id,
                "title": found.title or found.uri or found.id,
                "url": found.uri or found.id,
                "text": text[start:end],
                "start": start,
                "next": end if end < len(text) else None,
            }

        return await run(context, verb)

    async def list_documents(context: Context, start: Start = 0, limit: Count = 50) -> r.DocumentList:
        """The documents of the collection by address, a part at a time."""

        def verb(engine: Engine) -> r.DocumentList:
            found = list(islice(engine.list(), start, start + limit + 1))
            rows = [{name: getattr(each, name) for name in ("id", "title", "uri", "kind")} for each in found[:limit]]
            return {"documents": rows, "next": start + limit if len(found) > limit else None}

        return await run(context, verb)

    async def search_conversations(
        query: Question, context: Context, channel: Annotated[str, Field(max_length=500)] = "", k: Count = 10
    ) -> r.FoundMessages:
        """Messages of chats and mails that are most like a text, in one channel or in all."""

        def verb(engine: Engine) -> r.FoundMessages:
            unknown = engine.unknown_names(Filter(channels={channel})) if channel else []
            if unknown:
                raise NotFound(unknown[0])
            found = find_messages(engine, query, channel=channel or None, k=k)
            return {
                "messages": [
                    {
                        "id": each.id,
                        "channel": each.message.channel,
                        "author": each.message.author,
                        "at": each.message.at.isoformat() if each.message.at else None,
                        "text": each.message.text,
                        "relevance": to_json(each.relevance),
                    }
                    for each in found
                ]
            }

        return await run(context, verb)

    async def status(context: Context) -> r.CollectionStatus:
        """How many documents the collection has, and which channels."""

        def verb(engine: Engine) -> r.CollectionStatus:
            stats = engine.status()
            return {
                "collection": collection(context),
                "documents": stats.documents,
                "chunks": stats.chunks,
                "embedder": stats.embedder,
                "channels": engine.channels(),
            }

        return await run(context, verb)

    async def add(
        title: Annotated[str, Field(min_length=1, max_length=500)],
        text: Annotated[str, Field(min_length=1, max_length=1_000_000)],
        context: Context,
    ) -> r.AddedDocument:
        """Add a text (Markdown) under a title; one of the same title is replaced."""

        def verb(engine: Engine) -> r.AddedDocument:
            document = Document(make_document_id(f"mcp:{title}"), text, title=title, uri=f"mcp:{title}")
            report = engine.add_documents([document])
            if report.failed:
                raise ToolError(report.failed[0].reason)
            made = bool(report.added)
            return {"id": document.id, "added": made, "changed": bool(report.changed), "chunks": report.chunks}

        return await run(context, verb, write=True)

    reading: list[Callable[..., Any]] = [
        search,
        fetch,
        context_,
        ask,
        read_document,
        list_documents,
        search_conversations,
        status,
    ]
    tools = [_make_tool(each, ToolAnnotations(read_only_hint=True, open_world_hint=False)) for each in reading]
    if not read_only:
        tools.append(
            _make_tool(add, ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True))
        )
    return tools


class PlainTool(Tool):
    """A tool that says in plain words which of its arguments is wrong."""

    async def run(self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False) -> Any:
        """What the tool returns."""
        try:
            return await super().run(arguments, context, convert_result)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            taken = ", ".join(self.parameters["properties"]) or "none"
            problems = describe_problems(error.__cause__.errors())
            raise ToolError(f"{self.name}: {problems}; its arguments are {taken}") from error.__cause__


def _make_tool(function: Callable[..., Any], annotations: ToolAnnotations) -> Tool:
    """A tool that refuses arguments it does not have."""
    name = function.__name__.rstrip("_")
    made = PlainTool.from_function(function, name=name, annotations=annotations, structured_output=True)
    arguments = made.fn_metadata.arg_model
    arguments.model_config = ConfigDict(**{**arguments.model_config, "extra": "forbid"})
    arguments.model_rebuild(force=True)
    made.parameters = arguments.model_json_schema(by_alias=True)
    return made
