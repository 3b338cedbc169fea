"""How the statements of a connection are planned: anew for what they are given, or once for all searches alike.

A search is planned once and then only run, because planning takes a third of its time. What such a plan must not depend
on, its limits and the number of the collection, stands in the words of the statement. Settings hold until they are
changed, so a connection that searches again is not told again.
"""

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from psycopg import Connection

ANEW = {"plan_cache_mode": "force_custom_plan", "enable_sort": "on"}
_ONCE = {"plan_cache_mode": "force_generic_plan", "enable_sort": "off"}  # no sort: so that a graph is used
_told: "WeakKeyDictionary[Connection[Any], dict[str, str]]" = WeakKeyDictionary()


def plan_anew(connection: Connection) -> None:
    """Plans every statement for what it is given."""
    _tell(connection, ANEW)


def plan_once(connection: Connection) -> None:
    """Plans a statement when it is prepared, whatever it is given."""
    _tell(connection, _ONCE)


def plan_for_graph(connection: Connection, breadth: int, *, iterates: bool) -> None:
    """The same for searches in a graph that keep so many candidates, and go on past rows that a filter keeps out.

    To be able to go on, a search notes all that it passes by, which takes as long again as the search itself.
    """
    scan = "relaxed_order" if iterates else "off"
    _tell(connection, {**_ONCE, "hnsw.ef_search": str(breadth), "hnsw.iterative_scan": scan})


def _tell(connection: Connection, wanted: Mapping[str, str]) -> None:
    """Changes what differs; outside of a transaction, which might take it back."""
    known = _told.setdefault(connection, {**ANEW, "hnsw.iterative_scan": "off"})  # which old ones do not know at all
    new = {name: value for name, value in wanted.items() if known.get(name) != value}
    if new:
        asked = ", ".join(["set_config(%s, %s, false)"] * len(new))
        connection.execute(f"SELECT {asked}", [word for pair in new.items() for word in pair])
        known.update(new)
