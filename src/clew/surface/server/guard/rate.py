"""The rate limit: a token bucket for each key or address."""

import math
from collections import OrderedDict
from time import monotonic

from clew.surface.server.errors import RateExceeded

MAX_BUCKETS = 10_000
BURST = 2.0  # seconds' worth of requests that may come at once


class RateLimit:
    """How many requests a second one caller may send; used by one thread, that of the event loop."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._capacity = max(1.0, rate * BURST)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what is left, and at what time

    def check(self, caller: str, now: float | None = None) -> None:
        """Takes one from the bucket of a caller; RateExceeded, with the time to wait, if it is empty."""
        if not self._rate:
            return
        now = monotonic() if now is None else now
        left, at = self._buckets.pop(caller, (self._capacity, now))
        left = min(self._capacity, left + (now - at) * self._rate)
        self._buckets[caller] = (max(left - 1, 0.0) if left >= 1 else left, now)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        if left < 1:
            wait = math.ceil((1 - left) / self._rate)
            raise RateExceeded(
                f"more than {self._rate:g} requests a second (server.rate); ask again in {wait} s",
                headers={"retry-after": str(wait)},
            )
