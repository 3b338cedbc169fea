"""Plugins: parts that installed packages add by an entry point, such as `letters = "clew_letters:make"`.

The group of an entry point (`clew.embedders` …) says the kind of part. A plugin is imported on first use, so a broken
one affects nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from clew.core.errors import ClewError, DriverFailed, DriverMissing

# The groups of entry points, after "clew.", and the kind of part in each.
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
    """A function of an installed package, imported when it is called."""

    group: str
    name: str
    place: str  # "module:function"
    package: str  # name and version

    @property
    def stamp(self) -> str:
        """The version stamp: files are read again when the package of their reader is updated."""
        return f"{self.package} {self.place}"

    def load(self) -> Any:
        """Import the function; DriverMissing names the package if that fails."""
        from importlib.metadata import EntryPoint

        try:
            return EntryPoint(self.name, self.place, f"clew.{self.group}").load()
        except Exception as error:  # foreign code may raise anything
            raise DriverMissing(self._blame("imported", error)) from error

    def __call__(self, *given: Any) -> Any:
        """Import the function and call it."""
        return self.load()(*given)

    def make(self, *given: Any) -> Any:
        """Make the driver; DriverFailed names the package if that fails."""
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
    """Find the plugins of a group by name; if two packages use a name, the alphabetically first package wins."""
    return _find_all().get(group, MappingProxyType({}))


@cache
def _find_all() -> Mapping[str, Mapping[str, Plugin]]:
    """Find the plugins by group and name, without parsing the entry points of packages that have none."""
    from importlib.metadata import distributions

    found: dict[str, dict[str, Plugin]] = {}
    having = [each for each in distributions() if "[clew." in (each.read_text("entry_points.txt") or "")]
    for package in sorted(having, key=lambda each: each.name):
        for each in package.entry_points:
            if (group := each.group.removeprefix("clew.")) != each.group:
                plugin = Plugin(group, each.name, each.value, f"{package.name} {package.version}")
                found.setdefault(group, {}).setdefault(each.name, plugin)
    return found
