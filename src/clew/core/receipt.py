"""The receipt of an erasure: what was removed, and what a search of everything that is stored found of it."""

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256


@dataclass(frozen=True, slots=True)
class Finding:
    """Erased content that is still stored: the file or column, what it is (text, vector, term), and how many places."""

    place: str
    what: str
    count: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """What `erase` removed, and what is left of it.

    `documents` and `messages` are ids. `contexts` counts the chunks of others that held erased text in their context
    and were indexed again. `searched` bytes were searched for `pieces` of what was erased; `found` must be empty.
    `ambiguous` pieces stand in what remains too, or are too short, and were not searched for. `quoted_by` are the
    messages (by id) and documents (by address, or id) of others that quote an erased text, `named_by` those that name
    the erased author in their text, title, address, channel, summary, labels or meta: both remain as they are.
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
    pieces: int = 0
    ambiguous: int = 0
    searched: int = 0
    found: tuple[Finding, ...] = ()
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
        """Whether all was done and nothing of it was found."""
        return not self.found and not self.undone
