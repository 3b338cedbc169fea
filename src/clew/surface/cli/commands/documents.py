"""The commands on documents: add, plan, backfill, calibrate, drop, list, read, status, erase."""

import sys
from functools import partial
from pathlib import Path
from time import sleep
from typing import Annotated

import typer

from clew.core.errors import NotFound, SettingsError, SourceError
from clew.core.filter import EVERYTHING, Filter
from clew.core.suggest import format_count, mask_secrets
from clew.core.types import Document, Message
from clew.surface.cli import options as o
from clew.surface.cli import progress, render
from clew.surface.cli.commands.jobs import print_queued, start_worker
from clew.surface.cli.errors import INCOMPLETE, LIMIT_REACHED
from clew.surface.cli.option_groups import IngestOptions, Seen
from clew.surface.cli.program import open_engine, open_engine_for_plan, repeat_options, resolve_invocation

WATCH_INTERVAL = 1.0  # seconds between two scans of the sources
MIN_REACH = 3.0  # in spreads; below it the embedder hardly tells related texts from others

Watch = Annotated[bool, typer.Option("--watch", help="Watch the sources and re-index changes; implies --sync.")]
Background = Annotated[
    bool, typer.Option("--background", help="Queue the work, start a worker for it, print the job id and return.")
]
Targets = Annotated[
    list[str],
    typer.Argument(metavar="DOCUMENT...", help="Document ids, URIs, folders or patterns such as 'notes/*.md'."),
]
Readable = Annotated[str, typer.Argument(metavar="DOCUMENT", help="Document id or URI, or the id of a message.")]
Refresh = Annotated[
    bool, typer.Option("--refresh", help="Also replace summaries that were extracted or made by another model.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show which documents would be dropped; change nothing.")]
DropYes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask before a folder or a pattern drops several documents.")
]
Messages = Annotated[bool, typer.Option("--messages", help="Remove single messages: the arguments are message ids.")]


def add(
    ctx: typer.Context,
    *,
    sources: o.Sources,
    options: IngestOptions,
    watch: Watch = False,
    yes: o.Yes = False,
    background: Background = False,
    ray: o.RayAddress = None,
    workers: o.Workers = None,
    gpus: o.Gpus = 0.0,
    max_cost: o.MaxCost = None,
    as_json: o.Json = False,
) -> None:
    """Add files, folders, chat exports and web pages; unchanged ones are skipped."""
    if ray and (watch or background):
        ctx.fail("--ray adds once and waits for it; leave out --watch and --background.")
    if not ray and (workers or gpus):
        ctx.fail("--workers and --gpus are those of a Ray cluster; give --ray ADDRESS too.")
    if background:
        if watch:
            ctx.fail("--background adds once; leave out --watch.")
        _add_in_background(ctx, sources, options, yes=yes, max_cost=max_cost, as_json=as_json)
        return
    _check_anything_is_there(ctx, sources)
    with open_engine(ctx, options.to_setting_overrides(), create=True) as engine:
        distributed = partial(engine.add_distributed, address=ray or "", workers=workers, gpus=gpus)
        add = distributed if ray else engine.add
        with progress.report_progress() as on_progress:
            report = add(
                *sources, sync=options.sync or watch, allow_mass_drop=yes, max_cost=max_cost, on_progress=on_progress
            )
        render.print_report(report, as_json=as_json)
        if not as_json:
            render.print_passed_over(report.passed_over, verbose=ctx.obj.verbose)
        if report.held_back and not as_json and render.confirm_drop(report.held_back):
            report = engine.add(*sources, sync=True, allow_mass_drop=True, max_cost=max_cost)
            render.print_report(report)
        while watch and not report.stopped:  # until interrupted
            sleep(WATCH_INTERVAL)
            max_cost = None if max_cost is None else max_cost - report.cost
            update = engine.add(*sources, sync=True, allow_mass_drop=yes, max_cost=max_cost)
            is_news = update.failed != report.failed or update.held_back != report.held_back
            if update.added or update.changed or update.dropped or is_news:
                render.print_report(update, as_json=as_json)
            report = update
    if report.failed or report.stopped or report.held_back:
        raise typer.Exit(LIMIT_REACHED if report.stopped else INCOMPLETE)


def _is_there(source: str) -> bool:
    from clew.index.read.load import is_there
    from clew.index.walk.sources import is_url

    return is_url(source) or is_there(Path(source))


def _check_anything_is_there(ctx: typer.Context, sources: list[str]) -> None:
    """Raise SourceError if neither a source nor the collection exists; no collection is then made."""
    from clew.drivers import read_stored_embedder_name

    if not any(map(_is_there, sources)):
        start = resolve_invocation(ctx)
        if read_stored_embedder_name(start.path, start.collection) is None:
            raise SourceError(sources[0], "does not exist; no collection was made")


def _add_in_background(
    ctx: typer.Context,
    sources: list[str],
    options: IngestOptions,
    *,
    yes: bool,
    max_cost: float | None,
    as_json: bool,
) -> None:
    """Queue the job and start a worker for it; SourceError, and nothing is queued, if a path does not exist."""
    for source in sources:
        if not _is_there(source):
            raise SourceError(source, "does not exist; nothing was queued")
    overrides = options.to_setting_overrides()
    with open_engine(ctx, overrides, create=True) as engine:
        job = engine.enqueue_add(*sources, sync=options.sync, allow_mass_drop=yes, max_cost=max_cost)
    start_worker(resolve_invocation(ctx, overrides))
    print_queued(ctx, job, as_json=as_json)


def plan(ctx: typer.Context, *, sources: o.Sources, options: IngestOptions, as_json: o.Json = False) -> None:
    """Show what add would read, embed and drop, how long it would take and what it would cost."""
    with open_engine_for_plan(ctx, options.to_setting_overrides()) as engine, progress.report_progress() as on_progress:
        planned = engine.plan(*sources, sync=options.sync, on_progress=on_progress)
    if as_json:
        render.print_json(planned)
    else:
        render.print_plan(planned, verbose=ctx.obj.verbose)


def backfill(
    ctx: typer.Context, *, refresh: Refresh = False, max_cost: o.MaxCost = None, as_json: o.Json = False
) -> None:
    """Add missing vectors and summaries, and chunk contexts that a language model failed to write."""
    with open_engine(ctx) as engine, progress.report_progress() as on_progress:
        report = engine.backfill(refresh=refresh, max_cost=max_cost, on_progress=on_progress)
    render.print_report(report, as_json=as_json)
    if report.failed or report.stopped:
        raise typer.Exit(LIMIT_REACHED if report.stopped else INCOMPLETE)


def calibrate(ctx: typer.Context, *, as_json: o.Json = False) -> None:
    """Measure again what the embedder's cosines mean in this collection; the relevance of results depends on it."""
    from clew.surface.to_json import to_json

    with open_engine(ctx) as engine:
        measured = engine.calibrate()
    warning = ""
    if measured.reach < MIN_REACH * measured.spread:
        warning = (
            f"reach is below {MIN_REACH:g} spreads: {measured.embedder} hardly knows the language of this collection, "
            "so words rather than meaning will decide what is found"
        )
    if as_json:
        render.print_json({**to_json(measured), "warning": warning})
        return
    render.print_line((f"{measured.embedder}, measured on {format_count(measured.chunks, 'chunk')}", ""))
    render.print_line(
        (
            f"reach {measured.reach:.3f}: how far above unrelated chunks a sentence's cosine with its own chunk is; "
            f"spread {measured.spread:.3f}: how much unrelated ones vary",
            "",
        )
    )
    if warning:
        render.print_line((f"warning: {warning}", "yellow"), err=True)


def drop(
    ctx: typer.Context,
    *,
    documents: Targets,
    messages: Messages = False,
    dry_run: DryRun = False,
    yes: DropYes = False,
    as_json: o.Json = False,
) -> None:
    """Remove documents or single messages; on a terminal, a folder or a pattern is confirmed first."""
    from clew.engine.names import find_named_records
    from clew.index.read.sections import get_source_uri

    if messages and dry_run:
        ctx.fail("--dry-run shows documents; leave out --messages.")
    with open_engine(ctx) as engine:
        records = [] if messages else find_named_records(engine.opened, documents)
        names = list(dict.fromkeys(get_source_uri(record) or record.id for record in records))
        if dry_run:
            render.print_drop(names, as_json=as_json)
            return
        if not yes and not as_json and len(names) > len(set(documents)):
            render.confirm_named_drop(names)
        dropped = engine.drop_messages(*documents) if messages else engine.drop(*documents)
    render.print_outcome(f"{dropped} dropped", {"dropped": dropped}, as_json=as_json)


def list_(ctx: typer.Context, *, seen: Seen, as_json: o.Json = False) -> None:
    """List the documents."""
    with open_engine(ctx) as engine:
        records = list(engine.list(seen.build_filter(engine)))
    if as_json:
        render.print_json({"documents": records})
    else:
        render.print_records(records)
        render.print_lacking(records)


def read(ctx: typer.Context, *, document: Readable, seen: Seen, as_json: o.Json = False) -> None:
    """Print a document, or the part that the filters admit; messages with their authors and times.

    The id of a message prints that message.
    """
    from clew.query.context.format.messages import format_document_text

    with open_engine(ctx) as engine:
        where = seen.build_filter(engine)
        found: Document | Message
        try:
            found = engine.read(document, where=where)
        except NotFound as error:
            try:
                found = engine.message(document, where=where)
            except NotFound as no_message:
                raise (no_message if "messages have" in str(no_message) else error) from None
    if as_json:
        render.print_json(found)
    elif isinstance(found, Message):
        render.print_message(found)
    else:
        render.print_text(format_document_text(found)[0])


def status(ctx: typer.Context, *, seen: Seen, as_json: o.Json = False) -> None:
    """Show the size, embedder and index of the collection, or of the part that the filters admit."""
    from clew.surface.to_json import status_to_json

    with open_engine(ctx) as engine:
        where, start = seen.build_filter(engine), resolve_invocation(ctx)
        stats = engine.status(where=where)
    is_whole = where == EVERYTHING
    if as_json:
        render.print_json(status_to_json(stats, invocation=start, is_whole=is_whole))
        return
    shown = render.describe_status(stats, place=mask_secrets(start.path), is_whole=is_whole)
    shown = {name: repeat_options(text, ctx.obj) for name, text in shown.items() if text}
    render.print_pairs({"collection": start.collection, **shown})


Erasable = Annotated[list[str] | None, typer.Argument(metavar="[DOCUMENT...]", help="Document ids or URIs.")]
Author = Annotated[
    str | None, typer.Option("--author", metavar="NAME", help="Everything that a person wrote, in all threads.")
]
Channel = Annotated[str | None, typer.Option("--channel", metavar="NAME", help="All threads of a channel.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before erasing.")]
ShowOnly = Annotated[bool, typer.Option("--dry-run", help="Show what would be erased; change nothing.")]


def erase(
    ctx: typer.Context,
    *,
    documents: Erasable = None,
    author: Author = None,
    channel: Channel = None,
    yes: Yes = False,
    dry_run: ShowOnly = False,
    as_json: o.Json = False,
) -> None:
    """Remove documents, a person's messages or a channel for good, and print a receipt."""
    with open_engine(ctx) as engine:
        names = documents or []
        if dry_run or not yes:
            planned = engine.erase(names, author=author, channel=channel, dry_run=True)
            records = list(engine.list(Filter(documents=frozenset(planned.documents[: render.MAX_LISTED]))))
            if dry_run:
                render.print_receipt(planned, records=records, as_json=as_json)
                return
            if as_json or not sys.stdin.isatty():
                raise SettingsError(
                    "an erasure cannot be undone; give --yes to erase, or --dry-run to see what it would"
                )
            render.print_receipt(planned, records=records)
            typer.confirm("Erase this for good?", abort=True)
        receipt = engine.erase(names, author=author, channel=channel)
    render.print_receipt(receipt, as_json=as_json)
    if not receipt.complete:
        raise typer.Exit(INCOMPLETE)
