"""Hits into readable stretches: what touches or overlaps in one document is joined and read again by position."""

from collections.abc import Callable, Mapping, Sequence

from clew.core.types import DocumentRecord, Hit, MergedChunk

Text = Callable[[str], str]  # the text of a document; empty where it is there no more


def merge(hits: Sequence[Hit], records: Mapping[str, DocumentRecord], text: Text) -> list[MergedChunk]:
    """One stretch for each run of neighbouring hits under one heading path, the one with the best hit first."""
    stretches: list[list[Hit]] = []
    for hit in sorted(hits, key=lambda hit: (hit.chunk.doc_id, hit.chunk.start, hit.chunk.end)):
        last = stretches[-1] if stretches else []
        if last and _touch(last, hit, text):
            last.append(hit)
        else:
            stretches.append([hit])
    stretches.sort(key=lambda run: min((-hit.score, hit.chunk.id) for hit in run))
    return [_joined(run, records, text) for run in stretches]


def _touch(run: list[Hit], hit: Hit, text: Text) -> bool:
    """Whether a hit, later in the text, carries on where the run ends, with nothing but white space between."""
    chunk, first = hit.chunk, run[0].chunk
    if chunk.doc_id != first.doc_id or chunk.headings != first.headings:
        return False
    end = max(other.chunk.end for other in run)
    whole = text(chunk.doc_id)
    return len(whole) >= chunk.end and not whole[end : chunk.start].strip()


def _joined(run: list[Hit], records: Mapping[str, DocumentRecord], text: Text) -> MergedChunk:
    first = run[0].chunk
    start, end = first.start, max(hit.chunk.end for hit in run)
    words = first.text if len(run) == 1 else text(first.doc_id)[start:end]
    record = records[first.doc_id]
    return MergedChunk(
        text=words,
        source=record.uri or record.title or record.id,
        heading_path=first.headings,
        heading_display=" > ".join(first.headings),
        chunks=tuple(run),
        avg_similarity=sum(hit.score for hit in run) / len(run),
        content_length=len(words),
        spans=((start, end),),
    )
