"""The entry points of the write path: the engine's `add`, `plan`, `backfill` and `drop_messages`.

Each of them makes a recipe (chunker, enricher, summariser) from the settings, and a budget for all model calls. `walk`
finds the sources, `prepare` reads and chunks them, `pipeline` stores them, `embed` makes the vectors.

Backfill summarises documents without a summary. A failed document does not stop the rest. Several model calls run at a
time, and each summary is stored at once. A document claimed by another run is left to it. So nothing is paid twice,
even after an interruption.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from time import monotonic

from clew.core.errors import ConcurrentChange, CostLimit, DriverFailed, NotFound, SourceError
from clew.core.filter import Filter
from clew.core.jobs import make_worker_name
from clew.core.metered import MeteredEmbedder, MeteredLLM
from clew.core.protocols import LLM, Embedder, WritableStore
from clew.core.report import OnProgress, PassedOver, Plan, Report, SourceFailure, measure_progress
from clew.core.text import estimate_tokens
from clew.core.types import INCOMPLETE, Document, DocumentRecord, Message
from clew.core.usage import CostBudget, Usage
from clew.index.add.context import IngestContext, check_summary_model, ignore_warning
from clew.index.add.embed import calibrate_once, embed_pending, finish_write
from clew.index.add.pipeline import RunPipeline, look_up_vectors, run_pipeline, run_pipeline_on_budget
from clew.index.add.prepare import Recipe, Unchanged, prepare_sources
from clew.index.add.sections import SectionTracker
from clew.index.enrich.summary import CALLER, EXTRACT, Summariser, Summary, run_within_budget
from clew.index.read.sections import validate_document
from clew.index.thread import incremental
from clew.index.walk.ignore import make_walk_rules
from clew.index.walk.sources import (
    Location,
    Source,
    count_bytes,
    count_expected_documents,
    list_folders,
    report_found,
)
from clew.index.walk.sync import MovedFiles, Vanished, WalkedFolders

TAKEN = "another run is summarising it"
CLAIM_SECONDS = 300.0  # after which another run may summarise a claimed document


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome for a document: its text and new summary, or why there is none; neither if none is wanted."""

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
        done, spent = len(self.filled) + len(self.failed) + self.skipped, monotonic() - self.started
        if self.on_progress and done:
            failed = len(self.failed)
            self.on_progress(measure_progress("summarising", done, self.total, "documents", spent, failed=failed))


def generate_summaries(
    *,
    store: WritableStore,
    summariser: Summariser,
    refresh: bool = False,
    on_progress: OnProgress | None = None,
) -> Report:
    """Write the missing summaries, and with `refresh` replace others (see `is_summary_wanted`)."""
    wanted = [record for record in store.documents() if is_summary_wanted(record, summariser.maker, refresh=refresh)]
    run = _Run(len(wanted), on_progress)
    owner, held = make_worker_name(), set[str]()

    def summarise(record: DocumentRecord) -> _Outcome:
        if summariser.llm:  # extracts cost nothing: no claim needed
            if not store.claim([record.id], owner=owner, seconds=CLAIM_SECONDS):
                return _Outcome(record, note=TAKEN)
            held.add(record.id)
        current = next(store.documents(Filter(documents=frozenset({record.id}))), None)
        if current is None or not is_summary_wanted(current, summariser.maker, refresh=refresh):
            return _Outcome(record)  # another run has made it meanwhile
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
    """Return whether `maker` should summarise a document: if it has no summary, or to `refresh` it.

    A caller's own summary is never replaced; a model replaces extracts and the summaries of other models.
    """
    if not record.chunks:
        return False
    return not record.summary or (refresh and maker != EXTRACT and record.summary_by not in (maker, CALLER))


def _store_outcome(outcome: _Outcome, store: WritableStore, run: _Run) -> None:
    """Store and count a summary, unless the text has changed meanwhile."""
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


def find_records_without_contexts(store: WritableStore) -> Sequence[DocumentRecord]:
    """Find the records of documents whose contexts a model failed to write."""
    return [record for record in store.documents() if "contexts" in record.lacks]


def add_sources(
    context: IngestContext,
    locations: Sequence[Location],
    *,
    sync: bool,
    max_cost: float | None,
    on_progress: OnProgress | None,
    allow_mass_drop: bool = False,
    run: RunPipeline = run_pipeline_on_budget,
) -> Report:
    """Add files, folders, chat exports and web pages; `sync` also drops documents whose files have vanished.

    If more than half of a folder would be dropped, it is held back unless `allow_mass_drop`. `run` is the pipeline that
    reads, embeds and stores the sources, in this process or on a cluster.
    """
    check_summary_model(context.settings, context.llm)
    notes: list[SourceFailure] = []
    passed_over: list[PassedOver] = []
    rules = make_walk_rules(context.settings.ingestion)
    found = context.discover(locations, rules, passed_over)
    total, total_bytes = None, 0
    if on_progress:  # the total needs a walk of all folders first
        found = iter(everything := list(report_found(found, on_progress)))
        if not context.settings.ingestion.sections:
            total, total_bytes = count_expected_documents(everything), count_bytes(everything)
    tracker, moved = SectionTracker(), MovedFiles(context.store, context.root)
    tracked = context.split_or_track(context.make_sources(found, notes.append), tracker, llm=context.llm)
    report = _run_and_calibrate(
        partial(run, total=total, total_bytes=total_bytes, moved=moved),
        context,
        tracked,
        max_cost=max_cost,
        on_progress=on_progress,
    )
    dropped, added = tracker.drop_stale(context.store, report), frozenset(report.added)
    walked = WalkedFolders(context.store, context.root, list_folders(locations), moved, passed_over, tracker.whole)
    vanished = Vanished()
    if not report.stopped:
        vanished = walked.find_vanished(allow_mass_drop=allow_mass_drop or not sync, added=added)
    if sync and vanished.dropped:
        dropped += context.store.drop([record.id for record in vanished.dropped])
    changes = walked.note_changes(vanished, added=added, is_sync=sync, is_upload=context.is_upload)
    unmatched = [] if report.stopped or not walked.folders else rules.note_unmatched()
    return replace(
        report,
        noted=(*report.noted, *notes, *vanished.notes, *changes, *unmatched),
        dropped=dropped,
        passed_over=tuple(passed_over),
        held_back=tuple(record.uri for record in vanished.held_back),
    )


def add_documents(
    context: IngestContext, documents: Iterable[Document], *, max_cost: float | None, on_progress: OnProgress | None
) -> Report:
    """Add documents made by a program."""
    check_summary_model(context.settings, context.llm)
    tracker = SectionTracker()
    tracked = tracker.track_documents(documents)
    sources = (
        Source(each.id, each.uri or each.id, partial(validate_document, each), is_loaded=True) for each in tracked
    )
    report = _run_and_calibrate(run_pipeline_on_budget, context, sources, max_cost=max_cost, on_progress=on_progress)
    return replace(report, dropped=tracker.drop_stale(context.store, report))


def _run_and_calibrate(
    run: RunPipeline,
    context: IngestContext,
    sources: Iterable[Source | SourceError],
    *,
    max_cost: float | None,
    on_progress: OnProgress | None,
) -> Report:
    """Run the pipeline on a budget, then calibrate the store and build its indexes."""
    budget, started = context.make_budget(max_cost), monotonic()
    with finish_write(context.store, on_progress):
        report = run(context, sources, budget=budget, on_progress=on_progress)
        if not report.stopped:
            calibrate_once(context.store, MeteredEmbedder(context.embedder, budget))
    return replace(report, cost=budget.spent, seconds=monotonic() - started)


def add_messages(context: IngestContext, messages: Iterable[Message]) -> Report:
    """Add messages one by one, as they are sent."""
    budget = context.make_budget()
    embedder = MeteredEmbedder(context.embedder, budget)
    report = incremental.add_messages(messages, store=context.store, embedder=embedder, settings=context.settings)
    calibrate_once(context.store, embedder)
    return replace(report, cost=budget.spent)


def drop_messages(context: IngestContext, ids: Sequence[str]) -> int:
    """Remove messages from their threads, all or none; return how many."""
    return incremental.drop_messages(ids, store=context.store, embedder=context.embedder, settings=context.settings)


def plan_add_sources(
    context: IngestContext,
    locations: Sequence[Location],
    *,
    sync: bool,
    on_progress: OnProgress | None = None,
) -> Plan:
    """Estimate the work and cost of `add_sources`. Nothing is stored; only a local embedder is called, to time it."""
    check_summary_model(context.settings, context.llm)
    llm = EstimatingLLM(context.llm) if context.llm else None
    notes: list[SourceFailure] = []
    passed_over: list[PassedOver] = []
    rules = make_walk_rules(context.settings.ingestion)
    found = list(report_found(context.discover(locations, rules, passed_over), on_progress))
    moved = MovedFiles(context.store, context.root)
    plan = make_dry_run_plan(
        context.split_or_track(context.make_sources(found, notes.append), SectionTracker(), llm=llm),
        store=context.store,
        recipe=context.make_recipe(embedder=context.embedder, llm=llm, on_warning=ignore_warning, moved=moved),
        llm=llm,
        budget=context.make_budget(),
        total=None if context.settings.ingestion.sections else count_expected_documents(found),
        on_progress=on_progress,
    )
    walked = WalkedFolders(context.store, context.root, list_folders(locations), moved, passed_over)
    vanished = walked.find_vanished() if sync else Vanished()
    return replace(
        plan,
        dropped=tuple(record.uri for record in (*vanished.dropped, *vanished.held_back)),
        held_back=tuple(record.uri for record in vanished.held_back),
        passed_over=tuple(passed_over),
    )


def backfill(
    context: IngestContext, *, refresh: bool, max_cost: float | None, on_progress: OnProgress | None
) -> Report:
    """Write missing summaries, contexts that a model failed to write, and all pending vectors."""
    budget = context.make_budget(max_cost)
    llm = MeteredLLM(context.llm, budget) if context.llm else None
    embedder = MeteredEmbedder(context.embedder, budget)
    with finish_write(context.store, on_progress):
        repaired, report = _repair_contexts(context, llm, embedder), Report()
        if not repaired.stopped and (llm or context.settings.ingestion.summaries != "none"):
            report = generate_summaries(
                store=context.store,
                summariser=Summariser(llm, context.settings.ingestion.max_concurrent) if llm else Summariser(),
                refresh=refresh,
                on_progress=on_progress,
            )
        with context.store.at_work():
            embedded = embed_pending(context.store, embedder, on_progress)
        if not embedded.stopped:
            calibrate_once(context.store, embedder)
    return replace(
        report,
        changed=tuple(dict.fromkeys((*repaired.changed, *report.changed))),
        failed=(*repaired.failed, *report.failed, *embedded.failed),
        noted=(*repaired.noted, *report.noted),
        chunks=repaired.chunks,
        embedded=repaired.embedded + embedded.embedded + report.embedded,
        reused=repaired.reused,
        incomplete=repaired.incomplete,
        stopped=repaired.stopped or report.stopped or embedded.stopped,
        cost=budget.spent,
    )


def _repair_contexts(context: IngestContext, llm: LLM | None, embedder: Embedder) -> Report:
    """Write missing contexts, of documents that were added with the current settings."""
    lacking = find_records_without_contexts(context.store)
    if not lacking:
        return Report()
    if llm is None:
        reason = "it lacks contexts that a language model writes; set llm.name"
        return Report(noted=tuple(SourceFailure(record.uri or record.id, reason) for record in lacking))
    notes: list[SourceFailure] = []
    ingestion = replace(context.settings.ingestion, use_contextual_enrichment=True)
    asked = replace(context, settings=replace(context.settings, ingestion=ingestion))
    recipe = asked.make_recipe(embedder=embedder, llm=llm, on_warning=notes.append)
    sources = []
    for record in lacking:
        if record.hash == f"{INCOMPLETE}{recipe.fingerprint}":
            sources.append(Source(record.id, record.uri or record.id, partial(_read_stored, context.store, record.id)))
        else:
            reason = "it lacks contexts, and was added with other options; add it again with those"
            notes.append(SourceFailure(record.uri or record.id, reason))
    report = run_pipeline(sources, store=context.store, recipe=recipe)
    return replace(report, noted=tuple(notes))


def _read_stored(store: WritableStore, doc_id: str) -> Document:
    """Read a stored document as its source gave it: with a summary only if it is the caller's."""
    document = store.document(doc_id)
    return document if document.summary_by == CALLER else replace(document, summary="", summary_by="")


USUAL_ANSWER_TOKENS = 100  # assumed for a context or a summary
SAMPLE_TEXTS = 16  # embedded to time a local embedder


class EstimatingLLM(LLM):
    """A stand-in for a language model that answers with placeholders and estimates the tokens of the real one."""

    def __init__(self, llm: LLM) -> None:
        self._name = llm.name
        self._usage = Usage()
        self._lock = Lock()  # several threads make summaries

    @property
    def name(self) -> str:
        """The name of the real model."""
        return self._name

    @property
    def usage(self) -> Usage:
        """The estimated usage so far."""
        return self._usage

    def complete(self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0) -> str:  # noqa: ARG002
        """Count the tokens and return a placeholder."""
        used = Usage(1, estimate_tokens(system + prompt), min(USUAL_ANSWER_TOKENS, max_tokens))
        with self._lock:
            self._usage += used
        return "?"


def make_dry_run_plan(
    sources: Iterable[Source | SourceError],
    *,
    store: WritableStore,
    recipe: Recipe,
    llm: EstimatingLLM | None,
    budget: CostBudget,
    total: int | None = None,
    on_progress: OnProgress | None = None,
) -> Plan:
    """Plan the addition of the sources; `recipe` must use the estimating `llm`, not the real one."""
    added: list[str] = []
    changed: list[str] = []
    failed: list[SourceFailure] = []
    unchanged = chunks = reused = embedded = tokens = 0
    started, timing = monotonic(), 0.0
    timer = _EmbeddingTimer(recipe.embedder)
    for done, prepared in enumerate(prepare_sources(sources, store=store, recipe=recipe), 1):
        if isinstance(prepared, Unchanged):
            unchanged += 1
        elif isinstance(prepared, SourceFailure):
            failed.append(prepared)
        else:
            (changed if prepared.record else added).append(prepared.uri_or_id)
            known = look_up_vectors(prepared, store)
            texts = [text for chunk in prepared.chunks if (text := chunk.embed_text) not in known]
            chunks += len(prepared.chunks)
            embedded += len(texts)
            reused += len(prepared.chunks) - len(texts)
            if prepared.summary.text and prepared.chunks:
                texts = [*texts, prepared.summary.text]
            tokens += sum(recipe.embedder.count(texts))
            timing += timer.sample(texts)
        if on_progress:
            spent, counts = monotonic() - started, {"failed": len(failed), "chunks": chunks}
            on_progress(measure_progress("planning", done, total, "documents", spent, **counts))
    usage = llm.usage if llm else Usage()
    cost = budget.compute_cost(recipe.embedder.name, input_tokens=tokens)
    if llm:
        cost += budget.compute_cost(llm.name, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
    return Plan(
        added=tuple(added),
        changed=tuple(changed),
        unchanged=unchanged,
        failed=tuple(failed),
        chunks=chunks,
        reused=reused,
        embedded=embedded,
        embedded_tokens=tokens,
        calls=usage.calls,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost=cost,
        seconds=timer.estimate(tokens, reading=monotonic() - started - timing),
    )


class _EmbeddingTimer:
    """A timer of an embedder on this machine, from a few texts; remote embedders are never called."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._is_local = getattr(embedder, "is_local", False)
        self._texts = self._tokens = 0
        self._seconds = 0.0

    def sample(self, texts: Sequence[str]) -> float:
        """Embed some of the texts, up to SAMPLE_TEXTS in total; return the seconds it took."""
        part = texts[: SAMPLE_TEXTS - self._texts] if self._is_local else ()
        if not part:
            return 0.0
        tokens = sum(self._embedder.count(part))
        if not self._texts:
            self._embedder.embed(part[:1], role="passage")  # the first call loads the model
        started = monotonic()
        self._embedder.embed(part, role="passage")
        spent = monotonic() - started
        self._texts += len(part)
        self._tokens += tokens
        self._seconds += spent
        return spent

    def estimate(self, tokens: int, *, reading: float) -> float | None:
        """Estimate the seconds for embedding this many tokens, plus `reading`; None if the speed is unknown."""
        if not tokens:
            return reading
        return reading + self._seconds / self._tokens * tokens if self._tokens else None
