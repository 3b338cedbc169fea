"""Hits into readable stretches: what stands under one heading of one source is joined in the order of the document.

Text is taken by position, so what two chunks share appears once, and every span of a stretch is byte for byte what the
document has there. Any order of the hits gives the same stretches.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from clew.core.settings import MergerConfig
from clew.core.types import Chunk, DocumentRecord, Hit, MergedChunk
from clew.query.context.results import JOINT, Result, hit_of, placed

Text = Callable[[str], str]  # the text of a document; empty where it is not known
BLANK = "\n\n"  # between two parts of a stretch


class ChunkMerger:
    """Joins results: Hits, or rows of text, source, heading_path, similarity and metadata."""

    def __init__(self, config: MergerConfig | None = None) -> None:
        self.config = config or MergerConfig()

    def merge(self, results: Iterable[Result]) -> list[MergedChunk]:
        """The stretches that the results make, the one with the best average first."""
        return sorted(merge(list(map(hit_of, results)), self.config), key=_by_average)

    def to_result_list(self, merged: Iterable[MergedChunk]) -> list[dict[str, Any]]:
        """A result row a stretch, in the shape that `merge` takes."""
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
                    "best_similarity": best(each),
                },
            }
            for each in merged
        ]


def best(merged: MergedChunk) -> float:
    """The score of its best hit."""
    return max(hit.score for hit in merged.chunks)


class _Joint(NamedTuple):
    """What is written between two parts, and whether the document has just that there."""

    text: str
    own: bool = False


class _Part(NamedTuple):
    """What a stretch shows of a hit: from where on, and the hits whose text lies inside it."""

    start: int
    end: int
    text: str
    hits: tuple[Hit, ...]
    placed: bool

    @property
    def chunk(self) -> Chunk:
        return self.hits[0].chunk


def _unknown(_: str) -> str:
    return ""


def merge(
    hits: Sequence[Hit],
    config: MergerConfig,
    *,
    records: Mapping[str, DocumentRecord] | None = None,
    text: Text = _unknown,
) -> list[MergedChunk]:
    """The stretches of the hits, document by document; `text` tells what stands between two that nearly touch."""
    documents: dict[str, dict[str, Hit]] = {}
    for hit in hits:
        own = documents.setdefault(hit.chunk.doc_id, {})
        known = own.get(hit.chunk.id)
        if known is None or _better(hit) < _better(known):
            own[hit.chunk.id] = hit
    found: list[MergedChunk] = []
    for id_ in sorted(documents):
        record = (records or {}).get(id_)
        source = (record.uri or record.title or record.id) if record else id_
        if len(documents[id_]) == 1:
            found.append(alone(next(iter(documents[id_].values())), source))
            continue
        groups: dict[tuple[str, ...], list[_Part]] = {}
        for part in _once(documents[id_].values()):
            groups.setdefault(part.chunk.headings, []).append(part)
        for parts in groups.values():
            found += _packed(parts, config, source, text)
    return found


def alone(hit: Hit, source: str) -> MergedChunk:
    """The stretch that is one hit."""
    chunk = hit.chunk
    spans = ((chunk.start, chunk.end),) if placed(chunk) else ()
    return MergedChunk(
        chunk.text, source, chunk.headings, JOINT.join(chunk.headings), (hit,), hit.score, len(chunk.text), spans
    )


def _once(hits: Iterable[Hit]) -> list[_Part]:
    """The hits of a document in its order, each from where the one before it ends; one inside another joins it."""
    parts: list[_Part] = []
    last = -1  # the place of the part that reaches furthest
    for hit in sorted(hits, key=_by_place):
        chunk = hit.chunk
        if not placed(chunk):
            parts.append(_Part(0, 0, chunk.text, (hit,), placed=False))
            continue
        reach = parts[last].end if last >= 0 else 0
        if last >= 0 and (chunk.end <= reach or not chunk.text[max(0, reach - chunk.start) :].strip()):
            parts[last] = parts[last]._replace(hits=(*parts[last].hits, hit))
            continue
        start = max(chunk.start, reach)
        parts.append(_Part(start, chunk.end, chunk.text[start - chunk.start :], (hit,), placed=True))
        last = len(parts) - 1
    return parts


def _packed(parts: Sequence[_Part], config: MergerConfig, source: str, text: Text) -> Iterator[MergedChunk]:
    """The stretches of one heading path: a part joins the one before it while both fit."""
    held: list[_Part] = []
    joints: list[_Joint] = []
    size = 0
    for part in parts if config.preserve_order else _best_first(parts, text):
        joint = _joint(held[-1], part, config, text) if held else None
        if joint is None or size + len(joint.text) + len(part.text) > config.max_merged_size:
            if held:
                yield _joined(held, joints, source)
            first = part.text.lstrip() if part.start > part.chunk.start else part.text
            part = part._replace(start=part.end - len(first) if part.placed else part.start, text=first)
            held, joints, size = [part], [], len(first)
        else:
            held.append(part)
            joints.append(joint)
            size += len(joint.text) + len(part.text)
    if held:
        yield _joined(held, joints, source)


def _joint(before: _Part, after: _Part, config: MergerConfig, text: Text) -> _Joint | None:
    """What stands between two parts; None where they may not be joined."""
    if not (before.placed and after.placed):
        return None if config.require_adjacent and not _numbered_on(before, after) else _Joint(BLANK)
    if (between := _between(before, after, text)) is not None:
        return _Joint(between, own=True)
    if _numbered_on(before, after) and not text(after.chunk.doc_id):
        return _Joint(BLANK)  # the document is not at hand, and its chunks count on
    if config.require_adjacent:
        return None
    return _Joint(f"{BLANK}{config.gap_mark}{BLANK}" if config.gap_mark else BLANK)


def _between(before: _Part, after: _Part, text: Text) -> str | None:
    """The white space of the document between two parts; None where more than that, or nobody knows what, is there."""
    if before.end == after.start:
        return ""
    if before.end > after.start:
        return None
    whole = text(after.chunk.doc_id)
    if whole[before.start : before.end] != before.text or whole[after.start : after.end] != after.text:
        return None  # the document has changed since
    gap = whole[before.end : after.start]
    return None if gap.strip() else gap


def _numbered_on(before: _Part, after: _Part) -> bool:
    return 0 <= max(hit.chunk.index for hit in before.hits) == after.chunk.index - 1


def _best_first(parts: Sequence[_Part], text: Text) -> Iterator[_Part]:
    """The parts with runs that touch kept together, the run with the best hit first."""
    runs: list[list[_Part]] = []
    for part in parts:
        if runs and runs[-1][-1].placed and part.placed and _between(runs[-1][-1], part, text) is not None:
            runs[-1].append(part)
        else:
            runs.append([part])
    for run in sorted(runs, key=lambda run: -max(hit.score for part in run for hit in part.hits)):
        yield from run


def _joined(parts: Sequence[_Part], joints: Sequence[_Joint], source: str) -> MergedChunk:
    pieces = [parts[0].text]
    spans = [(parts[0].start, parts[0].end)] if parts[0].placed else []
    for joint, part in zip(joints, parts[1:], strict=True):
        pieces += (joint.text, part.text)
        if joint.own:
            spans[-1] = (spans[-1][0], part.end)
        elif part.placed:
            spans.append((part.start, part.end))
    hits = tuple(hit for part in parts for hit in part.hits)
    path = parts[0].chunk.headings
    whole = "".join(pieces)
    return MergedChunk(
        text=whole,
        source=source,
        heading_path=path,
        heading_display=JOINT.join(path),
        chunks=hits,
        avg_similarity=sum(hit.score for hit in hits) / len(hits),
        content_length=len(whole),
        spans=tuple(spans),
    )


def _by_place(hit: Hit) -> tuple[int, int, int, str, str]:
    chunk = hit.chunk
    return (
        (chunk.start, -chunk.end, chunk.index, chunk.text, chunk.id)
        if placed(chunk)
        else (0, 0, chunk.index, chunk.text, chunk.id)
    )


def _better(hit: Hit) -> tuple[float, int, tuple[str, ...], str]:
    """The order of two hits of one chunk: the better, then the longer."""
    return -hit.score, -len(hit.chunk.text), hit.chunk.headings, str(sorted(hit.scores.items()))


def _by_average(merged: MergedChunk) -> tuple[float, float, str, tuple[str, ...], tuple[int, ...], str]:
    first = merged.chunks[0].chunk
    place = (first.start, first.index)
    return -merged.avg_similarity, -best(merged), merged.source, merged.heading_path, place, merged.text
