"""The commands on documents: add, drop, list, read, status. Each calls one verb and prints what comes back."""

import typer

from clew.surface import options as o
from clew.surface.exits import PARTLY
from clew.surface.program import called, opened


def add(
    ctx: typer.Context,
    *,
    sources: o.Sources,
    chunk_size: o.ChunkSize = None,
    chunk_overlap: o.ChunkOverlap = None,
    no_semantic: o.NoSemantic = False,
    as_json: o.Json = False,
) -> None:
    """Read files and folders into the collection; what has not changed is skipped."""
    from clew.surface import progress, render, shapes

    flags = {
        "ingestion.chunk_size": chunk_size,
        "ingestion.chunk_overlap": chunk_overlap,
        "ingestion.use_semantic_chunking": False if no_semantic else None,
    }
    with opened(ctx, flags, create=True) as engine, progress.shown() as watch:
        report = engine.add(*sources, progress=watch)
    if as_json:
        render.put_json(shapes.report(report))
    else:
        render.put_report(report)
    if report.failed:
        raise typer.Exit(PARTLY)


def drop(ctx: typer.Context, *, documents: o.Names, as_json: o.Json = False) -> None:
    """Remove documents from the collection."""
    from clew.surface import render

    with opened(ctx) as engine:
        dropped = engine.drop(*documents)
    if as_json:
        render.put_json({"dropped": dropped})
    else:
        render.put((f"{dropped} dropped", ""))


def list_(ctx: typer.Context, *, kind: o.Kinds = None, as_json: o.Json = False) -> None:
    """List the documents of the collection."""
    from clew.surface import render, shapes

    with opened(ctx) as engine:
        records = list(engine.list(o.Wanted(kind).where(str)))
    if as_json:
        render.put_json({"documents": [shapes.record(record) for record in records]})
    else:
        render.put_records(records)


def read(ctx: typer.Context, *, document: o.Name, as_json: o.Json = False) -> None:
    """Print the whole text of a document."""
    from clew.surface import render, shapes

    with opened(ctx) as engine:
        found = engine.read(document)
    if as_json:
        render.put_json(shapes.document(found))
    else:
        render.put_text(found.text)


def status(ctx: typer.Context, *, as_json: o.Json = False) -> None:
    """Show how much the collection holds and what embedded it."""
    from clew.surface import render, shapes

    with opened(ctx) as engine:
        shape = shapes.facts(engine.status(), called=called(ctx))
    if as_json:
        render.put_json(shape)
    else:
        render.put_pairs(shape)
