"""Backends that are not Clew's: the one that docs/extending.md shows, and those that --backend names."""

import contextlib
import io
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from clew import BaseBackend
from tests.docs_runner import BLOCK

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
OpenBackend = Callable[[Path, str], BaseBackend]


@cache
def load_page() -> dict[str, Any]:
    """What the section "A store of your own" defines."""
    section = PAGE.read_text("utf-8").partition("## A store of your own")[2]
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(next(body for kind, body in BLOCK.findall(section) if kind == "python"), names)
    return names


@cache
def load_opener(place: str | None) -> OpenBackend:
    """The function that opens a collection in a folder: the named one, or that of the docs."""
    if place is not None:
        module, _, name = place.partition(":")
        opener: OpenBackend = getattr(import_module(module), name)
        return opener
    page = load_page()
    databases: dict[tuple[Path, str], Any] = defaultdict(page["Database"])

    def open_backend(folder: Path, collection: str) -> BaseBackend:
        backend: BaseBackend = page["DictBackend"](databases[folder, collection])
        return backend

    return open_backend
