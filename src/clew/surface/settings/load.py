"""The loading of settings, and the writing of a settings file. Precedence: command line, environment, file, default.

Turns `clew.toml`, `CLEW_…` variables and flags into the frozen tree of `core.settings`; an unknown name is an error.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from clew.core.errors import SettingsError
from clew.core.settings import Settings
from clew.core.settings.override import flatten_settings, mask_setting
from clew.core.settings.types import InvalidValue, check_value_type, describe_type, parse_text_as_type
from clew.core.suggest import HIDDEN, find_close_names

FILE = "clew.toml"
# Aliases for variables that are set often; the full name wins.
SHORT_VARIABLES = {
    "CLEW_EMBEDDER": "embedder.name",
}
_LANCE = "lance://"  # the prefix of an address
# Relative paths in a file are relative to the file.
_PATH_SETTINGS = frozenset({"path", "embedder.cache", "llm.cache", "context.tokenizer", "server.folder"})


@dataclass(frozen=True, slots=True)
class SettingKey:
    """One setting: its dotted name, type and default, and whether it is a secret."""

    name: str
    value_type: Any
    default: Any
    secret: bool = False

    @property
    def environment_variable(self) -> str:
        """The environment variable of the setting."""
        return "CLEW_" + self.name.upper().replace(".", "__")


@dataclass(frozen=True, slots=True)
class Invocation:
    """The collection and settings that a surface was started with, and the origin of each value."""

    path: str
    collection: str
    settings: Settings
    origins: Mapping[str, str]  # by dotted name: flag, environment, file or default
    file: Path | None = None


@dataclass(frozen=True, slots=True)
class _SetValue:
    """A value that was set, its origin, and where exactly, in words for an error message."""

    value: Any
    origin: str
    place: str  # "in clew.toml", "by CLEW_SEARCH__K"


def load_invocation(
    *,
    file: Path | None = None,
    environ: Mapping[str, str],
    overrides: Mapping[str, Any],
    folder: Path | None = None,
) -> Invocation:
    """Load the collection and the settings from flags, environment and file.

    Without a `file`, the nearest `clew.toml` in the folder (default: the working directory) and above it is read.
    `overrides` are the flags by dotted name (`search.k`, `path`); None is a flag that was not given.
    """
    known = list_setting_keys()
    found = file or find_settings_file(folder or Path.cwd())
    given = dict(_read_settings_file(found, known)) if found else {}
    given.update(_read_environment(environ, known))
    for name, value in overrides.items():
        if value is not None:
            place = "from the command line"
            given[name] = _SetValue(_check_setting_value(known[name], value, place), "flag", place)
    values = {name: given[name].value if name in given else key.default for name, key in known.items()}
    origins = {name: given[name].origin if name in given else "default" for name in known}
    try:
        if not values["path"]:
            raise SettingsError("path is empty; it must be the collection's folder")
        settings: Settings = _build_settings(Settings, values)
    except SettingsError as error:  # the message begins with the setting; add where it was set
        culprit = given.get(str(error).split(" ")[0])
        raise SettingsError(f"{error} (set {culprit.place})" if culprit else str(error)) from None
    return Invocation(values["path"], values["collection"], settings, origins, found)


def describe_settings(invocation: Invocation) -> dict[str, dict[str, Any]]:
    """Return every setting by its dotted name with its value and origin, secrets masked."""
    values = {
        "path": invocation.path,
        "collection": invocation.collection,
        **dict(flatten_settings(invocation.settings)),
    }
    return {
        key.name: {"value": mask_setting(key.name, values[key.name]), "from": invocation.origins[key.name]}
        for key in list_setting_keys().values()
    }


def list_setting_keys() -> dict[str, SettingKey]:
    """List the key of every setting (type, default, secret) by its dotted name."""
    place = (SettingKey("path", str, ".clew"), SettingKey("collection", str, "default"))
    return {key.name: key for key in (*place, *_walk_setting_keys(Settings))}


def find_settings_file(folder: Path) -> Path | None:
    """Find the settings file in the folder or in the nearest parent that has one."""
    places = (place / FILE for place in (folder, *folder.parents))
    return next((place for place in places if place.is_file()), None)


def _walk_setting_keys(tree: Any, prefix: str = "") -> Iterator[SettingKey]:
    types = get_type_hints(tree)
    for item in fields(tree):
        name = f"{prefix}{item.name}"
        if is_dataclass(types[item.name]):
            yield from _walk_setting_keys(types[item.name], f"{name}.")
        else:
            default = item.default_factory() if item.default_factory is not MISSING else item.default
            yield SettingKey(name, types[item.name], default, secret=not item.repr)


def _build_settings(tree: Any, values: Mapping[str, Any], prefix: str = "") -> Any:
    types = get_type_hints(tree)
    return tree(
        **{
            item.name: _build_settings(types[item.name], values, f"{prefix}{item.name}.")
            if is_dataclass(types[item.name])
            else values[f"{prefix}{item.name}"]
            for item in fields(tree)
        }
    )


def _read_settings_file(file: Path, known: Mapping[str, SettingKey]) -> Iterator[tuple[str, _SetValue]]:
    import tomllib

    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise SettingsError(f"the settings file {file} cannot be read: {reason}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{_to_relative_path(file)} is not valid TOML: {error}") from error
    place = f"in {_to_relative_path(file)}"
    for name, value in _flatten_toml_table(table, known, place):
        value = _check_setting_value(known[name], value, place)
        if name in _PATH_SETTINGS and value and "://" not in value:
            value = str(file.parent / Path(value).expanduser())
        elif name == "path" and value.startswith(_LANCE) and not value.startswith(f"{_LANCE}~"):
            value = _resolve_lance_folder(value, file.parent)
        yield name, _SetValue(value, "file", place)


def _resolve_lance_folder(address: str, folder: Path) -> str:
    """Resolve a relative lance:// address against a folder."""
    from urllib.parse import quote

    return _LANCE + str(Path(quote(str(folder.resolve()))) / address.removeprefix(_LANCE))


def _flatten_toml_table(
    table: Mapping[str, Any], known: Mapping[str, SettingKey], place: str, prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Flatten a TOML table to values by dotted name; an unknown name is an error."""
    for word, value in table.items():
        name = prefix + word
        if any(other.startswith(f"{name}.") for other in known):
            if not isinstance(value, Mapping):
                raise SettingsError(f"{name} {place} is a table of settings: write [{name}] on a line of its own")
            yield from _flatten_toml_table(value, known, place, f"{name}.")
        elif name in known:
            yield name, value
        else:
            raise SettingsError(f"{name} {place} is not a setting; {suggest_setting(name, list(known))}")


def _read_environment(environ: Mapping[str, str], known: Mapping[str, SettingKey]) -> Iterator[tuple[str, _SetValue]]:
    names = {**{key.environment_variable: key.name for key in known.values()}, **SHORT_VARIABLES}
    for variable in sorted(environ.keys() & names.keys(), key=lambda name: (name not in SHORT_VARIABLES, name)):
        key = known[names[variable]]
        value = _check_setting_value(key, parse_text_as_type(environ[variable], key.value_type), f"from {variable}")
        yield key.name, _SetValue(value, "environment", f"by {variable}")
    for variable in sorted(name for name in environ if name.startswith("CLEW_") and name not in names):
        # Other programs may use CLEW_ variables: only one that is clearly meant as a setting is an error.
        if "__" in variable or find_close_names(variable, names, max_names=1, cutoff=0.9):
            raise SettingsError(
                f"{variable} in the environment is not a setting; {suggest_setting(variable, list(names))}"
            )


def _check_setting_value(key: SettingKey, value: Any, place: str) -> Any:
    try:
        return check_value_type(value, key.value_type)
    except InvalidValue:
        value = HIDDEN if key.secret else value
        raise SettingsError(f"{key.name} {place} is {value!r}; it must be {describe_type(key.value_type)}") from None


def suggest_setting(name: str, known: list[str]) -> str:
    """Hint at what an unknown name may mean: the nearest setting, by its whole name or last part."""
    last = {other.rsplit(".", 1)[-1]: other for other in reversed(known)}
    tables = {other.rpartition(".")[0] for other in known}
    near = find_close_names(name, [*known, *tables], max_names=1, cutoff=0.75) or [
        last[word] for word in find_close_names(name.rsplit(".", 1)[-1], last, max_names=1, cutoff=0.75)
    ]
    if near:
        return f"did you mean {near[0]}?"
    return f"the settings are {', '.join(known)}"


def _to_relative_path(file: Path) -> str:
    """Return the path of the file relative to the working directory if it is below it, otherwise in full."""
    here = Path.cwd()
    full = file.absolute()
    return str(full.relative_to(here)) if full.is_relative_to(here) else str(full)


_HEAD = """\
# Settings of Clew. A line without the # sets a value; the others show the defaults.
# Precedence: command line, environment (CLEW_SEARCH__K=5), this file, default. `clew config show` lists what holds.
"""


def make_settings_file(chosen: Mapping[str, Any]) -> str:
    """Make the text of a `clew.toml`: all settings by table as comments, the `chosen` ones as values."""
    lines: list[str] = [_HEAD]
    table = ""
    for key in sorted(list_setting_keys().values(), key=lambda key: key.name.rpartition(".")[0]):
        prefix, _, name = key.name.rpartition(".")
        if prefix != table:
            lines.append(f"\n[{prefix}]")
            table = prefix
        lines.append(_format_setting(key, name, chosen))
    return "\n".join(lines) + "\n"


def _format_setting(key: SettingKey, name: str, chosen: Mapping[str, Any]) -> str:
    if chosen.get(key.name) is not None:
        return f"{name} = {_to_toml(chosen[key.name])}"
    if key.secret:
        return f"# {name} is better kept in the environment: {key.environment_variable}"
    if key.default is None:
        return f"# {name} is not set; {describe_type(key.value_type)}"
    return f"# {name} = {_to_toml(key.default)}"


def _to_toml(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_to_toml, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value)
