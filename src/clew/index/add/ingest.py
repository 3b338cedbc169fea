"""The entry points of the write path: what the engine's `add`, `plan`, `backfill` and `drop_messages` call.

Each makes a recipe of the settings and a budget that every model call is charged to. `sources` finds what to add,
`prepare` reads and chunks it, `pipeline` embeds and stores it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from clew.core.errors import SourceError
from clew.core.metered import MeteredEmbedder, MeteredLLM
from clew.core.protocols import LLM, Chunker, Embedder, Enricher, Reader, Store
from clew.core.report import OnProgress, OnWarning, Plan, Report, SourceFailure
from clew.core.settings import Settings
from clew.core.types import INCOMPLETE, Document, Message
from clew.core.usage import CostBudget, Price, look_up_price
from clew.index.add import backfill, pipeline
from clew.index.add.calibrate import calibrate_once
from clew.index.add.plan import EstimatingLLM, make_dry_run_plan
from clew.index.add.prepare import Recipe, Source
from clew.index.add.recipe import check_summary_model, make_recipe
from clew.index.add.sections import SectionTracker
from clew.index.add.sources import (
    Location,
    count_expected_documents,
    discover_sources,
    find_vanished_documents,
    make_sources,
)
from clew.index.enrich.summary import CALLER, Summariser
from clew.index.read.validate import validate_document
from clew.index.thread import incremental


@dataclass(frozen=True, slots=True)
class IngestContext:
    """What the write path works with: store, models, settings, and the caller's own components, if any.

    uris of files are relative to `root`. `chunker` replaces the built-in chunker of pages, `enrichers` run after the
    built-in one, `readers` (by suffix) go before the built-in ones.
    """

    store: Store
    embedder: Embedder
    llm: LLM | None
    settings: Settings
    root: Path
    chunker: Chunker | None = None
    enrichers: Sequence[Enricher] = ()
    readers: Mapping[str, Reader] = field(default_factory=dict)

    def make_budget(self, limit: float | None = None) -> CostBudget:
        """A budget with nothing spent, at the prices of the settings."""
        prices = {self.embedder.name: Price(self.settings.embedder.price)}
        if self.llm:
            prices[self.llm.name] = look_up_price(self.settings.llm, self.llm.name)
        return CostBudget(prices, limit)

    def make_recipe(self, *, embedder: Embedder, llm: LLM | None, on_warning: OnWarning) -> Recipe:
        """The recipe of the settings and the caller's own components, with these models."""
        return make_recipe(
            self.settings,
            embedder=embedder,
            llm=llm,
            store=self.store,
            on_warning=on_warning,
            chunker=self.chunker,
            enrichers=self.enrichers,
        )

    def split_or_track(
        self, sources: Iterable[Source | SourceError], tracker: SectionTracker, *, llm: LLM | None
    ) -> Iterator[Source | SourceError]:
        """The sources, or their sections where the settings ask for them."""
        if not self.settings.ingestion.sections:
            return tracker.track_sources(sources)
        recipe = self.make_recipe(embedder=self.embedder, llm=llm, on_warning=_ignore_warning)
        return tracker.split_sources(sources, store=self.store, fingerprint=recipe.fingerprint)


def add_sources(
    context: IngestContext,
    locations: Sequence[Location],
    *,
    sync: bool,
    max_cost: float | None,
    on_progress: OnProgress | None,
) -> Report:
    """Adds files, folders, chat exports and web pages; `sync` also drops documents whose files have vanished."""
    check_summary_model(context.settings, context.llm)
    notes: list[SourceFailure] = []
    found = discover_sources(locations, readers=context.readers)
    total = None
    if on_progress:  # a total needs a walk of all folders before the work begins
        found = iter(everything := list(found))
        total = count_expected_documents(everything)
    sources = make_sources(
        found, root=context.root, settings=context.settings, readers=context.readers, on_warning=notes.append
    )
    tracker = SectionTracker()
    tracked = context.split_or_track(sources, tracker, llm=context.llm)
    total = None if context.settings.ingestion.sections else total
    report = _run_pipeline_on_budget(context, tracked, total=total, max_cost=max_cost, on_progress=on_progress)
    dropped = tracker.drop_stale(context.store, report)
    report = replace(report, noted=(*report.noted, *notes), dropped=dropped)
    if sync and not report.stopped and (gone := find_vanished_documents(context.store, locations, root=context.root)):
        return replace(report, dropped=dropped + context.store.drop([record.id for record in gone]))
    return report


def add_documents(
    context: IngestContext, documents: Iterable[Document], *, max_cost: float | None, on_progress: OnProgress | None
) -> Report:
    """Adds documents that a program made."""
    check_summary_model(context.settings, context.llm)
    tracker = SectionTracker()
    tracked = tracker.track_documents(documents)
    sources = (Source(each.id, each.uri or each.id, partial(validate_document, each)) for each in tracked)
    report = _run_pipeline_on_budget(context, sources, total=None, max_cost=max_cost, on_progress=on_progress)
    return replace(report, dropped=tracker.drop_stale(context.store, report))


def _run_pipeline_on_budget(
    context: IngestContext,
    sources: Iterable[Source | SourceError],
    *,
    total: int | None,
    max_cost: float | None,
    on_progress: OnProgress | None,
) -> Report:
    """Runs the pipeline on a budget; the report also holds the cost and what the models failed at."""
    budget = context.make_budget(max_cost)
    notes: list[SourceFailure] = []
    recipe = context.make_recipe(
        embedder=MeteredEmbedder(context.embedder, budget),
        llm=MeteredLLM(context.llm, budget) if context.llm else None,
        on_warning=notes.append,
    )
    try:
        report = pipeline.run_pipeline(
            sources, store=context.store, recipe=recipe, total=total, on_progress=on_progress
        )
        if not report.stopped:
            calibrate_once(context.store, MeteredEmbedder(context.embedder, budget))
    finally:
        context.store.flush()
    return replace(report, noted=tuple(notes), cost=budget.spent)


def add_messages(context: IngestContext, messages: Iterable[Message]) -> Report:
    """Adds messages one by one, as they are sent."""
    budget = context.make_budget()
    embedder = MeteredEmbedder(context.embedder, budget)
    report = incremental.add_messages(messages, store=context.store, embedder=embedder, settings=context.settings)
    calibrate_once(context.store, embedder)
    return replace(report, cost=budget.spent)


def drop_messages(context: IngestContext, ids: Sequence[str]) -> int:
    """Removes messages from their threads; returns how many. Removes none if one of the ids is not stored."""
    return incremental.drop_messages(ids, store=context.store, embedder=context.embedder, settings=context.settings)


def plan_add_sources(context: IngestContext, locations: Sequence[Location], *, sync: bool) -> Plan:
    """What `add_sources` would do and cost; no model is called and nothing is stored."""
    check_summary_model(context.settings, context.llm)
    llm = EstimatingLLM(context.llm) if context.llm else None
    found = discover_sources(locations, readers=context.readers)
    return make_dry_run_plan(
        context.split_or_track(
            make_sources(
                found, root=context.root, settings=context.settings, readers=context.readers, on_warning=_ignore_warning
            ),
            SectionTracker(),
            llm=llm,
        ),
        store=context.store,
        recipe=context.make_recipe(embedder=context.embedder, llm=llm, on_warning=_ignore_warning),
        llm=llm,
        budget=context.make_budget(),
        vanished=[record.uri for record in find_vanished_documents(context.store, locations, root=context.root)]
        if sync
        else (),
    )


def backfill_summaries(
    context: IngestContext, *, refresh: bool, max_cost: float | None, on_progress: OnProgress | None
) -> Report:
    """Writes the missing summaries, and the contexts that a model failed to write; `refresh` replaces summaries too."""
    budget = context.make_budget(max_cost)
    llm = MeteredLLM(context.llm, budget) if context.llm else None
    embedder = MeteredEmbedder(context.embedder, budget)
    try:
        repaired = _repair_contexts(context, llm, embedder)
        if repaired.stopped:
            return replace(repaired, cost=budget.spent)
        report = backfill.generate_summaries(
            store=context.store,
            embedder=embedder,
            summariser=Summariser(llm, context.settings.ingestion.max_concurrent) if llm else Summariser(),
            refresh=refresh,
            on_progress=on_progress,
        )
    finally:
        context.store.flush()
    return replace(
        report,
        changed=tuple(dict.fromkeys((*repaired.changed, *report.changed))),
        failed=(*repaired.failed, *report.failed),
        noted=(*repaired.noted, *report.noted),
        chunks=repaired.chunks,
        embedded=repaired.embedded + report.embedded,
        reused=repaired.reused,
        incomplete=repaired.incomplete,
        cost=budget.spent,
    )


def _repair_contexts(context: IngestContext, llm: LLM | None, embedder: Embedder) -> Report:
    """Writes the contexts that a model failed to write, of documents that these settings would chunk as they are."""
    lacking = backfill.find_records_without_contexts(context.store)
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
    report = pipeline.run_pipeline(sources, store=context.store, recipe=recipe)
    return replace(report, noted=tuple(notes))


def _read_stored(store: Store, doc_id: str) -> Document:
    """A stored document as its source gave it: with a summary only if that is the caller's."""
    document = store.document(doc_id)
    return document if document.summary_by == CALLER else replace(document, summary="", summary_by="")


def _ignore_warning(_: SourceFailure) -> None:
    """An `on_warning` callback that does nothing."""
