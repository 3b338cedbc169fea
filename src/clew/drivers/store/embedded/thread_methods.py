"""The methods of the embedded store that read and change parts of threads."""

from collections.abc import Sequence

from clew.core.thread_edit import ThreadEdit, ThreadPart, Waiting
from clew.core.thread_view import ThreadView
from clew.drivers.store import checks
from clew.drivers.store.embedded import put, threads
from clew.drivers.store.embedded.database import Database
from clew.drivers.store.entries import DocumentEntries, make_entries


class ThreadMethods:
    """Reads and edits of threads; part of EmbeddedStore."""

    _database: Database

    def thread_part(self, doc_id: str, message_ids: Sequence[str], *, reach: int) -> ThreadPart:
        """The named messages of a thread and all that an edit of them needs, or NotFound."""
        with self._database.reader as db:
            is_split = threads.is_split(db, doc_id)
        if not is_split:
            with self._database.write_transaction() as db:
                if not threads.is_split(db, doc_id):
                    threads.split_thread(db, doc_id)
        with self._database.read_transaction() as db:
            return threads.read_thread_part(db, doc_id, message_ids, reach)

    def thread_view(self, doc_id: str) -> ThreadView:
        """A thread whose messages are parsed when they are asked for, or NotFound."""
        with self._database.read_transaction() as db:
            return threads.read_thread_view(db, doc_id)

    def edit_threads(self, edits: Sequence[ThreadEdit]) -> None:
        """Changes threads, all or none, at a cost that does not grow with them; ConcurrentChange as by `put`."""
        dim = self._database.dim
        prepared = [
            make_entries(e.document, e.chunks, checks.check_vectors(e.vectors, e.chunks, e.terms, dim), e.terms)
            for e in edits
        ]
        with self._database.write_transaction() as db:
            threads.check_revisions(db, edits)
            for edit in edits:
                if edit.removed:
                    threads.remove_from_thread(db, edit)
            for edit, entries in zip(edits, prepared, strict=True):
                if edit.revision:
                    threads.write_edit(db, edit, entries)
                else:
                    put.put_documents(db, [DocumentEntries(edit.document, entries)])

    def waiting_messages(self, message_ids: Sequence[str], channel: str) -> dict[str, list[Waiting]]:
        """The messages of a channel that answer those, which were not stored when they came."""
        with self._database.reader as db:
            return threads.read_waiting_messages(db, message_ids, channel)
