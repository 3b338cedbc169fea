"""The command that erases, shows what it will remove before it does, and prints the receipt."""

import sys
from typing import Annotated

import typer

from clew.surface.cli import options as o
from clew.surface.cli.errors import INCOMPLETE
from clew.surface.cli.program import open_engine

Targets = Annotated[list[str] | None, typer.Argument(metavar="[DOCUMENT...]", help="Document ids or URIs.")]
Author = Annotated[
    str | None, typer.Option("--author", metavar="NAME", help="Everything that a person wrote, in all threads.")
]
Channel = Annotated[str | None, typer.Option("--channel", metavar="NAME", help="All threads of a channel.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before erasing.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be erased; change nothing.")]
MAX_LISTED = 20  # documents that are named before they are erased


def erase(
    ctx: typer.Context,
    *,
    documents: Targets = None,
    author: Author = None,
    channel: Channel = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: o.Json = False,
) -> None:
    """Remove documents, a person's messages or a channel for good, and print a receipt."""
    from clew.core.errors import SettingsError
    from clew.core.filter import Filter
    from clew.surface.cli import render

    with open_engine(ctx) as engine:
        names = documents or []
        if dry_run or not yes:
            planned = engine.erase(names, author=author, channel=channel, dry_run=True)
            records = list(engine.list(Filter(documents=frozenset(planned.documents[:MAX_LISTED]))))
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
