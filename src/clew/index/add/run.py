"""One run of the pipeline on a budget: what `add` does in this process, and each worker of many with its share."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial
from typing import Protocol

from clew.core.errors import SourceError
from clew.core.metered import MeteredEmbedder, MeteredLLM
from clew.core.report import OnProgress, OnWarning, Report, SourceFailure
from clew.core.usage import CostBudget
from clew.index.add import pipeline
from clew.index.add.context import IngestContext
from clew.index.add.embed import embed_pending
from clew.index.add.moved import MovedFiles
from clew.index.add.prepare import Given, Recipe, Source


class RunPipeline(Protocol):
    """Reads, stores and embeds sources on a budget; the report also holds what the models failed at."""

    def __call__(
        self,
        context: IngestContext,
        sources: Iterable[Source | SourceError],
        *,
        budget: CostBudget,
        total: int | None = None,
        total_bytes: int = 0,
        on_progress: OnProgress | None = None,
        moved: MovedFiles | None = None,
    ) -> Report:
        """The report of the run; its cost is added to the budget."""


def make_metered_recipe(
    context: IngestContext, budget: CostBudget, *, on_warning: OnWarning, moved: MovedFiles | None = None
) -> Recipe:
    """The recipe of the settings; every call of its models is charged to the budget."""
    return context.make_recipe(
        embedder=MeteredEmbedder(context.embedder, budget),
        llm=MeteredLLM(context.llm, budget) if context.llm else None,
        on_warning=on_warning,
        moved=moved,
    )


def run_pipeline_on_budget(
    context: IngestContext,
    sources: Iterable[Given],
    *,
    budget: CostBudget,
    total: int | None = None,
    total_bytes: int = 0,
    on_progress: OnProgress | None = None,
    moved: MovedFiles | None = None,
    documents: Collection[str] | None = None,
) -> Report:
    """Runs the pipeline in this process, then makes the vectors that are pending, of all documents or of those named.

    While others are at work, it makes those of the documents that it stored; the last one makes what is left. What is
    prepared already is only stored and embedded.
    """
    notes: list[SourceFailure] = []
    own: set[str] = set()
    recipe = make_metered_recipe(context, budget, on_warning=notes.append, moved=moved)
    embed = partial(embed_pending, context.store, recipe.embedder, on_progress)
    with context.store.at_work() as work:
        report = pipeline.run_pipeline(
            sources,
            store=context.store,
            recipe=recipe,
            total=total,
            total_bytes=total_bytes,
            on_progress=on_progress,
            stored=own,
        )
        if documents is not None:
            parts = [embed(documents)]
        elif work.has_others():
            parts = [embed(own)]
            parts += [] if work.leave() else [embed()]
        else:
            parts = [embed()]
    return replace(
        report,
        noted=tuple(notes),
        embedded=sum(part.embedded for part in parts),
        failed=(*report.failed, *(failure for part in parts for failure in part.failed)),
        stopped=report.stopped or parts[-1].stopped,
    )
