"""The counts of one run of the pipeline: what its progress and its report say."""

from collections import deque
from collections.abc import Container
from dataclasses import dataclass, field
from time import monotonic

from clew.core.report import OnProgress, Report, SourceFailure, measure_progress
from clew.index.add.prepare import Prepared


@dataclass(slots=True)
class Run:
    """The counts of one run, and the documents that wait for the next batch."""

    total: int | None
    on_progress: OnProgress | None
    total_bytes: int = 0
    stored: set[str] = field(default_factory=set)  # the ids of documents
    started: float = field(default_factory=monotonic)
    done_bytes: int = 0
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    skipped: int = 0
    failed: list[SourceFailure] = field(default_factory=list)
    chunks: int = 0
    reused: int = 0
    consecutive_failures: int = 0
    incomplete: list[str] = field(default_factory=list)
    waiting: deque[Prepared] = field(default_factory=deque)
    waiting_chunks: int = 0
    is_storing: bool = False  # whether an error comes from the models or the store, not from a source

    def wait_for_batch(self, prepared: Prepared) -> None:
        """Adds a document to those that wait."""
        self.waiting.append(prepared)
        self.waiting_chunks += len(prepared.chunks)

    def take_first(self) -> None:
        """Removes the first of those that wait."""
        self.waiting_chunks -= len(self.waiting.popleft().chunks)

    def report_progress(self) -> None:
        """Calls `on_progress` with the counts so far."""
        if self.on_progress is None:
            return
        done = len(self.added) + len(self.changed) + self.skipped + len(self.failed)
        share = min(1.0, self.done_bytes / self.total_bytes) if self.total_bytes else None  # files differ in length
        spent, counts = monotonic() - self.started, {"failed": len(self.failed), "chunks": self.chunks}
        self.on_progress(measure_progress("adding", done, self.total, "documents", spent, share=share, **counts))

    def count_stored(self, put: Prepared, known: Container[str]) -> None:
        """Counts the first of the waiting documents, which was stored as `put`, and reports it."""
        self.take_first()
        self.consecutive_failures = 0
        self.stored.add(put.document.id)
        (self.changed if put.record else self.added).append(put.uri_or_id)
        self.incomplete += [put.uri_or_id] if put.incomplete else []
        self.chunks += len(put.chunks)
        self.reused += sum(chunk.id in known for chunk in put.chunks)
        self.done_bytes += put.source.size if put.source else 0
        self.report_progress()

    def make_report(self, stopped: str) -> Report:
        """The report of what was added, changed, skipped and failed, and why the run stopped early."""
        return Report(
            added=tuple(self.added),
            changed=tuple(self.changed),
            skipped=self.skipped,
            failed=tuple(self.failed),
            chunks=self.chunks,
            reused=self.reused,
            seconds=monotonic() - self.started,
            stopped=stopped,
            incomplete=tuple(self.incomplete),
        )
