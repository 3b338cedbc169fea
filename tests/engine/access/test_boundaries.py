"""`where` is a boundary: nothing outside a filter is in what any verb returns, or in what a model is sent."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from functools import reduce
from operator import and_, or_
from pathlib import Path
from random import Random
from typing import Any

import pytest

from clew import Document, Engine, Extensions, Filter, Message
from clew.compat import find_similar_messages, message_with_context, query_rag_for_context
from clew.core.errors import ClewError, NotFound, SettingsError
from clew.core.settings import IngestionConfig, RerankerConfig, Settings, StoreConfig
from clew.core.trace import record
from clew.core.types import Chunk, Section
from clew.drivers.llm.scripted import ScriptedLLM
from tests.engine.chosen import OpenEngine
from tests.engine.histories import AUTHORS, CHANNELS, NOON, QUESTION, History, admits, make_filter, make_history
from tests.soak import choose_runs

SETTINGS = Settings(
    ingestion=IngestionConfig(chunk_size=32, chunk_overlap=4),
    reranker=RerankerConfig(name="overlap"),
)
STRATEGIES = ("semantic", "lexical", "hybrid", "document_boost", "multi_query", "rerank")
RUNS = choose_runs(few=3, many=1000)  # on each store


@pytest.fixture(autouse=True)
def styles_of_few_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.query.messages.style.MIN_MESSAGES", 1)


def fill(engine: Engine, history: History) -> None:
    engine.add_documents(history.documents)
    engine.add_messages(history.messages)
    engine.backfill()


def list_calls(engine: Engine, where: Filter, history: History) -> Iterator[tuple[str, Callable[[], object]]]:
    """Every verb that reads, with the filter."""
    yield "list", lambda: list(engine.list(where))
    yield "status", lambda: engine.status(where=where)
    yield "channels", lambda: engine.channels(where=where)
    for record_ in list(engine.list()):
        yield "read", lambda id_=record_.id: engine.read(id_, where=where)  # type: ignore[misc]
        yield "links", lambda id_=record_.id: engine.links(id_, where=where)  # type: ignore[misc]
    for strategy in STRATEGIES:
        yield strategy, lambda name=strategy: engine.search(QUESTION, k=30, strategy=name, where=where)  # type: ignore[misc]
    yield "search_many", lambda: engine.search_many([QUESTION, "budget"], k=20, where=where)
    talk = [Message("what about the harbour pier?"), Message("and the budget?")]
    yield "conversation", lambda: engine.search(talk, k=20, where=where)
    for render in ("numbered", "knowledge_base", "markdown"):
        yield "context", lambda name=render: engine.context(QUESTION, k=20, where=where, render=name)  # type: ignore[misc]
    yield "explain", lambda: str(engine.explain(QUESTION, k=20, where=where))
    yield "why_not", lambda: engine.why_not(QUESTION, history.documents[0].id, where=where)
    yield "ask", lambda: engine.ask(QUESTION, where=where)
    yield "chat", lambda: engine.chat().ask(QUESTION, where=where)
    yield "message_with_context", lambda: message_with_context(engine, QUESTION, where=where)
    yield "query_rag_for_context", lambda: query_rag_for_context(engine, talk, where=where)
    yield "find_similar_messages", lambda: find_similar_messages(engine, QUESTION, k=20, where=where)
    for person in AUTHORS:
        yield "profile", lambda name=person: engine.profile(name, where=where)  # type: ignore[misc]
        yield "style_prompt", lambda name=person: engine.style_prompt(name, QUESTION, where=where)  # type: ignore[misc]
        yield "ask as", lambda name=person: engine.ask(QUESTION, person=name, where=where)  # type: ignore[misc]
    for channel in CHANNELS:
        yield (
            "window",
            lambda name=channel: engine.window(name, QUESTION, include_related_channels=True, now=NOON, where=where),  # type: ignore[misc]
        )
    tools = engine.tools(where=where, session="s")
    yield "search_knowledge_base", lambda: tools.search_knowledge_base(QUESTION, 20)
    yield "search_conversations", lambda: tools.search_conversations(QUESTION)
    yield "channel", lambda: tools.search_conversations(QUESTION, "ops")
    for number in range(1, 4):
        yield "read_document", lambda n=number: tools.read_document(n, QUESTION)  # type: ignore[misc]
    for document in history.documents:
        yield "retrieve_full_document", lambda name=document.id: tools.retrieve_full_document(name)  # type: ignore[misc]


def find_leaks(engine: Engine, llm: ScriptedLLM, where: Filter, history: History) -> list[tuple[str, str]]:
    """The canaries of what the filter excludes, by the verb that showed them."""
    hidden = {word for item in history.items if not admits(where, item) for word in item.canaries}
    leaks: list[tuple[str, str]] = []
    for name, call in list_calls(engine, where, history):
        before = llm.calls
        with record() as trace:
            shown: object = ""
            try:
                shown = call()
            except ClewError as error:
                shown = str(error)
        prompts = [f"{request.system} {request.prompt}" for request in llm.requests[before:]]
        text = f"{shown!r} {shown} {trace.draw(depth=5)} {prompts}"
        leaks += [(name, word) for word in hidden if word in text]
    return leaks


def answer_any(prompt: str) -> str:
    """A style analysis, a summary or an answer that repeats every word it was given, in one sentence."""
    return " ".join(dict.fromkeys(re.findall(r"\w+", prompt)))


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.slow
def test_no_verb_shows_what_a_filter_excludes(open_engine: OpenEngine) -> None:
    shown = 0
    for seed in range(RUNS):
        random, llm = Random(seed), ScriptedLLM(answer_any)
        history = make_history(random)
        engine = open_engine(embedder="hashed", llm=llm, settings=SETTINGS)
        fill(engine, history)
        for _ in range(2):
            where = make_filter(random, history)
            assert find_leaks(engine, llm, where, history) == [], (seed, where)
            inner = engine.within(where)
            assert find_leaks(inner, llm, where, history) == [], (seed, where)
            found = repr([*map(repr, inner.list()), *inner.search(QUESTION, k=50, strategy="lexical")])
            admitted = [item for item in history.items if admits(where, item)]
            assert all(item.canaries[-1] in found or item.kind == "page" for item in admitted), (seed, where)
            shown += len(admitted)
        engine.close()
    assert shown > RUNS  # the filters do not hide everything


# -- what is shown of a thread of which a part is hidden

MESSAGES = [
    Message("The merger is called off", author="boss", at=NOON, id="m1", channel="ops", access={"board"}),
    Message("Who orders the pizza?", author="ana", at=NOON.replace(hour=13), id="m2", channel="ops", reply_to="m1"),
    Message("I order the pizza", author="ben", at=NOON.replace(hour=14), id="m3", channel="ops", reply_to="m2"),
]


@pytest.fixture
def engine(open_engine: OpenEngine) -> Engine:
    made = open_engine(embedder="hashed", settings=SETTINGS)
    made.add_messages(MESSAGES)
    made.add_documents([Document("plan", "The pizza oven is bought in May.", title="Plan", access={"board"})])
    return made


def test_the_address_of_a_thread_names_its_channel_once(engine: Engine) -> None:
    told = [("kit/1", "boss", "The kit is lost"), ("kit/2", "ana", "Which kit?")]
    engine.add_messages([Message(text, author=author, at=NOON, id=name, channel="kit") for name, author, text in told])
    (hit,) = engine.search("kit", where=Filter(authors={"ana"}, channels={"kit"}))
    assert hit.document.uri == "kit/2"


@pytest.mark.parametrize(
    "where", [Filter(access={"staff"}), Filter(authors={"ana", "ben"}), Filter(since=NOON.replace(hour=13))]
)
def test_a_thread_is_shown_without_its_hidden_messages(engine: Engine, where: Filter) -> None:
    inner = engine.within(where)
    (thread,) = inner.list(Filter(kinds={"thread"}))
    assert (thread.title, thread.uri, thread.summary, thread.chunks) == ("#ops: Who orders the pizza?", "ops/m2", "", 2)
    document = inner.read(thread.id)
    assert document.text.split() == ["Who", "orders", "the", "pizza?", "I", "order", "the", "pizza"]
    assert [(section.id, section.parent) for section in document.sections] == [("m2", None), ("m3", 0)]
    hits = inner.search("pizza", k=5, strategy="lexical")
    shown = [hit for hit in hits if hit.document.kind == "thread"]
    assert {hit.chunk.meta["message"] for hit in shown} == {"m2", "m3"}
    assert all(document.text[hit.chunk.start : hit.chunk.end] == hit.chunk.text for hit in shown)
    whole = engine.read(thread.id)
    assert all(whole.text[hit.chunk.start : hit.chunk.end] == hit.chunk.text for hit in shown)
    assert "merger" not in repr(hits)
    assert "reply_to" not in next(hit.chunk.meta for hit in shown if hit.chunk.meta["message"] == "m2")
    assert inner.channels() == ["ops"]


def test_what_is_hidden_cannot_be_told_from_what_is_not_there(engine: Engine) -> None:
    inner = engine.within(Filter(access={"staff"}))
    with pytest.raises(NotFound, match=r"there is no document 'plan'; `Engine.list` shows the documents"):
        inner.read("plan")
    assert (inner.status().documents, inner.status().chunks) == (1, 2)
    assert inner.why_not("pizza", "plan").stage == "not ingested"
    assert inner.search("merger called off", strategy="lexical") == []


def test_labels_admit_those_who_have_one_of_them(engine: Engine) -> None:
    def ids(where: Filter) -> set[str]:
        return {
            hit.chunk.doc_id for hit in engine.search("pizza oven", k=9, where=where) if hit.document.kind == "page"
        }

    assert ids(Filter(access={"board"})) == ids(Filter(access={"board", "staff"})) == ids(Filter()) == {"plan"}
    assert ids(Filter(access={"staff"})) == ids(Filter(access=set())) == set()
    assert engine.read("plan").access == {"board"}
    assert [record.access for record in engine.list(Filter(documents={"plan"}))] == [{"board"}]


def test_a_new_label_is_a_change(engine: Engine) -> None:
    page = Document("plan", "The pizza oven is bought in May.", title="Plan", access={"staff"})
    assert engine.add_documents([page]).changed == ("plan",)
    assert engine.add_documents([page]).skipped == 1
    assert engine.within(Filter(access={"staff"})).read("plan").text == page.text


@pytest.mark.parametrize("field", ["documents", "kinds", "channels", "authors", "access"])
def test_an_empty_set_admits_nothing(engine: Engine, field: str) -> None:
    where = Filter(**{field: frozenset()})  # type: ignore[arg-type]
    assert engine.search("pizza", where=where) == []
    assert list(engine.list(where)) == []
    assert (engine.status(where=where).chunks, engine.channels(where=where)) == (0, [])
    assert engine.context("pizza", where=where).passages == ()


def test_pages_or_these_channels(engine: Engine) -> None:
    engine.add_messages([Message("The pizza is late", author="eva", at=NOON, id="x1", channel="sales")])
    where = Filter(kinds={"page"}) | Filter(channels={"sales"})
    assert {hit.chunk.doc_id == "plan" or hit.chunk.meta["channel"] for hit in engine.search("pizza", where=where)} == {
        True,
        "sales",
    }
    both = where & Filter(access={"board"})
    assert {hit.document.kind for hit in engine.search("pizza", where=both)} == {"page", "thread"}
    assert {hit.document.kind for hit in engine.search("pizza", where=where & Filter(kinds={"page"}))} == {"page"}


def test_an_engine_within_a_filter_only_reads(engine: Engine) -> None:
    inner = engine.within(Filter(kinds={"page"}))
    for change in (
        lambda: inner.add_documents([Document("new", "text")]),
        lambda: inner.drop("plan"),
        lambda: inner.add_messages([replace(MESSAGES[0], id="m9")]),
        lambda: inner.export(Path("unused")),
    ):
        with pytest.raises(SettingsError, match="change the whole collection"):
            change()
    inner.close()
    assert engine.read("plan").text
    with suppress(NotFound):
        engine.read("new")
        raise AssertionError("something was added")


def test_a_filter_within_a_filter_is_narrower(engine: Engine) -> None:
    inner = engine.within(Filter(access={"staff"})).within(Filter(authors={"ben"}))
    assert [hit.chunk.text for hit in inner.search("pizza merger", k=9)] == ["I order the pizza"]
    assert [hit.chunk.text for hit in inner.search("pizza merger", k=9, where=Filter(authors={"boss"}))] == []


def test_an_enricher_moves_no_chunk_to_another_channel(open_engine: OpenEngine) -> None:
    def move(_: Document, chunks: list[Chunk]) -> list[Chunk]:
        return [*chunks[:1], *(replace(chunk, meta={**chunk.meta, "channel": "hull"}) for chunk in chunks[1:])]

    settings = Settings(ingestion=IngestionConfig(chunk_size=16, chunk_overlap=0))
    made = open_engine(embedder="hashed", extensions=Extensions(enrichers=[move]), settings=settings)
    text = "# One\n\nThe deck is swept at noon by all.\n\n# Two\n\nThe hull is red, and nobody sees it."
    made.add_documents([Document("log", text, meta={"channel": "deck"})])
    deck, hull = (made.within(Filter(channels={name})) for name in ("deck", "hull"))
    assert (deck.read("log").text, len(deck.search("hull deck", k=9))) == (text, deck.status().chunks)
    assert (hull.search("hull"), list(hull.list()), made.channels()) == ([], [], ["deck"])


class Zone(tzinfo):
    """A time zone that does not say which one it is."""

    def __init__(self, hours: int) -> None:
        self._offset = timedelta(hours=hours)

    def utcoffset(self, _: datetime | None) -> timedelta:
        return self._offset

    def dst(self, _: datetime | None) -> None:
        return None

    def tzname(self, _: datetime | None) -> None:
        return None

    def __repr__(self) -> str:
        return "Zone()"


def test_filters_that_look_alike_show_what_each_admits(engine: Engine) -> None:
    late, early = (Filter(since=NOON.replace(hour=14, tzinfo=Zone(hours))) for hours in (0, 5))
    assert repr(late) == repr(early)
    for where, count in ((late, 1), (early, 3)):
        for each in (engine.within(where).search("pizza merger", k=9), engine.search("pizza merger", k=9, where=where)):
            assert len([hit for hit in each if hit.document.kind == "thread"]) == count
        (thread,) = engine.within(where).list(Filter(kinds={"thread"}))
        assert (thread.chunks, engine.within(where).status().chunks) == (count, count)


@pytest.mark.parametrize("exact_below", [0, 5000])
def test_filters_that_are_equal_show_what_each_admits(open_engine: OpenEngine, exact_below: int) -> None:
    one, true = (Filter(meta={"level": value}) for value in (1, True))
    assert one == true
    engine = open_engine(embedder="hashed", settings=replace(SETTINGS, store=StoreConfig(exact_below=exact_below)))
    levels = {"both": [1, True], "true": True, "one": 1}
    engine.add_documents([Document(name, "The pizza oven", meta={"level": level}) for name, level in levels.items()])
    engine.opened.store.flush()
    for strategy in ("semantic", "lexical", "hybrid"):
        for where, name in ((one, "one"), (true, "true"), (one, "one")):
            found = engine.search("pizza", k=5, strategy=strategy, where=where)
            assert {hit.document.id for hit in found} == {"both", name}


def test_results_are_not_cached_across_boundaries(engine: Engine) -> None:
    asked: dict[str, Any] = {"k": 9, "strategy": "lexical"}
    whole = engine.search("merger pizza", **asked)
    part = engine.within(Filter(authors={"ben"})).search("merger pizza", **asked)
    assert len(whole) > len(part) == 1
    assert engine.search("merger pizza", **asked) == whole


def test_an_iterator_and_another_thread_see_no_more_after_a_change(engine: Engine) -> None:
    for number in range(3):
        engine.add_messages(
            [
                Message(
                    f"secret {number} zebrafish", author="boss", id=f"s{number}", channel=f"c{number}", access={"hr"}
                ),
                Message(f"public {number}", author="ana", id=f"p{number}", channel=f"c{number}", reply_to=f"s{number}"),
            ]
        )
    engine.backfill()
    inner = engine.within(Filter(access={"staff"}))
    listed = iter(inner.list())
    shown = [next(listed)]
    engine.add_messages([Message("new thing", author="ana", id="n1", channel="other")])
    inner.read(shown[0].id)  # what was known of the collection is read again
    shown += listed
    assert len(shown) == 4
    assert "zebrafish" not in repr(shown)


def test_why_not_names_nothing_but_what_was_asked_for(engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "secret.md"
    file.write_text("# Secret")
    staff = Filter(access={"staff"})
    assert "plan" not in engine.why_not("pizza", "plam", where=staff).reason.replace("plam", "")
    assert "never added" not in engine.why_not("pizza", str(file), where=staff).reason
    assert "never added" in engine.why_not("pizza", str(file)).reason
    assert engine.why_not("pizza", "plan", where=staff).stage == "filter"
    with pytest.raises(SettingsError, match="change the whole collection"):
        engine.within(staff).plan(file)


def test_a_thread_is_read_by_its_address_without_hidden_messages_and_no_guess_is_confirmed(engine: Engine) -> None:
    inner = engine.within(Filter(authors={"ben"}))
    assert inner.read("ops/m3").text.split() == ["I", "order", "the", "pizza"]
    assert inner.read(inner.read("ops/m3").id).uri == "ops/m3"
    for hidden, absent in (("ops/m1", "ops/m7"), ("thread:ops/m1", "thread:ops/m7"), ("m1", "m7")):
        told = [inner.why_not("pizza", name) for name in (hidden, absent)]
        assert told[0].stage == told[1].stage == "not ingested"
        assert told[0].reason.replace(hidden, absent) == told[1].reason
        for name in (hidden, absent):
            with pytest.raises(NotFound, match=f"there is no document '{name}'"):
                inner.read(name)


def test_a_message_that_is_hidden_does_not_change_when_a_thread_was_written(engine: Engine) -> None:
    inner = engine.within(Filter(access={"staff"}))

    def list_times() -> list[tuple[datetime | None, datetime | None]]:
        (record,) = inner.list()
        document, hit = inner.read(record.id), inner.search("pizza")[0]
        return [(each.created, each.updated) for each in (record, document, hit.document)]

    assert list_times() == [(MESSAGES[1].at, MESSAGES[2].at)] * 3
    secret = replace(MESSAGES[0], text="The merger is on again", id="m4", at=NOON.replace(hour=15), reply_to="m3")
    engine.add_messages([secret])
    assert list_times() == [(MESSAGES[1].at, MESSAGES[2].at)] * 3
    (whole,) = engine.list(Filter(kinds={"thread"}))
    assert whole.updated != MESSAGES[2].at


def test_labels_of_sections_are_for_messages_alone(engine: Engine) -> None:
    text = "# A\n\npublic\n\n# B\n\nzebrafish\n"
    cut = text.index("# B")
    sections = (Section(0, cut, label="A"), Section(cut, len(text), label="B", access=frozenset({"hr"})))
    report = engine.add_documents([Document("p", text, sections)])
    assert "only messages may have" in report.failed[0].reason


def test_equal_values_of_meta_are_not_the_same_filter(engine: Engine) -> None:
    engine.add_documents([Document("one", "The oven", meta={"f": 1}), Document("yes", "The oven", meta={"f": True})])
    both = Filter(meta={"f": 1}) & Filter(meta={"f": True})
    assert list(engine.list(both)) == []
    assert [record.id for record in engine.list(Filter(meta={"f": True}))] == ["yes"]


def test_a_filter_keeps_what_it_was_made_of(engine: Engine) -> None:
    engine.add_documents([Document(name, f"The oven of {name}", meta={"tenant": name}) for name in ("acme", "globex")])
    for tenants in (["acme"], {"acme"}, [["acme"]]):
        scope = {"tenant": tenants}
        sides = [Filter(meta=scope)]
        views = [engine.within(each) for each in (sides[0], Filter(any_of=sides), Filter(all_of=sides))]  # type: ignore[arg-type]
        sides.clear()
        tenants.clear()
        scope.clear()
        for view in views:
            assert [record.id for record in view.list()] == ["acme"]
            assert {hit.chunk.doc_id for hit in view.search("oven merger pizza", k=9)} == {"acme"}


def test_a_filter_of_no_alternatives_admits_nothing(engine: Engine) -> None:
    allowed: list[Filter] = []
    assert list(engine.list(Filter(any_of=tuple(allowed)))) == []
    assert engine.search("pizza", where=Filter(any_of=allowed) & Filter(kinds={"page"})) == []  # type: ignore[arg-type]
    assert [record.id for record in engine.list(Filter(all_of=()) & Filter(kinds={"page"}))] == ["plan"]
    with pytest.raises(TypeError, match="takes a tuple of filters"):
        Filter(any_of=({"kinds": {"page"}},))  # type: ignore[arg-type]


def test_many_filters_are_joined_and_filters_too_deep_or_too_many_are_refused(engine: Engine) -> None:
    pages = [Filter(documents={f"d{number}"}) for number in range(600)]
    assert [record.id for record in engine.list(reduce(or_, [*pages, Filter(documents={"plan"})]))] == ["plan"]
    kinds = [Filter(kinds={"page", f"k{number}"}) for number in range(600)]
    assert [hit.document.id for hit in engine.search("pizza", where=reduce(and_, kinds))] == ["plan"]
    nested = reduce(lambda right, left: left | right, pages, Filter(documents={"plan"}))  # a | (b | (c | …))
    assert [record.id for record in engine.list(nested)] == ["plan"]
    nested = reduce(lambda right, left: left & right, kinds)
    assert [hit.document.id for hit in engine.search("pizza", where=nested)] == ["plan"]
    with pytest.raises(SettingsError, match="more than 50 deep"):
        reduce(lambda where, _: Filter(any_of=(where,)), range(1500), Filter(documents={"plan"}))
    pairs = [Filter(documents={f"d{number}"}) | Filter(kinds={f"k{number}"}) for number in range(30)]
    with pytest.raises(SettingsError, match="more than 20,000 alternatives"):
        engine.search("pizza", where=Filter(all_of=tuple(pairs)))
