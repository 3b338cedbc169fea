"""The commands that move a collection: export, restore, reembed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clew.core.suggest import format_count
from clew.surface.cli import options as o
from clew.surface.cli.errors import INCOMPLETE
from clew.surface.cli.program import open_engine, resolve_invocation

if TYPE_CHECKING:
    from clew.core.report import Report

File = Annotated[Path, typer.Argument(metavar="FILE", help="Export file.")]
Embedder = Annotated[
    str | None, typer.Argument(metavar="[MODEL]", help="Embedder to switch to; `clew models` lists them.")
]
To = Annotated[str | None, typer.Option("--to", metavar="NAME", help="The same as MODEL.", hidden=True)]
Back = Annotated[bool, typer.Option("--back", help="Switch back to the previous vectors.")]
Discard = Annotated[bool, typer.Option("--discard", help="Delete the vectors that are not in use.")]

_AS_STORED = {"embedder.name": ""}


def export(ctx: typer.Context, *, file: File, as_json: o.Json = False) -> None:
    """Write the collection with its vectors to one file, which any store can restore."""
    from clew.surface.cli import progress, render
    from clew.surface.to_json import manifest_to_json

    with open_engine(ctx) as engine, progress.report_progress() as on_progress:
        manifest = engine.export(file, on_progress=on_progress)
    if as_json:
        render.print_json(manifest_to_json(manifest, file=file, size=file.stat().st_size))
    else:
        counts = f"{format_count(manifest.documents, 'document')} with {format_count(manifest.chunks, 'chunk')}"
        render.print_line((f"{counts} exported to {file}", ""))


def restore(ctx: typer.Context, *, file: File, as_json: o.Json = False) -> None:
    """Restore a collection from an export file; nothing is embedded, and existing documents are skipped."""
    from clew.core.errors import NotFound
    from clew.engine import Engine
    from clew.engine.transfer import read_export_embedder
    from clew.surface.cli import progress, render

    start = resolve_invocation(ctx)
    try:
        engine = Engine.open(start.path, collection=start.collection, settings=start.settings, create=False)
    except NotFound:  # a new collection gets the file's embedder; a damaged file creates none
        embedder = read_export_embedder(file)
        embedder = start.settings.embedder.name or embedder
        engine = Engine.open(start.path, collection=start.collection, embedder=embedder, settings=start.settings)
    with engine, progress.report_progress() as on_progress:
        report = engine.restore(file, on_progress=on_progress)
    render.print_report(report, as_json=as_json)
    if report.failed:
        raise typer.Exit(INCOMPLETE)


def reembed(
    ctx: typer.Context,
    *,
    embedder: Embedder = None,
    to: To = None,
    back: Back = False,
    discard: Discard = False,
    ray: o.RayAddress = None,
    workers: o.Workers = None,
    gpus: o.Gpus = 0.0,
    max_cost: o.MaxCost = None,
    as_json: o.Json = False,
) -> None:
    """Switch to another embedder. Searches keep working meanwhile; the former vectors are kept until --discard."""
    from clew.core.errors import SettingsError
    from clew.surface.cli import progress, render
    from clew.surface.to_json import to_json

    names = [name for name in (embedder, to) if name is not None]
    if len(names) + back + discard != 1:
        raise SettingsError("give exactly one of MODEL, --back and --discard")
    with open_engine(ctx, _AS_STORED) as engine:  # the one it has now
        with progress.report_progress() as on_progress:
            report = engine.reembed(
                *names,
                back=back,
                discard=discard,
                max_cost=max_cost,
                ray=ray,
                workers=workers,
                gpus=gpus,
                on_progress=on_progress,
            )
        stats = engine.status()
    if as_json:
        render.print_json({**to_json(report), "embedder": stats.embedder, "dim": stats.dim})
    elif discard:
        render.print_line((f"no unused vectors are left; the collection uses {stats.embedder}", ""))
        render.print_problems(report)
    else:
        uses = f"the collection uses {stats.embedder} ({stats.dim} dimensions)"
        kept = "" if report.stopped else "; the former vectors are kept until `clew reembed --discard`"
        render.print_line((f"{_describe_vectors(report)}; {uses}{kept}", ""))
        render.print_problems(report)
    if report.stopped or report.failed:
        raise typer.Exit(INCOMPLETE)


def _describe_vectors(report: "Report") -> str:
    """What was done to have the vectors of the other embedder."""
    made = report.embedded
    if not made and not report.stopped:
        return "all vectors were there, none embedded" if report.chunks else "there was nothing to embed"
    rest = ", the others were there" if made < report.chunks and not report.stopped else ""
    return f"{format_count(report.embedded, 'text')} embedded (chunks and summaries){rest}"
