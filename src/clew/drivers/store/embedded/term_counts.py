"""The methods of the embedded store that count terms, and so the chunks of each language."""

from collections.abc import Sequence

from clew.drivers.store.embedded.database import Database
from clew.drivers.store.embedded.manager import IndexManager
from clew.drivers.store.languages import LanguageMethods
from clew.drivers.store.term_ids import hash_terms


class TermCounts(LanguageMethods):
    """Counts terms in the index; part of EmbeddedStore."""

    _database: Database
    _indexes: IndexManager

    def count_terms(self, terms: Sequence[str], *, at_most: int | None = None) -> list[int]:
        """How many chunks have each of the terms, up to `at_most`."""
        index = self._indexes.get_caught_up_index(self._database.read_state())
        having = index.count_having(hash_terms(terms))
        return having if at_most is None else [min(count, at_most) for count in having]
