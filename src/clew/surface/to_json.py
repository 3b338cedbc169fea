"""The nouns as JSON, with keys that stay: what `--json` prints, and what any other surface answers with."""

import json
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields
from datetime import date
from typing import Any

from clew.core.cite import Citation, CitationCheck
from clew.core.report import Plan, Report
from clew.core.secret import mask_secrets
from clew.core.trace import Trace
from clew.core.types import (
    Context,
    Document,
    DocumentRecord,
    Explanation,
    Hit,
    MergedChunk,
    StoreStats,
)
from clew.core.why import WhyNot
from clew.surface.settings.load import Invocation, show

Shape = dict[str, Any]


def text(value: Any, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """The value as JSON; a number that JSON does not have (NaN, infinity) is null."""
    return json.dumps(plain(value), indent=indent, ensure_ascii=ascii_only, allow_nan=False)


def plain(value: Any) -> Any:
    """The value in dictionaries, lists, texts and numbers alone."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(member) for key, member in value.items()}
    if isinstance(value, Set):
        return sorted((plain(member) for member in value), key=str)
    if isinstance(value, Sequence):
        return [plain(member) for member in value]
    if isinstance(value, date):  # a datetime is one
        return value.isoformat()
    if hasattr(value, "item"):  # a number of numpy's
        return plain(value.item())
    return str(value)


def report(done: Report) -> Shape:
    """What `add` did."""
    return {
        "added": done.added,
        "changed": done.changed,
        "skipped": done.skipped,
        "failed": [{"source": failure.source, "reason": failure.reason} for failure in done.failed],
        "chunks": done.chunks,
        "embedded": done.embedded,
        "reused": done.reused,
        "seconds": done.seconds,
        "noted": [{"source": note.source, "reason": note.reason} for note in done.noted],
        "dropped": done.dropped,
        "cost": done.cost,
        "stopped": done.stopped,
    }


def plan(of: Plan) -> Shape:
    """What `add` would do."""
    return {
        "added": of.added,
        "changed": of.changed,
        "unchanged": of.unchanged,
        "dropped": of.dropped,
        "failed": [{"source": failure.source, "reason": failure.reason} for failure in of.failed],
        "chunks": of.chunks,
        "reused": of.reused,
        "embedded": of.embedded,
        "embedded_tokens": of.embedded_tokens,
        "calls": of.calls,
        "input_tokens": of.input_tokens,
        "output_tokens": of.output_tokens,
        "cost": of.cost,
    }


def record(of: DocumentRecord) -> Shape:
    """A document without its text."""
    return {
        "id": of.id,
        "title": of.title,
        "uri": of.uri,
        "kind": of.kind,
        "chars": of.chars,
        "chunks": of.chunks,
        "summary": of.summary,
        "meta": of.meta,
    }


def document(of: Document) -> Shape:
    """A document with its text and sections."""
    sections = [
        {
            "start": section.start,
            "end": section.end,
            "label": section.label,
            "parent": section.parent,
            "id": section.id,
            "author": section.author,
            "at": section.at,
            "page": section.page,
        }
        for section in of.sections
    ]
    return {
        "id": of.id,
        "title": of.title,
        "uri": of.uri,
        "kind": of.kind,
        "summary": of.summary,
        "meta": of.meta,
        "text": of.text,
        "sections": sections,
    }


def hits(found: Sequence[Hit], records: Mapping[str, DocumentRecord]) -> list[Shape]:
    """The hits in order, each with its rank and with the document it comes from."""
    return [_hit(rank, hit, records.get(hit.chunk.doc_id)) for rank, hit in enumerate(found, 1)]


def _hit(rank: int, hit: Hit, of: DocumentRecord | None) -> Shape:
    chunk = hit.chunk
    return {
        "rank": rank,
        "score": hit.score,
        "scores": hit.scores,
        "document": {
            "id": chunk.doc_id,
            "title": of.title if of else "",
            "uri": of.uri if of else "",
            "kind": of.kind if of else "",
        },
        "chunk": {
            "id": chunk.id,
            "text": chunk.text,
            "headings": chunk.headings,
            "start": chunk.start,
            "end": chunk.end,
            "meta": chunk.meta,
        },
    }


def trace(of: Trace) -> Shape:
    """A step with the steps inside it."""
    return {
        "name": of.name,
        "ms": of.ms,
        "out": of.out,
        "notes": of.notes,
        "steps": [trace(step) for step in of.steps],
    }


def search(found: Sequence[Hit], records: Mapping[str, DocumentRecord], *, reason: str, traced: Trace) -> Shape:
    """What a search found; a reason if that is nothing."""
    return {"hits": hits(found, records), "reason": reason, "trace": trace(traced)}


def explanation(of: Explanation) -> Shape:
    """How a search came to its hits."""
    return {
        "query": of.query.text,
        "strategy": of.strategy,
        "hits": hits(of.hits, {record.id: record for record in of.documents}),
        "trace": trace(of.trace),
    }


def context(of: Context, *, traced: Trace) -> Shape:
    """The prompt's text, the passages in it and those left out."""
    return {
        "query": of.query.text,
        "text": of.text,
        "tokens": of.tokens,
        "passages": [_passage(passage) for passage in of.passages],
        "documents": [record(one) for one in of.documents],
        "dropped": [{**_passage(one.passage), "reason": one.reason, "tokens": one.tokens} for one in of.dropped],
        "reason": of.reason,
        "citations": [citation(one) for one in of.citations],
        "numbers": of.numbers,
        "trace": trace(traced),
    }


def citation(of: Citation) -> Shape:
    """Where a quote stands."""
    return {field.name: getattr(of, field.name) for field in fields(of)}


def checks(of: Sequence[tuple[str, Sequence[CitationCheck]]]) -> Shape:
    """Past answers, each with how its citations stand."""
    return {
        "answers": [
            {
                "question": name,
                "stands": all(one.standing == "stands" for one in checked),
                "citations": [
                    {**citation(one.citation), "standing": one.standing, "now": one.start} for one in checked
                ],
            }
            for name, checked in of
        ]
    }


def why_not(of: WhyNot) -> Shape:
    """What became of something that was not found."""
    fix = {"setting": of.fix.setting, "value": of.fix.value, "before": of.fix.before} if of.fix else None
    return {"query": of.query, "target": of.target, "stage": of.stage, "reason": of.reason, "fix": fix}


def _passage(of: MergedChunk) -> Shape:
    return {
        "source": of.source,
        "headings": of.heading_path,
        "text": of.text,
        "similarity": of.avg_similarity,
        "spans": of.spans,
        "chunks": [hit.chunk.id for hit in of.chunks],
    }


def facts(of: StoreStats, *, called: Invocation) -> Shape:
    """What a collection says of itself."""
    return {
        "path": mask_secrets(called.path),
        "collection": called.collection,
        "documents": of.documents,
        "chunks": of.chunks,
        "embedder": of.embedder,
        "dim": of.dim,
        "change": of.change,
        "index": of.index,
        "bytes": of.bytes,
    }


def config(of: Invocation) -> Shape:
    """The settings with where each comes from, and the file that was read."""
    return {"file": str(of.file) if of.file else None, "settings": show(of)}
