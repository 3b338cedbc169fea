"""Single settings by their dotted name: overrides, differences of two trees, and the tunable settings."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, get_type_hints

from clew.core.errors import SettingsError
from clew.core.settings import DEFAULTS, Settings
from clew.core.settings.types import InvalidValue, check_value_type, describe_type
from clew.core.suggest import HIDDEN, format_suggestion, mask_secrets


def flatten_settings(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Flatten a tree of settings to its values, each with its dotted name."""
    for item in fields(tree):
        value = getattr(tree, item.name)
        if is_dataclass(value):
            yield from flatten_settings(value, f"{prefix}{item.name}.")
        else:
            yield f"{prefix}{item.name}", value


def check_setting_types(settings: Settings) -> Settings:
    """Return the settings unchanged; SettingsError for a value of the wrong type, such as a number for a text."""
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
    """Replace values of the settings, by dotted name (`search.depth`); SettingsError for an unknown name."""
    known = dict(flatten_settings(DEFAULTS))
    for name, value in values.items():
        if name not in known:
            near = format_suggestion(name, known, max_names=1, cutoff=0.6)
            raise SettingsError(f"{name} is not a setting; {near or 'docs/settings.md lists them'}")
        table, _, field = name.partition(".")
        settings = replace(settings, **{table: replace(getattr(settings, table), **{field: value})})
    return settings


def diff_settings(base: Settings, other: Settings) -> dict[str, Any]:
    """Return the values of `other` that differ from `base`, by dotted name; secrets are masked."""
    before = dict(flatten_settings(base))
    return {name: mask_setting(name, value) for name, value in flatten_settings(other) if value != before[name]}


def mask_setting(name: str, value: Any) -> Any:
    """Mask the value of a setting for display: a secret, or the password in an address."""
    table, _, field = name.partition(".")
    if field and any(item.name == field and not item.repr for item in fields(getattr(DEFAULTS, table))):
        return HIDDEN if value else value
    return mask_secrets(value) if isinstance(value, str) else value


# No models, addresses, keys, paths or prompt texts: tuned values come from callers that may not set these, and from
# files inside a collection's folder.
_FIELDS: Final = {
    "search": "strategy k depth mode nprobe overfetch min_similarity min_relevance fusion semantic_weight "
    "document_strategy document_weight document_min_similarity candidates variations rounds",
    "context": "k min_relevance min_chance order grow cut",
    "merger": "max_merged_size preserve_order require_adjacent",
    "conversation": "strategy single_below max_tokens overlap_tokens chunks_per_query dedup_strategy dedup_max_per_doc "
    "dedup_threshold order topics global_query mmr",
    "history": "max_context_turns include_assistant keyword_weight max_keywords",
    "query_transformer": "num_queries",
    "scoring": "base scoring time_decay time_floor channel_boost thread_boost flow_boost completeness_boost "
    "score_equality semantic_weight time_weight channel_weight thread_weight flow_weight completeness_weight "
    "min_similarity",
}
TUNABLE: Final = frozenset(f"{table}.{field}" for table, names in _FIELDS.items() for field in names.split())


def check_tunable(name: str, values: Iterable[Any]) -> None:
    """Raise SettingsError unless the setting may be tuned and the values have its type."""
    if name not in TUNABLE:
        hint = format_suggestion(name, TUNABLE, max_names=1, cutoff=0.8)
        raise SettingsError(
            f"{name} cannot be tuned: only numbers and choices that a search reads can; "
            + (hint or "for chunk sizes or another model evaluate two collections")
        )
    table, _, field = name.partition(".")
    kind = get_type_hints(type(getattr(DEFAULTS, table)))[field]
    for value in values:
        try:
            check_value_type(value, kind)
        except (InvalidValue, OverflowError):
            raise SettingsError(f"{name} is {str(value)[:40]!r}; it must be {describe_type(kind)}") from None
