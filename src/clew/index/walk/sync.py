"""Synchronisation: report, or drop, documents whose files are gone, moved, empty or ignored now.

A share that is not mounted looks like an empty folder. So if more than half of the files of a folder are lost, none of
its documents is dropped until the caller confirms it. Files that the default rules skip (hidden, dependencies, build
output) were added with `--no-ignore` or by name, and stay. A new file with the text of a lost one takes over its
vectors and summary.
"""

import os
import stat
from codecs import getincrementaldecoder
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

from clew.core.filter import Filter
from clew.core.ids import make_document_id
from clew.core.protocols import WritableStore
from clew.core.report import PassedOver, SourceFailure
from clew.core.stored import StoredDocument
from clew.core.thread import THREAD_KIND
from clew.core.types import Document, DocumentRecord, Vector
from clew.index.read.load import is_file_there, is_folder
from clew.index.read.sections import get_source_uri, make_section_name
from clew.index.walk.ignore import BY_CLEW, BY_DEFAULT, BY_GIT
from clew.index.walk.uri import make_file_uri

MAX_NAMED = 20  # ignored or moved files that are named one by one
_BY_FILES = frozenset((BY_GIT, BY_CLEW))
MAX_DROP_SHARE = 0.5  # share of a folder's files that may be lost and dropped without confirmation
EMPTY = "empty"
MAX_BLANK_BYTES = 10_000_000  # larger files are not checked for blankness
_HEAD_BYTES = 64  # enough to tell most files from a blank one


@dataclass(frozen=True, slots=True)
class IgnoredFiles:
    """The uris of the files and folders that a walk skipped, with the reason.

    `named` are paths given to `add` by name, which no ignore file excludes.
    """

    files: dict[str, str]
    folders: dict[str, str]
    named: tuple[str, ...] = ()

    def find_reason(self, uri: str) -> str:
        """Return why a file is ignored, such as "in .gitignore"; empty if it is not."""
        if any(uri == each or uri.startswith(f"{each}/") for each in self.named):
            return ""
        if reason := self.files.get(uri):
            return reason
        above = (uri[: place + 1] for place, character in enumerate(uri) if character == "/")
        return next((reason for folder in above if (reason := self.folders.get(folder))), "")


@dataclass(frozen=True, slots=True)
class FoundMoves:
    """Moved documents: `former` maps each new id to the former id, `uris` the former id to the old and new uri."""

    former: Mapping[str, str] = field(default_factory=dict)
    uris: Mapping[str, tuple[str, str]] = field(default_factory=dict)


class MovedFiles:
    """A search for the stored document that a new file was moved from.

    Documents whose files are gone are listed on first use, by text length, unless given as `gone`.
    """

    def __init__(self, store: WritableStore, root: Path, gone: Mapping[int, Sequence[str]] | None = None) -> None:
        self._store, self._root = store, root
        self._gone = gone
        self.former: dict[str, str] = {}  # former ids by new id
        self._uris: dict[str, tuple[str, str]] = {}  # old and new uri by former id

    def find(self, document: Document) -> StoredDocument | None:
        """Find the stored document with the same text whose file is gone; None if there is none."""
        if self._gone is None:
            self._gone = self.list_gone()
        ids = [each for each in self._gone.get(len(document.text), ()) if each != document.id]
        for stored in self._store.stored_documents(ids) if ids else ():
            if stored.document.text == document.text:
                self.former[document.id] = stored.document.id
                self._uris.setdefault(stored.document.id, (get_source_uri(stored.document), document.uri))
                return stored
        return None

    def get_found(self) -> "FoundMoves":
        """Return the moves found so far."""
        return FoundMoves(dict(self.former), dict(self._uris))

    def include(self, found: "FoundMoves") -> None:
        """Add the moves found by another process."""
        self.former.update(found.former)
        for former, uris in found.uris.items():
            self._uris.setdefault(former, uris)

    def note_former_files(self, *, added: Set[str], dropped: Set[str]) -> list[SourceFailure]:
        """Report moved files whose old documents stay: new uri in `added`, former id not in `dropped`."""
        pairs = {old: new for former, (old, new) in self._uris.items() if new in added and former not in dropped}
        outcome = "its document stays; add its folder with --sync (sync=True) to drop it"
        notes = [SourceFailure(old, f"is gone, and {new} has its text; {outcome}") for old, new in pairs.items()]
        return _name_first(notes, "is gone, as are {:,} more that were moved; their documents stay")

    def list_gone(self) -> dict[int, list[str]]:
        """List the ids of the stored documents whose files are gone, by the length of their text."""
        missing = {doc_id for doc_id, uri in self._store.files() if not _is_there(Path(self._root, uri))}
        gone: dict[int, list[str]] = {}
        for record in self._store.documents(Filter(documents=missing)):
            if record.kind != THREAD_KIND and not _is_there(Path(self._root, get_source_uri(record))):
                gone.setdefault(record.chars, []).append(record.id)
        return gone


def collect_vectors_by_text(stored: StoredDocument) -> dict[str, Vector]:
    """Collect the vectors of the chunks and the summary of a stored document, by embedded text."""
    vectors = {chunk.embed_text: vector for chunk, vector in zip(stored.chunks, stored.vectors, strict=True)}
    if stored.summary_vector is not None and stored.document.summary:
        vectors[stored.document.summary] = stored.summary_vector
    return vectors


@dataclass(frozen=True, slots=True)
class Vanished:
    """The documents whose files are gone: those to drop, those held back, and notes with the reasons."""

    dropped: Sequence[DocumentRecord] = ()
    held_back: Sequence[DocumentRecord] = ()
    notes: Sequence[SourceFailure] = ()


@dataclass(frozen=True, slots=True)
class WalkedFolders:
    """The folders of one `add`, compared with the stored documents. The walk fills `passed_over`."""

    store: WritableStore
    root: Path
    folders: Sequence[Path]
    moved: MovedFiles
    passed_over: Sequence[PassedOver]
    met: Set[str] = frozenset()  # ids of documents whose files the walk found

    def find_vanished(self, *, allow_mass_drop: bool = False, added: Set[str] = frozenset()) -> Vanished:
        """Find the documents below the folders whose files no longer exist, or are now empty or ignored.

        Only documents read from files count; they have a stamp. Documents just `added` (by uri) and moved ones do not
        count in the lost share of a folder.
        """
        empty, ignored, moved = self._list_empty(), self._list_kept_out(_BY_FILES), {*self.moved.former.values()}
        prefixes = {
            f"{make_file_uri(folder, self.root)}/".removeprefix("./"): folder
            for folder in self.folders
            if is_folder(folder)
        }

        def is_gone(record: DocumentRecord) -> bool:
            file = get_source_uri(record)
            return file in empty or bool(ignored.find_reason(file)) or not _is_there(Path(self.root, file))

        stored = self.store.files() if prefixes else ()
        below = {doc_id for prefix in prefixes for doc_id, uri in stored if _is_below(uri, prefix)}
        unmet = Filter(documents=below - self.met)
        vanished = {record.id: record for record in self.store.documents(unmet) if is_gone(record)}
        known: dict[str, set[str]] = {prefix: set() for prefix in prefixes}  # files: one may have several documents
        lost: dict[str, set[str]] = {prefix: set() for prefix in prefixes}
        gone: dict[str, list[DocumentRecord]] = {prefix: [] for prefix in prefixes}
        for record in self.store.documents(Filter(documents=below)) if vanished else ():
            for prefix in prefixes:
                if _is_below(record.uri, prefix):
                    gone[prefix] += [record] if record.id in vanished else []
                    if record.uri not in added and record.id not in moved:
                        known[prefix].add(get_source_uri(record))
                        lost[prefix] |= {get_source_uri(record)} if record.id in vanished else set()
        held: dict[str, DocumentRecord] = {}
        notes: list[SourceFailure] = []
        for prefix, records in gone.items():
            if not allow_mass_drop and len(lost[prefix]) > MAX_DROP_SHARE * len(known[prefix]):
                held |= {record.id: record for record in records}
                reason = _explain_mass_drop(len(lost[prefix]), len(known[prefix]))
                notes.append(SourceFailure(str(prefixes[prefix]), reason))
        dropped = [record for record in vanished.values() if record.id not in held]
        return Vanished(dropped, list(held.values()), notes)

    def note_changes(
        self, vanished: Vanished, *, added: Set[str], is_sync: bool, is_upload: bool
    ) -> list[SourceFailure]:
        """Report gone, empty, ignored and moved files whose documents stay, and ignored files whose documents go."""
        ignored, skipped = self._list_kept_out(_BY_FILES), self._list_kept_out(BY_DEFAULT)
        notes = self._note_emptied({get_source_uri(record) for record in vanished.held_back}, is_upload=is_upload)
        if is_sync:
            notes += _note_each(vanished.dropped, ignored, "its document was dropped", "were dropped")
        else:
            outcome = "the earlier version stays; add its folder with --sync (sync=True) to drop it"
            notes += _note_each(self._list_stored(ignored), ignored, outcome, "stay")
            notes += self._note_gone(vanished.dropped, ignored)
        outcome = "the earlier version stays, also with --sync; `clew drop` (Engine.drop) removes it"
        notes += _note_each(self._list_stored(skipped), skipped, outcome, "stay", verb="passed over")
        gone = {record.id for record in (*vanished.dropped, *vanished.held_back)} if is_sync else frozenset[str]()
        return notes + self.moved.note_former_files(added=added, dropped=gone)

    def _note_gone(self, records: Iterable[DocumentRecord], ignored: IgnoredFiles) -> list[SourceFailure]:
        """Report the files that are gone: neither empty, ignored nor moved."""
        moved = {*self.moved.former.values()}
        files = {get_source_uri(record) for record in records if record.id not in moved} - self._list_empty()
        outcome = "is gone; its document stays; add its folder with --sync (sync=True) to drop it"
        notes = [SourceFailure(uri, outcome) for uri in sorted(files) if not ignored.find_reason(uri)]
        return _name_first(notes, "is gone, as are {:,} more; their documents stay")

    def _note_emptied(self, held_back: Set[str], *, is_upload: bool) -> list[SourceFailure]:
        """Report the empty files with a stored earlier version that is not held back."""
        ids = [make_document_id(uri) for uri in self._list_empty() - held_back]
        known = Filter(documents=frozenset(ids) | {make_section_name(doc_id, 1) for doc_id in ids})
        stored = sorted({get_source_uri(record) for record in self.store.documents(known)}) if ids else ()
        outcome = "drop it by its address" if is_upload else "add its folder with --sync (sync=True) to drop it"
        return [SourceFailure(uri, f"is empty now; the earlier version stays; {outcome}") for uri in stored]

    def _list_empty(self) -> set[str]:
        """List the uris of the skipped empty files."""
        return {make_file_uri(Path(each.source), self.root) for each in self.passed_over if each.reason == EMPTY}

    def _list_kept_out(self, reasons: Set[str]) -> IgnoredFiles:
        """List the files and folders that were skipped for one of the reasons."""
        files: dict[str, str] = {}
        folders: dict[str, str] = {}
        for each in self.passed_over:
            if each.reason not in reasons:
                continue
            uri = make_file_uri(Path(each.source), self.root)
            if each.source.endswith("/"):
                folders[f"{uri}/"] = each.reason
            else:
                files[uri] = each.reason
        ignored = IgnoredFiles(files, folders)
        given = (make_file_uri(path, self.root) for path in self.folders)
        named = (uri for uri in given if ignored.find_reason(uri) or ignored.find_reason(f"{uri}/"))
        return IgnoredFiles(files, folders, tuple(named))

    def _list_stored(self, ignored: IgnoredFiles) -> Iterable[DocumentRecord]:
        """Return the records of stored files, or none if nothing is ignored."""
        if not ignored.files and not ignored.folders:
            return ()
        return (record for record in self.store.documents() if record.stamp)


def _note_each(
    records: Iterable[DocumentRecord], ignored: IgnoredFiles, outcome: str, of_the_rest: str, *, verb: str = "ignored"
) -> list[SourceFailure]:
    reasons = {uri: reason for uri in map(get_source_uri, records) if (reason := ignored.find_reason(uri))}
    notes = [SourceFailure(uri, f"is {verb} now ({reason}); {outcome}") for uri, reason in sorted(reasons.items())]
    return _name_first(notes, f"is {verb} now, as are {{:,}} more; they {of_the_rest}")


def _name_first(notes: list[SourceFailure], rest: str) -> list[SourceFailure]:
    """Return the first MAX_NAMED notes, and one for the rest that counts them."""
    if len(notes) <= MAX_NAMED:
        return notes
    left = rest.format(len(notes) - MAX_NAMED - 1)
    return [*notes[:MAX_NAMED], SourceFailure(notes[MAX_NAMED].source, left)]


def _is_below(uri: str, prefix: str) -> bool:
    """Return whether a file is below a folder. The prefix of the root is empty; full paths are outside the root."""
    return uri.startswith(prefix) if prefix else not Path(uri).is_absolute() and not uri.startswith("../")


def _explain_mass_drop(lost: int, total: int) -> str:
    return (
        f"{lost} of its {total} files are gone, empty or ignored; their documents were not dropped, since the folder "
        "may only be out of reach; if the files are gone for good, repeat it with --yes (allow_mass_drop=True)"
    )


def _is_there(file: Path) -> bool:
    """Return whether the path is still a file, not a folder or a link."""
    return is_file_there(file) and not os.path.islink(file)  # noqa: PTH114 (False for one that may not be looked at)


def is_empty_file(path: Path) -> bool:
    """Return whether a regular file is empty or only white space."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BLANK_BYTES:
            return False
        if not status.st_size:
            return True
        with FileIO(path) as file:
            head = file.read(_HEAD_BYTES) or b""
            decoder = getincrementaldecoder("utf-8-sig")()  # the head may end within a character
            return not decoder.decode(head).strip() and not decoder.decode(file.readall(), final=True).strip()
    except (OSError, ValueError):  # reading it later reports the error; a file that is not UTF-8 is not blank
        return False
