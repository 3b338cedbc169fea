"""A search within a filter: the index is asked, the collection is not read, and nothing outside shapes it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from clew import Document, Engine, Filter, Hit, Message, Settings, record
from clew.core.settings import SearchConfig, StoreConfig
from clew.core.trace import Trace
from clew.drivers.store.backend import CHUNK, Columns, Select
from clew.drivers.store.sqlite.rows import SqliteSnapshot
from tests.engine.histories import NOON

STAFF = Filter(access={"staff"})
LABELS = (None, {"staff"}, {"board"})
FILTERS = [
    Filter(channels={"c1"}),
    Filter(authors={"a1"}),
    Filter(kinds={"page"}),
    Filter(documents=frozenset(f"p{n}" for n in range(40))),
    STAFF,
]


@contextmanager
def open_filled(channels: int, *, exact_below: int = 10_000) -> Iterator[Engine]:
    settings = Settings(search=SearchConfig(cache=0), store=StoreConfig(exact_below=exact_below))
    with Engine.open(":memory:", embedder="hashed", settings=settings) as engine:
        engine.add_documents(Document(f"p{n}", f"Page {n} of the pier", access=LABELS[n % 3]) for n in range(60))
        engine.add_messages(
            Message(
                f"The pier has {n} boats",
                author=f"a{n % 5}",
                at=NOON + timedelta(minutes=n),
                id=f"m{n}",
                channel=f"c{n % channels}",
                access=LABELS[n // 7 % 3],
            )
            for n in range(120)
        )
        yield engine


def count_rows(monkeypatch: pytest.MonkeyPatch, call: Callable[[], object]) -> tuple[int, int]:
    """The rows of chunks that a call reads, and the most that it reads at once without naming them."""
    find, read = SqliteSnapshot.find, [(0, 0)]

    def note(snapshot: SqliteSnapshot, wanted: Select, columns: Sequence[str]) -> list[Columns]:
        rows = find(snapshot, wanted, columns)
        if wanted.kind == CHUNK:
            is_named = wanted.get_values("row") is not None or wanted.get_values("id") is not None
            read.append((len(rows), 0 if is_named else len(rows)))
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(SqliteSnapshot, "find", note)
        call()
    return sum(each for each, _ in read), max(most for _, most in read)


@pytest.mark.parametrize("exact_below", [10_000, 20])
@pytest.mark.parametrize("where", FILTERS)
def test_it_reads_no_more_than_it_shows(monkeypatch: pytest.MonkeyPatch, where: Filter, exact_below: int) -> None:
    for channels in (2, 40):
        with open_filled(channels, exact_below=exact_below) as engine:
            inner = engine.within(where)
            calls: list[Callable[[], Any]] = [
                lambda engine=engine: engine.search("pier boats", k=5, where=where),  # type: ignore[misc]
                lambda inner=inner: inner.search("pier boats", k=5),  # type: ignore[misc]
            ]
            for call in calls:
                assert call()
                _, most = count_rows(monkeypatch, call)
                assert most == 0  # what is known of documents shown in part is kept
            rows, most = count_rows(monkeypatch, lambda engine=engine: engine.channels(where=where))  # type: ignore[misc]
            assert most <= 1  # each channel is looked up
            assert rows <= 2 * channels


def test_a_filter_of_its_own_reads_the_documents_of_its_hits(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_filled(40) as engine:
        whole = engine.status().chunks
        rows, most = count_rows(monkeypatch, lambda: engine.search("pier boats", k=5, where=STAFF))
        assert 0 < most < whole
        assert rows < 2 * whole


@pytest.mark.parametrize("where", FILTERS)
def test_the_filter_of_a_call_changes_what_is_shown_and_not_its_numbers(where: Filter) -> None:
    with open_filled(10) as engine:
        for text in ("pier boats", "page 7", "the pier has 11 boats"):
            found, everything = engine.search(text, k=20, where=where), engine.search(text, k=200)
            known = {hit.chunk.id: (hit.similarity, hit.relevance) for hit in everything}
            assert found
            for hit in found:
                assert (hit.similarity, hit.relevance) == pytest.approx(known[hit.chunk.id])
            with record():
                assert found == engine.search(text, k=20, where=where)


@pytest.mark.parametrize("where", FILTERS)
def test_an_engine_within_a_filter_shows_the_same_chunks(where: Filter) -> None:
    """All that a filter admits is shown by a call and by an engine, which judges it by itself."""
    with open_filled(10) as engine:
        for text in ("pier boats", "page 7", "the pier has 11 boats"):
            by_call, inner = engine.search(text, k=200, where=where), engine.within(where)
            found = inner.search(text, k=200)
            assert {hit.chunk.id for hit in found} == {hit.chunk.id for hit in by_call}
            assert [hit.similarity for hit in sort_by_id(found)] == [hit.similarity for hit in sort_by_id(by_call)]
            assert found == inner.search(text, k=200, where=where)
            with record():
                assert found == inner.search(text, k=200)


def sort_by_id(hits: Sequence[Hit]) -> list[Hit]:
    return sorted(hits, key=lambda hit: hit.chunk.id)


def test_a_thread_shown_in_part_is_read_again_after_a_change() -> None:
    def place(where: Filter) -> dict[str, tuple[int, int]]:
        hits = engine.search("pizza", k=9, where=where)
        return {str(hit.chunk.meta["message"]): (hit.chunk.index, hit.document.chunks) for hit in hits}

    told = [("m1", "pizza for the board", {"board"}), ("m2", "pizza", None), ("m3", "more pizza", None)]
    with Engine.open(":memory:", embedder="hashed", settings=Settings(search=SearchConfig(cache=0))) as engine:
        engine.add_messages(Message(text, id=id_, channel="ops", at=NOON, access=label) for id_, text, label in told)
        for _ in range(2):
            assert place(STAFF) == {"m2": (0, 2), "m3": (1, 2)}
            assert place(Filter(access={"board"})) == {"m1": (0, 3), "m2": (1, 3), "m3": (2, 3)}
        engine.add_messages([Message("pizza again", id="m4", channel="ops", at=NOON, reply_to="m3")])
        assert place(STAFF) == {"m2": (0, 3), "m3": (1, 3), "m4": (2, 3)}
        engine.drop_messages("m2")
        assert place(STAFF) == {"m3": (0, 2), "m4": (1, 2)}


def test_its_steps_do_not_tell_of_hidden_conversations() -> None:
    def list_steps(*, keep: bool, hidden: list[Message]) -> list[str]:
        with Engine.open(":memory:", embedder="hashed") as engine:
            engine.add_documents(Document(f"p{n}", f"Page {n} of the pier") for n in range(60))
            engine.add_messages(hidden)
            with record(keep=keep) as trace:
                assert engine.within(STAFF).search("page of the pier", k=3)
        return _name_steps(trace)

    hidden = [Message("The pier is sold", id="m1", channel="board", access={"board"})]
    for keep in (True, False):
        assert list_steps(keep=keep, hidden=hidden) == list_steps(keep=keep, hidden=[])


def _name_steps(trace: Trace) -> list[str]:
    return [trace.name, *(name for each in trace.steps for name in _name_steps(each))]
