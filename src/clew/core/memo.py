"""A memo: a table of computed values, for the inner loops of the analyser, where a function call would cost more."""

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")
MAX_KEYS = 1 << 17


class Memo(dict[K, V]):
    """A dict that computes `memo[key]` on first access, and clears itself when it has too many keys."""

    def __init__(self, make: Callable[[K], V], *, max_key: int | None = None) -> None:
        """Set up a memo. Keys longer than `max_key` are not stored: they rarely recur, and would fill it."""
        super().__init__()
        self._make, self._max_key = make, max_key

    def __missing__(self, key: K) -> V:
        made = self._make(key)
        if self._max_key is None or len(key) <= self._max_key:  # type: ignore[arg-type]
            if len(self) >= MAX_KEYS:
                self.clear()
            self[key] = made
        return made
