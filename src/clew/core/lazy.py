"""Public names of a package that are imported on first use: `clew --help` then loads nothing heavy."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any


def import_name(package: dict[str, Any], homes: Mapping[str, str], name: str, *, hint: str = "") -> Any:
    """Import a public name for the `__getattr__` of a package, and keep it there.

    package: The globals of the package.
    homes: The public names, separated by spaces, by the module that defines them.
    hint: What takes the place of a name that is not there, for the error.
    """
    for home, names in homes.items():
        if name in names.split():
            value = package[name] = getattr(import_module(home), name)
            return value
    raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}{hint}")


def list_names(homes: Mapping[str, str]) -> list[str]:
    """Sort the public names."""
    return sorted(name for names in homes.values() for name in names.split())
