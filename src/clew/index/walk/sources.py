"""Source discovery: paths and web addresses become the Sources of the write path.

Chat exports are recognised here, once; each of their threads becomes a Source.
"""

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import TypeVar

from clew.core.errors import SourceError
from clew.core.ids import make_document_id
from clew.core.protocols import Reader
from clew.core.report import OnProgress, OnWarning, PassedOver, Progress, SourceFailure
from clew.core.settings import Settings, ThreadConfig
from clew.core.suggest import format_count
from clew.core.time import EARLIEST
from clew.core.types import Document
from clew.index.chat import SLACK_DAY, ChatExport
from clew.index.chat.served import detect_export_within
from clew.index.read import SLOW_SUFFIXES, SUFFIXES, get_reader_name, read_file
from clew.index.read.load import is_file_there, read_file_status
from clew.index.read.process.limits import ReadLimits
from clew.index.read.web.fetch import read_url
from clew.index.thread.threads import build_threads, find_latest_message_time
from clew.index.walk.files import DEFAULT_RULES, EXPORT_SUFFIXES, find_files
from clew.index.walk.ignore import WalkRules
from clew.index.walk.sync import EMPTY, is_empty_file
from clew.index.walk.uri import FileUris

log = logging.getLogger("clew")
_LOOKED_INTO = EXPORT_SUFFIXES | {".txt", ".", ""}
T = TypeVar("T")
Location = str | Path  # a file, a folder or the address of a web page
REPORT_SECONDS = 1.0  # between two reports of how much was found
Found = str | Path | ChatExport | SourceError  # a web address, a file, a chat export, or an error


@dataclass(frozen=True, slots=True)
class Source:
    """Something that can be added: a file, a web page, a thread or a document made by a program."""

    id: str
    uri: str
    read: Callable[[], Document]
    stamp: str = ""  # a file's time and size; a file with the stored stamp is not read again
    size: int = 0  # of a file, in bytes
    modified: datetime | None = None  # a file's time, used for a document that states none
    exported_until: datetime | None = None  # for a thread: the time of its channel's last message in the export
    exported_ids: Set[str] = frozenset()  # for a thread: the ids of all messages of its channel in the export
    is_loaded: bool = False  # made by a program: reading ahead gains nothing


def discover_sources(
    locations: Sequence[Location],
    *,
    readers: Mapping[str, Reader],
    rules: WalkRules = DEFAULT_RULES,
    root: Path | None = None,
    on_passed_over: Callable[[PassedOver], None] | None = None,
) -> Iterator[Found]:
    """Yield each web address, file and chat export at the locations once, web addresses first.

    Slow files come last, so that all others are searchable soon: PDFs (which may be scans), then pictures and
    recordings. Files with the suffix of a custom reader (`readers`) are yielded too, and never taken for chat exports.
    Entries that the rules exclude, and empty files, go to `on_passed_over`.
    """
    yield from dict.fromkeys(str(location) for location in locations if is_url(location))
    paths = [Path(location) for location in locations if not is_url(location)]
    for path in _put_slow_last(find_files(paths, suffixes=SUFFIXES.union(readers), rules=rules, root=root)):
        if isinstance(path, PassedOver):
            if on_passed_over:
                on_passed_over(path)
            continue
        if isinstance(path, Path) and is_empty_file(path):
            if on_passed_over:
                on_passed_over(PassedOver(str(path), EMPTY))
            continue
        if not isinstance(path, Path) or not _may_be_chat_export(path) or _has_custom_reader(path, readers):
            yield path
            continue
        try:
            yield detect_export_within(path, limits=rules.limits) or path
        except SourceError as error:
            yield error


def _put_slow_last(found: Iterable[T]) -> Iterator[T]:
    """Yield the same entries with slow files last."""
    later: list[list[T]] = [[] for _ in SLOW_SUFFIXES]
    for each in found:
        suffix = os.path.splitext(each)[1].lower() if isinstance(each, Path) else ""  # noqa: PTH122
        place = next((place for place, suffixes in enumerate(SLOW_SUFFIXES) if suffix in suffixes), None)
        if place is None:
            yield each
        else:
            later[place].append(each)
    yield from chain.from_iterable(later)


def report_found(found: Iterable[Found], on_progress: OnProgress | None) -> Iterator[Found]:
    """Yield sources as they are found, reporting progress once a second (large exports are slow to scan)."""
    last, count, is_reported = monotonic(), 0, False
    for count, each in enumerate(found, 1):
        if on_progress and monotonic() - last >= REPORT_SECONDS:
            last, is_reported = monotonic(), True
            on_progress(Progress("finding", count, None, "files"))
        yield each
    if on_progress and is_reported:
        on_progress(Progress("finding", count, count, "files"))


def count_expected_documents(found: Sequence[Found]) -> int | None:
    """Return how many documents will be read; None with a chat export, whose number of threads is unknown."""
    return None if any(isinstance(each, ChatExport) for each in found) else len(found)


def make_sources(
    found: Iterable[Found], *, root: Path, settings: Settings, readers: Mapping[str, Reader], on_warning: OnWarning
) -> Iterator[Source | SourceError]:
    """Yield a Source for each file, web page and thread; the uris of files are relative to `root`."""
    config = settings.ingestion
    limits = ReadLimits.of(config)
    uris = FileUris(root)
    for each in found:
        if isinstance(each, SourceError):
            yield each
        elif isinstance(each, ChatExport):
            yield from _make_thread_sources(each, settings.threads, on_warning)
        elif isinstance(each, str):
            read_page = partial(read_url, each, allow_private=config.allow_private, limits=limits)
            yield Source(make_document_id(each), each, read_page)
        else:
            uri = uris.make(each)
            read_source = partial(
                read_file, each, uri=uri, max_bytes=config.max_file_bytes, readers=readers, limits=limits
            )
            status = read_file_status(each)
            reader = readers.get(each.suffix.lower()) if readers else None
            stamp = status.stamp if reader is None else f"{status.stamp} {get_reader_name(reader)}"
            yield Source(make_document_id(uri), uri, read_source, stamp, status.size, status.modified)


def count_bytes(found: Sequence[Found]) -> int:
    """Return the total bytes of the files; 0 if there are sources of unknown size."""
    if not all(isinstance(each, Path | SourceError) for each in found):
        return 0
    try:
        return sum(each.stat().st_size for each in found if isinstance(each, Path))
    except (OSError, ValueError):  # a file has vanished
        return 0


def list_folders(locations: Sequence[Location]) -> list[Path]:
    """List the locations that are paths, and so may be folders."""
    return [Path(location) for location in locations if not is_url(location)]


def is_url(location: Location) -> bool:
    """Return whether a location is the address of a web page, not a path."""
    return isinstance(location, str) and location.lower().startswith(("http://", "https://"))


def _has_custom_reader(path: Path, readers: Mapping[str, Reader]) -> bool:
    return path.suffix.lower() in readers and is_file_there(path)


def _may_be_chat_export(path: Path) -> bool:
    """Return whether a path may be a chat export, by its suffix."""
    return os.path.splitext(path)[1].lower() in _LOOKED_INTO  # noqa: PTH122 (many times faster than a Path)


def _make_thread_sources(
    export: ChatExport, config: ThreadConfig, on_warning: OnWarning
) -> Iterator[Source | SourceError]:
    """Yield a Source for each thread of an export, channel by channel; report skipped parts at the end."""
    try:
        for channel, messages in export.read_channels():
            exported = list(messages)
            ids = frozenset(message.id for message in exported)
            # In a partial export a missing message was not deleted: it may be unreadable or of another day.
            is_partial = export.notes.failures or export.kind == SLACK_DAY
            until = EARLIEST if is_partial else find_latest_message_time(exported)
            counts = Counter(message.id for message in exported)
            for thread in build_threads(channel, exported, config=config):
                document = thread.document()
                for each in [message.id for message in thread.messages if counts[message.id] > 1]:
                    told = f"the export has {counts[each]} messages with the id {each}; the first was kept"
                    on_warning(SourceFailure(document.uri, f"{told}; give each an id of its own"))
                read = partial(_return_document, document)
                yield Source(document.id, document.uri, read, exported_until=until, exported_ids=ids)
        yield from export.notes.failures
        if more := export.notes.unlisted_failures:
            yield SourceError(str(export.path), f"{format_count(more, 'more line')} cannot be read")
    except SourceError as error:
        yield error
    notes, restricted = export.notes.describe(), export.notes.describe_restricted()
    for note in (
        f"only members may see: {restricted} (access labels: user ids)" if restricted else "",
        f"skipped or assumed: {notes}" if notes else "",
    ):
        if note:
            log.info("%s: %s", export.path, note)
            on_warning(SourceFailure(str(export.path), note))


def _return_document(document: Document) -> Document:
    return document
