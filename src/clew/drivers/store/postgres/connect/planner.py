"""Plan settings of a connection: custom plans for the parameters, or one generic plan for all searches.

A search is planned once and then only run, because planning takes a third of its time. What a generic plan must know,
the limits and the number of the collection, is written into the statement. Settings last until they are changed, so a
connection that searches again is not configured again.
"""

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from psycopg import Connection

CUSTOM_PLANS = {"plan_cache_mode": "force_custom_plan", "enable_sort": "on"}
LOCAL_CUSTOM_PLANS = (  # until the transaction ends
    "SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_sort', 'on', true)"
)
LOCAL_GENERIC_PLANS = "SELECT set_config('plan_cache_mode', 'force_generic_plan', true)"
_GENERIC_PLANS = {"plan_cache_mode": "force_generic_plan", "enable_sort": "off"}  # no sort, so that a graph is used
_applied: "WeakKeyDictionary[Connection[Any], dict[str, str]]" = WeakKeyDictionary()
_local: "WeakSet[Connection[Any]]" = WeakSet()  # whose settings end with each transaction


def forget_settings(connection: Connection, *, is_local: bool) -> None:
    """Says that a connection has been configured anew, until it is closed or until its transaction ends."""
    _applied.pop(connection, None)
    if is_local:
        _local.add(connection)


def is_local(connection: Connection) -> bool:
    """Whether the settings of a connection end with each transaction."""
    return connection in _local


def use_custom_plans(connection: Connection) -> None:
    """Makes PostgreSQL plan every statement anew, for its parameters."""
    _apply_settings(connection, CUSTOM_PLANS)


def use_generic_plans(connection: Connection) -> None:
    """Makes PostgreSQL plan a statement only once, when it is prepared."""
    _apply_settings(connection, _GENERIC_PLANS)


def use_graph_plans(connection: Connection, breadth: int, *, iterative: bool) -> None:
    """Generic plans for graph searches that keep `breadth` candidates, and scan on if a filter leaves too few.

    An iterative scan records every row it visits, which doubles the time of a search.
    """
    scan = "relaxed_order" if iterative else "off"
    _apply_settings(connection, {**_GENERIC_PLANS, "hnsw.ef_search": str(breadth), "hnsw.iterative_scan": scan})


def _apply_settings(connection: Connection, settings: Mapping[str, str]) -> None:
    """Changes the settings that differ; outside of a transaction, which might roll them back, unless they end there."""
    current = _applied.setdefault(
        connection, {**CUSTOM_PLANS, "hnsw.iterative_scan": "off"}
    )  # old versions do not have it
    new = {name: value for name, value in settings.items() if current.get(name) != value}
    if new:
        calls = ", ".join([f"set_config(%s, %s, {str(is_local(connection)).lower()})"] * len(new))
        connection.execute(f"SELECT {calls}", [word for pair in new.items() for word in pair])
        current.update(new)
