"""The clients: a method for each verb of the server, with the same name and the same options.

Most are made from a request, whose constructor has their parameters; methods for files take several steps.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import wraps
from inspect import Signature, cleandoc, signature
from pathlib import Path
from typing import IO, Any, Generic, Literal, ParamSpec, TypeVar, cast, get_args, overload

from clew.client.transport import AsyncTransport, Event, Sent, ServerError, Steps, Transport, make_sent
from clew.core import requests as q
from clew.core.errors import SettingsError, SourceError
from clew.core.jobs import FINISHED
from clew.core.replies import JobReply, PlanReply, ReportReply
from clew.core.report import PassedOver, count_passed_over

P = ParamSpec("P")
T = TypeVar("T")
Now = TypeVar("Now")
Later = TypeVar("Later")

MAX_FILES = 100  # of one request, the server's limit
MAX_BYTES = 32 * 1024 * 1024  # of one request with several files: half of what a server takes by default
Named = tuple[str, Path]  # the name that a file gets on the server, and the file


@dataclass(frozen=True)
class FoundFiles:
    """The files to upload, the entries that were passed over, and the entries that cannot be read."""

    files: tuple[Named, ...]
    passed_over: tuple[dict[str, Any], ...]
    failed: tuple[dict[str, Any], ...]


def find_files(sources: Sequence[Path]) -> FoundFiles:
    """Find the files at paths; a folder is walked as `Engine.add` does. Raises SourceError if a path does not exist.

    A file is named by its path if that is relative and below the working directory, else by its last part. Files of a
    folder are named by the name of the folder and their paths in it.
    """
    files: dict[str, Path] = {}
    passed_over: list[dict[str, Any]] = []
    failed: list[dict[str, Any]] = []
    for source in sources:
        if not source.exists():
            raise SourceError(str(source), "does not exist; nothing was uploaded")
        for found in _walk(source) if source.is_dir() else [source]:
            if isinstance(found, SourceError):
                failed.append({"source": found.source, "reason": found.reason})
            elif isinstance(found, PassedOver):
                passed_over.append({"source": found.source, "reason": found.reason, "files": found.files})
            else:
                name = _make_name(source, found)
                if files.setdefault(name, found).resolve() != found.resolve():
                    raise SettingsError(f"{files[name]} and {found} are both uploaded as {name!r}; add them one by one")
    return FoundFiles(tuple(files.items()), tuple(passed_over), tuple(failed))


def split_files(files: Sequence[Named]) -> Iterator[list[Named]]:
    """Split the files into batches that a server takes in one request."""
    part: list[Named] = []
    size = 0
    for each in files:
        added = each[1].stat().st_size
        if part and (len(part) == MAX_FILES or size + added > MAX_BYTES):
            yield part
            part, size = [], 0
        part.append(each)
        size += added
    if part:
        yield part


def _walk(folder: Path) -> Iterator[Path | SourceError | PassedOver]:
    """Yield the files of a folder; a chat export with all the files that belong to it."""
    from clew.index.walk import files as walk  # the readers take time to import

    for found in walk.find_files([folder]):
        if isinstance(found, Path | SourceError | PassedOver):
            yield found
            continue
        parts = sorted(path for path in Path(found.path).rglob("*") if path.is_file())
        if len(parts) > MAX_FILES:
            raise SettingsError(
                f"{found.path} is a chat export of {len(parts):,} files, and {MAX_FILES} are uploaded at a time; "
                "add it as one zip file"
            )
        yield from parts


def _make_name(source: Path, file: Path) -> str:
    inside = "" if file == source else file.relative_to(source).as_posix()
    above = source if not source.is_absolute() and ".." not in source.parts else Path(source.resolve().name)
    return "/".join(part for part in (above.as_posix(), inside) if part not in ("", "."))


POLL_SECONDS = 0.25
_LISTS = ("added", "changed", "failed", "noted", "incomplete", "held_back", "passed_over")
_COUNTS = ("skipped", "chunks", "embedded", "reused", "seconds", "dropped", "cost")


def _enqueue_add(*sources: str | Path) -> Steps[list[JobReply]]:
    """Upload files and folders, and name web addresses to the server; return the jobs that add them.

    A relative path becomes the address of its document; of an absolute path, only the last part does. The files of a
    folder keep their paths in it. More files than the server takes at a time become several jobs.
    """
    return (yield from _enqueue(sources, find_files(_list_paths(sources))))


def _add(*sources: str | Path) -> Steps[ReportReply]:
    """Add files, folders and web addresses, wait until it is done, and return what was added, skipped and failed.

    Files are named as by `enqueue_add`. Raises ServerError if a job failed as a whole or was cancelled.
    """
    found = find_files(_list_paths(sources))
    jobs = yield from _enqueue(sources, found)
    for place, each in enumerate(jobs):
        while jobs[place]["state"] not in FINISHED:
            yield POLL_SECONDS
            jobs[place] = yield make_sent(q.Job(each["id"]))
    for each in jobs:
        if each["state"] != "done":
            raise ServerError(f"the job {each['id']} was {each['state']} {each['error']}".strip(), code=each["state"])
    return _merge_reports([each["result"] for each in jobs], found)


def _plan(*sources: str) -> Steps[PlanReply]:
    """Return what adding web addresses would do and cost."""
    return (yield make_sent(q.Plan(sources)))  # type: ignore[no-any-return]


def _enqueue(sources: Sequence[str | Path], found: FoundFiles) -> Steps[list[JobReply]]:
    jobs: list[JobReply] = []
    if urls := [str(each) for each in sources if _is_url(each)]:
        jobs.append((yield make_sent(q.Add(urls))))
    for part in split_files(found.files):
        with ExitStack() as stack:
            files = [("files", (name, stack.enter_context(_open(path)))) for name, path in part]
            jobs.append((yield Sent("POST", "/v1/documents", files=files)))
    return jobs


def _merge_reports(reports: Sequence[Mapping[str, Any]], found: FoundFiles) -> ReportReply:
    """Merge the reports of several jobs, and the entries that the client itself did not upload."""
    merged: dict[str, Any] = {name: [item for each in reports for item in each[name]] for name in _LISTS}
    merged["failed"] += found.failed
    merged["passed_over"] += found.passed_over
    merged |= {name: sum(each[name] for each in reports) for name in _COUNTS}
    merged["stopped"] = "; ".join(each["stopped"] for each in reports if each["stopped"])
    counts = [each["passed_over_counts"] for each in reports]
    counts.append(count_passed_over(PassedOver(**each) for each in found.passed_over))
    reasons = {reason for each in counts for reason in each}
    merged["passed_over_counts"] = {reason: sum(each.get(reason, 0) for each in counts) for reason in sorted(reasons)}
    return cast(ReportReply, merged)


def _list_paths(sources: Sequence[str | Path]) -> list[Path]:
    return [Path(each) for each in sources if not _is_url(each)]


def _open(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise SourceError(str(path), f"cannot be read ({error.strerror}); nothing of this part was uploaded") from error


def _is_url(source: str | Path) -> bool:
    return isinstance(source, str) and source.startswith(("http://", "https://"))


class Method(Generic[P, Now, Later]):
    """A method that sends a request: a Client returns the result, an AsyncClient an awaitable of it."""

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
    """Make a method from a request; it returns the result."""

    @wraps(request, updated=())
    def make(*args: P.args, **kwargs: P.kwargs) -> Any:
        return make_sent(request(*args, **kwargs))

    return Method(make, "_run", _describe(request))


def steps(make: Callable[P, Steps[T]]) -> Method[P, T, Awaitable[T]]:
    """Make a method from several requests in turn; it returns the result."""
    given = signature(make)
    return Method(make, "_run", given.replace(return_annotation=get_args(given.return_annotation)[-1]))


def listing(request: Callable[P, q.Request[T]]) -> Method[P, Iterator[T], AsyncIterator[T]]:
    """Make a method from a list; it iterates over its rows."""
    given = _describe(request)
    rows = Iterator.__class_getitem__(given.return_annotation)  # type: ignore[attr-defined]
    return Method(request, "_iterate", given.replace(return_annotation=rows))


def stream(request: Callable[P, q.Request[Any]]) -> Method[P, Iterator[Event], AsyncIterator[Event]]:
    """Make a method from a question; it iterates over the events of its answer."""

    @wraps(request, updated=())
    def make(*args: P.args, **kwargs: P.kwargs) -> Any:
        return make_sent(request(*args, **kwargs), stream=True)

    return Method(make, "_stream", _describe(request).replace(return_annotation=Iterator[Event]))


def _describe(request: Any) -> Signature:
    """Describe the parameters of a request by their plain types, as `help` shows them."""
    kinds = q.get_types(request)
    given = signature(request)
    shown = [each.replace(annotation=kinds[name]) for name, each in given.parameters.items()]
    return Signature(shown, return_annotation=request.result)


def _write_docstring(make: Any) -> str:
    """Write the docstring of a request, with a line for each of its options."""
    asked = getattr(make, "__wrapped__", make)
    options = q.list_options(asked, "http") if isinstance(asked, type) else ()
    lines = [f"{each.name}: {each.option.help}" for each in options]
    return "\n\n".join(filter(None, (cleandoc(make.__doc__ or ""), "\n".join(lines))))


class Verbs:
    """The verbs of both clients."""

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
    add = steps(_add)
    enqueue_add = steps(_enqueue_add)
    plan = steps(_plan)
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
