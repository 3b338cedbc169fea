"""The extension points: what holds a resource is a Protocol, what does not is a function."""

from clew.core.protocols.functions import Chunker, Enricher, Fuse, Judge, Reader, Rewrite, Step, Strategy, Verdict
from clew.core.protocols.jobs import JobQueue
from clew.core.protocols.models import (
    LLM,
    AnswerReader,
    Embedder,
    LLMFailure,
    Reranker,
    Role,
    Verifier,
    complete_or_failure,
)
from clew.core.protocols.records import RecordKind, RecordStore
from clew.core.protocols.sessions import SessionStore
from clew.core.protocols.store import Mode, Store

__all__ = [
    "LLM",
    "AnswerReader",
    "Chunker",
    "Embedder",
    "Enricher",
    "Fuse",
    "JobQueue",
    "Judge",
    "LLMFailure",
    "Mode",
    "Reader",
    "RecordKind",
    "RecordStore",
    "Reranker",
    "Rewrite",
    "Role",
    "SessionStore",
    "Step",
    "Store",
    "Strategy",
    "Verdict",
    "Verifier",
    "complete_or_failure",
]
