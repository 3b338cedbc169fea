"""The options and arguments that several commands share, each declared once as an annotated type."""

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from clew.core.errors import SettingsError
from clew.core.time import parse_time

DocumentName = Annotated[str, typer.Argument(metavar="DOCUMENT", help="Document id or URI.")]
Sources = Annotated[
    list[str], typer.Argument(metavar="SOURCE...", help="Files, folders, chat exports or web addresses.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON (stable schema).")]

CollectionPath = Annotated[
    str | None,
    typer.Option(
        "--path",
        "-p",
        metavar="PATH",
        help="Folder of the collections, or a postgresql:// or s3:// address (default: .clew).",
    ),
]
Collection = Annotated[
    str | None, typer.Option("--collection", metavar="NAME", help="Collection name (default: default).")
]
Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Settings file (default: the nearest clew.toml, here or above)."),
]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of", metavar="TIME", help="Read the version of this date or time (UTC), of a collection in Lance."
    ),
]
Embedder = Annotated[str | None, typer.Option("--embedder", metavar="NAME", help="Embedding model.")]
Llm = Annotated[str | None, typer.Option("--llm", metavar="NAME", help="Language model (optional).")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Log to stderr, list what add passes over, show tracebacks.")
]

Yes = Annotated[
    bool, typer.Option("--yes", help="Let --sync drop more than half of a folder's documents without asking.")
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        "--max-cost", metavar="X", help="Stop before model calls cost more than this (currency of llm.prices).", min=0
    ),
]

Strategy = Annotated[
    str | None, typer.Option("--strategy", metavar="NAME", help="Search strategy: hybrid, semantic, lexical, auto …")
]


def parse_time_option(option: str, text: str | None) -> datetime | None:
    """Parse the date or time of an option; None if it was not given."""
    if text is None:
        return None
    try:
        return parse_time(text)
    except (ValueError, OverflowError):
        message = f"{option} is {text!r}; it must be a date or a time such as 2025-05-31T14:00, yesterday or 7d"
        raise SettingsError(message) from None


RayAddress = Annotated[
    str | None,
    typer.Option("--ray", metavar="ADDRESS", help="Share the work with a Ray cluster: its address, 'auto' or 'local'."),
]
Workers = Annotated[int | None, typer.Option("--workers", help="Workers on the Ray cluster; default: one per core.")]
Gpus = Annotated[float, typer.Option("--gpus", help="GPUs for each Ray worker that runs a model.")]
