"""The commands on whole collections: list, drop, check and repair them, move them."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clew.core.errors import CollectionDamaged, DriverFailed, NotFound, SettingsError
from clew.core.report import Report
from clew.core.stored import CollectionRecord
from clew.core.suggest import format_count, format_suggestion
from clew.surface.cli import options as o
from clew.surface.cli import progress, render
from clew.surface.cli.errors import INCOMPLETE
from clew.surface.cli.program import open_engine, resolve_invocation
from clew.surface.cli.render import print_line
from clew.surface.cli.table import print_table

if TYPE_CHECKING:
    from clew.core.doctor import DoctorReport


collections_app = typer.Typer(add_completion=False)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Collection name.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@collections_app.callback(invoke_without_command=True)
def collections(ctx: typer.Context, *, as_json: o.Json = False) -> None:
    """List the collections of the folder or server, or drop one."""
    if ctx.invoked_subcommand is None:
        list_(ctx, as_json=as_json)


@collections_app.command("list")
def list_(ctx: typer.Context, *, as_json: o.Json = False) -> None:
    """List the collections: name, documents, chunks, embedder, times, size."""
    from clew.engine import Engine

    found = Engine.collections(resolve_invocation(ctx).path)
    if as_json:
        render.print_json({"collections": found})
        return
    print_table(
        ("name", "documents", "chunks", "embedder", "created", "updated", "bytes"),
        [_to_row(each) for each in found],
        optional=("created", "updated"),
        texts={"name": 24, "embedder": 16},
    )
    for each in found:
        if each.problem:
            render.print_line(("problem: ", "red"), (each.name, "bold"), (f": {each.problem}", ""), err=True)


@collections_app.command()
def drop(ctx: typer.Context, *, name: Name, yes: Yes = False, as_json: o.Json = False) -> None:
    """Delete a collection with all its documents, jobs and saved chats, for good."""
    from clew.engine import Engine

    path = resolve_invocation(ctx).path
    if not yes:
        known = {record.name: record for record in Engine.collections(path)}
        if name not in known:
            hint = format_suggestion(name, known) or "`clew collections` lists them"
            raise NotFound(f"there is no collection {name!r}; {hint}")
        if as_json or not sys.stdin.isatty():
            raise SettingsError(
                f"dropping {name!r} deletes its {format_count(known[name].documents, 'document')} for good; add --yes"
            )
        typer.confirm(
            f"Delete {name!r} with {format_count(known[name].documents, 'document')} for good?", abort=True, err=True
        )
    dropped = Engine.drop_collection(path, name)
    told = f"{name} dropped, with {format_count(dropped.collection.documents, 'document')}"
    render.print_outcome(told, {"dropped": dropped.collection, "left": dropped.left}, as_json=as_json)
    if dropped.left and not as_json:
        render.print_line((f"its folder stays: {', '.join(dropped.left)} is not Clew's", "yellow"), err=True)


def _to_row(record: "CollectionRecord") -> tuple[str, ...]:
    times = (render.format_time(record.created), render.format_time(record.updated))
    counts = (str(record.documents), str(record.chunks), record.embedder)
    return (record.name, *counts, *times, str(record.bytes))


Repair = Annotated[bool, typer.Option("--repair", help="Repair what can be repaired.")]


Full = Annotated[bool, typer.Option("--full", help="Read every document, not a sample of a large collection.")]


def doctor(ctx: typer.Context, *, repair: Repair = False, full: Full = False, as_json: o.Json = False) -> None:
    """Check the collection (documents, vectors, indexes, sources, file permissions) and report what is wrong."""
    from clew.surface.cli.errors import get_exit_code

    report = _examine(ctx, repair=repair, full=full)
    if as_json:
        render.print_json(report)
    else:
        _print_report(report, repair=repair)
    if not report.is_sound:
        raise typer.Exit(get_exit_code(DriverFailed()))


def _examine(ctx: typer.Context, *, repair: bool, full: bool) -> "DoctorReport":
    """Examine a collection, even one that cannot be opened, and return the report."""
    from dataclasses import replace

    from clew.core.doctor import Defect, DoctorReport
    from clew.engine import Engine

    start = resolve_invocation(ctx)
    accepted = DoctorReport()
    try:
        if repair:
            embedder = start.settings.embedder.name
            accepted = Engine.accept_missing_changes(start.path, start.collection, embedder=embedder)
        with open_engine(ctx) as engine:
            report = engine.doctor(repair=repair, full=full)
    except CollectionDamaged as error:
        problem = re.sub(r"; (?:run )?`clew doctor`.*", "", error.message, flags=re.DOTALL)  # this is the command
        problem, _, next_step = problem.partition("; ")
        return DoctorReport((*accepted.defects, Defect("truth", problem, next_step=next_step)))
    return replace(report, defects=(*accepted.defects, *report.defects))


def _print_report(report: "DoctorReport", *, repair: bool) -> None:
    """Print each defect with its remedy, and how much was checked."""
    from clew.core.doctor import AREAS, SEVERITIES

    colours = {"damage": "bold red", "warning": "yellow", "advice": "cyan"}
    for defect in sorted(report.defects, key=lambda each: (SEVERITIES.index(each.severity), AREAS.index(each.area))):
        done = "repaired: " if defect.is_repaired else "" if repair or not defect.remedy else "with --repair: "
        colour = "green" if defect.is_repaired else colours[defect.severity]
        print_line(
            (f"{defect.severity} · {defect.area}: ", colour), (defect.problem, ""), (f"; {done}{defect.advice}", "dim")
        )
    counts = (format_count(count, name.removesuffix("s")) for name, count in report.checked.items())
    checked = ", ".join(counts) or "nothing could be"
    left = [defect.severity for defect in report.defects if not defect.is_repaired]
    removed = sum(defect.is_repaired and defect.remedy == "remove" for defect in report.defects)
    repaired = len(report.defects) - len(left) - removed
    named = [
        format_count(left.count(severity), noun, plural)
        for severity, noun, plural in (
            ("damage", "defect", ""),
            ("warning", "warning", ""),
            ("advice", "piece of advice", "pieces of advice"),
        )
        if severity in left
    ]
    print_line(
        (f"{checked} checked{', a sample (--full reads all)' if report.is_sample else ''}: ", ""),
        (", ".join(named) if "damage" in left else "sound", "bold red" if "damage" in left else "green"),
        (f", {', '.join(named)}" if named and "damage" not in left else "", ""),
        (f", {repaired} repaired" if repaired else "", ""),
        (f", {format_count(removed, 'document')} removed" if removed else "", "yellow"),
    )


File = Annotated[Path, typer.Argument(metavar="FILE", help="Export file.")]
Embedder = Annotated[
    str | None, typer.Argument(metavar="[MODEL]", help="Embedder to switch to; `clew models` lists them.")
]
Back = Annotated[bool, typer.Option("--back", help="Switch back to the previous vectors.")]
Discard = Annotated[bool, typer.Option("--discard", help="Delete the vectors that are not in use.")]

_AS_STORED = {"embedder.name": ""}


def export(ctx: typer.Context, *, file: File, as_json: o.Json = False) -> None:
    """Write the collection with its vectors to one file, which any store can restore."""
    from clew.surface.to_json import manifest_to_json

    with open_engine(ctx) as engine, progress.report_progress() as on_progress:
        manifest = engine.export(file, on_progress=on_progress)
    counts = f"{format_count(manifest.documents, 'document')} with {format_count(manifest.chunks, 'chunk')}"
    made = manifest_to_json(manifest, file=file, size=file.stat().st_size)
    render.print_outcome(f"{counts} exported to {file}", made, as_json=as_json)


def restore(ctx: typer.Context, *, file: File, as_json: o.Json = False) -> None:
    """Restore a collection from an export file; nothing is embedded, and existing documents are skipped."""
    from clew.engine import Engine
    from clew.engine.transfer import read_export_embedder

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
    back: Back = False,
    discard: Discard = False,
    ray: o.RayAddress = None,
    workers: o.Workers = None,
    gpus: o.Gpus = 0.0,
    max_cost: o.MaxCost = None,
    as_json: o.Json = False,
) -> None:
    """Switch to another embedder. Searches keep working meanwhile; the former vectors are kept until --discard."""
    from clew.surface.to_json import to_json

    if (embedder is not None) + back + discard != 1:
        raise SettingsError("give exactly one of MODEL, --back and --discard")
    with open_engine(ctx, _AS_STORED) as engine:  # with the stored embedder
        with progress.report_progress() as on_progress:
            report = engine.reembed(
                embedder,
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
    """Describe how the vectors of the new embedder were made."""
    made = report.embedded
    if not made and not report.stopped:
        return "all vectors were there, none embedded" if report.chunks else "there was nothing to embed"
    rest = ", the others were there" if made < report.chunks and not report.stopped else ""
    return f"{format_count(report.embedded, 'text')} embedded (chunks and summaries){rest}"
