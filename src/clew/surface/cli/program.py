"""The start of every command: the program's own options, and the engine they open."""

import logging
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from clew.core.patterns import compile_pattern
from clew.core.suggest import mask_secrets
from clew.surface.cli.table import CleanFormatter

if TYPE_CHECKING:
    from clew.engine import Engine
    from clew.surface.settings.load import Invocation


@dataclass(frozen=True, slots=True)
class ProgramOptions:
    """The options of the program itself; None if not given."""

    path: str | None = None
    collection: str | None = None
    config: Path | None = None
    embedder: str | None = None
    llm: str | None = None
    verbose: bool = False
    as_of: str | None = None


_HINT = compile_pattern(r"`clew ([a-z][^`]*)`")


def repeat_options(text: str, options: ProgramOptions | None) -> str:
    """Add the collection options of this call to the commands in a text, such as `clew jobs`; passwords are masked."""
    if options is None:
        return text
    place = ["--path", mask_secrets(options.path)] if options.path else []
    place += ["--config", str(options.config)] if options.config else []
    collection = ["--collection", options.collection] if options.collection else []

    def extend(found: re.Match[str]) -> str:
        given = place if found[1].startswith("collections") else [*place, *collection]
        return f"`{' '.join(['clew', found[1], *map(shlex.quote, given)])}`"

    return _HINT.sub(extend, text)


def resolve_invocation(ctx: typer.Context, overrides: Mapping[str, Any] | None = None) -> "Invocation":
    """Resolve the collection and settings of a command line; `overrides` are the command's options by setting name."""
    from clew.surface.settings.load import load_invocation

    options: ProgramOptions = ctx.obj
    own = {
        "path": options.path,
        "collection": options.collection,
        "embedder.name": options.embedder,
        "llm.name": options.llm,
        "store.as_of": options.as_of,
    }
    return load_invocation(file=options.config, environ=os.environ, overrides={**own, **(overrides or {})})


@contextmanager
def open_engine(
    ctx: typer.Context, overrides: Mapping[str, Any] | None = None, *, create: bool = False
) -> Iterator["Engine"]:
    """Open the engine over the collection, closed after the block; a missing collection is NotFound unless `create`."""
    from clew.engine import Engine

    start = resolve_invocation(ctx, overrides)
    with Engine.open(start.path, collection=start.collection, settings=start.settings, create=create) as engine:
        yield engine


@contextmanager
def open_engine_for_plan(ctx: typer.Context, overrides: Mapping[str, Any]) -> Iterator["Engine"]:
    """Open the engine over the collection, or over an empty one in memory if it does not exist: nothing is created."""
    from clew.core.errors import NotFound
    from clew.engine import MEMORY, Engine

    start = resolve_invocation(ctx, overrides)
    try:
        engine = Engine.open(start.path, collection=start.collection, settings=start.settings, create=False)
    except NotFound:
        engine = Engine.open(MEMORY, collection=start.collection, settings=start.settings)
    with engine:
        yield engine


def silence_other_programs() -> None:
    """Keep the warnings and log messages of other packages off stderr, where only Clew reports to the user.

    Python prints messages for which there is no handler.
    """
    logging.captureWarnings(True)
    logging.getLogger().addHandler(logging.NullHandler())


def log_to_stderr(ctx: typer.Context) -> None:
    """Send the log of Clew to stderr until the command ends."""
    logger = logging.getLogger("clew")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(CleanFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)

    def close() -> None:
        logger.removeHandler(handler)
        logger.setLevel(level)

    ctx.call_on_close(close)
