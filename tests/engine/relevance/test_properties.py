"""Laws of relevance, on every store: what it does not depend on, and how little it moves with a collection.

Each test prints the greatest and the mean movement: `pytest -s`. Where a goal is missed, the test asserts the bound
that holds now, and is an expected failure as long as that is worse than the goal.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew import Engine, Extensions, Filter, Message, Settings, record
from clew.core.candidates import ThreadPlace
from clew.core.filter import EVERYTHING
from clew.core.protocols import Strategy
from clew.core.settings import ConversationConfig, SearchConfig, StoreConfig
from clew.core.types import Hit, Query
from clew.query.rank.thread_smoothing import AFTER, add_neighbours
from clew.query.search.strategies import Drivers
from tests.engine.chosen import OpenEngine
from tests.engine.relevance.drawn import QUESTION, Draw, MarkedEmbedder, fill, list_filters

STORES = (pytest.param("memory", marks=pytest.mark.slow), "exact", "shard", "postgres", "lance")  # most seeds: memory
EQUAL = 1e-9
MOST_BY_ONE, MOST_BY_TWO, MEAN = 0.1, 0.2, 0.02
BASE = Settings(search=SearchConfig(cache=0))
EVERY_CHUNK = 1000
DEPTH = BASE.search.depth
# Missed goals. Among a few pages the weights of the question's words depend on each page: the first page that has a
# word makes it a fifth less rare.
ONE_NOW, UNRELATED_NOW = 0.13, 0.21
BEYOND_NOW = 0.03  # a list of more than `search.depth` hits looks deeper, and may find others for its beginning


def return_bare_hits(drivers: Drivers) -> Strategy:
    """A strategy of the user's own, whose hits have no relevance."""

    def search(query: Query) -> list[Hit]:
        vector = drivers.embed_queries([query.text])[0]
        return drivers.store.search_vectors(vector, query.k, query.where)[::-1]

    return search


OWN = Extensions(strategies={"bare": return_bare_hits})


@pytest.fixture(params=STORES)
def open_engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenEngine]:
    """Opens an engine on a store of each kind, every time in a new collection; all are closed in the end."""
    kind, opened, numbers = request.param, list[Engine](), count()
    paths = {"memory": ":memory:", "postgres": "", "lance": f"lance://{tmp_path}"}
    path = request.getfixturevalue("postgres") if kind == "postgres" else paths.get(kind, tmp_path / "team.clew")
    settings = replace(BASE, store=StoreConfig(exact_below=0)) if kind == "shard" else BASE

    def open_(**options: Any) -> Engine:
        given = {"embedder": MarkedEmbedder(), "settings": settings, "extensions": OWN}
        named = {} if kind == "memory" else {"collection": f"c{next(numbers)}"}
        opened.append(Engine.open(path, **{**given, **named, **options}))
        return opened[-1]

    yield open_
    for engine in opened:
        engine.close()


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.node.callspec.params["open_engine"])


def choose_seeds(kind: str, usual: int, elsewhere: int = 2) -> range:
    """The seeds of collections: many in memory, some on the other stores."""
    return range(usual if kind == "memory" else elsewhere)


def say(line: str) -> None:
    print(line)  # noqa: T201


def get_relevances(hits: Sequence[Hit]) -> dict[str, float]:
    return {hit.chunk.id: hit.relevance for hit in hits}


def ask_all(engine: Engine) -> dict[str, float]:
    """The relevance of every chunk."""
    return get_relevances(engine.search(QUESTION, k=EVERY_CHUNK))


def test_threads_may_have_any_number() -> None:
    """On a server the number of a row may be near the greatest."""
    said = [ThreadPlace(2**62 + 1, number, f"m{number}", "", "the anchor is painted") for number in range(2)]
    elsewhere = ThreadPlace(2**62 + 2, 1, "other", "", "the anchor is painted")
    gained = add_neighbours(np.array([0.0, 1.0, 0.0]), [*said, elsewhere], 5)
    assert gained.tolist() == [0.5, 1.0, 0.0]


class Movements:
    """How far relevances moved, over all collections of a test."""

    def __init__(self, what: str) -> None:
        self.what, self.each = what, list[float]()

    def add(self, before: Mapping[str, float], after: Mapping[str, float], without: Sequence[str] = ()) -> None:
        shared = before.keys() & after.keys() - set(without)
        self.each += [abs(after[id_] - before[id_]) for id_ in shared]

    @property
    def greatest(self) -> float:
        return max(self.each, default=0.0)

    @property
    def mean(self) -> float:
        return sum(self.each) / max(len(self.each), 1)

    def show(self) -> None:
        say(f"{self.what}: greatest {self.greatest:.4g}, mean {self.mean:.4g}, of {len(self.each)}")


def check_goal(greatest: float, goal: float, now: float) -> None:
    """Fail above the bound that holds now; an expected failure above the goal."""
    assert greatest <= now
    if greatest > goal:
        pytest.xfail(f"{greatest:.3f} is above the goal of {goal}")


def with_search(settings: Settings, **changed: Any) -> Settings:
    return replace(settings, search=replace(settings.search, **changed))


def list_ways(settings: Settings) -> dict[str, dict[str, Any]]:
    """The options of each way to search."""
    whole = replace(settings, conversation=ConversationConfig(dedup_strategy="none"))
    summaries = with_search(settings, document_strategy="hybrid")
    return {
        "semantic": {"strategy": "semantic"},
        "lexical": {"strategy": "lexical"},
        "hybrid": {"strategy": "hybrid"},
        "document_boost": {"strategy": "document_boost"},
        "document_boost over hybrid": {"strategy": "document_boost", "settings": summaries},
        **{fusion: {"settings": with_search(settings, fusion=fusion)} for fusion in ("rrf", "convex", "round_robin")},
        "with a floor": {"settings": with_search(settings, min_relevance=1e-6)},
        "chunked": {"strategy": "chunked", "settings": whole},
        "bare": {"strategy": "bare"},
        "no model": {"strategy": "multi_query"},
    }


def search_some_way(engine: Engine, options: Mapping[str, Any], draw: Draw, where: Filter | None) -> list[Hit]:
    """The hits of a search alone, among others or traced, with any k."""
    named = {**options, "k": draw.random.choice((1, 2, 3, 5, 10, 15, 20, 31, 32, 33, 40))}
    if where is not None:
        named["where"] = where
    how = draw.random.choice(("alone", "many", "traced", "kept"))
    if how == "many":
        return engine.search_many(["soup of the day", QUESTION, "walnut ledger"], **named)[1]
    with nullcontext() if how == "alone" else record(keep=how == "kept"):
        return engine.search(QUESTION, **named)


@pytest.mark.parametrize("threads", [False, True], ids=["pages", "with-threads"])
def test_it_is_the_same_under_any_filter_k_and_strategy(open_engine: OpenEngine, kind: str, threads: bool) -> None:
    moved = Movements(f"{kind}: filter, k, strategy")
    for seed in choose_seeds(kind, 6, 2):
        draw = Draw(seed)
        pages, messages = draw.pages(draw.random.randint(5, 120)), draw.messages(100 if threads else 0)
        engine = fill(open_engine(), pages, messages)
        known = ask_all(engine)
        assert len(known) >= len(pages)
        for options in list_ways(engine.settings).values():
            for where in (None, *list_filters(pages, draw)):
                moved.add(known, get_relevances(search_some_way(engine, options, draw, where)))
    moved.show()
    assert len(moved.each) > 1000
    assert moved.greatest <= EQUAL


SIZES = (8, 12, 20, 21, 35, 60, 90, 120, 200, 300)


def draw_size(draw: Draw, kind: str) -> int:
    return draw.random.choice(SIZES if kind == "memory" else SIZES[:5])


def test_one_or_two_more_pages_hardly_move_the_others(open_engine: OpenEngine, kind: str) -> None:
    one, two, both = (Movements(f"{kind}: {what}") for what in ("one page more", "two pages more", "removed again"))
    for seed in choose_seeds(kind, 120):
        draw = Draw(seed)
        engine = fill(open_engine(), draw.pages(draw_size(draw, kind)))
        before = ask_all(engine)
        added = [draw.page(draw.any_text()) for _ in range(2)]
        engine.add_documents(added[:1])
        one.add(before, ask_all(engine))
        engine.add_documents(added[1:])
        two.add(before, ask_all(engine))
        for page in added:
            engine.drop(page.id)
        both.add(before, ask_all(engine))
    for each in (one, two, both):
        each.show()
    assert both.greatest <= EQUAL
    assert max(one.mean, two.mean) <= MEAN
    assert two.greatest <= MOST_BY_TWO
    check_goal(one.greatest, MOST_BY_ONE, ONE_NOW)


def test_one_or_two_more_messages_hardly_move_those_of_other_threads(open_engine: OpenEngine, kind: str) -> None:
    """In its own thread a message gives to those around it, as it should."""
    one, two = (Movements(f"{kind}: {what}") for what in ("one message more", "two messages more"))
    for seed in choose_seeds(kind, 60):
        draw = Draw(seed)
        size = draw_size(draw, kind)
        engine = fill(open_engine(), draw.pages(size // 4), draw.messages(size - size // 4))
        before = ask_all(engine)
        for moved in (one, two):
            engine.add_messages([draw.message(draw.any_text(), 10**6, channel="elsewhere")])
            moved.add(before, ask_all(engine))
    for each in (one, two):
        each.show()
    assert two.greatest <= MOST_BY_TWO
    assert max(one.mean, two.mean) <= MEAN
    check_goal(one.greatest, MOST_BY_ONE, ONE_NOW)


def test_in_its_own_thread_a_message_gives_no_more_than_its_share(open_engine: OpenEngine, kind: str) -> None:
    """The next message is the question once more: those before it gain up to AFTER of its relevance."""
    around, apart = (Movements(f"{kind}: one more in the same thread{where}") for where in ("", ", far away"))
    for seed in choose_seeds(kind, 30):
        draw = Draw(seed)
        said = [draw.message(draw.text(), at, channel="ops") for at in range(30)]
        engine = fill(open_engine(), draw.pages(10), said)
        before = ask_all(engine)
        engine.add_messages([draw.message(draw.restate(), 30, channel="ops")])
        after = ask_all(engine)
        around.add(before, after)
        far = {f"{each.id}_chunk_0" for each in said[: -engine.settings.flow.reach]}
        apart.add({id_: before[id_] for id_ in far}, after)
    for each in (around, apart):
        each.show()
    assert around.greatest <= AFTER + MOST_BY_ONE
    check_goal(apart.greatest, MOST_BY_ONE, ONE_NOW)


@pytest.mark.parametrize("threads", [False, True], ids=["pages", "with-threads"])
def test_a_hybrid_list_is_in_the_order_of_relevance_and_a_shorter_one_its_beginning(
    open_engine: OpenEngine, kind: str, threads: bool
) -> None:
    for seed in choose_seeds(kind, 20, 3):
        draw = Draw(seed)
        size = draw.random.choice((8, 40, 90, 150))
        engine = fill(open_engine(), draw.pages(size), draw.messages(size if threads else 0))
        for where in (EVERYTHING, Filter(access={"staff"}), Filter(meta={"team": "red"}) | Filter(channels={"ops"})):
            longest = engine.search(QUESTION, k=DEPTH, where=where)
            shown = [hit.relevance for hit in longest]
            assert shown == sorted(shown, reverse=True)
            ids = [hit.chunk.id for hit in longest]
            for k in (1, 2, 3, 5, 9, 10, 11, 20, 31, 32, 33, 49):
                found = engine.search(QUESTION, k=k, where=where)
                assert [hit.chunk.id for hit in found] == ids[:k], (seed, k, where)
                assert [hit.relevance for hit in found] == pytest.approx(shown[:k], abs=EQUAL)


@pytest.mark.parametrize("threads", [False, True], ids=["pages", "with-threads"])
def test_a_list_longer_than_the_depth_begins_as_a_shorter_one(
    open_engine: OpenEngine, kind: str, threads: bool
) -> None:
    """The goal is that it does; what is missing in the shorter list is at most of a small relevance."""
    missing, lists = list[float](), 0
    for seed in choose_seeds(kind, 20, 3):
        draw = Draw(seed)
        size = draw.random.choice((8, 40, 90, 150))
        engine = fill(open_engine(), draw.pages(size), draw.messages(size if threads else 0))
        longest = engine.search(QUESTION, k=60)
        for k in (10, 50, 51, 55, 59):
            found = {hit.chunk.id for hit in engine.search(QUESTION, k=k)}
            missing += [hit.relevance for hit in longest[:k] if hit.chunk.id not in found]
            lists += 1
    greatest = max(missing, default=0.0)
    say(f"{kind}: {len(missing)} hits missing in {lists} lists, their relevance up to {greatest:.4g}")
    check_goal(greatest, 0.0, BEYOND_NOW)


@pytest.mark.parametrize("threads", [False, True], ids=["pages", "with-threads"])
def test_unrelated_pages_hardly_move_a_small_collection(open_engine: OpenEngine, kind: str, threads: bool) -> None:
    moved = Movements(f"{kind}: unrelated pages")
    for seed in choose_seeds(kind, 30):
        draw = Draw(seed)
        messages: list[Message] = draw.messages(3) if threads else []
        engine = fill(open_engine(), draw.pages(2 if threads else 5), messages)
        before = ask_all(engine)
        for size in (1, 4, 10, 30, 45, 105):  # 5 → 200 chunks
            engine.add_documents(draw.unrelated(size))
            moved.add(before, ask_all(engine))
    moved.show()
    check_goal(moved.greatest, MOST_BY_ONE, UNRELATED_NOW)
