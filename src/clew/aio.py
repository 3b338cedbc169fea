"""The engine for async callers: the same verbs, each run in a worker thread; streams are async iterators.

async with await aio.Engine.open("team.clew") as engine:
    hits = await engine.search("what if a key is known to others?")
    async for event in engine.ask_stream("what if a key is known to others?"):
        ...
"""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, cast, overload

from clew import engine as sync
from clew.core.events import EventStream
from clew.core.filter import EVERYTHING, Filter
from clew.core.settings import Settings
from clew.core.types import Message
from clew.engine import sessions as sync_sessions
from clew.engine.opened import Opened
from clew.query.agent import tools as sync_tools

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
E = TypeVar("E", bound="Engine")


class _Facade(Protocol):
    """An object whose async methods call those of `sync`."""

    sync: Any


class _Verb(Generic[S, P, T]):
    """An async version of a method of `sync`: it runs in a thread, with the caller's context variables.

    A thread cannot be stopped: if the caller is cancelled, the method still runs to its end.
    """

    def __init__(self, function: Callable[Concatenate[S, P], T]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[Concatenate[S, P], T]: ...
    @overload
    def __get__(self, instance: _Facade, owner: type) -> Callable[P, Awaitable[T]]: ...
    def __get__(
        self, instance: _Facade | None, owner: type
    ) -> Callable[Concatenate[S, P], T] | Callable[P, Awaitable[T]]:
        if instance is None:
            return self._function
        return functools.partial(asyncio.to_thread, functools.partial(self._function, instance.sync))


class _Stream(Generic[P, T]):
    """A stream of the engine as an async iterator; closing it stops the work."""

    def __init__(self, function: Callable[Concatenate[sync.Engine, P], Iterator[T]]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[Concatenate[sync.Engine, P], Iterator[T]]: ...
    @overload
    def __get__(self, instance: "Engine", owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(
        self, instance: "Engine | None", owner: type
    ) -> Callable[Concatenate[sync.Engine, P], Iterator[T]] | Callable[P, AsyncIterator[T]]:
        if instance is None:
            return self._function
        engine = instance.sync

        def call(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
            return _iterate_in_thread(lambda: self._function(engine, *args, **kwargs))

        return call


class _Open(Generic[P]):
    """`clew.Engine.open` as an async function that returns an engine of this module."""

    def __init__(self, function: Callable[P, sync.Engine]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: "Engine | None", owner: "type[E]") -> "Callable[P, Coroutine[Any, Any, E]]":
        async def call(*args: P.args, **kwargs: P.kwargs) -> E:
            engine = await asyncio.to_thread(self._function, *args, **kwargs)
            return owner(engine.opened)

        return functools.wraps(self._function)(call)


def _in_thread(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make a function on whole collections async."""

    @functools.wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(function, *args, **kwargs)

    return call


class ChatSession:
    """A conversation with a collection for async callers; `sync` is the session beneath."""

    def __init__(self, chat: sync_sessions.ChatSession) -> None:
        self.sync = chat
        self.name = chat.name

    ask = _Verb(sync_sessions.ChatSession.ask)
    agent = _Verb(sync_sessions.ChatSession.agent)

    async def messages(self) -> tuple[Message, ...]:
        """Return the last messages, oldest first; a coroutine, as they may be in a database."""
        return await asyncio.to_thread(lambda: self.sync.messages)

    async def numbers(self) -> Mapping[str, int]:
        """Return the numbers of the documents that were shown, by document id."""
        return await asyncio.to_thread(lambda: self.sync.numbers)


class Toolbox:
    """The agent's tools for async callers; `sync` is the toolbox beneath."""

    def __init__(self, tools: sync_tools.Toolbox) -> None:
        self.sync = tools

    schemas = staticmethod(sync_tools.Toolbox.schemas)
    call = _Verb(sync_tools.Toolbox.call)
    search_knowledge_base = _Verb(sync_tools.Toolbox.search_knowledge_base)
    search_with_multi_query = _Verb(sync_tools.Toolbox.search_with_multi_query)
    search_with_reranking = _Verb(sync_tools.Toolbox.search_with_reranking)
    search_with_self_reflection = _Verb(sync_tools.Toolbox.search_with_self_reflection)
    search_conversations = _Verb(sync_tools.Toolbox.search_conversations)
    retrieve_full_document = _Verb(sync_tools.Toolbox.retrieve_full_document)
    read_document = _Verb(sync_tools.Toolbox.read_document)


class Engine:
    """An open collection for async callers; `sync` is the engine beneath. The verbs are those of `clew.Engine`."""

    def __init__(self, opened: Opened) -> None:
        self.sync = sync.Engine(opened)

    open = _Open(sync.Engine.open)
    add = _Verb(sync.Engine.add)
    add_distributed = _Verb(sync.Engine.add_distributed)
    add_documents = _Verb(sync.Engine.add_documents)
    add_messages = _Verb(sync.Engine.add_messages)
    plan = _Verb(sync.Engine.plan)
    backfill = _Verb(sync.Engine.backfill)
    calibrate = _Verb(sync.Engine.calibrate)
    drop = _Verb(sync.Engine.drop)
    drop_messages = _Verb(sync.Engine.drop_messages)
    erase = _Verb(sync.Engine.erase)
    list = _Stream(sync.Engine.list)
    read = _Verb(sync.Engine.read)
    status = _Verb(sync.Engine.status)
    search = _Verb(sync.Engine.search)
    search_many = _Verb(sync.Engine.search_many)
    context = _Verb(sync.Engine.context)
    message = _Verb(sync.Engine.message)
    ask = _Verb(sync.Engine.ask)
    ask_stream = _Stream(sync.Engine.ask_stream)
    agent = _Verb(sync.Engine.agent)
    agent_stream = _Stream(sync.Engine.agent_stream)
    explain = _Verb(sync.Engine.explain)
    why_not = _Verb(sync.Engine.why_not)
    check = _Verb(sync.Engine.check)
    window = _Verb(sync.Engine.window)
    channels = _Verb(sync.Engine.channels)
    unknown_names = _Verb(sync.Engine.unknown_names)
    profile = _Verb(sync.Engine.profile)
    style_prompt = _Verb(sync.Engine.style_prompt)
    links = _Verb(sync.Engine.links)
    export = _Verb(sync.Engine.export)
    restore = _Verb(sync.Engine.restore)
    reembed = _Verb(sync.Engine.reembed)
    doctor = _Verb(sync.Engine.doctor)
    enqueue_add = _Verb(sync.Engine.enqueue_add)
    enqueue_maintenance = _Verb(sync.Engine.enqueue_maintenance)
    jobs = _Verb(sync.Engine.jobs)
    job = _Verb(sync.Engine.job)
    cancel_job = _Verb(sync.Engine.cancel_job)
    run_jobs = _Verb(sync.Engine.run_jobs)
    feedback = _Verb(sync.Engine.feedback)
    list_feedback = _Verb(sync.Engine.list_feedback)

    collections = staticmethod(_in_thread(sync.Engine.collections))
    drop_collection = staticmethod(_in_thread(sync.Engine.drop_collection))
    accept_missing_changes = staticmethod(_in_thread(sync.Engine.accept_missing_changes))

    def within(self, where: Filter) -> "Engine":
        """Return an engine that sees what the filter admits, as `clew.Engine.within`."""
        return Engine(self.sync.within(where).opened)

    async def chat(self, name: str | None = None) -> ChatSession:
        """Return the chat kept under a name with the collection, as `clew.Engine.chat`."""
        return ChatSession(await asyncio.to_thread(self.sync.chat, name))

    async def tools(
        self, *, session: str | None = None, where: Filter = EVERYTHING, settings: Settings | None = None
    ) -> Toolbox:
        """Return the agent's tools, as `clew.Engine.tools`."""
        return Toolbox(self.sync.tools(session=session, where=where, settings=settings))

    async def close(self) -> None:
        """Close the store."""
        await asyncio.to_thread(self.sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def _iterate_in_thread(start: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
    """Yield the items of an iterator that a thread advances, so that the event loop never waits for it.

    If the reader is cancelled while the thread is at work, an EventStream is closed at once. Any other iterator is
    closed when the thread has returned, because a generator cannot be closed while it runs.
    """
    items = await asyncio.to_thread(start)
    close: Callable[[], None] = getattr(items, "close", lambda: None)
    done = object()
    advancing: asyncio.Future[object] | None = None
    try:
        while True:
            advancing = asyncio.ensure_future(asyncio.to_thread(next, items, done))
            item = await asyncio.shield(advancing)
            if item is done:
                return
            yield cast(T, item)
    finally:
        if advancing is None or advancing.done() or isinstance(items, EventStream):
            close()
        else:
            advancing.add_done_callback(lambda _: close())
