"""The outcome of `query_rag_for_context`: posts, nothing found, or an error; each is a type or reason of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

RagRecord = Mapping[str, Any]  # content, similarity, document_id, chunk_index, metadata, and the title of the post


class RagErrorReason(StrEnum):
    """Why there is no context."""

    NO_HITS = "no_hits"  # the query is empty, or nothing was found
    SYSTEM_ERROR = "rag_error"  # the search failed; the log has the traceback


@dataclass(frozen=True, slots=True)
class RagContext:
    """The prompt text, and a record per post in it, the most similar first."""

    text: str
    records: tuple[RagRecord, ...]


@dataclass(frozen=True, slots=True)
class Success:
    """Something was found."""

    value: RagContext


@dataclass(frozen=True, slots=True)
class Failure:
    """Nothing was found, or the search failed; `error` is then the message."""

    reason: RagErrorReason
    error: str = ""


RagOutcome = Success | Failure
