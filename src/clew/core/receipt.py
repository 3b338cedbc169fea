"""The receipt of an erasure: what was removed, how it was overwritten, and what could not be done."""

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256


@dataclass(frozen=True, slots=True)
class Purge:
    """What a store has overwritten after a deletion, as sentences.

    `again` says what a later attempt can do, `forbidden` what somebody with more rights must do.
    """

    done: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Receipt:
    """What `erase` removed, and how.

    `documents` and `messages` are ids. `contexts` counts the chunks of others that held erased text in their context
    and were indexed again. `overwritten` says what was done with the places where deleted content lay. `quoted_by` are
    the messages (by id) and documents (by address, or id) of others that quote an erased text, `named_by` those that
    name the erased author in their text, title, address, channel, summary, labels or meta: both remain as they are.
    `sources` are files of erased documents: an `add` would add them again. `undone` says what could not be done,
    `notes` what is beyond an erasure.
    """

    selector: str
    at: datetime
    documents: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    chunks: int = 0
    vectors: int = 0
    postings: int = 0
    summaries: int = 0
    contexts: int = 0
    cache_entries: int = 0
    sessions: int = 0
    jobs: int = 0
    overwritten: tuple[str, ...] = ()
    quoted_by: tuple[str, ...] = ()
    named_by: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    resumed: bool = False
    dry_run: bool = False

    @property
    def selector_hash(self) -> str:
        """The SHA-256 of the selector: it proves what was asked for where the name itself must not be kept."""
        return sha256(self.selector.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def complete(self) -> bool:
        """Whether all was done."""
        return not self.undone
