"""The nouns as JSON with a stable schema, for `--json` and for every other surface.

A noun has the fields of its reply in `core.replies`, unless a function here says otherwise.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import asdict, fields
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.core import replies as r
from clew.core.answer import Answer, AnswerSentence, RemovedSentence
from clew.core.attribution import PassageMessage, make_passage_message
from clew.core.calibration import Calibration
from clew.core.cite import Citation, CitationCheck, Context, DroppedPassage, MergedChunk
from clew.core.doctor import Defect, DoctorReport
from clew.core.explanation import Explanation, Fix, WhyNot
from clew.core.jobs import Job
from clew.core.report import PassedOver, Plan, Receipt, Report, SourceFailure
from clew.core.stored import CollectionRecord, Manifest
from clew.core.suggest import mask_secrets
from clew.core.trace import Trace
from clew.core.types import Chunk, Document, DocumentRecord, Hit, Message, Section, StoreStats
from clew.core.usage import Usage
from clew.core.window import ContextMessage, ContextWindow, DroppedMessage, Links, StyleProfile, WindowThread
from clew.surface.settings.load import Invocation, describe_settings

if TYPE_CHECKING:
    from clew.evaluation.types import Evaluation, EvaluationRun

Json = dict[str, Any]


def dump_json(value: Any, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """Return the value as JSON text; a number that JSON does not have (NaN, infinity) is null."""
    return json.dumps(to_json(value), indent=indent, ensure_ascii=ascii_only, allow_nan=False)


def to_json(value: Any) -> Any:
    """Return the value as dictionaries, lists, texts and numbers, nouns by their schema."""
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
    """Return the result of a search; a reason if it is empty."""
    return {"hits": hits_to_json(hits), "reason": reason, "language": trace.find_note("language"), "trace": trace}


def hits_to_json(hits: Sequence[Hit]) -> list[Json]:
    """Return the hits in order, each with its rank."""
    return [
        {
            "rank": rank,
            **_pick_fields(hit, "relevance", "similarity", "score", "scores"),
            "document": _pick(hit.document, r.DocumentRef),
            "chunk": _pick(hit.chunk, r.ChunkRef),
            "message": _chunk_message_to_json(hit),
        }
        for rank, hit in enumerate(hits, 1)
    ]


def _chunk_message_to_json(hit: Hit) -> Json | None:
    """Return the author, time and parent of a hit's message; None for a page."""
    message = make_passage_message(hit.chunk.meta, hit.chunk.at, "")
    return _pick(message, r.MessageRef) if message else None


def context_to_json(context: Context, *, trace: Trace) -> Json:
    """Return a context: its text, its passages, and the passages left out."""
    shown = _pick_fields(
        context, "text", "tokens", "passages", "documents", "dropped", "reason", "citations", "numbers"
    )
    return {"query": context.query.text, **shown, "trace": trace}


def answer_to_json(answer: Answer, *, trace: Trace) -> Json:
    """Return an answer; its citations have the numbers used in the text."""
    cited = [
        {"number": answer.citation_number(place), **_pick_all_fields(citation)}
        for place, citation in enumerate(answer.citations)
    ]
    return {
        **_pick_fields(answer, "question", "searched", "text", "found", "confidence", "reason", "fault"),
        "citations": cited,
        "parts": [
            {**_pick_fields(part, "passage", "highlight"), "citation": citation}
            for part, citation in zip(answer.parts, cited, strict=False)
        ],
        **_pick_fields(answer, "sentences", "removed", "usage"),
        "trace": trace,
    }


def citation_checks_to_json(checks: Sequence[tuple[str, Sequence[CitationCheck]]]) -> Json:
    """Return past answers by question, each with the result of checking its citations."""
    return {
        "answers": [
            {"question": question, "stands": all(check.standing == "stands" for check in checked), "citations": checked}
            for question, checked in checks
        ]
    }


def status_to_json(stats: StoreStats, *, invocation: Invocation, is_whole: bool = True) -> Json:
    """Return the counts and the place of a collection; for a part of it, without size and last change."""
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
    """Return every setting with its origin, and the settings file that was read."""
    return {"file": str(invocation.file) if invocation.file else None, "settings": describe_settings(invocation)}


def manifest_to_json(manifest: Manifest, *, file: Path, size: int) -> Json:
    """Return the manifest of an exported file, with its path and size in bytes."""
    counts = _pick_fields(manifest, "documents", "chunks", "embedder", "dim", "language")
    return {"file": str(file), **counts, "parts": len(manifest.parts), "format": manifest.format, "bytes": size}


def evaluation_to_json(evaluation: "Evaluation") -> Json:
    """Return the evaluation as JSON: the run, the scores and plot data of each system, the differences."""
    from clew.evaluation.report import count_relevances, estimate_means, list_recall

    run = evaluation.run
    return {
        **_pick_fields(run, "id", "created", "source", "is_finished"),
        "file": str(run.file) if run.file else None,
        "questions": len(run.questions),
        **_pick_fields(run, "k", "tokens", "embedder"),
        "systems": [
            {
                **_pick_fields(score.system, "name", "strategy", "settings"),
                "measures": score.means,
                "intervals": {
                    name: [each.low, each.high] for name, each in estimate_means(run, score.system.name).items()
                },
                "counts": score.counts,
                "ms": score.latency,
                "tokens": score.tokens,
                "risk": score.risk,
                "recall": list_recall(evaluation, score.system.name),
                "relevances": count_relevances(evaluation, score.system.name),
            }
            for score in evaluation.scores
        ],
        "comparisons": [{**asdict(each), "is_significant": each.is_significant} for each in evaluation.comparisons],
        "notes": evaluation.notes,
    }


def run_to_json(run: "EvaluationRun") -> Json:
    """Return the summary of a run for a list: its questions, systems and progress."""
    return {
        **_pick_fields(run, "id", "created", "source"),
        "questions": len(run.questions),
        "systems": [system.name for system in run.systems],
        "done": len(run.results),
        "total": len(run.systems) * len(run.questions),
        "is_finished": run.is_finished,
    }


def _explanation_to_json(explanation: Explanation) -> Json:
    return {
        "query": explanation.query.text,
        "strategy": explanation.strategy,
        "language": explanation.trace.find_note("language"),
        "hits": hits_to_json(explanation.hits),
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
        **_pick_fields(message, "found", "guessed", "cut", "relevance", "similarity", "score", "original_score"),
        **_pick_fields(message, "time_score", "channel_score", "thread_score", "flow_score", "completeness_score"),
    }


def _thread_to_json(thread: WindowThread) -> Json:
    ids = [message.id for message in thread.messages]
    return {**_pick_fields(thread, "id", "title", "channel", "score", "whole"), "messages": ids}


def _pick_fields(value: object, *names: str) -> Json:
    """Pick the named fields of a value, in that order."""
    return {name: getattr(value, name) for name in names}


def _pick_all_fields(value: Any) -> Json:
    return _pick_fields(value, *(field.name for field in fields(value)))


def _pick(value: object, reply: Any) -> Json:
    """Pick the fields of a value that its reply has."""
    return _pick_fields(value, *reply.__annotations__)


_REPLIES: Mapping[type, Any] = {
    Chunk: r.ChunkReply,
    CollectionRecord: r.CollectionReply,
    ContextWindow: r.WindowReply,
    DoctorReport: r.DoctorReply,
    Document: r.DocumentReply,
    DocumentRecord: r.RecordReply,
    Job: r.JobReply,
    Links: r.LinksReply,
    Message: r.MessageReply,
    Plan: r.PlanReply,
    Receipt: r.ReceiptReply,
    Report: r.ReportReply,
    StyleProfile: r.ProfileReply,
    Trace: r.TraceReply,
    WhyNot: r.WhyNotReply,
}
_SCHEMAS: Mapping[type, Callable[[Any], Json]] = {
    **{noun: partial(_pick, reply=reply) for noun, reply in _REPLIES.items()},
    **dict.fromkeys((AnswerSentence, Citation, Fix, PassedOver, RemovedSentence, SourceFailure), _pick_all_fields),
    Calibration: lambda made: _pick_fields(made, "embedder", "chunks", "reach", "spread"),
    CitationCheck: lambda check: {**_pick_all_fields(check.citation), "standing": check.standing, "now": check.start},
    ContextMessage: _message_to_json,
    Defect: lambda made: _pick_fields(
        made, "severity", "area", "problem", "document", "remedy", "advice", "is_repaired"
    ),
    DroppedMessage: lambda dropped: {**_message_to_json(dropped.message), **_pick_fields(dropped, "reason", "tokens")},
    DroppedPassage: lambda dropped: {**_passage_to_json(dropped.passage), **_pick_fields(dropped, "reason", "tokens")},
    Explanation: _explanation_to_json,
    MergedChunk: _passage_to_json,
    PassageMessage: lambda made: {**_pick(made, r.MessageRef), "text": made.text},
    Section: lambda made: _pick_fields(made, *(field.name for field in fields(made) if field.name != "awaits")),
    Usage: lambda made: _pick_fields(made, "calls", "input_tokens", "output_tokens", "cached"),
    WindowThread: _thread_to_json,
}
