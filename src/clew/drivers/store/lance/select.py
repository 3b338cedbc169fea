"""Which rows of a collection are meant: conditions that become SQL for Lance, or are tested in memory."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from clew.core.facets import Condition, find_named_documents

Operator = Literal["in", "<", ">"]
_TESTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "in": lambda value, given: value in given,
    "<": lambda value, given: value is not None and value < given,
    ">": lambda value, given: value is not None and value > given,
}


@dataclass(frozen=True, slots=True)
class Select:
    """Rows of a kind for which all of the conditions hold, and one of the alternatives of a filter if there are any."""

    kind: int
    where: tuple[tuple[str, Operator, Any], ...] = ()
    alternatives: tuple[Condition, ...] | None = field(default=None)

    @property
    def is_empty(self) -> bool:
        """Whether no row can be meant."""
        return self.alternatives == () or any(op == "in" and not given for _, op, given in self.where)

    def get_values(self, column: str) -> Collection[Any] | None:
        """The values that a column may have; None if any."""
        return next((given for name, op, given in self.where if op == "in" and name == column), None)

    def admits(self, row: Mapping[str, Any]) -> bool:
        """Whether the conditions hold for a row of the kind, whatever the alternatives."""
        return all(_TESTS[op](row.get(name), given) for name, op, given in self.where)

    def to_sql(self) -> str:
        """The conditions as Lance reads them."""
        parts = [f"kind = {self.kind}", *(_compare(*each) for each in self.where)]
        if self.alternatives is not None and not any(each.is_empty for each in self.alternatives):
            parts.append(f"({' OR '.join(f'({_condition_to_sql(each)})' for each in self.alternatives) or 'false'})")
        return " AND ".join(parts)


def select(kind: int, alternatives: Sequence[Condition] | None = None, **columns: Collection[Any]) -> Select:
    """Rows of a kind whose columns have one of the given values each."""
    where = tuple((name, "in", values) for name, values in columns.items())
    return Select(kind, where, None if alternatives is None else tuple(alternatives))  # type: ignore[arg-type]


def quote(value: Any) -> str:
    """A value as a literal of SQL."""
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def _compare(name: str, op: Operator, given: Any) -> str:
    if op != "in":
        return f"{name} {op} {quote(given)}"
    values = sorted(set(given))
    if not values:
        return "false"
    return f"{name} = {quote(values[0])}" if len(values) == 1 else f"{name} IN ({', '.join(map(quote, values))})"


def _condition_to_sql(condition: Condition) -> str:
    parts = [_has_any(group) for group in condition.groups]
    if condition.forbidden:
        parts.append(f"NOT {_has_any(condition.forbidden)}")
    if condition.since is not None:
        parts.append(f"seconds >= {condition.since!r}")
    if condition.until is not None:
        parts.append(f"seconds < {condition.until!r}")
    return " AND ".join(parts) or "true"


def _has_any(group: Collection[str]) -> str:
    return f"array_has_any(facets, [{', '.join(map(quote, sorted(group)))}])"


def named_documents(alternatives: Sequence[Condition]) -> set[str] | None:
    """The ids of the only documents that a filter can admit; None if it names none."""
    named = [find_named_documents(each) for each in alternatives]
    return None if None in named else {doc_id for each in named for doc_id in each or ()}
