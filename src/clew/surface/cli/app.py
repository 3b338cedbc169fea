"""The command line: the program, its own options, and the table of its commands.

Nothing heavy is imported before a command runs, so that `clew --help` is fast.
"""

from collections.abc import Callable
from typing import Annotated

import typer

from clew.surface.cli import options as o
from clew.surface.cli.commands import (
    answers,
    chat,
    conversations,
    doctor,
    documents,
    erase,
    explain,
    mcp,
    models,
    questions,
    serve,
    tools,
    transfer,
    tune,
)
from clew.surface.cli.commands.collections import collections_app
from clew.surface.cli.commands.evaluate import evaluate_app
from clew.surface.cli.commands.jobs import jobs_app
from clew.surface.cli.errors import EXIT_CODES, USAGE_ERROR, ClewGroup
from clew.surface.cli.option_groups import expand_option_groups
from clew.surface.cli.program import ProgramOptions, log_to_stderr, resolve_invocation, silence_other_programs

COMMANDS: dict[str, Callable[..., None]] = {
    "add": documents.add,
    "plan": documents.plan,
    "drop": documents.drop,
    "erase": erase.erase,
    "list": documents.list_,
    "read": documents.read,
    "search": questions.search,
    "context": questions.context,
    "ask": answers.ask,
    "chat": chat.chat,
    "tools": tools.tools,
    "explain": explain.explain,
    "why-not": explain.why_not,
    "check": explain.check,
    "window": conversations.window,
    "profile": conversations.profile,
    "style-prompt": conversations.style_prompt,
    "links": conversations.links,
    "status": documents.status,
    "backfill": documents.backfill,
    "calibrate": documents.calibrate,
    "export": transfer.export,
    "restore": transfer.restore,
    "reembed": transfer.reembed,
    "tune": tune.tune,
    "doctor": doctor.doctor,
    "models": models.models,
    "serve": serve.serve,
    "mcp": mcp.mcp,
}
# Typer joins the lines of a paragraph and puts no space between two, so each line is a paragraph, and so is a gap.
EPILOG = "\n\n".join(
    (
        "The options above may be given anywhere on the command line. Precedence of settings: command line, "
        "environment (CLEW_SEARCH__K=5), clew.toml, default. `clew config show` lists them with their origin.",
        "",
        "Exit codes:",
        *(f"{number:<3}  {meaning}" for number, meaning in EXIT_CODES),
    )
)

app = typer.Typer(
    name="clew",
    cls=ClewGroup,
    help="Finds the right context for a language model in documents and conversations, and shows where it came from.",
    epilog=EPILOG,
    context_settings={"help_option_names": ["--help", "-h"]},
    pretty_exceptions_enable=False,
)
for name, command in COMMANDS.items():
    app.command(name)(expand_option_groups(command))
app.add_typer(evaluate_app, name="evaluate")
app.add_typer(jobs_app, name="jobs")
app.add_typer(collections_app, name="collections")
app.add_typer(serve.keys_app, name="keys")
config_app = typer.Typer()
app.add_typer(config_app, name="config")
citations_app = typer.Typer()
citations_app.command("check")(expand_option_groups(explain.check))
app.add_typer(citations_app, name="citations", hidden=True)  # the former name of `check`


Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there.")]


def main() -> None:
    """Runs the command line of this process."""
    silence_other_programs()
    app(prog_name="clew")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"clew {version('clew')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def set_program_options(
    ctx: typer.Context,
    *,
    path: o.CollectionPath = None,
    collection: o.Collection = None,
    config: o.Config = None,
    embedder: o.Embedder = None,
    llm: o.Llm = None,
    as_of: o.AsOf = None,
    verbose: o.Verbose = False,
    version: Annotated[  # noqa: ARG001 (its callback does the work)
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Stores the program's own options (--path, --config, …) for the command; without a command, prints the help."""
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())
        raise typer.Exit(USAGE_ERROR)
    if verbose:
        log_to_stderr(ctx)
    ctx.obj = ProgramOptions(path, collection, config, embedder, llm, verbose, as_of)


@citations_app.callback()
def citations() -> None:
    """Check the citations of saved answers."""


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
