"""Reads the settings: flag over environment over file over default, strictly; what is not a setting names itself.

Stands between the words a user wrote (`clew.toml`, `CLEW_…`, flags) and the frozen tree in `core.settings`.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_type_hints

from clew.core.errors import SettingsError
from clew.core.secret import HIDDEN, mask_secrets
from clew.core.settings import Settings
from clew.surface.settings.types import Wrong, described, fitted, parsed

FILE = "clew.toml"
# Flags and variables that are asked for so often that they have a short name of their own.
SHORT = {
    "CLEW_PATH": "path",
    "CLEW_STORE": "path",
    "CLEW_COLLECTION": "collection",
    "CLEW_EMBEDDER": "embedder.name",
}
# What a file says of these is relative to the file.
_PLACES = frozenset({"path", "embedder.cache", "llm.cache", "context.tokenizer"})


@dataclass(frozen=True, slots=True)
class Key:
    """One setting by its dotted name: what it may be, what it is when nobody says, whether it is a secret."""

    name: str
    kind: Any
    default: Any
    secret: bool = False

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return "CLEW_" + self.name.upper().replace(".", "__")


@dataclass(frozen=True, slots=True)
class Invocation:
    """What a surface was started with: which collection, by which settings, and where each value came from."""

    path: str
    collection: str
    settings: Settings
    origins: Mapping[str, str]  # by dotted name: flag, environment, file or default
    file: Path | None = None


@dataclass(frozen=True, slots=True)
class _Given:
    """A value that somebody gave: where, and the words that tell the user so."""

    value: Any
    origin: str
    said: str


def load(
    *,
    file: Path | None = None,
    environ: Mapping[str, str],
    overrides: Mapping[str, Any],
    folder: Path | None = None,
) -> Invocation:
    """The collection and the settings that flags, environment and file ask for together.

    Without a `file`, the nearest `clew.toml` in the folder (default: the working directory) and above it is read.
    `overrides` are the flags by dotted name (`search.k`, `path`); None is a flag that was not given.
    """
    known = keys()
    found = file or nearest(folder or Path.cwd())
    given = dict(_from_file(found, known)) if found else {}
    given.update(_from_environment(environ, known))
    for name, value in overrides.items():
        if value is not None:
            given[name] = _Given(_fitted(known[name], value, "from the command line"), "flag", "from the command line")
    values = {name: given[name].value if name in given else key.default for name, key in known.items()}
    origins = {name: given[name].origin if name in given else "default" for name in known}
    try:
        if not values["path"]:
            raise SettingsError("path is empty; it must be the collection's folder")
        settings: Settings = _built(Settings, values)
    except SettingsError as error:  # the tree names the key; say who set it
        at = given.get(str(error).split(" ")[0])
        raise SettingsError(f"{error} (set {at.said})" if at else str(error)) from None
    return Invocation(values["path"], values["collection"], settings, origins, found)


def show(invocation: Invocation) -> dict[str, dict[str, Any]]:
    """Every setting by its dotted name with its value and where it came from, secrets hidden."""
    values = {"path": invocation.path, "collection": invocation.collection, **dict(_flat(invocation.settings))}
    return {
        key.name: {"value": _shown(key, values[key.name]), "from": invocation.origins[key.name]}
        for key in keys().values()
    }


def keys() -> dict[str, Key]:
    """Every setting there is, by its dotted name."""
    return {key.name: key for key in (Key("path", str, ".clew"), Key("collection", str, "default"), *_keys(Settings))}


def nearest(folder: Path) -> Path | None:
    """The settings file of the folder, or of the closest one above it that has one."""
    places = (place / FILE for place in (folder, *folder.parents))
    return next((place for place in places if place.is_file()), None)


def _keys(tree: Any, prefix: str = "") -> Iterator[Key]:
    kinds = get_type_hints(tree)
    for item in fields(tree):
        name = f"{prefix}{item.name}"
        if is_dataclass(kinds[item.name]):
            yield from _keys(kinds[item.name], f"{name}.")
        else:
            default = item.default_factory() if item.default_factory is not MISSING else item.default
            yield Key(name, kinds[item.name], default, secret=not item.repr)


def _built(tree: Any, values: Mapping[str, Any], prefix: str = "") -> Any:
    kinds = get_type_hints(tree)
    return tree(
        **{
            item.name: _built(kinds[item.name], values, f"{prefix}{item.name}.")
            if is_dataclass(kinds[item.name])
            else values[f"{prefix}{item.name}"]
            for item in fields(tree)
        }
    )


def _flat(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for item in fields(tree):
        value = getattr(tree, item.name)
        if is_dataclass(value):
            yield from _flat(value, f"{prefix}{item.name}.")
        else:
            yield f"{prefix}{item.name}", value


def _from_file(file: Path, known: Mapping[str, Key]) -> Iterator[tuple[str, _Given]]:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise SettingsError(f"the settings file {file} cannot be read: {reason}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{_near(file)} is not valid TOML: {error}") from error
    said = f"in {_near(file)}"
    for name, value in _entries(table, known, said):
        value = _fitted(known[name], value, said)
        if name in _PLACES and value and "://" not in value:
            value = str(file.parent / Path(value).expanduser())
        yield name, _Given(value, "file", said)


def _entries(table: Mapping[str, Any], known: Mapping[str, Key], said: str, at: str = "") -> Iterator[tuple[str, Any]]:
    """The table's values by dotted name; a name that is not known fails."""
    for word, value in table.items():
        name = at + word
        if any(other.startswith(f"{name}.") for other in known):
            if not isinstance(value, Mapping):
                raise SettingsError(f"{name} {said} is a table of settings: write [{name}] on a line of its own")
            yield from _entries(value, known, said, f"{name}.")
        elif name in known:
            yield name, value
        else:
            raise SettingsError(f"{name} {said} is not a setting; {_instead(name, list(known))}")


def _from_environment(environ: Mapping[str, str], known: Mapping[str, Key]) -> Iterator[tuple[str, _Given]]:
    names = {**{key.variable: key.name for key in known.values()}, **SHORT}
    for variable in sorted(environ.keys() & names.keys(), key=lambda name: (name not in SHORT, name)):
        key = known[names[variable]]
        value = _fitted(key, parsed(environ[variable], key.kind), f"from {variable}")
        yield key.name, _Given(value, "environment", f"by {variable}")
    for variable in sorted(name for name in environ if name.startswith("CLEW_") and name not in names):
        # A script may have a CLEW_ of its own: only what is plainly meant for a setting fails.
        if "__" in variable or get_close_matches(variable, names, 1, 0.9):
            instead = _instead(variable, list(names))
            raise SettingsError(f"{variable} in the environment is not a setting; {instead}")


def _fitted(key: Key, value: Any, said: str) -> Any:
    try:
        return fitted(value, key.kind)
    except Wrong:
        value = HIDDEN if key.secret else value
        raise SettingsError(f"{key.name} {said} is {value!r}; it must be {described(key.kind)}") from None


def _instead(name: str, known: list[str]) -> str:
    """What to write in place of a name that is not known: the nearest one, by the whole or else by its last word."""
    last = {other.rsplit(".", 1)[-1]: other for other in reversed(known)}
    tables = {other.rpartition(".")[0] for other in known}
    near = get_close_matches(name, [*known, *tables], 1, 0.75) or [
        last[word] for word in get_close_matches(name.rsplit(".", 1)[-1], last, 1, 0.75)
    ]
    if near:
        return f"did you mean {near[0]}?"
    return f"the settings are {', '.join(known)}"


def _shown(key: Key, value: Any) -> Any:
    if key.secret:
        return HIDDEN if value else value
    return mask_secrets(value) if isinstance(value, str) else value


def _near(file: Path) -> str:
    """The file as a user would name it: by its place below the working directory, or else in full."""
    here = Path.cwd()
    full = file.absolute()
    return str(full.relative_to(here)) if full.is_relative_to(here) else str(full)
