"""The methods of the server store that read and change parts of threads."""

from collections.abc import Sequence

from clew.core.thread_edit import ThreadEdit, ThreadPart, Waiting
from clew.core.thread_view import ThreadView
from clew.drivers.store import checks
from clew.drivers.store.entries import make_entries
from clew.drivers.store.postgres import read, threads
from clew.drivers.store.postgres.connect.planner import use_generic_plans
from clew.drivers.store.postgres.connect.pool import Pool
from clew.drivers.store.postgres.connect.setup import OpenCollection


class ThreadMethods:
    """Reads and edits of threads; part of PostgresStore."""

    _pool: Pool
    _collection: OpenCollection
    _number: int
    _dim: int

    def thread_part(self, doc_id: str, message_ids: Sequence[str], *, reach: int) -> ThreadPart:
        """The named messages of a thread and all that an edit of them needs, or NotFound."""
        if not self._pool.run_read(lambda connection: threads.is_split(connection, self._number, doc_id)):
            self._pool.run_transaction(lambda connection: threads.split_thread(connection, self._collection, doc_id))
        return self._pool.run_read(
            lambda connection: threads.read_thread_part(connection, self._number, doc_id, message_ids, reach)
        )

    def thread_view(self, doc_id: str) -> ThreadView:
        """A thread whose messages are parsed when they are asked for, or NotFound."""
        return self._pool.run_read(lambda connection: read.read_thread_view(connection, self._number, doc_id))

    def edit_threads(self, edits: Sequence[ThreadEdit]) -> None:
        """Changes threads, all or none, at a cost that does not grow with them; ConcurrentChange as by `put`."""
        entries = [
            make_entries(e.document, e.chunks, checks.check_vectors(e.vectors, e.chunks, e.terms, self._dim), e.terms)
            for e in edits
        ]
        self._pool.run_transaction(
            lambda connection: threads.write_edits(connection, self._collection, edits, entries), plan=use_generic_plans
        )

    def waiting_messages(self, message_ids: Sequence[str], channel: str) -> dict[str, list[Waiting]]:
        """The messages of a channel that answer those, which were not stored when they came."""
        return self._pool.run_read(
            lambda connection: threads.read_waiting_messages(connection, self._number, message_ids, channel)
        )
