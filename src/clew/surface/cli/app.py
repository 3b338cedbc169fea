"""The command line: the program, its own options, and the table of its commands.

Nothing heavy is imported before a command runs, so that `clew --help` is fast.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any

import typer

from clew.surface.cli import options as o
from clew.surface.cli.errors import USAGE_ERROR, ClewGroup
from clew.surface.cli.program import ProgramOptions, log_to_stderr, silence_other_programs

HELP = "Find the right context for a language model in documents and conversations."

# The commands by group: the place of each (a module of `commands`, and its function if that has another name than the
# command), and its line in `clew --help`.
GROUPS: Mapping[str, Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "Everyday": {
            "add": ("documents", "add files, folders, chat exports and web pages"),
            "search": ("questions", "find the most relevant passages"),
            "ask": ("chat", "answer a question, with citations that were checked"),
            "chat": ("chat", "ask in a conversation that is kept"),
            "context": ("questions", "print passages for the prompt of a language model"),
            "list": ("documents:list_", "list the documents"),
            "read": ("documents", "print a document or a message"),
            "status": ("documents", "show what the collection has"),
        },
        "Chats": {
            "window": ("conversations", "messages for a prompt"),
            "profile": ("conversations", "how a person writes"),
            "style-prompt": ("conversations", "prompt for that style"),
            "links": ("conversations", "links to and from pages"),
        },
        "Quality": {
            "explain": ("questions", "stages of a search"),
            "why-not": ("questions", "why a page is missing"),
            "check": ("questions", "are citations valid?"),
            "evaluate": ("evaluate:evaluate_app", "score your questions"),
            "tune": ("evaluate", "find better settings"),
            "calibrate": ("documents", "measure relevance again"),
        },
        "Server": {
            "serve": ("serve", "serve HTTP and a page"),
            "keys": ("serve:keys_app", "who may use the server"),
            "mcp": ("serve", "tools for assistants"),
            "tools": ("serve", "schemas for agents"),
        },
        "Upkeep": {
            "plan": ("documents", "dry run of add"),
            "jobs": ("jobs:jobs_app", "work in the background"),
            "drop": ("documents", "remove documents"),
            "erase": ("documents", "delete them for good"),
            "collections": ("collections:collections_app", "list or delete one"),
            "doctor": ("collections", "check and repair"),
            "backfill": ("documents", "write what is missing"),
            "reembed": ("collections", "change the embedder"),
            "export": ("collections", "write all to one file"),
            "restore": ("collections", "load an exported file"),
            "models": ("config", "models to choose from"),
            "config": ("config:config_app", "show the settings"),
        },
    }
)
_OPTIONS = {
    "-p, --path PATH": "folder or address",
    "--collection NAME": "one of several there",
    "--config FILE": "a clew.toml",
    "--as-of TIME": "as it was (Lance)",
    "--embedder NAME": "embedding model",
    "--llm NAME": "language model",
    "-v, --verbose": "log and tracebacks",
    "--version": "print the version",
}
_HALF = 39  # columns of one of two entries in a line


def _find_home(command: str, place: str) -> str:
    module, _, name = place.partition(":")
    return f"clew.surface.cli.commands.{module}:{name or command.replace('-', '_')}"


class Program(ClewGroup):
    """The group of all commands."""

    homes = MappingProxyType(
        {name: _find_home(name, place) for group in GROUPS.values() for name, (place, _) in group.items()}
    )

    def format_help(self, _: Any, formatter: Any) -> None:
        """Write the commands in groups and the program's own options, within forty lines of eighty columns."""
        bold = partial(typer.style, bold=True)
        lines = ["Usage: clew [OPTIONS] COMMAND [ARGS]...  (clew COMMAND --help explains one)", "", HELP, ""]
        everyday, *others = GROUPS.items()
        lines += [bold(everyday[0]), *(f"  {name:<13}{about}" for name, (_, about) in everyday[1].items()), ""]
        for title, group in others:
            lines += [bold(title), *_pair_up({name: about for name, (_, about) in group.items()}, 13), ""]
        formatter.write("\n".join([*lines, bold("Options, anywhere on the line"), *_pair_up(_OPTIONS, 18), ""]))


def _pair_up(entries: Mapping[str, str], width: int) -> Iterator[str]:
    """Format the entries in two columns, their names padded to this width."""
    cells = iter([f"  {name:<{width}}{about}" for name, about in entries.items()])
    return (f"{left:<{_HALF}}{next(cells, '')}".rstrip() for left in cells)


app = typer.Typer(
    name="clew",
    cls=Program,
    help=HELP,
    context_settings={"help_option_names": ["--help", "-h"]},
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line of this process."""
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
    """Store the program's own options (--path, --config, …) for the command; without a command, print the help."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit(USAGE_ERROR)
    if verbose:
        log_to_stderr(ctx)
    ctx.obj = ProgramOptions(path, collection, config, embedder, llm, verbose, as_of)
