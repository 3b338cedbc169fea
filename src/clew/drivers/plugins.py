"""Plugins: parts that installed packages add by an entry point, as `letters = "clew_letters:make"` in `clew.embedders`.

A plugin is imported when it is first used, so one that is broken stops nothing but its own use.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from clew.core.errors import ClewError, DriverFailed, DriverMissing

# The groups of entry points, after "clew.", and what each adds.
GROUPS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "embedders": "embedder",
        "rerankers": "reranker",
        "verifiers": "verifier",
        "llms": "language model",
        "readers": "reader",
        "strategies": "strategy",
        "stores": "store",
    }
)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A part of an installed package; calling it imports it and calls it."""

    group: str
    name: str
    place: str  # "module:function"
    package: str  # its name and version

    @property
    def stamp(self) -> str:
        """What it is kept under: files are read again when the package of their reader is updated."""
        return f"{self.package} {self.place}"

    def load(self) -> Any:
        """Import the function; DriverMissing names the package if that fails."""
        from importlib.metadata import EntryPoint

        try:
            return EntryPoint(self.name, self.place, f"clew.{self.group}").load()
        except Exception as error:  # the package may be anybody's
            raise DriverMissing(self._blame("imported", error)) from error

    def __call__(self, *given: Any) -> Any:
        """Call the function with what a part of its kind is given."""
        return self.load()(*given)

    def make(self, *given: Any) -> Any:
        """Return the driver that the function makes; DriverFailed names the package if that fails."""
        factory = self.load()
        try:
            return factory(*given)
        except ClewError:
            raise
        except Exception as error:
            raise DriverFailed(self._blame("made", error)) from error

    def _blame(self, what: str, error: Exception) -> str:
        part, package = f"the {GROUPS[self.group]} {self.name!r} of {self.package}", self.package.partition(" ")[0]
        return f"{part} cannot be {what} ({type(error).__name__}: {error}); update or uninstall {package}"


def find_plugins(group: str) -> Mapping[str, Plugin]:
    """Find the plugins of a group by name; of two packages with one name, the first in the alphabet has it."""
    return _find_all().get(group, MappingProxyType({}))


@cache
def _find_all() -> Mapping[str, Mapping[str, Plugin]]:
    """Find the plugins by group and name, by the text of entry points alone: most packages have none."""
    from importlib.metadata import distributions

    found: dict[str, dict[str, Plugin]] = {}
    having = [each for each in distributions() if "[clew." in (each.read_text("entry_points.txt") or "")]
    for package in sorted(having, key=lambda each: each.name):
        for each in package.entry_points:
            if (group := each.group.removeprefix("clew.")) != each.group:
                plugin = Plugin(group, each.name, each.value, f"{package.name} {package.version}")
                found.setdefault(group, {}).setdefault(each.name, plugin)
    return found
