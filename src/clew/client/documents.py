"""The verbs on documents and jobs, as requests."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from clew.client import replies as r
from clew.client.bodies import document_to_body
from clew.client.errors import ServerError
from clew.client.reports import merge_reports
from clew.client.request import Pages, Request, Steps, quote_name, read_field
from clew.client.uploads import FoundFiles, find_files, split_files
from clew.core.errors import SourceError
from clew.core.jobs import FINISHED
from clew.core.types import Document

POLL_SECONDS = 0.25


def enqueue_add(*sources: str | Path) -> Steps[list[r.JobReply]]:
    """Uploads files and folders and names web addresses to the server; returns the jobs that add them.

    A relative path becomes the address of its document, of an absolute one the last part; the files of a folder keep
    their paths in it. More files than the server takes at a time are several jobs.
    """
    return (yield from _enqueue(_list_urls(sources), find_files(_list_paths(sources))))


def add(*sources: str | Path) -> Steps[r.ReportReply]:
    """Adds files, folders and web addresses, waits until it is done, and returns what was added, skipped and failed.

    Files are named as by `enqueue_add`. Raises ServerError if a job failed as a whole or was cancelled.
    """
    found = find_files(_list_paths(sources))
    jobs = yield from _enqueue(_list_urls(sources), found)
    for place, each in enumerate(jobs):
        while jobs[place]["state"] not in FINISHED:
            yield POLL_SECONDS
            jobs[place] = yield job(each["id"])
    for each in jobs:
        if each["state"] != "done":
            raise ServerError(f"the job {each['id']} was {each['state']} {each['error']}".strip(), code=each["state"])
    return merge_reports([each["result"] for each in jobs], found)


def _enqueue(urls: list[str], found: FoundFiles) -> Steps[list[r.JobReply]]:
    jobs: list[r.JobReply] = []
    if urls:
        jobs.append((yield Request("POST", "/v1/add", {"sources": urls})))
    for part in split_files(found.files):
        with ExitStack() as stack:
            files = [("files", (name, stack.enter_context(_open(path)))) for name, path in part]
            jobs.append((yield Request("POST", "/v1/documents", files=files)))
    return jobs


def plan(*sources: str) -> Request[r.PlanReply]:
    """What adding web addresses would do and cost."""
    return Request("POST", "/v1/plan", {"sources": [*sources]})


def add_documents(documents: Iterable[Document]) -> Request[r.ReportReply]:
    """Adds documents made by a program."""
    return Request("POST", "/v1/add-documents", {"documents": [document_to_body(each) for each in documents]})


def list_documents(*, kinds: Iterable[str] = (), channels: Iterable[str] = ()) -> Pages[r.RecordReply]:
    """The records of the documents, ordered by address; they are fetched a part at a time."""
    return Pages("/v1/documents", "documents", {"kind": [*kinds], "channel": [*channels]})


def read(document: str) -> Request[r.DocumentReply]:
    """A document by id or address."""
    return Request("GET", "/v1/document", params={"id": document})


def chunks(document: str) -> Pages[r.ChunkReply]:
    """The chunks of a document, in order."""
    return Pages("/v1/document/chunks", "chunks", {"id": document})


def links(document: str) -> Request[r.LinksReply]:
    """The documents that a document names, and the threads that name it."""
    return Request("GET", "/v1/document/links", params={"id": document})


def drop(document: str, *, pattern: bool = False) -> Request[int]:
    """Removes one document by id or address; returns how many documents were removed.

    With `pattern` the name is a folder, or a pattern such as `notes/*.md`, and all that it stands for goes;
    `preview_drop` tells what that is.
    """
    return Request("DELETE", "/v1/document", params=_name_drop(document, pattern), read=read_field("dropped"))


def preview_drop(document: str, *, pattern: bool = False) -> Request[list[str]]:
    """The addresses of the documents that `drop` would remove; nothing is removed."""
    params = {**_name_drop(document, pattern), "dry_run": "true"}
    return Request("DELETE", "/v1/document", params=params, read=read_field("documents"))


def erase(
    documents: Iterable[str] = (), *, author: str | None = None, channel: str | None = None, dry_run: bool = False
) -> Request[r.ReceiptReply]:
    """Removes documents, all that an author wrote, or a channel, with all that was made of it; the receipt."""
    body = {"documents": [*documents] or None, "author": author, "channel": channel, "dry_run": dry_run}
    return Request("POST", "/v1/erase", body)


def status() -> Request[r.StatusReply]:
    """The counts of the collection."""
    return Request("GET", "/v1/status")


def doctor(*, full: bool = False) -> Request[r.DoctorReply]:
    """What is wrong with what is stored, of a large collection in a sample unless `full`; it repairs nothing."""
    return Request("GET", "/v1/doctor", params={"full": "true"} if full else {})


def collections() -> Request[Sequence[r.CollectionReply]]:
    """The collections that the key opens."""
    return Request("GET", "/v1/collections", read=read_field("collections"))


def drop_collection(name: str) -> Request[r.DroppedCollectionReply]:
    """Removes a collection with all its documents, jobs and saved chats, for good; what it was."""
    return Request("DELETE", f"/v1/collections/{quote_name(name)}")


def jobs() -> Request[list[r.JobReply]]:
    """The jobs of the collection, the oldest first."""
    return Request("GET", "/v1/jobs", read=read_field("jobs"))


def job(job_id: str) -> Request[r.JobReply]:
    """A job as it is now."""
    return Request("GET", f"/v1/jobs/{quote_name(job_id)}")


def cancel_job(job_id: str) -> Request[r.JobReply]:
    """Cancels a job; what it has added stays."""
    return Request("DELETE", f"/v1/jobs/{quote_name(job_id)}")


def _name_drop(document: str, pattern: bool) -> dict[str, str | None]:
    return {"id": document, "pattern": "true" if pattern else None}


def _list_urls(sources: Sequence[str | Path]) -> list[str]:
    return [str(each) for each in sources if _is_url(each)]


def _list_paths(sources: Sequence[str | Path]) -> list[Path]:
    return [Path(each) for each in sources if not _is_url(each)]


def _open(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise SourceError(str(path), f"cannot be read ({error.strerror}); nothing of this part was uploaded") from error


def _is_url(source: str | Path) -> bool:
    return isinstance(source, str) and source.startswith(("http://", "https://"))
