"""The languages of a collection: every chunk has a term that names its language, so that counting terms counts them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from clew.core.analyse import UNKNOWN, make_language_term
from clew.core.languages import LANGUAGES
from clew.core.lru import LRUCache

MAX_COUNT = 2_000  # chunks of a language that are counted: enough to tell which are the main ones
_CODES = (*sorted(LANGUAGES), UNKNOWN)
LANGUAGE_TERMS = tuple(map(make_language_term, _CODES))


class LanguageMethods(ABC):
    """Counts the chunks of each language; part of every store."""

    _languages: LRUCache[dict[str, int]]  # by change number

    @abstractmethod
    def count_terms(self, terms: Sequence[str], *, at_most: int | None = None) -> list[int]:
        """How many chunks have each of the terms."""

    @abstractmethod
    def change_number(self) -> int:
        """The change number of the collection."""

    def language_counts(self, *, exact: bool = False) -> dict[str, int]:
        """How many chunks are in each language, as of the last change; up to a few thousand, or `exact`."""
        if exact:
            return self._count_languages(None)
        change = str(self.change_number())
        counts = self._languages.get(change)
        if counts is None:
            counts = self._count_languages(MAX_COUNT)
            self._languages.put(change, counts)
        return dict(counts)

    def _count_languages(self, at_most: int | None) -> dict[str, int]:
        return name_languages(self.count_terms(LANGUAGE_TERMS, at_most=at_most))


def name_languages(counts: Sequence[int]) -> dict[str, int]:
    """The counts of the terms of languages by language, without those that there are none of."""
    return {code: count for code, count in zip(_CODES, counts, strict=True) if count}
