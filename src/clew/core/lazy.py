"""Public names of a package, imported on first use so that `clew --help` loads nothing heavy."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any


def import_name(package: dict[str, Any], homes: Mapping[str, str], name: str, *, hint: str = "") -> Any:
    """Import a public name for the `__getattr__` of a package, and store it in the package.

    package: The globals of the package.
    homes: The public names, separated by spaces, by defining module.
    hint: The end of the error message for an unknown name.
    """
    for home, names in homes.items():
        if name in names.split():
            value = package[name] = getattr(import_module(home), name)
            return value
    raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}{hint}")


def list_names(homes: Mapping[str, str]) -> list[str]:
    """Sort the public names."""
    return sorted(name for names in homes.values() for name in names.split())
