"""Merging of hits into passages: chunks under the same heading of the same source are joined in document order.

Text is taken by position, so the overlap of two chunks appears once, and every span of a passage is byte for byte the
text of the document. The order of the hits matters only for rows without position and index.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import isnan
from statistics import fmean
from typing import Any, NamedTuple

from clew.core.attribution import PassageMessage, make_passage_message
from clew.core.cite import MergedChunk
from clew.core.settings import MergerConfig
from clew.core.types import Chunk, Hit
from clew.query.context.results import HEADING_SEPARATOR, Result, has_position, result_to_hit

ReadText = Callable[[str], str]  # the text of a document by id; empty where it is not known
BLANK = "\n\n"  # between two parts of a passage


class ChunkMerger:
    """Merges results: Hits, or rows of text, source, heading_path, similarity and metadata."""

    def __init__(self, config: MergerConfig | None = None) -> None:
        self.config = config or MergerConfig()

    def merge(self, results: Iterable[Result]) -> list[MergedChunk]:
        """Return the passages of the results, the one with the best average first."""
        return sorted(merge_hits(list(map(result_to_hit, results)), self.config), key=_average_key)

    def to_result_list(self, merged: Iterable[MergedChunk]) -> list[dict[str, Any]]:
        """Return one result row per passage, in the shape that `merge` takes."""
        return [
            {
                "text": each.text,
                "source": each.source,
                "heading_path": each.heading_display,
                "similarity": each.avg_similarity,
                "metadata": {
                    "headings": list(each.heading_path),
                    "content_length": each.content_length,
                    "merged_count": len(each.chunks),
                    "best_similarity": get_best_similarity(each),
                },
            }
            for each in merged
        ]


def get_best_similarity(merged: MergedChunk) -> float:
    """Return the greatest similarity of a passage's hits."""
    return max(_list_similarities(merged.chunks))


def get_source_name(hit: Hit) -> str:
    """Return the name of a hit's source: the address of its document, or else its title, or else its id."""
    return hit.document.uri or hit.document.title or hit.document.id


def list_sources(merged: MergedChunk) -> list[str]:
    """List the source of a passage and the sources of its copies, each once."""
    return list(dict.fromkeys([merged.source, *map(get_source_name, merged.copies)]))


class _Separator(NamedTuple):
    """The text between two parts, and whether it is verbatim from the document."""

    text: str
    is_verbatim: bool = False


class _MergePart(NamedTuple):
    """The text a hit adds to a passage, and the hits inside it; `is_placed` if its position is known."""

    start: int
    end: int
    text: str
    hits: tuple[Hit, ...]
    is_placed: bool

    @property
    def chunk(self) -> Chunk:
        return self.hits[0].chunk


def merge_hits(hits: Sequence[Hit], config: MergerConfig, *, text: ReadText = lambda _: "") -> list[MergedChunk]:
    """Merge hits into passages, document by document; `text` reads the gap between two parts that nearly touch."""
    documents: dict[str, dict[str, Hit]] = {}
    for hit in hits:
        by_chunk = documents.setdefault(hit.chunk.doc_id, {})
        known = by_chunk.get(hit.chunk.id)
        if known is None or _preference_key(hit) < _preference_key(known):
            by_chunk[hit.chunk.id] = hit
    found: list[MergedChunk] = []
    for _, by_chunk in sorted(documents.items()):
        first = next(iter(by_chunk.values()))
        if len(by_chunk) == 1:
            found.append(as_merged_chunk(first))
            continue
        source = get_source_name(first)
        groups: dict[tuple[str, ...], list[_MergePart]] = {}
        for part in _trim_overlaps(by_chunk.values()):
            groups.setdefault(part.chunk.headings, []).append(part)
        for parts in groups.values():
            found += _pack_parts(parts, config, source, text)
    return found


def as_merged_chunk(hit: Hit, source: str | None = None) -> MergedChunk:
    """Return the passage of a single hit; without a source, under the name of its document."""
    chunk = hit.chunk
    spans = ((chunk.start, chunk.end),) if has_position(chunk) else ()
    message = make_passage_message(chunk.meta, chunk.at, chunk.text)
    return MergedChunk(
        chunk.text,
        get_source_name(hit) if source is None else source,
        chunk.headings,
        HEADING_SEPARATOR.join(chunk.headings),
        (hit,),
        hit.score if isnan(hit.similarity) else hit.similarity,
        len(chunk.text),
        spans,
        messages=(message,) if message else (),
    )


def _trim_overlaps(hits: Iterable[Hit]) -> list[_MergePart]:
    """Order the hits of a document and trim overlaps; a hit inside another joins it."""
    parts: list[_MergePart] = []
    last = -1  # the index of the part that reaches furthest
    for hit in sorted(hits, key=_position_key):
        chunk = hit.chunk
        if not has_position(chunk):
            parts.append(_MergePart(0, 0, chunk.text, (hit,), is_placed=False))
            continue
        reach = parts[last].end if last >= 0 else 0
        if last >= 0 and (chunk.end <= reach or not chunk.text[max(0, reach - chunk.start) :].strip()):
            parts[last] = parts[last]._replace(hits=(*parts[last].hits, hit))
            continue
        start = max(chunk.start, reach)
        parts.append(_MergePart(start, chunk.end, chunk.text[start - chunk.start :], (hit,), is_placed=True))
        last = len(parts) - 1
    return parts


def _pack_parts(
    parts: Sequence[_MergePart], config: MergerConfig, source: str, text: ReadText
) -> Iterator[MergedChunk]:
    """Yield the passages of one heading path: parts are joined while they fit the maximum size."""
    open_parts: list[_MergePart] = []
    separators: list[_Separator] = []
    size = 0
    for part in parts if config.preserve_order else _sort_runs_best_first(parts, text):
        separator = _choose_separator(open_parts[-1], part, config, text) if open_parts else None
        if separator is None or size + len(separator.text) + len(part.text) > config.max_merged_size:
            if open_parts:
                yield _join_parts(open_parts, separators, source)
            first = part.text.lstrip() if part.start > part.chunk.start else part.text
            part = part._replace(start=part.end - len(first) if part.is_placed else part.start, text=first)
            open_parts, separators, size = [part], [], len(first)
        else:
            open_parts.append(part)
            separators.append(separator)
            size += len(separator.text) + len(part.text)
    if open_parts:
        yield _join_parts(open_parts, separators, source)


def _choose_separator(before: _MergePart, after: _MergePart, config: MergerConfig, text: ReadText) -> _Separator | None:
    """Choose the separator between two parts; None where they may not be joined."""
    if not (before.is_placed and after.is_placed):
        return None if config.require_adjacent and not _is_next_chunk(before, after) else _Separator(BLANK)
    if (between := _read_whitespace_gap(before, after, text)) is not None:
        return _Separator(between, is_verbatim=True)
    if _is_next_chunk(before, after) and not text(after.chunk.doc_id):
        return _Separator(BLANK)  # the document is not available, but the chunks are consecutive
    if config.require_adjacent:
        return None
    return _Separator(f"{BLANK}{config.gap_mark}{BLANK}" if config.gap_mark else BLANK)


def _read_whitespace_gap(before: _MergePart, after: _MergePart, text: ReadText) -> str | None:
    """Return the white space of the document between two parts; None if there is more, or if it is unknown."""
    if before.end == after.start:
        return ""
    if before.end > after.start:
        return None
    whole = text(after.chunk.doc_id)
    if whole[before.start : before.end] != before.text or whole[after.start : after.end] != after.text:
        return None  # the document has changed since the search
    gap = whole[before.end : after.start]
    return None if gap.strip() else gap


def _is_next_chunk(before: _MergePart, after: _MergePart) -> bool:
    return 0 <= max(hit.chunk.index for hit in before.hits) == after.chunk.index - 1


def _sort_runs_best_first(parts: Sequence[_MergePart], text: ReadText) -> Iterator[_MergePart]:
    """Yield the parts grouped into runs of adjacent ones, the run with the best hit first."""
    runs: list[list[_MergePart]] = []
    for part in parts:
        if (
            runs
            and runs[-1][-1].is_placed
            and part.is_placed
            and _read_whitespace_gap(runs[-1][-1], part, text) is not None
        ):
            runs[-1].append(part)
        else:
            runs.append([part])
    for run in sorted(runs, key=lambda run: -max(hit.score for part in run for hit in part.hits)):
        yield from run


def _join_parts(parts: Sequence[_MergePart], separators: Sequence[_Separator], source: str) -> MergedChunk:
    pieces = [parts[0].text]
    spans = [(parts[0].start, parts[0].end)] if parts[0].is_placed else []
    for separator, part in zip(separators, parts[1:], strict=True):
        pieces += (separator.text, part.text)
        if separator.is_verbatim:
            spans[-1] = (spans[-1][0], part.end)
        elif part.is_placed:
            spans.append((part.start, part.end))
    hits = tuple(hit for part in parts for hit in part.hits)
    path = parts[0].chunk.headings
    whole = "".join(pieces)
    return MergedChunk(
        text=whole,
        source=source,
        heading_path=path,
        heading_display=HEADING_SEPARATOR.join(path),
        chunks=hits,
        avg_similarity=fmean(_list_similarities(hits)),
        content_length=len(whole),
        spans=tuple(spans),
        messages=_collect_messages(parts, separators),
    )


def _collect_messages(parts: Sequence[_MergePart], separators: Sequence[_Separator]) -> tuple[PassageMessage, ...]:
    """Collect the messages of the parts, each with the text of all its parts; empty if a part is no message."""
    found: list[PassageMessage] = []
    for separator, part in zip((None, *separators), parts, strict=True):
        gap = "" if separator is None or separator.is_verbatim else separator.text
        message = make_passage_message(part.chunk.meta, part.chunk.at, part.text, gap=gap.strip())
        if message is None:
            return ()
        if found and found[-1].id == message.id:
            joint = separator.text if separator else ""
            found[-1] = replace(found[-1], text=found[-1].text + joint + part.text)
        else:
            found.append(message)
    return tuple(found)


def _list_similarities(hits: Sequence[Hit]) -> list[float]:
    """List the similarities of the hits that have one (neighbours have none); if none has, their scores."""
    return [hit.similarity for hit in hits if not isnan(hit.similarity)] or [hit.score for hit in hits]


def _position_key(hit: Hit) -> tuple[int, int, int, str, str]:
    """Return the sort key by place in the document; hits without a known place keep their order."""
    chunk = hit.chunk
    if has_position(chunk):
        return chunk.start, -chunk.end, chunk.index, chunk.text, chunk.id
    return (0, 0, chunk.index, chunk.text, chunk.id) if chunk.index >= 0 else (0, 0, -1, "", "")


def _preference_key(hit: Hit) -> tuple[float, int, tuple[str, ...], str]:
    """Return the sort key of several hits of one chunk: the better first, then the longer."""
    numbers = (sorted(hit.scores.items()), hit.similarity, hit.relevance)
    return -hit.score, -len(hit.chunk.text), hit.chunk.headings, str(numbers)


def _average_key(merged: MergedChunk) -> tuple[float, float, str, tuple[str, ...], tuple[int, int, int, str, str]]:
    """Return the sort key by similarity; equal passages are sorted by their place."""
    place = _position_key(merged.chunks[0])
    return -merged.avg_similarity, -get_best_similarity(merged), merged.source, merged.heading_path, place
