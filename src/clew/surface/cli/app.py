"""The command line: the program, its own options, and the table of its commands.

Nothing heavy is imported before a command runs, so that `clew --help` is fast.
"""

from types import MappingProxyType
from typing import Annotated

import typer

from clew.surface.cli import options as o
from clew.surface.cli.errors import EXIT_CODES, USAGE_ERROR, ClewGroup
from clew.surface.cli.program import ProgramOptions, log_to_stderr, silence_other_programs

# Where each command is: a module of `commands` and its function, by default that of the command's name.
COMMANDS = {
    "add": "documents",
    "plan": "documents",
    "drop": "documents",
    "erase": "erase",
    "list": "documents:list_",
    "read": "documents",
    "search": "questions",
    "context": "questions",
    "ask": "answers",
    "chat": "chat",
    "tools": "tools",
    "explain": "explain",
    "why-not": "explain",
    "check": "explain",
    "window": "conversations",
    "profile": "conversations",
    "style-prompt": "conversations",
    "links": "conversations",
    "status": "documents",
    "backfill": "documents",
    "calibrate": "documents",
    "export": "transfer",
    "restore": "transfer",
    "reembed": "transfer",
    "tune": "tune",
    "doctor": "doctor",
    "models": "models",
    "serve": "serve",
    "mcp": "mcp",
}
GROUPS = {
    "evaluate": "evaluate:evaluate_app",
    "jobs": "jobs:jobs_app",
    "collections": "collections:collections_app",
    "keys": "serve:keys_app",
    "config": "config:config_app",
    "citations": "explain:citations_app",
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


def _find_home(command: str, place: str) -> str:
    module, _, name = place.partition(":")
    return f"clew.surface.cli.commands.{module}:{name or command.replace('-', '_')}"


class Program(ClewGroup):
    """The group of all commands."""

    homes = MappingProxyType({name: _find_home(name, place) for name, place in (COMMANDS | GROUPS).items()})
    hidden_names = frozenset({"citations"})  # the former name of `check`


app = typer.Typer(
    name="clew",
    cls=Program,
    help="Finds the right context for a language model in documents and conversations, and shows where it came from.",
    epilog=EPILOG,
    context_settings={"help_option_names": ["--help", "-h"]},
    pretty_exceptions_enable=False,
)


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
