"""The methods of the embedded store that count terms, and so the chunks of each language."""

from collections.abc import Sequence

from clew.drivers.store.embedded.database import Database
from clew.drivers.store.embedded.frequencies import get_document_frequencies
from clew.drivers.store.embedded.manager import IndexManager
from clew.drivers.store.embedded.signals import count_having
from clew.drivers.store.languages import LanguageMethods
from clew.drivers.store.term_ids import hash_terms


class TermCounts(LanguageMethods):
    """Counts terms in the index; part of EmbeddedStore."""

    _database: Database
    _indexes: IndexManager

    def count_terms(self, terms: Sequence[str], *, at_most: int | None = None) -> list[int]:
        """How many chunks have each of the terms, up to `at_most`; where all are counted, no index is opened for it."""
        state, hashes = self._database.read_state(), hash_terms(terms)
        if at_most is None and not self._indexes.is_open:
            saved = self._indexes.find_counts(state)
            if saved is None:
                return count_having(self._database, hashes)
            return [int(count) for count in get_document_frequencies(saved, hashes)]
        having = self._indexes.get_caught_up_index(state).count_having(hashes)
        return having if at_most is None else [min(count, at_most) for count in having]
