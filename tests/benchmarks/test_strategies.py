"""The call clock of the strategies benchmark: concurrent calls count once, and every method is timed."""

from collections.abc import Iterator
from time import sleep

from benchmarks.search import NO_CACHE
from benchmarks.strategies import CallClock, TimedProxy, _time_drivers
from clew import Document, Engine, Extensions
from clew.core.parallel import run_parallel
from clew.query.search.strategies import STRATEGIES


class Shop:
    name = "shop"

    def open(self, seconds: float) -> str:
        sleep(seconds)
        return "open"

    def wares(self) -> Iterator[int]:
        sleep(0.02)
        yield from (1, 2, 3)


def test_calls_at_the_same_time_count_once() -> None:
    clock = CallClock([(0, 4_000_000_000), (1_000_000_000, 2_000_000_000), (5_000_000_000, 6_000_000_000)])
    assert clock.take_seconds() == 5
    assert clock.take_seconds() == 0


def test_a_timed_thing_is_the_same_thing() -> None:
    clock = CallClock()
    shop = TimedProxy(Shop(), clock)
    assert shop.name == "shop"
    assert not clock.spans
    assert run_parallel([lambda: shop.open(0.01), lambda: shop.open(0.01)]) == ["open", "open"]
    assert len(clock.spans) == 2
    assert clock.take_seconds() >= 0.01
    assert list(shop.wares()) == [1, 2, 3]
    assert clock.take_seconds() >= 0.02  # what is yielded later is timed too


def test_a_strategy_under_the_clock_finds_the_same() -> None:
    clock = CallClock()
    timed = {"timed": _time_drivers(STRATEGIES["multi_query"], clock)}
    with Engine.open(
        ":memory:", embedder="hashed", settings=NO_CACHE, extensions=Extensions(strategies=timed)
    ) as engine:
        engine.add_documents(Document(str(at), f"The lamp number {at} is lit at dusk.") for at in range(5))
        plain = engine.search("When is lamp 3 lit?", strategy="multi_query")
        assert engine.search("When is lamp 3 lit?", strategy="timed") == plain
    assert clock.spans
