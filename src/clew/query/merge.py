"""Hits into readable stretches: what touches or overlaps in one document is joined and read again by position."""

from collections.abc import Callable, Mapping

from clew.core.types import Document, DocumentRecord, Hit, MergedChunk

Read = Callable[[str], Document]


def merge(hits: list[Hit], records: Mapping[str, DocumentRecord], read: Read) -> list[MergedChunk]:
    """One stretch for each run of neighbouring hits under one heading path, the one with the best hit first."""
    stretches: list[list[Hit]] = []
    for hit in sorted(hits, key=lambda hit: (hit.chunk.doc_id, hit.chunk.start, hit.chunk.end)):
        last = stretches[-1] if stretches else []
        if last and _touch(last, hit, read):
            last.append(hit)
        else:
            stretches.append([hit])
    stretches.sort(key=lambda run: min((-hit.score, hit.chunk.id) for hit in run))
    return [_joined(run, records, read) for run in stretches]


def _touch(run: list[Hit], hit: Hit, read: Read) -> bool:
    """Whether a hit, later in the text, carries on where the run ends, with nothing but white space between."""
    chunk, first = hit.chunk, run[0].chunk
    if chunk.doc_id != first.doc_id or chunk.headings != first.headings:
        return False
    end = max(other.chunk.end for other in run)
    return chunk.start <= end or not read(chunk.doc_id).text[end : chunk.start].strip()


def _joined(run: list[Hit], records: Mapping[str, DocumentRecord], read: Read) -> MergedChunk:
    first = run[0].chunk
    start, end = first.start, max(hit.chunk.end for hit in run)
    text = first.text if len(run) == 1 else read(first.doc_id).text[start:end]
    record = records[first.doc_id]
    return MergedChunk(
        text=text,
        source=record.uri or record.title or record.id,
        heading_path=first.headings,
        heading_display=" > ".join(first.headings),
        chunks=tuple(run),
        avg_similarity=sum(hit.score for hit in run) / len(run),
        content_length=len(text),
        spans=((start, end),),
    )
