"""A memo: a table of what was made of each key, for the inner loops of the analyser, where a call would cost more."""

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")
MAX_KEYS = 1 << 17


class Memo(dict[K, V]):
    """`memo[key]` is made when it is asked for first; all is forgotten when there are too many keys."""

    def __init__(self, make: Callable[[K], V], *, max_key: int | None = None) -> None:
        """Set up a memo. Keys longer than `max_key` are made each time: they hardly come again, and would fill it."""
        super().__init__()
        self._make, self._max_key = make, max_key

    def __missing__(self, key: K) -> V:
        made = self._make(key)
        if self._max_key is None or len(key) <= self._max_key:  # type: ignore[arg-type]
            if len(self) >= MAX_KEYS:
                self.clear()
            self[key] = made
        return made
