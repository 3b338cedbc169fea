"""The wildcards of a .gitignore, matched as Git matches them, in time that grows with pattern times path.

Git compares bytes: `?` and a class such as `[a-z]` stand for one byte, `*` for any number without a slash, and `**`
between slashes for any number of folders. A pattern becomes a regular expression that never goes back over what a star
has matched: the first place where the text after a star fits is as good as any later one.
"""

import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

_SPECIAL = frozenset(b"*?[\\")
_ALL_BYTES = frozenset(range(256))
_PRINTED, _SPACES = frozenset(range(0x20, 0x7F)), frozenset(b" \t\n\r")
_NAMED_CLASSES = {
    b"alnum": frozenset((string.ascii_letters + string.digits).encode()),
    b"alpha": frozenset(string.ascii_letters.encode()),
    b"blank": frozenset(b" \t"),
    b"cntrl": frozenset((*range(0x20), 0x7F)),
    b"digit": frozenset(string.digits.encode()),
    b"graph": _PRINTED - _SPACES,
    b"lower": frozenset(string.ascii_lowercase.encode()),
    b"print": _PRINTED,
    b"punct": frozenset(string.punctuation.encode()),
    b"space": _SPACES,
    b"upper": frozenset(string.ascii_uppercase.encode()),
    b"xdigit": frozenset(string.hexdigits.encode()),
}

# The tokens of a pattern: these, and the regular expressions of single bytes.
_STAR, _SLASH = b"*", b"/"
_FOLDERS, _SOME_FOLDERS, _REST = b"**/", b"**\\/", b"**"  # any number of folders; at least one; whatever follows
_DOUBLE_STARS = frozenset((_FOLDERS, _SOME_FOLDERS, _REST))


class Wildcards:
    """A pattern that a whole path must match."""

    def __init__(self, pattern: bytes) -> None:
        plain = next((place for place, byte in enumerate(pattern) if byte in _SPECIAL), len(pattern))
        self._prefix, self._rest = pattern[:plain], pattern[plain:]

    def match(self, path: bytes) -> bool:
        """Whether the pattern matches the path."""
        if not self._rest:
            return path == self._prefix
        if not path.startswith(self._prefix) or len(path) < self._min_length:
            return False  # so no expression is made of a very long pattern
        return self._expression is not None and self._expression.fullmatch(path, len(self._prefix)) is not None

    @property
    def problem(self) -> str:
        """What is wrong with the pattern, in a few words; empty if nothing is."""
        if not self._rest:
            return "" if self._prefix else "it matches nothing"
        if self._parsed is None:
            return "it ends with a backslash, or a [class] in it is unknown or has no end"
        return "a range in it runs from a later to an earlier character" if self._parsed.has_reversed_range else ""

    @cached_property
    def _parsed(self) -> "_Parsed | None":
        """The tokens after the plain beginning; None if the pattern is malformed, and so matches nothing.

        A `**` right after the plain beginning counts as if a slash were before it, as in Git.
        """
        try:
            return _parse(self._rest)
        except IndexError:  # it ends too early
            return None

    @cached_property
    def _min_length(self) -> int:
        """The length of the shortest path that may match."""
        counted = self._parsed.tokens if self._parsed else ()
        return len(self._prefix) + sum(token not in (_STAR, _FOLDERS, _REST) for token in counted)

    @cached_property
    def _expression(self) -> re.Pattern[bytes] | None:
        return re.compile(_write_expression(self._parsed.tokens), re.DOTALL) if self._parsed else None


@dataclass(frozen=True, slots=True)
class _Parsed:
    tokens: Sequence[bytes]
    has_reversed_range: bool


def _parse(pattern: bytes) -> _Parsed:
    """The tokens of a pattern; IndexError if it is malformed."""
    tokens: list[bytes] = []
    has_reversed_range = False
    place = 0
    while place < len(pattern):
        byte = pattern[place : place + 1]
        if byte == b"*":
            start = place
            while pattern[place : place + 1] == b"*":
                place += 1
            tokens.append(_read_stars(pattern, start, place))
            place += {_FOLDERS: 1, _SOME_FOLDERS: 2}.get(tokens[-1], 0)
            continue
        if byte == b"[":
            members, place, is_reversed = _read_class(pattern, place + 1)
            has_reversed_range = has_reversed_range or is_reversed
            tokens.append(_write_class(members - {ord("/")}))
        elif byte == b"?":
            tokens.append(b"[^/]")
        else:
            place += byte == b"\\"
            tokens.append(re.escape(bytes((pattern[place],))))
        place += 1
    return _Parsed(tokens, has_reversed_range)


def _read_stars(pattern: bytes, start: int, end: int) -> bytes:
    """The token of the stars between two places: two or more between slashes are for folders, others are as one."""
    if end - start == 1 or (start > 0 and pattern[start - 1 : start] != b"/"):
        return _STAR
    if end == len(pattern):
        return _REST
    if pattern.startswith(b"/", end):
        return _FOLDERS
    return _SOME_FOLDERS if pattern.startswith(b"\\/", end) else _STAR


def _read_class(pattern: bytes, place: int) -> tuple[frozenset[int], int, bool]:
    """The bytes of the class that begins at a place, where it ends, and whether a range of it runs backwards."""
    is_negated = pattern[place] in b"!^"
    place += is_negated
    members: set[int] = set()
    has_reversed_range = False
    before = 0  # the byte that a range may begin with
    is_first = True
    while is_first or pattern[place] != ord("]"):
        is_first = False
        byte = pattern[place]
        if byte == ord("-") and before and pattern[place + 1] != ord("]"):
            place += 1 + (pattern[place + 1] == ord("\\"))
            has_reversed_range = has_reversed_range or pattern[place] < before
            members.update(range(before, pattern[place] + 1))
            before = 0
        elif byte == ord("[") and pattern[place + 1] == ord(":"):
            end = pattern.find(b"]", place + 2)
            name = pattern[place + 2 : end - 1]
            if end < 0:
                raise IndexError
            if end < place + 3 or pattern[end - 1] != ord(":"):
                members.add(byte)
                before = byte
            else:
                if name not in _NAMED_CLASSES:
                    raise IndexError
                members |= _NAMED_CLASSES[name]
                place, before = end, 0
        else:
            place += byte == ord("\\")
            before = pattern[place]
            members.add(before)
        place += 1
    return (_ALL_BYTES - members if is_negated else frozenset(members)), place, has_reversed_range


def _write_class(members: Iterable[int]) -> bytes:
    written = b"".join(rb"\x%02x" % byte for byte in sorted(members))
    return b"[%s]" % written if written else b"(?!)"


def _write_expression(tokens: Sequence[bytes]) -> bytes:
    """The regular expression of a pattern: what follows a `**` is looked for folder by folder, as far as the next."""
    written, start, opened = b"", 0, b""
    for place, token in enumerate(tokens):
        if token not in _DOUBLE_STARS:
            continue
        written += opened + _write_run(tokens[start:place]) + (b")" if opened else b"")
        start = place + 1
        opened = rb"(?>(?:[^/]*/)%s?" % (b"+" if token == _SOME_FOLDERS else b"*")
        if token == _REST:
            return written + b".*"
    return written + opened + _write_run(tokens[start:]) + (rb"\Z)" if opened else rb"\Z")


def _write_run(tokens: Sequence[bytes]) -> bytes:
    """The regular expression of tokens without `**`: after a star comes what follows it, where that is found first.

    After the last star before a slash, or before the end, it is where that is found last.
    """
    written = b""
    place = 0
    while place < len(tokens):
        if tokens[place] != _STAR:
            written += tokens[place]
            place += 1
            continue
        end = next((each for each in range(place + 1, len(tokens)) if tokens[each] in (_STAR, _SLASH)), len(tokens))
        after = b"".join(tokens[place + 1 : end])
        if end < len(tokens) and tokens[end] == _STAR:
            written += rb"(?>[^/]*?%s)" % after
        else:
            written += rb"(?>[^/]*%s)" % after
        place = end
    return written
