"""Mends a damaged document: puts back what was written, or keeps its text without what cannot be trusted.

A row has one checksum, so which of its columns is damaged is not known. Each is tried with what other rows say that it
must be (`evidence`), and a row that then has its checksum again is the one that was written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clew.core.doctor import Remedy
from clew.core.ids import make_document_id
from clew.core.types import Document
from clew.drivers.store import codec
from clew.drivers.store.checksums import matches_piece, matches_record
from clew.drivers.store.evidence import (
    BLANK,
    RECORD_NAMES,
    RawDocument,
    find_heading,
    is_readable,
    is_text_proved,
    list_piece_changes,
    list_record_changes,
    tell_kind,
)
from clew.drivers.store.pieces import Piece

_CHANGEABLE = (*BLANK, "title", "kind", "summary", "chars", "chunks", "created", "updated")


@dataclass(frozen=True, slots=True)
class Mending:
    """What mends a document: the remedy, columns of its record to set, pieces to write, numbers of pieces to remove.

    An empty remedy means that nothing of the document is damaged.
    """

    remedy: Remedy
    record: Mapping[str, Any] = field(default_factory=dict)
    pieces: Sequence[Piece] = ()
    lost: Sequence[int] = ()


def plan_mending(raw: RawDocument) -> Mending:
    """What mends a document; `remove` where its text cannot be trusted."""
    columns = dict(zip(RECORD_NAMES, raw.record, strict=True))
    found = [(Piece._make(piece[:-2]), _find_piece(piece, raw)) for piece in raw.pieces]
    whole = [piece for _, piece in found if piece is not None]
    lost = [old.n for old, new in found if new is None]
    if not whole or (lost and not raw.is_thread):
        return Mending("remove")
    record = _find_record(columns, whole, raw)
    is_kept = record is None or any(new is not None and _says_less(new, old) for old, new in found)
    if record is None:
        record = _keep_trusted(columns, whole, raw)
    sizes = _count(whole, raw)
    is_short = (
        bool(lost) or not raw.covers(whole) or (raw.is_thread and not record and columns["chars"] > sizes["chars"])
    )
    if is_short and not raw.is_thread:
        return Mending("remove")
    if not is_short and columns["chars"] != sizes["chars"]:
        record = {**record, **sizes}
    pieces = [new for old, new in found if new is not None and new != old]
    remedy: Remedy = "trim" if is_short else "keep" if is_kept else "mend" if record or pieces else ""
    return Mending(remedy, record, pieces, lost)


def _find_piece(columns: Sequence[Any], raw: RawDocument) -> Piece | None:
    """The piece as it was written, or a page's text without its sections; None where the text is not certain."""
    piece, doc, stored = Piece._make(columns[:-2]), columns[-2], columns[-1]
    piece = piece._replace(text=str(piece.text))  # a number or bytes, by damage
    for change in ({}, *list_piece_changes(piece, raw)):
        made = piece._replace(**change)
        if matches_piece(doc, made, stored):
            if is_readable(made):
                return made
            return None if raw.is_thread else Piece(piece.n, made.text, "[]")
    return Piece(piece.n, piece.text, "[]") if not raw.is_thread and is_text_proved(piece, raw) else None


def _says_less(new: Piece, old: Piece) -> bool:
    return new.message is None and new.sections == "[]" != old.sections


def _find_record(columns: Mapping[str, Any], pieces: Sequence[Piece], raw: RawDocument) -> Mapping[str, Any] | None:
    """The columns of a record that were written otherwise; None where that is not known."""
    stored = columns["sum"]
    for change in ({}, *list_record_changes(columns, pieces, _count(pieces, raw))):
        if matches_record([{**columns, **change}[name] for name in RECORD_NAMES[:-1]], stored):
            return change
    return None


def _count(pieces: Sequence[Piece], raw: RawDocument) -> dict[str, int]:
    return {"chars": sum(len(piece.text) for piece in pieces), "chunks": sum(raw.chunks.values())}


def _keep_trusted(columns: Mapping[str, Any], pieces: Sequence[Piece], raw: RawDocument) -> Mapping[str, Any]:
    """A record with what is certain of the old one; where labels are not, only who has no filter sees the document."""
    meta = {"channel": raw.channel} if raw.channel else {}
    trusted: dict[str, Any] = {**BLANK, **_count(pieces, raw), "summary": "", "created": None, "updated": None}
    trusted |= {"title": find_heading(pieces), "kind": tell_kind(raw)}
    trusted |= {"meta": codec.meta_to_json(meta), "access": "[]"}
    if columns["id"] == make_document_id(str(columns["uri"])):
        trusted["uri"] = columns["uri"]
    try:
        given, access = codec.parse_meta(columns["meta"]), codec.parse_access(columns["access"])
        if raw.is_filtered_so(Document(columns["id"], "", kind=columns["kind"], meta=given, access=access)):
            trusted |= {name: columns[name] for name in ("kind", "meta", "access")}
    except (ValueError, TypeError, AttributeError):  # which are damaged
        pass
    return {name: trusted[name] for name in _CHANGEABLE}
