"""Why a search found nothing: an empty collection, an unknown channel, the filters, or the query itself."""

from collections.abc import Callable, Sequence

from clew.core.filter import EVERYTHING, Filter
from clew.core.suggest import format_suggestion
from clew.core.types import StoreStats


def explain_no_hits(stats: StoreStats, where: Filter, list_channels: Callable[[], Sequence[str]]) -> str:
    """The reason for an empty result, with what to do next; `list_channels` is called only for a channel filter."""
    if not stats.chunks:
        return "the collection is empty; `clew add` fills it"
    known = list_channels() if where.channels else ()
    if unknown := sorted((where.channels or frozenset()) - set(known)):
        hint = format_suggestion(unknown[0], known) or (f"there are {', '.join(known[:3])}" if known else "")
        return f"there is no channel {unknown[0]!r}{'; ' if hint else ''}{hint}"
    if where != EVERYTHING:
        return "nothing matches within the filters; remove one of them to search more"
    return "nothing in the collection matches the query"
