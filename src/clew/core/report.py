"""Reports of long work: a Plan before, Progress during, a Report after; and the Receipt of an erasure."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from threading import Event, Thread
from time import monotonic

from clew.core.errors import ClewError, DriverFailed


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of long work. `total` and `seconds_left` are None while unknown."""

    stage: str
    done: int
    total: int | None
    unit: str
    rate: float = 0.0  # units per second
    seconds_left: float | None = None
    failed: int = 0
    chunks: int = 0  # stored so far, or found by `plan`


OnProgress = Callable[[Progress], None]


def measure_progress(
    stage: str,
    done: int,
    total: int | None,
    unit: str,
    spent: float,
    *,
    share: float | None = None,
    failed: int = 0,
    chunks: int = 0,
) -> Progress:
    """Compute the progress after `spent` seconds; estimate the time left, and the rate that agrees with it.

    share: The fraction of the work that is done; by default `done / total`.
    """
    remaining = max(0, (total or 0) - done)
    share = done / total if share is None and total else share
    left = spent / share * (1 - share) if remaining and share else None if total is None or remaining else 0.0
    rate = remaining / left if left else done / spent if spent else 0.0
    return Progress(stage, done, total, unit, rate, left, failed, chunks)


@dataclass(frozen=True, slots=True)
class SourceFailure:
    """A source, or part of one, that could not be added, and why. The rest of the work continued."""

    source: str
    reason: str


OnWarning = Callable[[SourceFailure], None]


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A file that a walk skipped, or a folder (name with a final slash) with its number of files, and the reason."""

    source: str
    reason: str
    files: int = 1


def count_passed_over(entries: Iterable[PassedOver]) -> dict[str, int]:
    """Count the files that were passed over by reason, the most frequent first."""
    counts: dict[str, int] = {}
    for entry in entries:
        counts[entry.reason] = counts.get(entry.reason, 0) + entry.files
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


@dataclass(frozen=True, slots=True)
class Report:
    """The result of `add`: documents by uri, and counts of embedded and reused chunks.

    `noted` are warnings about documents that were added nevertheless. `incomplete` are documents without a summary or
    contexts because a model failed; the next run adds these. `stopped` says why the work ended early. `passed_over` are
    skipped files, each with its reason. `held_back` are documents that `sync` did not drop because they are more than
    half of a folder: that needs `allow_mass_drop`.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    skipped: int = 0
    failed: tuple[SourceFailure, ...] = ()
    chunks: int = 0
    embedded: int = 0
    reused: int = 0
    seconds: float = 0.0
    noted: tuple[SourceFailure, ...] = ()
    dropped: int = 0
    cost: float = 0.0
    stopped: str = ""
    incomplete: tuple[str, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()
    held_back: tuple[str, ...] = ()

    @property
    def passed_over_counts(self) -> dict[str, int]:
        """How many files were passed over for each reason."""
        return count_passed_over(self.passed_over)


@dataclass(frozen=True, slots=True)
class Plan:
    """A dry run of `add`; nothing is stored. Token counts of a model are estimates.

    `seconds` estimates the time to read and embed, from the time this reading took and, for a local embedder, from
    embedding a few chunks; None if unknown.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unchanged: int = 0
    failed: tuple[SourceFailure, ...] = ()
    dropped: tuple[str, ...] = ()
    chunks: int = 0
    reused: int = 0
    embedded: int = 0
    embedded_tokens: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    seconds: float | None = None
    passed_over: tuple[PassedOver, ...] = ()
    held_back: tuple[str, ...] = ()

    @property
    def passed_over_counts(self) -> dict[str, int]:
        """How many files would be passed over for each reason."""
        return count_passed_over(self.passed_over)


@dataclass(frozen=True, slots=True)
class Purge:
    """What a store overwrote after a deletion, as sentences.

    `again`: what a later attempt can do. `forbidden`: what somebody with more rights must do.
    """

    done: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Receipt:
    """What `erase` removed, and how.

    `documents` and `messages` are ids. `contexts` counts the other chunks that had erased text in their context and
    were indexed again. `overwritten` says how the storage of deleted content was overwritten. `quoted_by` are remaining
    messages (by id) and documents (by address or id) that quote an erased text. `named_by` are those that name the
    erased author in their text, title, address, channel, summary, labels or meta. Neither is changed. `sources` are
    files of erased documents: an `add` would add them again. `undone` says what could not be done, `notes` what an
    erasure cannot reach.
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
        """The SHA-256 of the selector: proof of the request where the name itself must not be kept."""
        return sha256(self.selector.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def complete(self) -> bool:
        """Whether nothing is left undone."""
        return not self.undone


STAGE = "building the index"
UNIT = "seconds"
INTERVAL = 1.0  # seconds between two reports, and before the first


@contextmanager
def flush_after(flush: Callable[[], None], on_progress: OnProgress | None = None) -> Iterator[None]:
    """Flush a store after the block. If the block raises, its error wins over one of the flush.

    A large index takes minutes: progress reports the seconds so far.
    """
    try:
        yield
    except BaseException:
        with suppress(ClewError):
            flush()
        raise
    with _report_seconds(on_progress):
        try:
            flush()
        except DriverFailed as error:
            raise DriverFailed(
                f"everything is stored, but the indexes could not be brought up to date: {error}"
            ) from error


@contextmanager
def _report_seconds(on_progress: OnProgress | None) -> Iterator[None]:
    """Report the seconds that the block has taken, from a thread, until the block ends or a report raises."""
    if on_progress is None:
        yield
        return
    is_done, started, spent = Event(), monotonic(), 0

    def report() -> None:
        nonlocal spent
        with suppress(Exception):
            while not is_done.wait(INTERVAL):
                spent = round(monotonic() - started)
                on_progress(Progress(STAGE, spent, None, UNIT))

    thread = Thread(target=report, name="clew progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()
    if spent:
        on_progress(Progress(STAGE, spent, spent, UNIT))
