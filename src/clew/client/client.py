"""The clients: a method for each verb that the server has, by the same name and with the same options.

Each verb is written once, as a function that makes its request; the clients differ in how they send it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import wraps
from inspect import signature
from typing import Any, Generic, Literal, ParamSpec, TypeVar, get_args, get_origin, overload

from clew.client import conversations as _conversations
from clew.client import documents as _documents
from clew.client import evaluations as _evaluations
from clew.client import search as _search
from clew.client.request import Event, Events, Pages, Request, Steps
from clew.client.transport import AsyncTransport, Transport

P = ParamSpec("P")
T = TypeVar("T")
Now = TypeVar("Now")
Later = TypeVar("Later")


class Method(Generic[P, Now, Later]):
    """A function that makes a request, as a method that sends it: what a Client returns now, an AsyncClient later."""

    def __init__(self, make: Callable[P, Any], send: Literal["_run", "_iterate", "_stream"]) -> None:
        self._make = make
        self._send = send
        self._shown = _show(make)
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[P, Any]: ...
    @overload
    def __get__(self, instance: Transport, owner: type) -> Callable[P, Now]: ...
    @overload
    def __get__(self, instance: AsyncTransport, owner: type) -> Callable[P, Later]: ...
    def __get__(self, instance: Transport | AsyncTransport | None, owner: type) -> Callable[P, Any]:
        if instance is None:
            return self._shown
        send = getattr(instance, self._send)
        return wraps(self._shown)(lambda *args, **kwargs: send(self._make(*args, **kwargs)))


def _show(make: Callable[P, Any]) -> Callable[P, Any]:
    """The function as `help` shows the method: it returns what a Client returns, not the request for it."""
    asked = signature(make)
    made = asked.return_annotation
    result = Iterator[Event] if made is Events else get_args(made)[-1]
    if get_origin(made) is Pages:
        result = Iterator[result]  # type: ignore[valid-type]

    @wraps(make)
    def shown(*args: P.args, **kwargs: P.kwargs) -> Any:
        return make(*args, **kwargs)

    shown.__signature__ = asked.replace(return_annotation=result)  # type: ignore[attr-defined]
    return shown


def verb(make: Callable[P, Request[T] | Steps[T]]) -> Method[P, T, Awaitable[T]]:
    """A request, or several in turn, as a method that returns the result."""
    return Method(make, "_run")


def listing(make: Callable[P, Pages[T]]) -> Method[P, Iterator[T], AsyncIterator[T]]:
    """A list as a method that iterates over its rows."""
    return Method(make, "_iterate")


def stream(make: Callable[P, Events]) -> Method[P, Iterator[Event], AsyncIterator[Event]]:
    """A stream as a method that iterates over its events."""
    return Method(make, "_stream")


class Verbs:
    """The verbs, for whatever sends them."""

    search = verb(_search.search)
    search_many = verb(_search.search_many)
    context = verb(_search.context)
    ask = verb(_search.ask)
    agent = verb(_search.agent)
    ask_stream = stream(_search.ask_stream)
    agent_stream = stream(_search.agent_stream)
    chat = verb(_search.chat)
    sessions = verb(_search.sessions)
    session = verb(_search.session)
    drop_session = verb(_search.drop_session)
    explain = verb(_search.explain)
    why_not = verb(_search.why_not)
    check = verb(_search.check)
    feedback = verb(_search.feedback)
    list_feedback = verb(_search.list_feedback)
    # Documents
    add = verb(_documents.add)
    enqueue_add = verb(_documents.enqueue_add)
    plan = verb(_documents.plan)
    add_documents = verb(_documents.add_documents)
    list = listing(_documents.list_documents)
    read = verb(_documents.read)
    chunks = listing(_documents.chunks)
    links = verb(_documents.links)
    drop = verb(_documents.drop)
    preview_drop = verb(_documents.preview_drop)
    erase = verb(_documents.erase)
    # Conversations
    add_messages = verb(_conversations.add_messages)
    message = verb(_conversations.message)
    drop_messages = verb(_conversations.drop_messages)
    channels = verb(_conversations.channels)
    window = verb(_conversations.window)
    profile = verb(_conversations.profile)
    style_prompt = verb(_conversations.style_prompt)
    # The collection
    status = verb(_documents.status)
    doctor = verb(_documents.doctor)
    collections = verb(_documents.collections)
    drop_collection = verb(_documents.drop_collection)
    jobs = verb(_documents.jobs)
    job = verb(_documents.job)
    cancel_job = verb(_documents.cancel_job)
    # Evaluations
    list_runs = verb(_evaluations.list_runs)
    read_run = verb(_evaluations.read_run)
    enqueue_evaluation = verb(_evaluations.enqueue_evaluation)
    make_questions = verb(_evaluations.make_questions)


class Client(Verbs, Transport):
    """A collection on a server: search it, ask it, add to it. Threads may share it."""


class AsyncClient(Verbs, AsyncTransport):
    """A collection on a server for async callers: the methods of Client as coroutines, its iterators asynchronous."""
