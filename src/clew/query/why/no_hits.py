"""Why a search found nothing: an empty collection, names that nothing has, the filters, or the query itself."""

from collections.abc import Sequence

from clew.core.filter import EVERYTHING, Filter
from clew.core.types import StoreStats


def explain_no_hits(stats: StoreStats, where: Filter, unknown_names: Sequence[str]) -> str:
    """The reason for an empty result, with what to do next; `unknown_names` are sentences about those of the filter."""
    if not stats.chunks:
        return "the collection is empty; `clew add` fills it"
    if unknown_names:
        return "; ".join(unknown_names)
    if where != EVERYTHING:
        return "nothing matches within the filters; remove one of them to search more"
    pending = f"; {stats.describe_pending()}" if stats.pending else ""
    return f"nothing in the collection matches the query{pending}"
