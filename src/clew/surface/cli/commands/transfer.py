"""The commands that move a collection: export, restore, reembed. Each calls one verb and prints what comes back."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clew.surface.cli import options as o
from clew.surface.cli.errors import PARTLY
from clew.surface.cli.program import called, opened

if TYPE_CHECKING:
    from clew.core.report import Report

File = Annotated[Path, typer.Argument(metavar="FILE", help="The one file that holds the whole collection.")]

To = Annotated[str | None, typer.Option("--to", metavar="NAME", help="The embedder whose vectors it shall have.")]
Back = Annotated[bool, typer.Option("--back", help="Go back to the vectors that it had before.")]
Discard = Annotated[bool, typer.Option("--discard", help="Forget the vectors that are not in use.")]


def export(ctx: typer.Context, *, file: File, as_json: o.Json = False) -> None:
    """Write the whole collection with its vectors into one file that any store can take in again."""
    from clew.surface.cli import progress, render

    with opened(ctx) as engine, progress.shown() as watcher:
        made = engine.export(file, progress=watcher)
    if as_json:
        render.put_json(
            {
                "file": str(file),
                "documents": made.documents,
                "chunks": made.chunks,
                "embedder": made.embedder,
                "dim": made.dim,
                "language": made.language,
                "parts": len(made.parts),
                "format": made.format,
                "bytes": file.stat().st_size,
            }
        )
    else:
        render.put((f"{made.documents} documents with {made.chunks} chunks exported to {file}", ""))


def restore(ctx: typer.Context, *, file: File, as_json: o.Json = False) -> None:
    """Take in a collection from an exported file; what is there already is skipped, nothing is embedded."""
    from clew.core.errors import NotFound
    from clew.engine import Engine
    from clew.engine.moving import exported_embedder
    from clew.surface.cli import progress

    start = called(ctx)
    try:
        engine = Engine.open(start.path, collection=start.collection, settings=start.settings, create=False)
    except NotFound:  # a new collection gets the file's embedder; a damaged file makes none
        name = exported_embedder(file)
        named = start.settings.embedder.name or name
        engine = Engine.open(start.path, collection=start.collection, embedder=named, settings=start.settings)
    with engine, progress.shown() as watcher:
        report = engine.restore(file, progress=watcher)
    _put_report(report, as_json=as_json)
    if report.failed:
        raise typer.Exit(PARTLY)


def reembed(
    ctx: typer.Context,
    *,
    to: To = None,
    back: Back = False,
    discard: Discard = False,
    max_cost: o.MaxCost = None,
    as_json: o.Json = False,
) -> None:
    """Give the collection the vectors of another embedder, while searches go on; the old ones stay until discarded."""
    from clew.surface import to_json as shapes
    from clew.surface.cli import progress, render

    with opened(ctx, {"embedder.name": ""}) as engine:  # whatever it has now
        with progress.shown() as watcher:
            report = engine.reembed(to, back=back, discard=discard, max_cost=max_cost, progress=watcher)
        facts = engine.status()
    if as_json:
        render.put_json({**shapes.report(report), "embedder": facts.embedder, "dim": facts.dim})
    elif discard:
        render.put((f"the vectors beside those of {facts.embedder} are gone", ""))
    else:
        render.put(
            (f"{report.embedded} embedded; the collection has the vectors of {facts.embedder} ({facts.dim})", "")
        )
        if report.stopped:
            render.put((report.stopped, "yellow"), err=True)
    if report.stopped:
        raise typer.Exit(PARTLY)


def _put_report(report: "Report", *, as_json: bool) -> None:
    from clew.surface import to_json as shapes
    from clew.surface.cli import render

    if as_json:
        render.put_json(shapes.report(report))
    else:
        render.put_report(report)
