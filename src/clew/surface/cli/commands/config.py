"""The commands that show the settings and write a settings file: `clew config`."""

from typing import Annotated

import typer

from clew.surface.cli import options as o
from clew.surface.cli.program import resolve_invocation

config_app = typer.Typer(add_completion=False)
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there.")]


@config_app.callback()
def config() -> None:
    """Show the settings and their origin, or write a settings file."""


@config_app.command("show")
def config_show(ctx: typer.Context, *, as_json: o.Json = False) -> None:
    """List every setting with its value and origin; secrets are masked."""
    from clew.surface.cli import render
    from clew.surface.to_json import settings_to_json

    shown = settings_to_json(resolve_invocation(ctx))
    if as_json:
        render.print_json(shown)
    else:
        render.print_config(shown)


@config_app.command("init")
def config_init(ctx: typer.Context, *, force: Force = False, as_json: o.Json = False) -> None:
    """Write a clew.toml with every setting and its default, and the values of --path, --collection and the models."""
    from clew.surface.cli import render
    from clew.surface.cli.commands.config_file import write_settings_file

    file = write_settings_file(ctx.obj, force=force)
    if as_json:
        render.print_json({"file": str(file)})
    else:
        render.print_line((f"{file} written; remove the # before a line to set it", ""))
