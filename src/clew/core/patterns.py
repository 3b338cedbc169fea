"""Patterns: regular expressions compiled on first use, and globs of document names."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from re import compile as compile_pattern
else:

    class compile_pattern:  # noqa: N801 - called like `re.compile`
        """A pattern that is compiled on first use; it has the methods of `re.Pattern`."""

        def __init__(self, pattern: str | bytes, flags: int = 0) -> None:
            self._source = (pattern, flags)

        def __getattr__(self, name: str) -> Any:
            if name == "_compiled":
                self._compiled = re.compile(*self._source)
                return self._compiled
            value = getattr(self._compiled, name)
            setattr(self, name, value)
            return value


__all__ = ["compile_pattern"]


_SIGNS = re.compile(r"(?:\*\*/)+|\*+|\?|\[[^\]/]+\]|.", re.DOTALL)
_RANGES = re.compile(r"(.)-(.)|(.)", re.DOTALL)

_Takes = Callable[[str], bool]


class Glob:
    """A pattern that a whole name must match.

    `*` matches any characters but a slash, `?` one of them, `[a-z]` one character of a class, `[!a-z]` one outside it,
    `**` anything, and `**/` any number of folders. Matching runs a nondeterministic automaton, one bit per state.
    """

    def __init__(self, pattern: str) -> None:
        self._takes: list[_Takes] = []  # for each state, a test of the characters that lead to the next state
        self._stays = self._stays_in_folder = 0  # states that consume any character (but a slash) and stay
        self._skips = self._skips_folders = 0  # states with an empty transition to the next state, or the third
        for sign in _SIGNS.findall(pattern):
            if sign.endswith("*/"):
                self._skips_folders |= self._add_state(skips=True)
            if sign.startswith("*"):
                state = self._add_state(skips=True)
                self._stays |= state if len(sign) > 1 else 0
                self._stays_in_folder |= state
            if not sign.endswith("*"):
                self._add_state(_make_test(sign[-1] if sign.startswith("*") else sign))
        self._end = 1 << len(self._takes)
        self._steps: dict[str, int] = {}  # for each character, the states that it advances

    def _add_state(self, takes: _Takes = lambda _: False, *, skips: bool = False) -> int:
        state = 1 << len(self._takes)
        self._takes.append(takes)
        self._skips |= state if skips else 0
        return state

    def match(self, name: str) -> bool:
        """Return whether the pattern matches the name."""
        states = self._follow_skips(1)
        for character in name:
            if (steps := self._steps.get(character)) is None:
                steps = sum(1 << at for at, takes in enumerate(self._takes) if takes(character))
                self._steps[character] = steps
            stay = self._stays if character == "/" else self._stays_in_folder
            states = self._follow_skips((states & steps) << 1 | states & stay)
            if not states:
                return False
        return bool(states & self._end)

    def _follow_skips(self, states: int) -> int:
        while True:
            more = states | (states & self._skips) << 1 | (states & self._skips_folders) << 3
            if more == states:
                return states
            states = more


def _make_test(sign: str) -> _Takes:
    if sign == "?":
        return lambda character: character != "/"
    if len(sign) == 1:
        return lambda character: character == sign
    is_negated = sign.startswith("[!") and len(sign) > 3
    ranges = [
        (first or single, last or single) for first, last, single in _RANGES.findall(sign[2 if is_negated else 1 : -1])
    ]
    return lambda character: (
        character != "/" and any(first <= character <= last for first, last in ranges) != is_negated
    )
