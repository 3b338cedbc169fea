"""Moved files in the write path: a new file with the text of one that is gone keeps its vectors and summary."""

from pathlib import Path

from clew.core.protocols import Store
from clew.core.stored import StoredDocument
from clew.core.thread import THREAD_KIND
from clew.core.types import Document, Vector
from clew.index.read.load import is_there
from clew.index.read.sections import get_source_uri


class MovedFiles:
    """The stored documents whose files are gone, by the length of their text; listed when a new file is met."""

    def __init__(self, store: Store, root: Path) -> None:
        self._store, self._root = store, root
        self._gone: dict[int, list[str]] | None = None
        self.former: dict[str, str] = {}  # ids of the moved documents, and what they were

    def find(self, document: Document) -> StoredDocument | None:
        """The stored document with the same text whose file is gone; None if there is none."""
        if self._gone is None:
            self._gone = self._list_gone()
        ids = [each for each in self._gone.get(len(document.text), ()) if each != document.id]
        for stored in self._store.stored_documents(ids) if ids else ():
            if stored.document.text == document.text:
                self.former[document.id] = stored.document.id
                return stored
        return None

    def _list_gone(self) -> dict[int, list[str]]:
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
