"""A search goes one way: alone, in a batch and traced it finds the same, and reads what it shows."""

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest

from clew import EVERYTHING, Document, Engine, Extensions, Filter, Message, Settings, record
from clew.core.candidates import Placed
from clew.core.errors import DriverFailed
from clew.core.settings import SearchConfig, StoreConfig
from clew.core.types import Chunk, Hit
from clew.drivers.store import read
from clew.drivers.store.backend import Snapshot
from clew.drivers.store.store import HitCache, Store

PLAIN = ("semantic", "lexical", "hybrid")
UNCACHED = SearchConfig(cache=0)
WORDS = "anchor bell cable deck engine flag gale hull island jetty keel lantern mast net oar pier quay rope sail tide"
QUESTIONS = [
    "who repairs the anchor cable on deck?",
    "bell",
    "lantern lantern lantern at the quay",
    "the",  # no term
    "hello there",
    "zebra xylophone",  # in no text
    "rope and sail and tide and mast of the hull at the pier in the gale",
    "who repairs the anchor cable on deck?",
]


def write_pages(count: int = 90) -> list[Document]:
    words = WORDS.split()
    pages = []
    for n in range(count):
        chosen = [words[(n * step + step) % len(words)] for step in range(1, 4 + n % 5)]
        text = f"The {' and the '.join(chosen)} of ship {n % 7} are kept in order."
        pages.append(Document(f"p{n:02}", text, access=({"crew"}, {"office"}, None)[n % 3]))
    copies = [Document(f"copy{n}", pages[n].text) for n in range(4)]  # equal texts, equal scores
    return [*pages, *copies]


@pytest.fixture(params=["exact", "shard"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    below = 10_000 if request.param == "exact" else 20
    settings = Settings(search=UNCACHED, store=StoreConfig(exact_below=below))
    with Engine.open(tmp_path / "ships", embedder="hashed", settings=settings) as opened:
        opened.add_documents(write_pages())
        assert opened.status().index.startswith("exact" if below > 100 else "qdrant")
        yield opened


def search_three_ways(engine: Engine, **asked: Any) -> tuple[list[list[Hit]], list[list[Hit]], list[list[Hit]]]:
    """In one call, one by one, and one by one while a trace is recorded that keeps what each step gave."""
    together = engine.search_many(QUESTIONS, **asked)
    alone = [engine.search(text, **asked) for text in QUESTIONS]
    traced = []
    for text in QUESTIONS:
        with record(keep=True) as trace:
            traced.append(engine.search(text, **asked))
        assert trace.find("search")
    return together, alone, traced


FILTERS = [
    EVERYTHING,
    Filter(documents=frozenset({"p01", "p02", "copy1", "p40"})),
    Filter(documents=frozenset(f"p{n:02}" for n in range(60))),
    Filter(documents=frozenset()),
    Filter(access={"crew"}),
]


@pytest.mark.parametrize(("strategy", "where"), [*product(PLAIN, FILTERS), ("document_boost", FILTERS[2])])
def test_alone_together_and_traced_the_same_is_found(engine: Engine, strategy: str, where: Filter) -> None:
    for k in (3, 30) if strategy in PLAIN else (3,):
        together, alone, traced = search_three_ways(engine, k=k, strategy=strategy, where=where)
        assert [list(map(repr, hits)) for hits in together] == [list(map(repr, hits)) for hits in traced]
        assert [list(map(repr, hits)) for hits in alone] == [list(map(repr, hits)) for hits in traced]


@pytest.mark.parametrize(
    "search",
    [
        SearchConfig(cache=0, min_similarity=0.3),
        SearchConfig(cache=0, min_relevance=0.01),
        SearchConfig(cache=0, fusion="rrf"),
        SearchConfig(cache=0, mode="exact"),
        SearchConfig(cache=0, semantic_weight=0.9, depth=7, overfetch=1),
        SearchConfig(),
    ],
)
@pytest.mark.parametrize("strategy", PLAIN)
def test_so_it_is_under_any_settings_of_search(engine: Engine, strategy: str, search: SearchConfig) -> None:
    together, alone, traced = search_three_ways(engine, k=4, strategy=strategy, settings=Settings(search=search))
    assert together == traced
    assert alone == traced


@pytest.mark.parametrize("strategy", PLAIN)
def test_and_after_documents_were_removed_and_added(engine: Engine, strategy: str) -> None:
    engine.drop("p01", "copy2")
    engine.add_documents([Document("new", "The anchor and the bell of a new ship.")])
    together, alone, traced = search_three_ways(engine, k=5, strategy=strategy)
    assert together == traced
    assert alone == traced
    assert not {"p01", "copy2"} & {hit.document.id for hits in together for hit in hits}
    assert "new" in {hit.document.id for hits in together for hit in hits}


@pytest.mark.parametrize("strategy", PLAIN)
def test_and_among_messages_and_in_other_languages(strategy: str) -> None:
    with Engine.open(":memory:", embedder="hashed", settings=Settings(search=UNCACHED)) as engine:
        engine.add_documents(write_pages(30))
        german = "Der Anker und die Glocke des Schiffes werden jeden Tag von der Mannschaft geprüft und gereinigt."
        engine.add_documents(Document(f"de{n}", f"{german} Das ist Seite {n}.") for n in range(9))
        assert (
            search_three_ways(engine, k=4, strategy=strategy)[0] == search_three_ways(engine, k=4, strategy=strategy)[2]
        )
        said = ["who has the anchor?", "the bell rings", "the lantern is at the quay", "rope and sail are wet"]
        engine.add_messages(Message(text, author="ann", channel="deck") for text in said)
        together, alone, traced = search_three_ways(engine, k=6, strategy=strategy)
        assert together == traced
        assert alone == traced
        assert any("message" in hit.chunk.meta for hits in together for hit in hits)


@pytest.mark.parametrize("strategy", PLAIN)
def test_a_chunk_that_names_no_message_is_none(strategy: str) -> None:
    def cut(document: Document) -> list[Chunk]:
        text = document.text
        return [Chunk(f"{document.id}.0", document.id, 0, 1, text, 0, len(text), meta={"message": None})]

    settings = Settings(search=UNCACHED)
    with Engine.open(":memory:", embedder="hashed", settings=settings, extensions=Extensions(chunker=cut)) as engine:
        engine.add_documents(write_pages(40))
        together, alone, traced = search_three_ways(engine, k=5, strategy=strategy)
        assert together == traced
        assert alone == traced
        assert any(together)


def test_a_page_of_which_a_part_is_admitted_is_shown_in_part() -> None:
    def cut(document: Document) -> list[Chunk]:
        middle = document.text.index(" of ship")
        spans = [("deck", 0, middle), ("hold", middle, len(document.text))]
        return [
            Chunk(f"{document.id}.{at}", document.id, at, 2, document.text[start:end], start, end, meta={"part": part})
            for at, (part, start, end) in enumerate(spans)
        ]

    where, settings = Filter(meta={"part": "hold"}), Settings(search=UNCACHED)
    with Engine.open(":memory:", embedder="hashed", settings=settings, extensions=Extensions(chunker=cut)) as engine:
        engine.add_documents(write_pages(40))
        together, alone, traced = search_three_ways(engine, k=5, strategy="hybrid", where=where)
        assert together == traced
        assert alone == traced
        shown = {(hit.chunk.index, hit.chunk.total, hit.document.chunks) for hits in together for hit in hits}
        assert shown == {(0, 1, 1)}


def log_calls(call: Any, calls: list[str]) -> Any:
    def run(*args: Any, **named: Any) -> Any:
        calls.append(call.__name__)
        return call(*args, **named)

    return run


@pytest.mark.parametrize("strategy", PLAIN)
def test_a_batch_asks_the_store_once(engine: Engine, strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[str]()
    for name in ("find_candidates", "search_vectors", "search_terms", "match_terms"):
        monkeypatch.setattr(Store, name, log_calls(getattr(Store, name), calls))
    engine.search_many(QUESTIONS, k=3, strategy=strategy)
    assert calls == ["find_candidates"]
    calls.clear()
    engine.search("the anchor", k=3, strategy=strategy)
    assert calls == ["find_candidates"]
    calls.clear()
    engine.search_many(QUESTIONS, k=3, strategy=strategy, where=FILTERS[1])
    assert calls == ["find_candidates"]  # what the filter admits, and the field: all that the engine may see
    calls.clear()
    engine.within(FILTERS[1]).search_many(QUESTIONS, k=3, strategy=strategy)
    assert calls.count("find_candidates") == 1


@pytest.mark.parametrize("strategy", PLAIN)
def test_only_what_is_shown_is_read(engine: Engine, strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, read_hits = list[int](), read.read_hits

    def note(snapshot: Snapshot, wanted: Sequence[int]) -> dict[int, Hit]:
        rows.extend(wanted)
        return read_hits(snapshot, wanted)

    monkeypatch.setattr(read, "read_hits", note)
    assert len(engine.search("who repairs the lantern cable of ship 5?", k=3, strategy=strategy)) == 3
    assert len(rows) == 3


@pytest.mark.parametrize("strategy", PLAIN)
def test_where_a_chunk_was_removed_meanwhile_it_is_searched_for_again(
    engine: Engine, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = engine.search_many(QUESTIONS, k=3, strategy=strategy)
    load, asked = HitCache.load, list[int]()

    def lose_one(cache: HitCache, state: Any, rows: Any) -> Any:
        asked.append(1)
        loaded = load(cache, state, rows)
        return dict(list(loaded.items())[1:]) if len(asked) == 1 else loaded  # as if it was removed meanwhile

    monkeypatch.setattr(HitCache, "load", lose_one)
    assert engine.search_many(QUESTIONS, k=3, strategy=strategy) == expected
    assert len(asked) > 1


def test_a_collection_that_never_holds_still_is_an_error(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HitCache, "load", lambda *_: {})
    with pytest.raises(DriverFailed, match="changed faster than it could be searched"):
        engine.search(QUESTIONS[0])


def test_a_batch_uses_and_fills_the_cache_of_results() -> None:
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_documents(write_pages(30))
        first = engine.search_many(QUESTIONS[:3], k=3)
        with record() as trace:
            assert engine.search(QUESTIONS[0], k=3) == first[0]
        assert trace.find_note("cached") is True
        cast("dict[str, str]", first[0][0].chunk.meta)["mine"] = "changed"  # what a caller changes is not kept
        assert engine.search_many(QUESTIONS, k=3)[0] == engine.search(QUESTIONS[0], k=3) != first[0]


@pytest.mark.parametrize("strategy", PLAIN)
@pytest.mark.parametrize("where", [EVERYTHING, FILTERS[-1]])
def test_a_trace_counts_what_was_found_by_meaning_and_by_words(engine: Engine, strategy: str, where: Filter) -> None:
    with record() as trace:
        found = engine.search(QUESTIONS[0], k=3, strategy=strategy, where=where)
    (searched,) = trace.steps
    assert [each.name for each in searched.steps] == ["embed", "candidates", "rank"]
    assert searched.out == searched.steps[-1].out == len(found) == 3
    with record(keep=True) as kept:
        engine.search(QUESTIONS[0], k=3, strategy=strategy, where=where)
    ranked = kept.find("rank")
    assert ranked
    assert [each.name for each in ranked.steps] == (["semantic", "lexical"] if strategy == "hybrid" else [strategy])
    for leg in ranked.steps:
        assert leg.out == ranked.notes[leg.name] == searched.steps[-1].notes[leg.name]


@pytest.mark.parametrize("strategy", PLAIN)
def test_a_trace_that_keeps_has_the_order_of_all_that_was_ranked(engine: Engine, strategy: str) -> None:
    with record(keep=True) as trace:
        found = engine.search(QUESTIONS[0], k=3, strategy=strategy)
    step = trace.find("rank")
    assert step
    placed = cast("tuple[Placed, ...]", step.output)
    assert len(placed) > 3
    assert placed[:3] == tuple(Placed(hit.chunk.id, hit.score) for hit in found)
    assert [each.score for each in placed] == sorted((each.score for each in placed), reverse=True)


def test_messages_go_the_same_way() -> None:
    with Engine.open(":memory:", embedder="hashed", settings=Settings(search=UNCACHED)) as engine:
        engine.add_messages([Message("the anchor is up", id="m1", channel="deck", author="ada")])
        with record() as trace:
            assert engine.search("anchor")
        (searched,) = trace.steps
        assert [each.name for each in searched.steps] == ["embed", "candidates", "rank"]
