"""The nouns as JSON, with a stable schema: what `--json` prints, and what any other surface answers with.

A key is the name of a field unless a function here says otherwise; fields that are not listed are not shown.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import fields
from datetime import date
from pathlib import Path
from typing import Any

from clew.core.answer import Answer, AnswerSentence, RemovedSentence
from clew.core.attribution import PassageMessage, make_passage_message
from clew.core.calibration import Calibration
from clew.core.cite import Citation, CitationCheck
from clew.core.collection import CollectionRecord
from clew.core.doctor import Defect, DoctorReport
from clew.core.explanation import Explanation
from clew.core.jobs import Job
from clew.core.passages import Context, DroppedPassage, MergedChunk
from clew.core.receipt import Receipt
from clew.core.report import PassedOver, Plan, Report, SourceFailure
from clew.core.secret import mask_secrets
from clew.core.stored import Manifest
from clew.core.trace import Trace
from clew.core.types import Document, DocumentRecord, Hit, Message, Section, StoreStats
from clew.core.usage import Usage
from clew.core.why import Fix, WhyNot
from clew.core.window import ContextMessage, ContextWindow, DroppedMessage, Links, StyleProfile, WindowThread
from clew.surface.settings.load import Invocation, describe_settings

Json = dict[str, Any]


def dump_json(value: Any, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """The value as JSON text; a number that JSON does not have (NaN, infinity) is null."""
    return json.dumps(to_json(value), indent=indent, ensure_ascii=ascii_only, allow_nan=False)


def to_json(value: Any) -> Any:
    """The value as dictionaries, lists, texts and numbers, nouns by their schema."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): to_json(member) for key, member in value.items()}
    if isinstance(value, Set):
        return sorted((to_json(member) for member in value), key=str)
    if isinstance(value, Sequence):
        return [to_json(member) for member in value]
    if isinstance(value, date):  # a datetime is one
        return value.isoformat()
    if schema := _SCHEMAS.get(type(value)):
        return to_json(schema(value))
    if hasattr(value, "item"):  # a numpy number
        return to_json(value.item())
    return str(value)


def search_to_json(hits: Sequence[Hit], *, reason: str, trace: Trace) -> Json:
    """The result of a search; a reason if it is empty."""
    return {"hits": hits_to_json(hits), "reason": reason, "language": trace.find_note("language"), "trace": trace}


def hits_to_json(hits: Sequence[Hit]) -> list[Json]:
    """The hits in order, each with its rank."""
    return [
        {
            "rank": rank,
            **_pick_fields(hit, "relevance", "similarity", "score", "scores"),
            "document": _pick_fields(hit.document, "id", "title", "uri", "kind"),
            "chunk": _pick_fields(hit.chunk, "id", "text", "headings", "start", "end", "meta"),
            "message": _chunk_message_to_json(hit),
        }
        for rank, hit in enumerate(hits, 1)
    ]


def _chunk_message_to_json(hit: Hit) -> Json | None:
    """Who wrote the message of a hit, when, and what it answers; None for a page."""
    message = make_passage_message(hit.chunk.meta, hit.chunk.at, "")
    return _pick_fields(message, "id", "author", "at", "channel", "reply_to", "guessed") if message else None


def context_to_json(context: Context, *, trace: Trace) -> Json:
    """A context: its text, the passages in it and those left out."""
    shown = _pick_fields(
        context, "text", "tokens", "passages", "documents", "dropped", "reason", "citations", "numbers"
    )
    return {"query": context.query.text, **shown, "trace": trace}


def answer_to_json(answer: Answer, *, trace: Trace) -> Json:
    """An answer; a citation's number is the one that stands in the text."""
    cited = [
        {"number": answer.citation_number(place), **_pick_all_fields(citation)}
        for place, citation in enumerate(answer.citations)
    ]
    return {
        **_pick_fields(answer, "question", "text", "found", "confidence", "reason", "fault"),
        "citations": cited,
        "parts": [
            {**_pick_fields(part, "passage", "highlight"), "citation": citation}
            for part, citation in zip(answer.parts, cited, strict=False)
        ],
        **_pick_fields(answer, "sentences", "removed", "usage"),
        "trace": trace,
    }


def citation_checks_to_json(checks: Sequence[tuple[str, Sequence[CitationCheck]]]) -> Json:
    """Past answers by question, each with the result of checking its citations."""
    return {
        "answers": [
            {"question": question, "stands": all(check.standing == "stands" for check in checked), "citations": checked}
            for question, checked in checks
        ]
    }


def status_to_json(stats: StoreStats, *, invocation: Invocation, is_whole: bool = True) -> Json:
    """The counts of a collection and where it is; of a part of it the size and the last change are not told."""
    place = {"path": mask_secrets(invocation.path), "collection": invocation.collection}
    lacking = _pick_fields(stats, "without_summary", "without_contexts", "pending")
    return {
        **place,
        **_pick_fields(stats, "documents", "chunks", "embedder", "dim", "change", "index", "bytes"),
        **({} if is_whole else {"change": None, "bytes": None}),
        **lacking,
        "languages": dict(stats.languages),
    }


def settings_to_json(invocation: Invocation) -> Json:
    """Every setting with its origin, and the settings file that was read."""
    return {"file": str(invocation.file) if invocation.file else None, "settings": describe_settings(invocation)}


def manifest_to_json(manifest: Manifest, *, file: Path, size: int) -> Json:
    """The manifest of an exported file, with its path and size in bytes."""
    counts = _pick_fields(manifest, "documents", "chunks", "embedder", "dim", "language")
    return {"file": str(file), **counts, "parts": len(manifest.parts), "format": manifest.format, "bytes": size}


def _explanation_to_json(explanation: Explanation) -> Json:
    hits = hits_to_json(explanation.hits)
    return {
        "query": explanation.query.text,
        **_pick_fields(explanation, "strategy"),
        "language": explanation.trace.find_note("language"),
        "hits": hits,
        "trace": explanation.trace,
    }


def _passage_to_json(passage: MergedChunk) -> Json:
    return {
        "source": passage.source,
        "headings": passage.heading_path,
        "text": passage.text,
        "table_header": passage.table_header,
        "relevance": max((hit.relevance for hit in passage.chunks if not math.isnan(hit.relevance)), default=None),
        "similarity": passage.avg_similarity,
        "spans": passage.spans,
        "chunks": [hit.chunk.id for hit in passage.chunks],
        "messages": passage.messages,
    }


def _message_to_json(message: ContextMessage) -> Json:
    return {
        **_pick_fields(message, "id", "thread"),
        **_pick_fields(message.message, "channel", "author", "at", "text"),
        "parent": message.parent.id if message.parent else None,
        **_pick_fields(
            message,
            "found",
            "guessed",
            "cut",
            "relevance",
            "similarity",
            "score",
            "original_score",
            "time_score",
            "channel_score",
        ),
        **_pick_fields(message, "thread_score", "flow_score", "completeness_score"),
    }


def _thread_to_json(thread: WindowThread) -> Json:
    ids = [message.id for message in thread.messages]
    return {**_pick_fields(thread, "id", "title", "channel", "score", "whole"), "messages": ids}


def _pick_fields(value: object, *names: str) -> Json:
    """The named fields of a value, in that order."""
    return {name: getattr(value, name) for name in names}


def _pick_all_fields(value: Any) -> Json:
    return _pick_fields(value, *(field.name for field in fields(value)))


def _make_field_picker(*names: str) -> Callable[[Any], Json]:
    return lambda value: _pick_fields(value, *names)


_SCHEMAS: Mapping[type, Callable[[Any], Json]] = {
    AnswerSentence: _pick_all_fields,
    Calibration: _make_field_picker("embedder", "chunks", "reach", "spread"),
    Citation: _pick_all_fields,
    CitationCheck: lambda check: {**_pick_all_fields(check.citation), "standing": check.standing, "now": check.start},
    CollectionRecord: _pick_all_fields,
    ContextMessage: _message_to_json,
    ContextWindow: _make_field_picker("text", "total_tokens", "channels", "messages", "threads", "dropped", "reason"),
    Document: _make_field_picker(
        "id", "title", "uri", "kind", "language", "summary", "summary_by", "access", "meta", "text", "sections"
    ),
    DocumentRecord: _make_field_picker(
        *("id", "title", "uri", "kind", "language", "chars", "chunks", "summary", "summary_by", "lacks", "access"),
        *("meta", "created", "updated"),
    ),
    DroppedPassage: lambda dropped: {**_passage_to_json(dropped.passage), **_pick_fields(dropped, "reason", "tokens")},
    Defect: _make_field_picker("severity", "area", "problem", "document", "remedy", "advice", "is_repaired"),
    DoctorReport: lambda report: {"is_sound": report.is_sound, **_pick_all_fields(report)},
    Explanation: _explanation_to_json,
    SourceFailure: _make_field_picker("source", "reason"),
    Fix: _make_field_picker("setting", "value", "before"),
    DroppedMessage: lambda dropped: {**_message_to_json(dropped.message), **_pick_fields(dropped, "reason", "tokens")},
    Job: _make_field_picker(
        *("id", "kind", "state", "stage", "done", "total", "request", "result", "error", "worker", "attempts", "host"),
        *("created", "updated", "failed", "message"),
    ),
    Links: _make_field_picker("cites", "cited_by"),
    MergedChunk: _passage_to_json,
    Message: _make_field_picker("id", "channel", "author", "at", "reply_to", "access", "text"),
    PassedOver: _pick_all_fields,
    PassageMessage: _make_field_picker("id", "author", "at", "channel", "reply_to", "guessed", "text"),
    Plan: _make_field_picker(
        *("added", "changed", "unchanged", "dropped", "failed", "chunks", "reused", "embedded", "embedded_tokens"),
        *(
            "calls",
            "input_tokens",
            "output_tokens",
            "cost",
            "seconds",
            "held_back",
            "passed_over_counts",
            "passed_over",
        ),
    ),
    Receipt: lambda receipt: {
        **_pick_fields(receipt, "selector", "selector_hash"),
        **_pick_all_fields(receipt),
        "complete": receipt.complete,
    },
    RemovedSentence: _make_field_picker("text", "reason", "kept"),
    Report: _make_field_picker(
        *("added", "changed", "skipped", "failed", "chunks", "embedded", "reused", "seconds", "noted", "dropped"),
        *("cost", "stopped", "incomplete", "held_back", "passed_over_counts", "passed_over"),
    ),
    Section: _make_field_picker("start", "end", "label", "parent", "id", "author", "at", "page", "guessed", "access"),
    StyleProfile: _make_field_picker(
        *("person", "tone", "vocabulary_level", "message_length", "common_phrases", "emoji", "habits", "messages"),
        *("confidence", "made_by"),
    ),
    Trace: _make_field_picker("name", "ms", "out", "notes", "steps"),
    Usage: _make_field_picker("calls", "input_tokens", "output_tokens", "cached"),
    WhyNot: _make_field_picker("query", "target", "stage", "reason", "fix"),
    WindowThread: _thread_to_json,
}
