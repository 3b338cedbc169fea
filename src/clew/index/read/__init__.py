"""First on the write path: files become Documents, whatever their format.

`files` finds them, `source` opens and decodes them, and one module a format says what is a section of it. The text of
every Document is markdown, plain text or code; `meta["format"]` says which.
"""

from pathlib import Path
from typing import Protocol

from clew.core.errors import SourceError
from clew.core.types import Document
from clew.index.read.formats import RICH
from clew.index.read.guard import state
from clew.index.read.pdf.ocr import PICTURES, has_ocr
from clew.index.read.source import decode, load
from clew.index.read.text.code import LANGUAGES, code
from clew.index.read.text.markdown import markdown
from clew.index.read.text.plain import plain


class Reader(Protocol):
    """Makes a Document of a text; `name` is the file's, for a title where the text has none."""

    def __call__(self, text: str, *, uri: str, name: str) -> Document: ...


READERS: dict[str, Reader] = {
    **dict.fromkeys((".md", ".markdown", ".mdown", ".mkd", ".mdx"), markdown),
    **dict.fromkeys((".txt", ".text", ".log", ".rst"), plain),
    **dict.fromkeys(LANGUAGES, code),
}
# What is taken from a folder: a picture only where it can be read, a file that is named by itself always.
SUFFIXES = frozenset({*READERS, *RICH}) - (frozenset() if has_ocr() else frozenset(PICTURES))


def read(path: Path, *, uri: str, max_bytes: int = 100_000_000) -> Document:
    """The Document that a file holds, or a SourceError that says why it holds none."""
    before = state(path)
    data = load(path, uri=uri, max_bytes=max_bytes)
    if state(path) != before:
        raise SourceError(uri, "changed while it was read; add it again")
    suffix = path.suffix.lower()
    if suffix in RICH:
        return RICH[suffix](data, uri=uri, name=path.name)
    reader = READERS.get(suffix)
    try:
        text = decode(data, uri=uri)
    except SourceError as error:
        if reader is not None:
            raise
        raise SourceError(
            uri, f"is not a format Clew reads; it reads plain text and {', '.join(sorted(SUFFIXES))}"
        ) from error
    if not text.strip():
        raise SourceError(uri, "is empty: it holds nothing but white space")
    return (reader or plain)(text, uri=uri, name=path.name)
