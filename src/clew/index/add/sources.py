"""Source discovery: paths and web addresses become the Sources of the write path.

Chat exports are recognised here, once, and each of their threads is a Source of its own.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from clew.core.errors import SourceError
from clew.core.ids import make_document_id
from clew.core.protocols import Reader, Store
from clew.core.report import OnWarning
from clew.core.settings import Settings
from clew.core.types import DocumentRecord
from clew.index.add.exports import make_thread_sources, may_be_chat_export
from clew.index.add.files import find_files
from clew.index.add.prepare import Source
from clew.index.chat import ChatExport, detect_export
from clew.index.read import SUFFIXES, get_reader_name, read_file
from clew.index.read.load import make_file_stamp
from clew.index.read.sections import get_source_uri
from clew.index.read.uri import make_file_uri
from clew.index.read.web.fetch import read_url

Location = str | Path  # a file, a folder or the address of a web page
Found = str | Path | ChatExport | SourceError  # a web address, a file, a chat export, or why one cannot be read


def discover_sources(locations: Sequence[Location], *, readers: Mapping[str, Reader]) -> Iterator[Found]:
    """The web addresses, files and chat exports at the locations, each once: web addresses first, the rest in order.

    `readers` are custom readers by suffix; their files are found too, and never taken for chat exports.
    """
    yield from dict.fromkeys(str(location) for location in locations if is_url(location))
    paths = [Path(location) for location in locations if not is_url(location)]
    for path in find_files(paths, suffixes=SUFFIXES.union(readers)):
        if isinstance(path, SourceError) or not may_be_chat_export(path) or _has_custom_reader(path, readers):
            yield path
            continue
        try:
            yield detect_export(path) or path
        except SourceError as error:
            yield error


def count_expected_documents(found: Sequence[Found]) -> int | None:
    """How many documents will be read; None if a chat export is among them, whose threads are not known yet."""
    return None if any(isinstance(each, ChatExport) for each in found) else len(found)


def make_sources(
    found: Iterable[Found], *, root: Path, settings: Settings, readers: Mapping[str, Reader], on_warning: OnWarning
) -> Iterator[Source | SourceError]:
    """One Source per file, web page and thread; uris of files are relative to `root`."""
    config = settings.ingestion
    for each in found:
        if isinstance(each, SourceError):
            yield each
        elif isinstance(each, ChatExport):
            yield from make_thread_sources(each, settings.threads, on_warning)
        elif isinstance(each, str):
            yield Source(make_document_id(each), each, partial(read_url, each, allow_private=config.allow_private))
        else:
            uri = make_file_uri(each, root)
            read_source = partial(read_file, each, uri=uri, max_bytes=config.max_file_bytes, readers=readers)
            yield Source(make_document_id(uri), uri, read_source, _make_stamp_with_reader(each, readers))


def find_vanished_documents(store: Store, locations: Sequence[Location], *, root: Path) -> list[DocumentRecord]:
    """The documents whose files were below one of the folders and no longer exist.

    Only a document read from a file has a stamp: one that a program made is never taken for a deleted file.
    """
    paths = [Path(location) for location in locations if not is_url(location)]
    folders = [f"{make_file_uri(path, root)}/".removeprefix("./") for path in paths if path.is_dir()]
    return [
        record
        for record in store.documents()
        if record.stamp
        and any(record.uri.startswith(folder) for folder in folders)
        and not (root / get_source_uri(record)).exists()
    ]


def is_url(location: Location) -> bool:
    """Whether a location is the address of a web page, not a path."""
    return isinstance(location, str) and location.lower().startswith(("http://", "https://"))


def _has_custom_reader(path: Path, readers: Mapping[str, Reader]) -> bool:
    return path.suffix.lower() in readers and path.is_file()


def _make_stamp_with_reader(path: Path, readers: Mapping[str, Reader]) -> str:
    """The stamp of a file (its time and size), with the name of its reader if that is a custom one."""
    reader = readers.get(path.suffix.lower())
    return make_file_stamp(path) if reader is None else f"{make_file_stamp(path)} {get_reader_name(reader)}"
