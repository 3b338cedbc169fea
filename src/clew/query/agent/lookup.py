"""Document lookup by title, as people and models write it: exact matches first, then ever looser ones."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from clew.core.errors import NotFound
from clew.core.suggest import find_close_names
from clew.core.types import DocumentRecord
from clew.query.context.format.escape import escape_tag, to_one_line

MAX_LISTED = 50  # titles in an error message or prompt
_WORD = re.compile(r"[^\W_]+(?:(?:\+\+|#)(?![^\W_]))?|%+")  # C++ is not C, and a % is a sign, not a wildcard
_FILLER = re.compile(r"^(?:the|an?|our|der|die|das)\s+|\s+(?:document|doc|file|page)$")
_PUNCTUATION = " .,;:!?\"'“”‘’«»"
_FILE_ENDING = re.compile(r"\.[a-z]\w{0,4}$", re.IGNORECASE)


def find_document_by_title(title: str, records: Iterable[DocumentRecord]) -> DocumentRecord:
    """Find the document with that title, address or file name; NotFound lists the known titles, the closest first."""
    known = list(records)
    for matches in (
        _matches_exactly,
        _matches_file_name,
        _matches_ignoring_case,
        _matches_ignoring_punctuation,
        _matches_letters_only,
    ):
        found = [record for record in known if matches(title, record)]
        if len(found) == 1:
            return found[0]
        if found:
            places = format_title_list([record.uri or record.id for record in found])
            raise NotFound(
                f"{len(found)} documents are called {to_one_line(title)!r}; give the address of one:\n{places}"
            )
    names = [get_display_name(record) for record in known]
    near = find_close_names(title, names, max_names=5, cutoff=0.5)
    names.sort(key=lambda name: near.index(name) if name in near else len(near))
    raise NotFound(f"there is no document {to_one_line(title)!r}; there are:\n{format_title_list(names)}")


def get_display_name(record: DocumentRecord) -> str:
    """Return the title of a document, else its address, else its id."""
    return record.title or record.uri or record.id


def format_title_list(names: Sequence[str]) -> str:
    """Format the titles one per line in a `<titles>` tag that marks them as data; a long list is cut."""
    more = f"\nand {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    lines = "\n".join(map(to_one_line, names[:MAX_LISTED])) or "(none)"
    return f"<titles>\n{escape_tag(lines, 'titles')}\n</titles>{more}"


def _matches_exactly(title: str, record: DocumentRecord) -> bool:
    return bool(title) and title in (record.title, record.uri, record.id)


def _matches_file_name(title: str, record: DocumentRecord) -> bool:
    return bool(record.uri) and title == PurePosixPath(record.uri).name


def _matches_ignoring_case(title: str, record: DocumentRecord) -> bool:
    return bool(record.title) and _normalize_name(title) == _normalize_name(record.title)


def _matches_ignoring_punctuation(title: str, record: DocumentRecord) -> bool:
    """Return whether the words are the same, ignoring punctuation and the file ending."""
    wanted = _split_name_words(title)
    return bool(wanted) and wanted in map(_split_name_words, (record.title, record.uri, PurePosixPath(record.uri).name))


def _matches_letters_only(title: str, record: DocumentRecord) -> bool:
    """Return whether the letters are the same, ignoring accents, articles and spaces."""
    wanted = _strip_accents_and_spaces(_FILLER.sub("", _normalize_name(title)))
    return bool(wanted) and wanted in (
        _strip_accents_and_spaces(record.title),
        _strip_accents_and_spaces(PurePosixPath(record.uri).name),
    )


def _normalize_name(name: str) -> str:
    """Return a name with normalized Unicode, case and whitespace."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _split_name_words(name: str) -> tuple[str, ...]:
    """Return the words of a name without its file ending."""
    return tuple(_WORD.findall(_normalize_name(_FILE_ENDING.sub("", name.strip().strip(_PUNCTUATION)))))


def _strip_accents_and_spaces(name: str) -> str:
    decomposed = unicodedata.normalize("NFD", "".join(_split_name_words(name)))
    return unicodedata.normalize("NFC", "".join(char for char in decomposed if not unicodedata.combining(char)))
