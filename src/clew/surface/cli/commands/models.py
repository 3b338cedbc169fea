"""The command that lists the models that can be named: models."""

import typer

from clew.surface.cli import options as o
from clew.surface.cli.program import resolve_invocation


def models(ctx: typer.Context, *, as_json: o.Json = False) -> None:
    """List the models that the settings can name, which of them are chosen, and what others need."""
    from clew.drivers.models import BUILT_IN, list_models
    from clew.surface.cli import render
    from clew.surface.cli.table import print_table
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
