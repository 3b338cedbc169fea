"""A document by its title as people and models write it: exactly, or blind to case, punctuation, endings, accents."""

import difflib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from clew.core.errors import NotFound
from clew.core.types import DocumentRecord
from clew.query.context.format.quote import one_line, tag_quoted

MOST = 50  # titles that are listed
_WORD = re.compile(r"[^\W_]+(?:(?:\+\+|#)(?![^\W_]))?|%+")  # C++ is not C, and a % is a sign, not a wildcard
_AROUND = re.compile(r"^(?:the|an?|our|der|die|das)\s+|\s+(?:document|doc|file|page)$")
_STOPS = " .,;:!?\"'“”‘’«»"
_ENDING = re.compile(r"\.[a-z]\w{0,4}$", re.IGNORECASE)


def by_title(title: str, records: Iterable[DocumentRecord]) -> DocumentRecord:
    """The document of that title, address or file name; NotFound lists the titles there are, the nearest first."""
    known = list(records)
    for level in (_exact, _named, _cased, _blind, _loose):
        found = [record for record in known if level(title, record)]
        if len(found) == 1:
            return found[0]
        if found:
            places = listed([record.uri or record.id for record in found])
            raise NotFound(f"{len(found)} documents are called {one_line(title)!r}; give the address of one:\n{places}")
    names = [name_of(record) for record in known]
    near = difflib.get_close_matches(title.casefold(), [name.casefold() for name in names], n=5, cutoff=0.5)
    names.sort(key=lambda name: near.index(name.casefold()) if name.casefold() in near else len(near))
    raise NotFound(f"there is no document {one_line(title)!r}; there are:\n{listed(names)}")


def name_of(record: DocumentRecord) -> str:
    """What a document is called."""
    return record.title or record.uri or record.id


def listed(names: Sequence[str]) -> str:
    """Names as data, a line each, and how many more there are."""
    more = f"\nand {len(names) - MOST} more" if len(names) > MOST else ""
    lines = "\n".join(map(one_line, names[:MOST])) or "(none)"
    return f"<titles>\n{tag_quoted(lines, 'titles')}\n</titles>{more}"


def _exact(title: str, record: DocumentRecord) -> bool:
    return bool(title) and title in (record.title, record.uri, record.id)


def _named(title: str, record: DocumentRecord) -> bool:
    return bool(record.uri) and title == PurePosixPath(record.uri).name


def _cased(title: str, record: DocumentRecord) -> bool:
    return bool(record.title) and _even(title) == _even(record.title)


def _blind(title: str, record: DocumentRecord) -> bool:
    wanted = _key(title)
    return bool(wanted) and wanted in (_key(record.title), _key(record.uri), _key(PurePosixPath(record.uri).name))


def _loose(title: str, record: DocumentRecord) -> bool:
    """Whether the letters are the same, accents, articles and spaces aside."""
    wanted = _letters(_AROUND.sub("", _even(title)))
    return bool(wanted) and wanted in (_letters(record.title), _letters(PurePosixPath(record.uri).name))


def _even(name: str) -> str:
    """A name in one form of unicode, case and space."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _key(name: str) -> tuple[str, ...]:
    """The words of a name without its ending."""
    return tuple(_WORD.findall(_even(_ENDING.sub("", name.strip().strip(_STOPS)))))


def _letters(name: str) -> str:
    bare = "".join(
        each for each in unicodedata.normalize("NFD", "".join(_key(name))) if not unicodedata.combining(each)
    )
    return unicodedata.normalize("NFC", bare)
