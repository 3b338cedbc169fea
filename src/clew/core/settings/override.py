"""Single settings by their dotted name: changing them, and telling in which of them two trees differ."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, get_type_hints

from clew.core.errors import SettingsError
from clew.core.secret import HIDDEN, mask_secrets
from clew.core.settings import DEFAULTS, Settings
from clew.core.settings.types import InvalidValue, check_value_type, describe_type
from clew.core.suggest import format_suggestion

# What takes the place of a setting that was removed.
REMOVED: Mapping[str, str] = {
    "ingestion.late": "late interaction was removed; use the strategy rerank",
    "ingestion.summary": 'who makes summaries is said by ingestion.summaries: "extractive" or "llm"',
    "embedder.dim": 'shorter vectors were removed; store.vectors = "half" makes a collection smaller',
    "embedder.int8": 'it is store.vectors = "half" now',
    "embedder.fast": "every `add` stores words first, so that all is found at once; vectors follow",
    "store.replica": "give the collection an address with several hosts, such as postgresql://a,b/docs",
}


def flatten_settings(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a tree of settings, each with its dotted name."""
    for item in fields(tree):
        value = getattr(tree, item.name)
        if is_dataclass(value):
            yield from flatten_settings(value, f"{prefix}{item.name}.")
        else:
            yield f"{prefix}{item.name}", value


def check_setting_types(settings: Settings) -> Settings:
    """Return the settings; SettingsError for a value of another type than its setting has, as a number for a text."""
    for table in fields(settings):
        tree = getattr(settings, table.name)
        for field, kind in get_type_hints(type(tree)).items():
            name, value = f"{table.name}.{field}", getattr(tree, field)
            try:
                check_value_type(value, kind)
            except InvalidValue:
                shown = repr(mask_setting(name, value))
                raise SettingsError(f"{name} is {shown}; it must be {describe_type(kind)}") from None
    return settings


def override_settings(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """The settings with other values, by dotted name (`search.depth`); SettingsError for one that there is not."""
    known = dict(flatten_settings(DEFAULTS))
    for name, value in values.items():
        if name not in known:
            near = format_suggestion(name, known, max_names=1, cutoff=0.6)
            hint = REMOVED.get(name) or near or "docs/settings.md lists them"
            raise SettingsError(f"{name} is not a setting; {hint}")
        table, _, field = name.partition(".")
        settings = replace(settings, **{table: replace(getattr(settings, table), **{field: value})})
    return settings


def diff_settings(base: Settings, other: Settings) -> dict[str, Any]:
    """The settings of the other that differ from those of the base, by dotted name; a secret is masked."""
    before = dict(flatten_settings(base))
    return {name: mask_setting(name, value) for name, value in flatten_settings(other) if value != before[name]}


def mask_setting(name: str, value: Any) -> Any:
    """The value of a setting as it may be shown: not that of a secret, and an address without its password."""
    table, _, field = name.partition(".")
    if field and any(item.name == field and not item.repr for item in fields(getattr(DEFAULTS, table))):
        return HIDDEN if value else value
    return mask_secrets(value) if isinstance(value, str) else value
