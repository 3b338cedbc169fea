"""Writes a settings file: every setting with its default in a comment, and the values that were chosen."""

import json
from collections.abc import Mapping
from typing import Any

from clew.core.settings.types import describe_type
from clew.surface.settings.load import SettingKey, list_setting_keys

_HEAD = """\
# Settings of Clew. A line without the # sets a value; the others show the defaults.
# Precedence: command line, environment (CLEW_SEARCH__K=5), this file, default. `clew config show` lists what holds.
"""


def make_settings_file(chosen: Mapping[str, Any]) -> str:
    """Make the text of a `clew.toml`: all settings by table as comments, those chosen by dotted name as values."""
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
