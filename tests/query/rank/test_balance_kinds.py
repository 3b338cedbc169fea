"""Pages and messages in one list through Engine.search, and pages alone as they ever were."""

from dataclasses import replace
from typing import Any

import pytest

from clew import EVERYTHING, Document, Engine, Filter, Hit, Message, Settings, record
from clew.core.settings import FlowConfig, SearchConfig, ThreadConfig
from clew.core.types import Chunk, DocumentRecord
from clew.query.rank.balance_kinds import fuse_by_kind
from clew.query.rank.fuse import convex

BARE = Settings(threads=ThreadConfig(untangle=False, before=0), search=SearchConfig(cache=0))
PAGES = tuple(Document(f"p{n}", f"# Winch {n}\n\nThe winch of crane {n} is greased twice a year.") for n in range(4))
MANY = tuple(
    Message(f"When is the winch of crane {n} greased?", author="Ann", id=f"m{n}", channel="yard") for n in range(30)
)
ASKED = "when is the winch of a crane greased"


@pytest.fixture
def engine() -> Any:
    with Engine.open(":memory:", embedder="hashed", settings=BARE) as opened:
        yield opened


def hit(name: str, score: float, *, message: bool) -> Hit:
    chunk = Chunk(name, name, 0, 1, "x", 0, 1, meta={"message": name} if message else {})
    return Hit(chunk, DocumentRecord(name), score)


def test_each_kind_has_the_scores_of_its_own_fusion_on_a_shared_scale() -> None:
    meaning = [hit("p", 0.8, message=False), hit("m", 0.7, message=True), hit("q", 0.6, message=False)]
    words = [hit("m", 9.0, message=True), hit("p", 5.0, message=False), hit("q", 1.0, message=False)]
    fuse = fuse_by_kind(convex(1.0, 0.0), convex(0.25, 0.75))
    assert [(each.chunk.id, round(each.score, 6)) for each in fuse([meaning, words])] == [
        ("p", 1.0),
        ("m", round(0.25 * 0.5 + 0.75 * 1.0, 6)),
        ("q", 0.0),
    ]


def count_ranked(engine: Engine, leg: str, settings: Settings, where: Filter = EVERYTHING) -> tuple[int, int]:
    """How many pages and how many messages a leg of a hybrid search ranks."""
    with record(keep=True) as trace:
        engine.search(ASKED, k=8, settings=settings, where=where)
    ranked = trace.find(leg)
    assert ranked
    assert ranked.output is not None
    messages = sum(str(getattr(each, "id", "")).startswith("m") for each in ranked.output)
    return len(ranked.output) - messages, messages


@pytest.mark.parametrize("leg", ["semantic", "lexical"])
def test_each_kind_is_found_to_the_same_depth(engine: Engine, leg: str) -> None:
    engine.add_documents(PAGES)
    engine.add_messages(MANY)
    settings = replace(BARE, search=SearchConfig(cache=0, depth=8))
    assert count_ranked(engine, leg, settings) == (4, 8)
    assert count_ranked(engine, leg, replace(BARE, search=SearchConfig(cache=0, depth=40))) == (4, 30)
    assert count_ranked(engine, leg, settings, Filter(kinds={"thread"})) == (0, 8)
    assert count_ranked(engine, leg, settings, Filter(kinds={"page"})) == (4, 0)


def test_messages_do_not_crowd_the_pages_out_of_a_ranking(engine: Engine) -> None:
    engine.add_documents(PAGES)
    engine.add_messages(MANY)
    apart = replace(BARE, search=SearchConfig(cache=0, depth=8))
    together = replace(apart, flow=FlowConfig(each_kind=False))
    assert sum(count_ranked(engine, "semantic", together)) == 8
    assert count_ranked(engine, "semantic", together)[0] < count_ranked(engine, "semantic", apart)[0]


def test_one_kind_is_all_there_is_where_it_is_asked_for(engine: Engine) -> None:
    engine.add_documents(PAGES)
    engine.add_messages(MANY)
    for kind, message in (("page", False), ("thread", True)):
        hits = engine.search(ASKED, k=5, where=Filter(kinds={kind}))
        assert [("message" in each.chunk.meta) for each in hits] == [message] * len(hits)
        assert hits


def test_words_count_more_for_messages_than_for_pages(engine: Engine) -> None:
    engine.add_documents(PAGES)
    engine.add_messages(MANY[:4])

    def parts(weight: float) -> dict[str, dict[str, float]]:
        settings = replace(BARE, flow=FlowConfig(semantic_weight=weight, reach=0))
        return {each.chunk.id: dict(each.scores) for each in engine.search(ASKED, k=8, settings=settings)}

    words, meaning = parts(0.0), parts(1.0)
    changed = {id_ for id_ in words if words[id_]["hybrid"] != meaning[id_]["hybrid"]}
    assert changed
    assert all(id_.startswith("m") for id_ in changed)


@pytest.mark.parametrize("strategy", ["semantic", "lexical", "hybrid"])
def test_a_collection_of_pages_is_searched_as_if_there_were_no_messages(engine: Engine, strategy: str) -> None:
    engine.add_documents(PAGES)
    settings = (BARE, replace(BARE, flow=FlowConfig(each_kind=False, semantic_weight=0.1, after=1, before=1, reach=9)))
    first, second = (engine.search(ASKED, strategy=strategy, settings=each) for each in settings)
    assert first == second
    assert all("flow" not in each.scores for each in first)
