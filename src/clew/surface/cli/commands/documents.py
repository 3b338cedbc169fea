"""The commands on documents: add, drop, list, read, status. Each calls one verb and prints what comes back."""

from time import sleep
from typing import TYPE_CHECKING, Any

import typer

from clew.surface.cli import options as o
from clew.surface.cli.errors import PARTLY
from clew.surface.cli.program import called, imagined, opened
from clew.surface.cli.search_options import Wanted

if TYPE_CHECKING:
    from clew.core.report import Report

WATCHED = 1.0  # seconds between two looks at the folders


def add(
    ctx: typer.Context,
    *,
    sources: o.Sources,
    chunk_size: o.ChunkSize = None,
    chunk_overlap: o.ChunkOverlap = None,
    no_semantic: o.NoSemantic = False,
    contextual: o.Contextual = False,
    no_summaries: o.NoSummaries = False,
    sync: o.Sync = False,
    watch: o.Watch = False,
    max_cost: o.MaxCost = None,
    as_json: o.Json = False,
) -> None:
    """Read files and folders into the collection; what has not changed is skipped."""
    from clew.surface.cli import progress

    flags = _flags(chunk_size, chunk_overlap, no_semantic, contextual, no_summaries)
    with opened(ctx, flags, create=True) as engine:
        with progress.shown() as watcher:
            report = engine.add(*sources, sync=sync or watch, max_cost=max_cost, progress=watcher)
        _put_report(report, as_json=as_json)
        while watch and not report.stopped:  # until it is interrupted
            sleep(WATCHED)
            left = None if max_cost is None else max_cost - report.cost
            again = engine.add(*sources, sync=True, max_cost=left)
            max_cost = left
            if again.added or again.changed or again.dropped or again.failed != report.failed:
                _put_report(again, as_json=as_json)
            report = again
    if report.failed or report.stopped:
        raise typer.Exit(PARTLY)


def plan(
    ctx: typer.Context,
    *,
    sources: o.Sources,
    chunk_size: o.ChunkSize = None,
    chunk_overlap: o.ChunkOverlap = None,
    no_semantic: o.NoSemantic = False,
    contextual: o.Contextual = False,
    no_summaries: o.NoSummaries = False,
    sync: o.Sync = False,
    as_json: o.Json = False,
) -> None:
    """Show what add would read, reuse, embed, ask and drop, and what it would cost, before any call."""
    from clew.surface import to_json as shapes
    from clew.surface.cli import render

    flags = _flags(chunk_size, chunk_overlap, no_semantic, contextual, no_summaries)
    with imagined(ctx, flags) as engine:
        shape = shapes.plan(engine.plan(*sources, sync=sync))
    if as_json:
        render.put_json(shape)
    else:
        render.put_pairs(
            {name: len(value) if isinstance(value, list | tuple) else value for name, value in shape.items()}
        )


def backfill(ctx: typer.Context, *, max_cost: o.MaxCost = None, as_json: o.Json = False) -> None:
    """Give every document that has no summary one."""
    from clew.surface.cli import progress

    with opened(ctx) as engine, progress.shown() as watcher:
        report = engine.backfill(max_cost=max_cost, progress=watcher)
    _put_report(report, as_json=as_json)
    if report.failed:
        raise typer.Exit(PARTLY)


def drop(ctx: typer.Context, *, documents: o.Names, messages: o.Messages = False, as_json: o.Json = False) -> None:
    """Remove documents from the collection, or single messages."""
    from clew.surface.cli import render

    with opened(ctx) as engine:
        dropped = engine.drop_messages(*documents) if messages else engine.drop(*documents)
    if as_json:
        render.put_json({"dropped": dropped})
    else:
        render.put((f"{dropped} dropped", ""))


def list_(ctx: typer.Context, *, kind: o.Kinds = None, as_json: o.Json = False) -> None:
    """List the documents of the collection."""
    from clew.surface import to_json as shapes
    from clew.surface.cli import render

    with opened(ctx) as engine:
        records = list(engine.list(Wanted(kind=kind).where(engine)))
    if as_json:
        render.put_json({"documents": [shapes.record(record) for record in records]})
    else:
        render.put_records(records)


def read(ctx: typer.Context, *, document: o.Name, as_json: o.Json = False) -> None:
    """Print the whole text of a document."""
    from clew.surface import to_json as shapes
    from clew.surface.cli import render

    with opened(ctx) as engine:
        found = engine.read(document)
    if as_json:
        render.put_json(shapes.document(found))
    else:
        render.put_text(found.text)


def status(ctx: typer.Context, *, as_json: o.Json = False) -> None:
    """Show how much the collection holds and what embedded it."""
    from clew.surface import to_json as shapes
    from clew.surface.cli import render

    with opened(ctx) as engine:
        shape = shapes.facts(engine.status(), called=called(ctx))
    if as_json:
        render.put_json(shape)
    else:
        render.put_pairs(shape)


def _flags(
    chunk_size: int | None, chunk_overlap: int | None, no_semantic: bool, contextual: bool, no_summaries: bool
) -> dict[str, Any]:
    """The settings that the options of adding stand for."""
    return {
        "ingestion.chunk_size": chunk_size,
        "ingestion.chunk_overlap": chunk_overlap,
        "ingestion.use_semantic_chunking": False if no_semantic else None,
        "ingestion.use_contextual_enrichment": True if contextual else None,
        "ingestion.summaries": False if no_summaries else None,
    }


def _put_report(report: "Report", *, as_json: bool) -> None:
    from clew.surface import to_json as shapes
    from clew.surface.cli import render

    if as_json:
        render.put_json(shapes.report(report))
    else:
        render.put_report(report)
