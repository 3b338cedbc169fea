"""Result rows at the door of the merger and the formatter: whatever shape they come in, they leave as hits."""

from collections.abc import Mapping, Sequence
from math import isfinite
from numbers import Real
from typing import Any

from clew.core.ids import digest
from clew.core.types import Chunk, Hit

Row = Mapping[str, Any]  # text, source, heading_path, similarity, metadata
Result = Hit | Row
JOINT = " > "
START = ("start", "char_start", "start_char", "start_index", "start_offset")  # what searches call a position
END = ("end", "char_end", "end_char", "end_index", "end_offset")


def hit_of(result: Result) -> Hit:
    """The hit that a result is, or that a row of `text, source, heading_path, similarity, metadata` makes.

    Where the metadata, or else the row, tell `start`, the hit knows its place in the source, unless an `end` is given
    that does not fit the text; `chunk_index` or else `line_number` tells its place among its neighbours. Equal rows
    make equal hits.
    """
    if isinstance(result, Hit):
        return result
    if not isinstance(result, Mapping):
        raise TypeError(f"a result is a {type(result).__name__}; it must be a Hit or a mapping with a text")
    if not isinstance(result.get("text"), str):
        raise TypeError("a result row has no text; give text, source, heading_path, similarity and metadata")
    meta: Row = result.get("metadata") or {}
    text, source = result["text"], str(result.get("source") or meta.get("source") or "")
    told = {**result, **meta}
    index = _number(told, ("chunk_index", "line_number"), -1)
    start = _number(told, START, -1)
    end = _number(told, END, start + len(text))
    if end - start != len(text) or start < 0:
        start = end = 0
    headings = headings_of(result)
    chunk = Chunk(
        id=digest("row", source, *headings, str(index), str(start), str(end), text)[:16],
        doc_id=source,
        index=index,
        total=max(_whole(meta.get("total_chunks"), 0), index + 1),
        text=text,
        start=start,
        end=end,
        headings=headings,
        meta=dict(meta),
    )
    return Hit(chunk, _score(result.get("similarity")))


def headings_of(row: Row) -> tuple[str, ...]:
    """The heading path of a row: the metadata's `headings`, or else `heading_path`, a list or a text "A > B"."""
    meta: Row = row.get("metadata") or {}
    for given in (meta.get("headings"), row.get("heading_path"), meta.get("heading_path")):
        if isinstance(given, str) and given.strip():
            return tuple(part.strip() for part in given.split(JOINT) if part.strip())
        if isinstance(given, Sequence) and not isinstance(given, str) and given:
            return tuple(str(each) for each in given if str(each).strip())
    return ()


def placed(chunk: Chunk) -> bool:
    """Whether it is known where in its source the chunk stands."""
    return chunk.end - chunk.start == len(chunk.text)


def _number(told: Row, names: Sequence[str], otherwise: int) -> int:
    """The first whole number that stands under one of the names."""
    return next((value for name in names if (value := _whole(told.get(name), otherwise)) != otherwise), otherwise)


def _whole(value: object, otherwise: int) -> int:
    if isinstance(value, bool) or value is None:
        return otherwise
    if isinstance(value, str):
        return int(value) if value.strip().isdecimal() else otherwise
    return int(float(value)) if isinstance(value, Real) and isfinite(value) else otherwise


def _score(value: object) -> float:
    """A missing similarity, or one that is no number, counts 0."""
    return float(value) if isinstance(value, Real) and isfinite(value) else 0.0
