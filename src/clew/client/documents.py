"""The verbs that take several requests: files are uploaded in parts, and a client waits for the jobs that add them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from clew.client.request import Sent, Steps, make_sent
from clew.client.transport import ServerError
from clew.core import requests as q
from clew.core.errors import SettingsError, SourceError
from clew.core.jobs import FINISHED
from clew.core.replies import JobReply, PlanReply, ReportReply
from clew.core.report import PassedOver, count_passed_over

MAX_FILES = 100  # of one request, as the server has it
MAX_BYTES = 32 * 1024 * 1024  # of one request of several files: half of what a server takes by default
Named = tuple[str, Path]  # the name that a file gets on the server, and the file


@dataclass(frozen=True)
class FoundFiles:
    """The files to be uploaded, what of a folder was passed over, and what cannot be read."""

    files: tuple[Named, ...]
    passed_over: tuple[dict[str, Any], ...]
    failed: tuple[dict[str, Any], ...]


def find_files(sources: Sequence[Path]) -> FoundFiles:
    """The files at paths; a folder is walked as `Engine.add` does. SourceError if a path does not exist.

    A file is named by its path where that is a relative one below the working directory, else by its last part; the
    files of a folder by that of the folder and their paths in it.
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
    """The files in parts, none with more than a server takes at a time."""
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
    """The files of a folder; one that is a chat export with all that belongs to it."""
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
    """The name of a file that was found at a source."""
    inside = "" if file == source else file.relative_to(source).as_posix()
    above = source if not source.is_absolute() and ".." not in source.parts else Path(source.resolve().name)
    return "/".join(part for part in (above.as_posix(), inside) if part not in ("", "."))


POLL_SECONDS = 0.25
_LISTS = ("added", "changed", "failed", "noted", "incomplete", "held_back", "passed_over")
_COUNTS = ("skipped", "chunks", "embedded", "reused", "seconds", "dropped", "cost")


def enqueue_add(*sources: str | Path) -> Steps[list[JobReply]]:
    """Uploads files and folders and names web addresses to the server; returns the jobs that add them.

    A relative path becomes the address of its document, of an absolute one the last part; the files of a folder keep
    their paths in it. More files than the server takes at a time are several jobs.
    """
    return (yield from _enqueue(sources, find_files(_list_paths(sources))))


def add(*sources: str | Path) -> Steps[ReportReply]:
    """Adds files, folders and web addresses, waits until it is done, and returns what was added, skipped and failed.

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


def plan(*sources: str) -> Steps[PlanReply]:
    """What adding web addresses would do and cost."""
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
    """What several jobs did, and what the client itself did not upload."""
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
