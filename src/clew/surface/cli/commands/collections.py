"""The commands on whole collections: list them, drop one."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from clew.core.suggest import format_count
from clew.surface.cli import options as o
from clew.surface.cli.program import resolve_invocation

if TYPE_CHECKING:
    from clew.core.stored import CollectionRecord

collections_app = typer.Typer(add_completion=False)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Collection name.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@collections_app.callback(invoke_without_command=True)
def collections(ctx: typer.Context, *, as_json: o.Json = False) -> None:
    """List the collections of the folder or server, or drop one."""
    if ctx.invoked_subcommand is None:
        _list_collections(ctx, as_json=as_json)


@collections_app.command("list")
def list_(ctx: typer.Context, *, as_json: o.Json = False) -> None:
    """List the collections: name, documents, chunks, embedder, times, size."""
    _list_collections(ctx, as_json=as_json)


@collections_app.command()
def drop(ctx: typer.Context, *, name: Name, yes: Yes = False, as_json: o.Json = False) -> None:
    """Delete a collection with all its documents, jobs and saved chats, for good."""
    from clew.core.errors import NotFound, SettingsError
    from clew.core.suggest import format_suggestion
    from clew.engine import Engine
    from clew.surface.cli import render

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
    if as_json:
        render.print_json({"dropped": dropped.collection, "left": dropped.left})
        return
    render.print_line((f"{name} dropped, with {format_count(dropped.collection.documents, 'document')}", ""))
    if dropped.left:
        render.print_line((f"its folder stays: {', '.join(dropped.left)} is not Clew's", "yellow"), err=True)


def _list_collections(ctx: typer.Context, *, as_json: bool) -> None:
    from clew.engine import Engine
    from clew.surface.cli import render
    from clew.surface.cli.table import print_table

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


def _to_row(record: "CollectionRecord") -> tuple[str, ...]:
    from clew.surface.cli import render

    times = (render.format_time(record.created), render.format_time(record.updated))
    counts = (str(record.documents), str(record.chunks), record.embedder)
    return (record.name, *counts, *times, str(record.bytes))
