"""Moved files in the write path: a new file with the text of one that is gone keeps its vectors and summary."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from clew.core.protocols import Store
from clew.core.report import SourceFailure
from clew.core.stored import StoredDocument
from clew.core.thread import THREAD_KIND
from clew.core.types import Document, Vector
from clew.index.read.load import is_there
from clew.index.read.sections import get_source_uri

MAX_NAMED = 20  # moved files that are named one by one


@dataclass(frozen=True, slots=True)
class FoundMoves:
    """The former id of each moved document by its id; by the former id, where its file was and where it is."""

    former: Mapping[str, str] = field(default_factory=dict)
    uris: Mapping[str, tuple[str, str]] = field(default_factory=dict)


class MovedFiles:
    """The stored documents whose files are gone, by the length of their text; listed when a new file is met.

    `gone` are these, where another process has listed them.
    """

    def __init__(self, store: Store, root: Path, gone: Mapping[int, Sequence[str]] | None = None) -> None:
        self._store, self._root = store, root
        self._gone = gone
        self.former: dict[str, str] = {}  # ids of the moved documents, and what they were
        self._uris: dict[str, tuple[str, str]] = {}  # by the former id, where the file was and where it is

    def find(self, document: Document) -> StoredDocument | None:
        """The stored document with the same text whose file is gone; None if there is none."""
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
        """What was found so far."""
        return FoundMoves(dict(self.former), dict(self._uris))

    def include(self, found: "FoundMoves") -> None:
        """Takes over what another process has found."""
        self.former.update(found.former)
        for former, uris in found.uris.items():
            self._uris.setdefault(former, uris)

    def note_former_files(self, *, added: Set[str], dropped: Set[str]) -> list[SourceFailure]:
        """What is said of files that are gone and whose documents stay, beside those that were `added` (by uri).

        `dropped` are the ids of former documents of which nothing is to be said.
        """
        pairs = {old: new for former, (old, new) in self._uris.items() if new in added and former not in dropped}
        outcome = "its document stays; add its folder with --sync (sync=True) to drop it"
        notes = [SourceFailure(old, f"is gone, and {new} has its text; {outcome}") for old, new in pairs.items()]
        if len(notes) <= MAX_NAMED:
            return notes
        rest = f"is gone, as are {len(notes) - MAX_NAMED - 1:,} more that were moved; their documents stay"
        return [*notes[:MAX_NAMED], SourceFailure(notes[MAX_NAMED].source, rest)]

    def list_gone(self) -> dict[int, list[str]]:
        """The ids of the stored documents whose files are gone, by the length of their text."""
        gone: dict[int, list[str]] = {}
        for record in self._store.documents():
            is_file = record.stamp and record.kind != THREAD_KIND
            if is_file and not is_there(Path(self._root, get_source_uri(record))):
                gone.setdefault(record.chars, []).append(record.id)
        return gone


def collect_vectors_by_text(stored: StoredDocument) -> dict[str, Vector]:
    """The vectors of a stored document by what was embedded: its chunks, and its summary."""
    vectors = {chunk.embed_text: vector for chunk, vector in zip(stored.chunks, stored.vectors, strict=True)}
    if stored.summary_vector is not None and stored.document.summary:
        vectors[stored.document.summary] = stored.summary_vector
    return vectors
