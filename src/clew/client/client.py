"""The clients: a method for each verb that the server has, by the same name and with the same options.

Most are made of a request, whose constructor has their parameters; `client.documents` has those of several steps.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import wraps
from inspect import Signature, cleandoc, signature
from types import GenericAlias
from typing import Any, Generic, Literal, ParamSpec, TypeVar, get_args, overload

from clew.client import documents as _documents
from clew.client.request import Event, Steps, make_sent
from clew.client.transport import AsyncTransport, Transport
from clew.core import requests as q

P = ParamSpec("P")
T = TypeVar("T")
Now = TypeVar("Now")
Later = TypeVar("Later")


class Method(Generic[P, Now, Later]):
    """A request as a method that sends it: what a Client returns now, an AsyncClient later."""

    def __init__(self, make: Callable[P, Any], send: Literal["_run", "_iterate", "_stream"], shown: Signature) -> None:
        self._make = make
        self._send = send
        self.__doc__ = _write_docstring(make)

        def show(*args: P.args, **kwargs: P.kwargs) -> Any:
            return make(*args, **kwargs)

        show.__signature__, show.__doc__ = shown, self.__doc__  # type: ignore[attr-defined]
        self._shown = show

    def __set_name__(self, owner: type, name: str) -> None:
        self._shown.__name__ = name
        self._shown.__qualname__ = f"{owner.__name__}.{name}"

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


def verb(request: Callable[P, q.Request[T]]) -> Method[P, T, Awaitable[T]]:
    """A request as a method that returns the result."""

    @wraps(request, updated=())
    def make(*args: P.args, **kwargs: P.kwargs) -> Any:
        return make_sent(request(*args, **kwargs))

    return Method(make, "_run", _describe(request))


def steps(make: Callable[P, Steps[T]]) -> Method[P, T, Awaitable[T]]:
    """Several requests in turn as a method that returns the result."""
    given = signature(make)
    return Method(make, "_run", given.replace(return_annotation=get_args(given.return_annotation)[-1]))


def listing(request: Callable[P, q.Request[T]]) -> Method[P, Iterator[T], AsyncIterator[T]]:
    """A list as a method that iterates over its rows."""
    given = _describe(request)
    rows = GenericAlias(Iterator, given.return_annotation)
    return Method(request, "_iterate", given.replace(return_annotation=rows))


def stream(request: Callable[P, q.Request[Any]]) -> Method[P, Iterator[Event], AsyncIterator[Event]]:
    """A question as a method that iterates over the events of its answer."""

    @wraps(request, updated=())
    def make(*args: P.args, **kwargs: P.kwargs) -> Any:
        return make_sent(request(*args, **kwargs), stream=True)

    return Method(make, "_stream", _describe(request).replace(return_annotation=Iterator[Event]))


def _describe(request: Any) -> Signature:
    """The parameters of a request by their plain types, as `help` shows them."""
    kinds = q.get_types(request)
    given = signature(request)
    shown = [each.replace(annotation=kinds[name]) for name, each in given.parameters.items()]
    return Signature(shown, return_annotation=request.result)


def _write_docstring(make: Any) -> str:
    """The docstring of a request, with a line for each of its options."""
    asked = getattr(make, "__wrapped__", make)
    options = q.list_options(asked, "http") if isinstance(asked, type) else ()
    lines = [f"{each.name}: {each.option.help}" for each in options]
    return "\n\n".join(filter(None, (cleandoc(make.__doc__ or ""), "\n".join(lines))))


class Verbs:
    """The verbs, for whatever sends them."""

    search = verb(q.Search)
    search_many = verb(q.SearchMany)
    context = verb(q.Context)
    ask = verb(q.Ask)
    agent = verb(q.Agent)
    ask_stream = stream(q.Ask)
    agent_stream = stream(q.Agent)
    chat = verb(q.Chat)
    chat_stream = stream(q.Chat)
    sessions = verb(q.Sessions)
    session = verb(q.Session)
    drop_session = verb(q.DropSession)
    explain = verb(q.Explain)
    why_not = verb(q.WhyNot)
    check = verb(q.Check)
    feedback = verb(q.Feedback)
    list_feedback = verb(q.ListFeedback)
    # Documents
    add = steps(_documents.add)
    enqueue_add = steps(_documents.enqueue_add)
    plan = steps(_documents.plan)
    add_documents = verb(q.AddDocuments)
    list = listing(q.List)
    read = verb(q.Read)
    chunks = listing(q.Chunks)
    links = verb(q.Links)
    drop = verb(q.Drop)
    preview_drop = verb(q.PreviewDrop)
    erase = verb(q.Erase)
    # Conversations
    add_messages = verb(q.AddMessages)
    message = verb(q.ReadMessage)
    drop_messages = verb(q.DropMessages)
    channels = verb(q.Channels)
    window = verb(q.Window)
    profile = verb(q.Profile)
    style_prompt = verb(q.StylePrompt)
    # The collection
    status = verb(q.Status)
    doctor = verb(q.Doctor)
    collections = verb(q.Collections)
    drop_collection = verb(q.DropCollection)
    jobs = verb(q.Jobs)
    job = verb(q.Job)
    cancel_job = verb(q.CancelJob)
    # Evaluations
    list_runs = verb(q.ListRuns)
    read_run = verb(q.ReadRun)
    enqueue_evaluation = verb(q.EnqueueEvaluation)
    make_questions = verb(q.MakeQuestions)


class Client(Verbs, Transport):
    """A collection on a server: search it, ask it, add to it. Threads may share it."""


class AsyncClient(Verbs, AsyncTransport):
    """A collection on a server for async callers: the methods of Client as coroutines, its iterators asynchronous."""
