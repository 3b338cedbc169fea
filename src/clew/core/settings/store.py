"""Settings of the embedded store."""

from dataclasses import dataclass

from clew.core.settings.checks import check_min


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """At what size the embedded store changes its index, in chunks."""

    exact_below: int = 10_000  # below this every search is exact and in memory
    exact_limit: int = 200_000  # maximum that is searched in memory while another process holds the index

    def __post_init__(self) -> None:
        check_min("store.exact_below", self.exact_below, 0)
        check_min("store.exact_limit", self.exact_limit, 1)
