"""Backfill of summaries: documents without one get one, and `refresh` replaces those of a lesser maker.

A document that fails does not stop the rest. A model is asked for several at a time, each summary is stored as soon as
it is there, and a document that another run is at work on is left to it: whatever ends the work, nothing is paid twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from time import monotonic

from clew.core.errors import ConcurrentChange, CostLimit, DriverFailed, NotFound
from clew.core.filter import Filter
from clew.core.jobs import make_worker_name
from clew.core.protocols import Store
from clew.core.report import OnProgress, Report, SourceFailure, measure_progress
from clew.core.types import Document, DocumentRecord
from clew.index.enrich.summary import CALLER, EXTRACT, Summariser, Summary, run_within_budget

TAKEN = "another run is summarising it"
CLAIM_SECONDS = 300.0  # for which a document is left to the run that summarises it


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome of one document: its text and new summary, or why there is none; neither where none is wanted."""

    record: DocumentRecord
    document: Document | None = None
    summary: Summary | None = None
    failure: str = ""
    note: str = ""


@dataclass(slots=True)
class _Run:
    """The counts of one run."""

    total: int
    on_progress: OnProgress | None
    started: float = field(default_factory=monotonic)
    filled: list[str] = field(default_factory=list)
    failed: list[SourceFailure] = field(default_factory=list)
    noted: list[SourceFailure] = field(default_factory=list)
    skipped: int = 0
    stopped: str = ""

    def report_progress(self) -> None:
        """Call `on_progress` with the counts so far."""
        done, spent = len(self.filled) + len(self.failed) + self.skipped, monotonic() - self.started
        if self.on_progress and done:
            failed = len(self.failed)
            self.on_progress(measure_progress("summarising", done, self.total, "documents", spent, failed=failed))


def generate_summaries(
    *,
    store: Store,
    summariser: Summariser,
    refresh: bool = False,
    on_progress: OnProgress | None = None,
) -> Report:
    """Write the summaries that are wanted; the report says of which documents, and which failed."""
    wanted = [record for record in store.documents() if is_summary_wanted(record, summariser.maker, refresh=refresh)]
    run = _Run(len(wanted), on_progress)
    owner, held = make_worker_name(), set[str]()

    def summarise(record: DocumentRecord) -> _Outcome:
        if summariser.llm:  # without a model nothing is paid for
            if not store.claim([record.id], owner=owner, seconds=CLAIM_SECONDS):
                return _Outcome(record, note=TAKEN)
            held.add(record.id)
        current = next(store.documents(Filter(documents=frozenset({record.id}))), None)
        if current is None or not is_summary_wanted(current, summariser.maker, refresh=refresh):
            return _Outcome(record)  # another run has made it since they were listed
        try:
            document = store.document(record.id)
            return _Outcome(record, document, summariser.summarise(document))
        except (DriverFailed, NotFound) as error:
            return _Outcome(record, failure=error.message)

    try:
        calls = [partial(summarise, record) for record in wanted]
        for number, outcome in run_within_budget(calls, max_concurrent=summariser.max_concurrent):
            if isinstance(outcome, CostLimit):
                run.stopped = str(outcome)
                break
            _store_outcome(outcome, store, run)
            if (done := wanted[number].id) in held:
                store.claim([done], owner=owner, seconds=0)
                held.discard(done)
            run.report_progress()
    finally:
        if held:
            store.claim(sorted(held), owner=owner, seconds=0)
    return Report(
        changed=tuple(run.filled),
        skipped=run.skipped,
        failed=tuple(run.failed),
        embedded=len(run.filled),
        seconds=monotonic() - run.started,
        noted=tuple(run.noted),
        stopped=run.stopped,
    )


def is_summary_wanted(record: DocumentRecord, maker: str, *, refresh: bool) -> bool:
    """Return whether `maker` is to summarise a document: if it has no summary, or to `refresh` one of a lesser maker.

    A caller's own summary is never replaced; a model replaces extracts and the summaries of other models.
    """
    if not record.chunks:
        return False
    return not record.summary or (refresh and maker != EXTRACT and record.summary_by not in (maker, CALLER))


def _store_outcome(outcome: _Outcome, store: Store, run: _Run) -> None:
    """Store a summary, unless the text that it was made of has changed meanwhile."""
    record, summary, document = outcome.record, outcome.summary, outcome.document
    name = record.uri or record.id
    if outcome.failure:
        run.failed.append(SourceFailure(name, outcome.failure))
    elif summary is None or document is None:
        run.skipped += 1
        run.noted += [SourceFailure(name, outcome.note)] if outcome.note else []
    else:
        try:
            store.summarise(record.id, summary.text, by=summary.by, expected_text=document.text)
            run.filled.append(name)
        except ConcurrentChange:
            run.failed.append(SourceFailure(name, "it changed while it was summarised; run backfill again"))
        except (DriverFailed, NotFound) as error:
            run.failed.append(SourceFailure(name, error.message))


def find_records_without_contexts(store: Store) -> Sequence[DocumentRecord]:
    """Find the records of documents of which a model failed to write contexts."""
    return [record for record in store.documents() if "contexts" in record.lacks]
