"""What asking with a conversation came to: posts, nothing, or a failure; none of the three looks like another."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Record = Mapping[str, Any]  # content, similarity, document_id, chunk_index, metadata, and what a post is called


class RagErrorReason(StrEnum):
    """Why there is no context."""

    NO_HITS = "no_hits"  # nothing was asked, or nothing was found
    SYSTEM_ERROR = "rag_error"  # the search failed; the log has where


@dataclass(frozen=True, slots=True)
class RagContext:
    """The text for a prompt, and a record for each post in it, the most similar first."""

    text: str
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Success:
    """Something was found."""

    value: RagContext


@dataclass(frozen=True, slots=True)
class Failure:
    """Nothing was found, or the search failed; `error` then says how."""

    reason: RagErrorReason
    error: str = ""


Outcome = Success | Failure
