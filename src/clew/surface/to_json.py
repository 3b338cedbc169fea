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

from clew.core.answer import Answer, RemovedSentence
from clew.core.cite import Citation, CitationCheck
from clew.core.report import Plan, Report, SourceFailure
from clew.core.secret import mask_secrets
from clew.core.stored import Manifest
from clew.core.trace import Trace
from clew.core.types import (
    Context,
    Document,
    DocumentRecord,
    DroppedPassage,
    Explanation,
    Hit,
    MergedChunk,
    Section,
    StoreStats,
)
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
    return {"hits": hits_to_json(hits), "reason": reason, "trace": trace}


def hits_to_json(hits: Sequence[Hit]) -> list[Json]:
    """The hits in order, each with its rank."""
    return [
        {
            "rank": rank,
            **_pick(hit, "score", "scores"),
            "document": _pick(hit.document, "id", "title", "uri", "kind"),
            "chunk": _pick(hit.chunk, "id", "text", "headings", "start", "end", "meta"),
        }
        for rank, hit in enumerate(hits, 1)
    ]


def context_to_json(context: Context, *, trace: Trace) -> Json:
    """A context: its text, the passages in it and those left out."""
    shown = _pick(context, "text", "tokens", "passages", "documents", "dropped", "reason", "citations", "numbers")
    return {"query": context.query.text, **shown, "trace": trace}


def answer_to_json(answer: Answer, *, trace: Trace) -> Json:
    """An answer; a citation's number is the one that stands in the text."""
    cited = enumerate(answer.citations)
    return {
        **_pick(answer, "question", "text", "found", "confidence", "reason", "fault"),
        "citations": [{"number": answer.citation_number(place), **_pick_all(citation)} for place, citation in cited],
        **_pick(answer, "removed", "usage"),
        "trace": trace,
    }


def checks_to_json(checks: Sequence[tuple[str, Sequence[CitationCheck]]]) -> Json:
    """Past answers by question, each with the result of checking its citations."""
    return {
        "answers": [
            {"question": question, "stands": all(check.standing == "stands" for check in checked), "citations": checked}
            for question, checked in checks
        ]
    }


def status_to_json(stats: StoreStats, *, invocation: Invocation) -> Json:
    """The counts of a collection and where it is."""
    place = {"path": mask_secrets(invocation.path), "collection": invocation.collection}
    return {**place, **_pick(stats, "documents", "chunks", "embedder", "dim", "change", "index", "bytes")}


def settings_to_json(invocation: Invocation) -> Json:
    """Every setting with its origin, and the settings file that was read."""
    return {"file": str(invocation.file) if invocation.file else None, "settings": describe_settings(invocation)}


def manifest_to_json(manifest: Manifest, *, file: Path, size: int) -> Json:
    """An exported file of so many bytes."""
    counts = _pick(manifest, "documents", "chunks", "embedder", "dim", "language")
    return {"file": str(file), **counts, "parts": len(manifest.parts), "format": manifest.format, "bytes": size}


def _explanation(explanation: Explanation) -> Json:
    hits = hits_to_json(explanation.hits)
    return {"query": explanation.query.text, **_pick(explanation, "strategy"), "hits": hits, "trace": explanation.trace}


def _passage(passage: MergedChunk) -> Json:
    return {
        "source": passage.source,
        "headings": passage.heading_path,
        "text": passage.text,
        "similarity": passage.avg_similarity,
        "spans": passage.spans,
        "chunks": [hit.chunk.id for hit in passage.chunks],
    }


def _message(message: ContextMessage) -> Json:
    return {
        **_pick(message, "id", "thread"),
        **_pick(message.message, "channel", "author", "at", "text"),
        "parent": message.parent.id if message.parent else None,
        **_pick(message, "found", "score", "original_score", "similarity", "time_score", "channel_score"),
        **_pick(message, "thread_score", "flow_score", "completeness_score"),
    }


def _thread(thread: WindowThread) -> Json:
    ids = [message.id for message in thread.messages]
    return {**_pick(thread, "id", "title", "channel", "score", "whole"), "messages": ids}


def _pick(value: object, *names: str) -> Json:
    """The named fields of a value, in that order."""
    return {name: getattr(value, name) for name in names}


def _pick_all(value: Any) -> Json:
    return _pick(value, *(field.name for field in fields(value)))


def _fields(*names: str) -> Callable[[Any], Json]:
    return lambda value: _pick(value, *names)


_SCHEMAS: Mapping[type, Callable[[Any], Json]] = {
    Citation: _pick_all,
    CitationCheck: lambda check: {**_pick_all(check.citation), "standing": check.standing, "now": check.start},
    ContextMessage: _message,
    ContextWindow: _fields("text", "total_tokens", "channels", "messages", "threads", "dropped", "reason"),
    Document: _fields("id", "title", "uri", "kind", "summary", "meta", "text", "sections"),
    DocumentRecord: _fields("id", "title", "uri", "kind", "chars", "chunks", "summary", "meta"),
    DroppedPassage: lambda dropped: {**_passage(dropped.passage), **_pick(dropped, "reason", "tokens")},
    Explanation: _explanation,
    SourceFailure: _fields("source", "reason"),
    Fix: _fields("setting", "value", "before"),
    DroppedMessage: lambda dropped: {**_message(dropped.message), **_pick(dropped, "reason", "tokens")},
    Links: _fields("cites", "cited_by"),
    MergedChunk: _passage,
    Plan: _fields(
        *("added", "changed", "unchanged", "dropped", "failed", "chunks", "reused", "embedded", "embedded_tokens"),
        *("calls", "input_tokens", "output_tokens", "cost"),
    ),
    RemovedSentence: _fields("text", "reason", "kept"),
    Report: _fields(
        *("added", "changed", "skipped", "failed", "chunks", "embedded", "reused", "seconds", "noted", "dropped"),
        *("cost", "stopped"),
    ),
    Section: _fields("start", "end", "label", "parent", "id", "author", "at", "page"),
    StyleProfile: _fields(
        *("person", "tone", "vocabulary_level", "message_length", "common_phrases", "emoji", "habits", "messages"),
        *("confidence", "made_by"),
    ),
    Trace: _fields("name", "ms", "out", "notes", "steps"),
    Usage: _fields("calls", "input_tokens", "output_tokens", "cached"),
    WhyNot: _fields("query", "target", "stage", "reason", "fix"),
    WindowThread: _thread,
}
