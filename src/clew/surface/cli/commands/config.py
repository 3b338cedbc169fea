"""The commands on settings and models: config show, init, models."""

from pathlib import Path

import typer

from clew.core.errors import DriverFailed, SettingsError
from clew.surface.cli import options as o
from clew.surface.cli import render
from clew.surface.cli.program import ProgramOptions, resolve_invocation
from clew.surface.cli.table import print_table
from clew.surface.settings.load import FILE, make_settings_file


def write_settings_file(options: ProgramOptions, *, force: bool) -> Path:
    """Write the settings file, that of --config or clew.toml here; SettingsError if it exists, unless forced."""
    file = options.config or Path(FILE)
    chosen = {
        "path": options.path,
        "collection": options.collection,
        "embedder.name": options.embedder,
        "llm.name": options.llm,
    }
    try:
        with file.open("w" if force else "x", encoding="utf-8") as target:
            target.write(make_settings_file(chosen))
    except FileExistsError:
        raise SettingsError(f"{file} is there already; --force replaces it") from None
    except OSError as error:
        raise DriverFailed(f"{file} cannot be written ({error.strerror}); check the folder") from error
    return file


config_app = typer.Typer(add_completion=False)


@config_app.callback()
def config() -> None:
    """Show the settings and their origin, or write a settings file."""


@config_app.command("show")
def config_show(ctx: typer.Context, *, as_json: o.Json = False) -> None:
    """List every setting with its value and origin; secrets are masked."""
    from clew.surface.to_json import settings_to_json

    shown = settings_to_json(resolve_invocation(ctx))
    if as_json:
        render.print_json(shown)
    else:
        render.print_config(shown)


@config_app.command("init")
def config_init(ctx: typer.Context, *, force: o.Force = False, as_json: o.Json = False) -> None:
    """Write a clew.toml with every setting and its default, and the values of --path, --collection and the models."""
    file = write_settings_file(ctx.obj, force=force)
    told = f"{file} written; remove the # before a line to set it"
    render.print_outcome(told, {"file": str(file)}, as_json=as_json)


def models(ctx: typer.Context, *, as_json: o.Json = False) -> None:
    """List the models that the settings can name, which of them are chosen, and what others need."""
    from clew.drivers.models import BUILT_IN, list_models
    from clew.surface.settings.load import describe_settings

    settings = describe_settings(resolve_invocation(ctx))
    chosen = {name: settings[name]["value"] for name in ("embedder.name", "reranker.name", "llm.name")}
    listed = list_models()
    if as_json:
        fields = ("setting", "name", "about", "needs", "source")
        shown = [{name: getattr(each, name) for name in fields} for each in listed]
        render.print_json({"models": shown, "chosen": chosen})
        return
    rows = [(each.setting, each.name, each.source, each.needs or "ready", each.about) for each in listed]
    print_table(
        ("setting", "name", "from", "needs", "about"),
        rows,
        optional=("from",) if all(each.source == BUILT_IN for each in listed) else (),
        texts={"needs": 24, "about": 24},
    )
    for name, value in chosen.items():
        default = "the collection's own, bge-small for a new one" if name == "embedder.name" else "none"
        render.print_line((f"{name} is {value or default}", "dim"), err=True)
