"""Evidence of what the rows of a damaged document were: its text, its chunks, its sections and its other messages."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from clew.core.thread import THREAD_KIND
from clew.core.time import from_iso
from clew.core.types import Document, Section
from clew.drivers.store import codec
from clew.drivers.store.checksums import matches_chunk
from clew.drivers.store.pieces import Piece

RECORD_NAMES = tuple(name.removeprefix("d.") for name in codec.RECORD_COLUMNS.split(", "))
BLANK: Mapping[str, Any] = {"uri": "", "hash": "", "stamp": "", "summary_by": "", "meta": "{}", "access": None}
MAX_BLANKS = 1000  # after the last chunk
_FILLERS = ("", " ", "\n")  # between two chunks: as the stored text has it, or blanks
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError)


class Span(NamedTuple):
    """A chunk that is as written: its piece (None: of a page), its place in it, and what it says."""

    piece: int | None
    start: int
    end: int
    text: str
    at: str | None
    meta: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RawDocument:
    """The rows of a document, whether or not they are as written.

    `record` and `pieces` are RECORD_COLUMNS and PIECE_COLUMNS, `spans` the chunks that are as written, and `chunks` how
    many there are by their piece. `is_filtered_so` says whether filters see the document as it is given.
    """

    record: Sequence[Any]
    pieces: Sequence[Sequence[Any]]
    spans: Sequence[Span]
    chunks: Mapping[int | None, int]
    is_filtered_so: Callable[[Document], bool]

    @property
    def is_thread(self) -> bool:
        """Whether it is stored message by message."""
        return any(piece is not None for piece in self.chunks) or sum(each[5] is not None for each in self.pieces) > 1

    @property
    def channel(self) -> str:
        """The channel that its chunks name; empty if there is none."""
        return next((str(each.meta["channel"]) for each in self.spans if "channel" in each.meta), "")

    def covers(self, pieces: Sequence[Piece]) -> bool:
        """Whether every chunk lies in one of these pieces."""
        if not self.is_thread:
            return max((each.end for each in self.spans), default=0) <= sum(len(piece.text) for piece in pieces)
        return {n for n in self.chunks if n is not None} <= {piece.n for piece in pieces}


def parse_spans(rows: Sequence[Sequence[Any]]) -> tuple[list[Span], dict[int | None, int]]:
    """The chunks that are as written, and how many there are by their piece, of rows of CHUNK_COLUMNS."""
    spans, counts = list[Span](), dict[int | None, int]()
    for columns in rows:
        _, _, _, _, text, _, _, at, meta, _, _, piece, _, start, end, _ = columns
        counts[piece] = counts.get(piece, 0) + 1
        try:
            if matches_chunk(columns):
                spans.append(Span(piece, start, end, text, at, codec.parse_meta(meta)))
        except _UNREADABLE:
            continue
    return spans, counts


def list_piece_changes(piece: Piece, raw: RawDocument) -> Iterator[dict[str, Any]]:
    """What columns of a piece may have been: by its own text and section, its chunks, and the other messages."""
    nothing = {"chars": 0, "chunks": 0, "message": None, "parent": None, "awaits": None}  # of a page
    said: dict[str, Any] = {}
    if raw.is_thread:
        said = {"chars": len(piece.text), "chunks": raw.chunks.get(piece.n, 0)}
        try:
            (own,) = codec.parse_sections(piece.sections)
            said |= {"message": own.id, "awaits": own.awaits}
        except _UNREADABLE:  # they are what is damaged
            pass
        yield said
    else:
        yield nothing
    for name in nothing:
        yield {name: said.get(name)} if name in said else {name: nothing[name]}
    spans = _find_spans(piece, raw)
    for text in _join_spans(piece, spans, raw):
        yield {"text": text}
    if raw.is_thread:
        for sections in _guess_sections(piece, spans):
            yield {"sections": sections}
        for other in raw.pieces:
            yield {"parent": other[5]}


def list_record_changes(
    columns: Mapping[str, Any], pieces: Sequence[Piece], counted: Mapping[str, int]
) -> Iterator[Mapping[str, Any]]:
    """What columns of a record may have been: counted, empty, the first heading, the other time."""
    yield counted
    kinds = {"kind": THREAD_KIND}, {"kind": "page"}
    for some in (counted, BLANK, {"title": ""}, {"title": find_heading(pieces)}, {"summary": ""}, *kinds):
        yield from ({name: value} for name, value in some.items() if columns[name] != value)
    yield {"created": columns["updated"]}
    yield {"updated": columns["created"]}


def is_text_proved(piece: Piece, raw: RawDocument) -> bool:
    """Whether the chunks that are as written are all there, say the text of a piece, and leave out blanks alone."""
    spans, text, at = _find_spans(piece, raw), piece.text, 0
    if len(spans) != raw.chunks.get(piece.n if raw.is_thread else None):
        return False
    for span in spans:
        if text[span.start : span.end] != span.text or text[at : span.start].strip():
            return False
        at = max(at, span.end)
    return bool(spans) and not text[at:].strip()


def is_readable(piece: Piece) -> bool:
    """Whether the sections of a piece are sections that lie in its text, in order."""
    try:
        at = 0
        for section in codec.parse_sections(piece.sections):
            if not at <= section.start <= section.end <= len(piece.text):
                return False
            at = section.start
    except _UNREADABLE:
        return False
    return True


def find_heading(pieces: Sequence[Piece]) -> str:
    """The first heading of a page; empty for a thread."""
    try:
        return next((each.label for each in codec.parse_sections(pieces[0].sections) if each.label), "")
    except _UNREADABLE:
        return ""


def tell_kind(raw: RawDocument) -> str:
    """The kind of a document by how it is stored."""
    return THREAD_KIND if raw.is_thread else "page"


def _find_spans(piece: Piece, raw: RawDocument) -> list[Span]:
    own = piece.n if raw.is_thread else None
    return sorted(each for each in raw.spans if each.piece == own)


def _join_spans(piece: Piece, spans: Sequence[Span], raw: RawDocument) -> Iterator[str]:
    """What the text of a piece may have been: that of its chunks, where they say it."""
    if not spans:
        return
    last = max(each.end for each in spans)
    chars = piece.chars if raw.is_thread else raw.record[RECORD_NAMES.index("chars")]
    chars = min(chars, last + MAX_BLANKS) if isinstance(chars, int) else last
    for filler in _FILLERS:
        made = ""
        for start, end, said in [*((each.start, each.end, each.text) for each in spans), (chars, chars, "")]:
            if start > len(made):
                between = piece.text[len(made) : start]
                made += filler * (start - len(made)) if filler else between
            made += said[len(made) - start :] if end > len(made) else ""
        yield made


def _guess_sections(piece: Piece, spans: Sequence[Span]) -> Iterator[str]:
    """What the section of a message may have been, by its first chunk."""
    if not spans or piece.message is None:
        return
    at, meta = spans[0].at, spans[0].meta
    access = frozenset(map(str, meta["access"])) if meta.get("access") is not None else None
    author = str(meta.get("author", ""))
    for guessed in (False, True):
        own = Section(0, len(piece.text), "", None, piece.message, author, from_iso(at), None, guessed, access)
        yield codec.sections_to_json([own])
