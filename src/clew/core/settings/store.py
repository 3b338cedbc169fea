"""Where the embedded index changes its shape."""

from dataclasses import dataclass

from clew.core.settings.checks import at_least


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Where the embedded index changes its shape, in chunks."""

    exact_below: int = 10_000  # up to here every search is exact and in memory
    exact_limit: int = 200_000  # the most that is searched in memory while another process holds the index

    def __post_init__(self) -> None:
        at_least("store.exact_below", self.exact_below, 0)
        at_least("store.exact_limit", self.exact_limit, 1)
