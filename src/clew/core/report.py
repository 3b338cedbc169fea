"""Reports of long work: a Plan before it begins, Progress while it runs, a Report when done; Receipts of erasures."""

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
    """How far the work is. `total` and `seconds_left` are None while they are unknown."""

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
    """Measure progress after so many seconds; estimate time left and rate by the share of the work that is done.

    share: By default that of the units. While some are left, the rate is the one at which they take the time left.
    """
    remaining = max(0, (total or 0) - done)
    share = done / total if share is None and total else share
    left = spent / share * (1 - share) if remaining and share else None if total is None or remaining else 0.0
    rate = remaining / left if left else done / spent if spent else 0.0
    return Progress(stage, done, total, unit, rate, left, failed, chunks)


@dataclass(frozen=True, slots=True)
class SourceFailure:
    """A source that could not be added, or a part of it, and why; the rest of the work went on."""

    source: str
    reason: str


OnWarning = Callable[[SourceFailure], None]


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A file that a walk left out, or a folder (its name ends with a slash) with so many files, and the reason."""

    source: str
    reason: str
    files: int = 1


def count_passed_over(entries: Iterable[PassedOver]) -> dict[str, int]:
    """Count the files that were passed over for each reason, the most frequent first."""
    counts: dict[str, int] = {}
    for entry in entries:
        counts[entry.reason] = counts.get(entry.reason, 0) + entry.files
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


@dataclass(frozen=True, slots=True)
class Report:
    """What `add` did: documents by uri, and how many chunks were embedded and how many reused.

    `noted` are warnings about documents that were added all the same. `incomplete` are those of them that lack a
    summary or contexts because a model failed: the next run adds these. `stopped` says why the work ended early.
    `passed_over` are the files that were not tried, each with its reason. `held_back` are documents that `sync` would
    have dropped: more than half of a folder, which needs `allow_mass_drop`.
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
    """What `add` would do, found out without storing anything. Tokens of a model are estimates.

    `seconds` is how long reading and embedding would take, by the time that reading took and, of an embedder that runs
    here, that of a few chunks; None if that is not known.
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


STAGE = "building the index"
UNIT = "seconds"
INTERVAL = 1.0  # seconds between two reports, and before the first


@contextmanager
def flush_after(flush: Callable[[], None], on_progress: OnProgress | None = None) -> Iterator[None]:
    """Flush a store after the block; the error of the block is raised even if the flush fails too.

    A large index takes minutes: progress is the seconds that have passed.
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
    """Report how long the block has taken, from a thread, until it ends or a report raises."""
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
