"""What every command starts from: the program's own options, and the engine they open."""

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from clew.engine import Engine
    from clew.surface.settings.load import Invocation


@dataclass(frozen=True, slots=True)
class Program:
    """The options of the program itself, as they were given."""

    path: str | None = None
    collection: str | None = None
    config: Path | None = None
    embedder: str | None = None
    llm: str | None = None


def called(ctx: typer.Context, flags: Mapping[str, Any] | None = None) -> "Invocation":
    """The collection and the settings, the program's and the command's flags (by dotted name) above all else."""
    from clew.surface.settings.load import load

    program: Program = ctx.obj
    own = {
        "path": program.path,
        "collection": program.collection,
        "embedder.name": program.embedder,
        "llm.name": program.llm,
    }
    return load(file=program.config, environ=os.environ, overrides={**own, **(flags or {})})


@contextmanager
def opened(ctx: typer.Context, flags: Mapping[str, Any] | None = None, *, create: bool = False) -> Iterator["Engine"]:
    """The engine over the collection, closed after the block; a collection that is not there is made only if asked."""
    from clew.engine import Engine

    start = called(ctx, flags)
    with Engine.open(start.path, collection=start.collection, settings=start.settings, create=create) as engine:
        yield engine


@contextmanager
def imagined(ctx: typer.Context, flags: Mapping[str, Any]) -> Iterator["Engine"]:
    """The engine over the collection, or over an empty one in memory where there is none yet: nothing is made."""
    from clew.core.errors import NotFound
    from clew.engine import MEMORY, Engine

    start = called(ctx, flags)
    try:
        engine = Engine.open(start.path, collection=start.collection, settings=start.settings, create=False)
    except NotFound:
        engine = Engine.open(MEMORY, collection=start.collection, settings=start.settings)
    with engine:
        yield engine


def log_until_closed(ctx: typer.Context) -> None:
    """Sends what Clew logs to stderr until the command is over."""
    logger = logging.getLogger("clew")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)

    def close() -> None:
        logger.removeHandler(handler)
        logger.setLevel(level)

    ctx.call_on_close(close)
