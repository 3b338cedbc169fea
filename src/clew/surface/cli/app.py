"""The command line: the program, its own options, and the table of its commands.

Nothing heavy is imported before a command runs, so that `clew --help` is quick.
"""

from collections.abc import Callable
from typing import Annotated

import typer

from clew.surface.cli import options as o
from clew.surface.cli.commands import answers, chat, documents, questions
from clew.surface.cli.commands import conversations as talk
from clew.surface.cli.commands import explain as reasons
from clew.surface.cli.commands import transfer as moving
from clew.surface.cli.errors import TABLE, USAGE, Door
from clew.surface.cli.program import Program, called, log_until_closed

COMMANDS: dict[str, Callable[..., None]] = {
    "add": documents.add,
    "plan": documents.plan,
    "drop": documents.drop,
    "list": documents.list_,
    "read": documents.read,
    "search": questions.search,
    "context": questions.context,
    "ask": answers.ask,
    "chat": chat.chat,
    "explain": reasons.explain,
    "why_not": reasons.why_not,
    "window": talk.window,
    "profile": talk.profile,
    "links": talk.links,
    "status": documents.status,
    "backfill": documents.backfill,
    "export": moving.export,
    "restore": moving.restore,
    "reembed": moving.reembed,
}
EPILOG = "\n".join(
    (
        "The options above may stand anywhere on the line. A setting is taken from the command line, else the "
        "environment (CLEW_SEARCH__K=5), else clew.toml; `clew config show` tells which.",
        "",
        "Exit codes:",
        *(f"{number:>4}  {meaning}" for number, meaning in TABLE),
    )
)

app = typer.Typer(
    name="clew",
    cls=Door,
    help="Finds the right context for a language model in documents and conversations, and shows where it came from.",
    epilog=EPILOG,
    context_settings={"help_option_names": ["--help", "-h"]},
    pretty_exceptions_enable=False,
)
for name, command in COMMANDS.items():
    app.command(name)(command)
config_app = typer.Typer()
app.add_typer(config_app, name="config")


citations_app = typer.Typer()
citations_app.command("check")(reasons.check)
app.add_typer(citations_app, name="citations")


def main() -> None:
    """Runs the command line of this process."""
    app(prog_name="clew")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"clew {version('clew')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def program(
    ctx: typer.Context,
    *,
    path: o.Place = None,
    collection: o.Collection = None,
    config: o.Config = None,
    embedder: o.Embedder = None,
    llm: o.Llm = None,
    verbose: o.Verbose = False,
    version: Annotated[  # noqa: ARG001 (its callback does the work)
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Keeps the program's own options for the command."""
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())
        raise typer.Exit(USAGE)
    if verbose:
        log_until_closed(ctx)
    ctx.obj = Program(path, collection, config, embedder, llm)


@citations_app.callback()
def citations() -> None:
    """Check the citations of past answers."""


@config_app.callback()
def config() -> None:
    """See the settings and where they come from."""


@config_app.command("show")
def config_show(ctx: typer.Context, *, as_json: o.Json = False) -> None:
    """Show every setting with its value and where it comes from; secrets are hidden."""
    from clew.surface import to_json as shapes
    from clew.surface.cli import render

    shape = shapes.config(called(ctx))
    if as_json:
        render.put_json(shape)
    else:
        render.put_config(shape)
