"""Clew finds the right context for a language model in documents and conversations, and shows where it came from."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clew.core.errors import (
        ClewError,
        DriverFailed,
        DriverMissing,
        NotFound,
        SettingsError,
        SourceError,
        StoreMismatch,
    )
    from clew.core.settings import Settings
    from clew.core.trace import Trace, record
    from clew.core.types import Chunk, Context, Document, Filter, Hit, Message, Query, Section
    from clew.engine import Engine

__all__ = [
    "Chunk",
    "ClewError",
    "Context",
    "Document",
    "DriverFailed",
    "DriverMissing",
    "Engine",
    "Filter",
    "Hit",
    "Message",
    "NotFound",
    "Query",
    "Section",
    "Settings",
    "SettingsError",
    "SourceError",
    "StoreMismatch",
    "Trace",
    "record",
]

_HOMES = {
    "clew.engine": ("Engine",),
    "clew.core.settings": ("Settings",),
    "clew.core.trace": ("Trace", "record"),
    "clew.core.types": ("Chunk", "Context", "Document", "Filter", "Hit", "Message", "Query", "Section"),
    "clew.core.errors": (
        "ClewError",
        "DriverFailed",
        "DriverMissing",
        "NotFound",
        "SettingsError",
        "SourceError",
        "StoreMismatch",
    ),
}


def __getattr__(name: str) -> Any:
    """The public name, imported when it is first asked for: `clew --help` then loads nothing heavy."""
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'clew' has no attribute {name!r}")
