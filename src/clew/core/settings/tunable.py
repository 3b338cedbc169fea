"""The settings that may be tuned: numbers and choices that a search reads, by an explicit list.

No name of a model, address, key, path or text for a prompt is among them: values come from callers that may not read
or set these, and from files that came with a folder.
"""

from collections.abc import Iterable
from typing import Any, Final, get_type_hints

from clew.core.errors import SettingsError
from clew.core.settings import DEFAULTS
from clew.core.settings.types import InvalidValue, check_value_type, describe_type
from clew.core.suggest import format_suggestion

_FIELDS: Final = {
    "search": "strategy k depth mode nprobe overfetch min_similarity min_relevance fusion semantic_weight rrf_k "
    "document_strategy document_weight document_min_similarity candidates variations rounds",
    "context": "k min_relevance min_chance order grow neighbour_worth section_share cut",
    "merger": "max_merged_size preserve_order require_adjacent",
    "conversation": "strategy single_below max_tokens overlap_tokens chunks_per_query dedup_strategy dedup_max_per_doc "
    "dedup_threshold order topics global_query mmr",
    "history": "max_context_turns include_assistant keyword_weight max_keywords",
    "query_transformer": "num_queries",
    "scoring": "base scoring time_decay time_floor channel_boost thread_boost flow_boost completeness_boost "
    "score_equality semantic_weight time_weight channel_weight thread_weight flow_weight completeness_weight "
    "min_similarity related_channels chain_share",
}
TUNABLE: Final = frozenset(f"{table}.{field}" for table, names in _FIELDS.items() for field in names.split())


def check_tunable(name: str, values: Iterable[Any]) -> None:
    """Raises SettingsError unless the setting may be tuned and the values are of its type."""
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
