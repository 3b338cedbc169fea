"""Pages and messages in one list through Engine.search, and pages alone as they ever were."""

from dataclasses import replace
from typing import Any

import pytest

from clew import EVERYTHING, Document, Engine, Filter, Message, Settings, record
from clew.core.settings import FlowConfig, SearchConfig, ThreadConfig

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


def test_in_a_fusion_each_kind_has_weights_of_its_own_on_a_shared_scale(engine: Engine) -> None:
    engine.add_documents(PAGES)
    engine.add_messages(MANY[:4])
    search = SearchConfig(cache=0, fusion="convex", semantic_weight=1.0)
    settings = replace(BARE, search=search, flow=FlowConfig(semantic_weight=0.25, reach=0))
    hits = engine.search(ASKED, k=8, settings=settings)
    assert len(hits) == 8
    near, matching = ({hit.chunk.id: hit.scores[leg] for hit in hits} for leg in ("semantic", "lexical"))

    def scale(scores: dict[str, float], id_: str) -> float:
        low, high = min(scores.values()), max(scores.values())
        return (scores[id_] - low) / (high - low)

    for hit in hits:
        weight = 0.25 if "message" in hit.chunk.meta else 1.0
        expected = weight * scale(near, hit.chunk.id) + (1 - weight) * scale(matching, hit.chunk.id)
        assert hit.score == pytest.approx(expected, abs=1e-6)


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
    assert count_ranked(engine, "semantic", apart) == (4, 8)


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
    settings = (BARE, replace(BARE, flow=FlowConfig(semantic_weight=0.1, reach=9)))
    first, second = (engine.search(ASKED, strategy=strategy, settings=each) for each in settings)
    assert first == second
    assert all("flow" not in each.scores for each in first)
