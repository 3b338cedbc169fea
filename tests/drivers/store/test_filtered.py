"""A store within a filter: every method shows what the filter admits, or is refused."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from clew import EVERYTHING, Document, Engine, Filter, Message
from clew.core.candidates import Ranking
from clew.core.errors import SettingsError
from clew.drivers.embed.hashed import HashedEmbedder
from clew.drivers.store.rows import pack_terms
from clew.drivers.store.store import Store
from tests.engine.histories import NOON

STAFF = Filter(access={"staff"})
SECRET = "merger"
TOLD = [("m1", f"The {SECRET} is off", {"board"}), ("m2", "Who orders pizza?", None), ("m3", "I do", None)]
EMPTY = np.zeros((0, 256), np.float32)
NEW = Document("new", "A new page")
VECTOR = np.eye(1, 256, dtype=np.float32)[0]


def read_texts(store: Store, thread: str) -> list[str]:
    """The messages of a thread as it is viewed."""
    with store.threads() as read:
        view = read(thread)
        return [view.message(place).text for place in view.walk(view.bounds[0], 1)]


READS: dict[str, Callable[[Store, str], object]] = {
    "at_one_state": lambda store, thread: store.at_one_state().document(thread),
    "calibration": lambda store, _: store.calibration(),
    "change_number": lambda store, _: store.change_number(),
    "channels": lambda store, _: store.channels(),
    "chunks": lambda store, thread: store.chunks(thread),
    "chunks_by_id": lambda store, _: store.chunks_by_id([f"m{n}_chunk_0" for n in range(4)]),
    "close": lambda store, _: store.close(),
    "count_terms": lambda store, _: store.count_terms(["pizza"]),
    "describe_pending": lambda store, _: store.describe_pending(),
    "document": lambda store, thread: store.document(thread),
    "documents": lambda store, _: list(store.documents()),
    "files": lambda store, _: store.files(),
    "find_candidates": lambda store, _: [
        (each.ids, each.read_hits(range(len(each.ids))), each.read_threads(range(len(each.ids))))
        for each in store.find_candidates(
            VECTOR[None], [{SECRET: 1, "pizza": 1}], [Ranking(EVERYTHING, 9, 9)], [f"m{n}_chunk_0" for n in range(4)]
        )
    ],
    "flush": lambda store, _: store.flush(),
    "language_counts": lambda store, _: store.language_counts(),
    "latest_chunks": lambda store, _: store.latest_chunks("ops", 9),
    "match_terms": lambda store, _: store.match_terms({"pizza": 1}, ["m2_chunk_0"]),
    "scan": lambda store, _: list(store.scan()),
    "search_documents": lambda store, _: store.search_documents(VECTOR, 9),
    "search_terms": lambda store, _: store.search_terms({SECRET: 1, "pizza": 1}, 9),
    "search_vectors": lambda store, _: store.search_vectors(VECTOR, 9),
    "staged_model": lambda store, _: store.staged_model(),
    "counts": lambda store, _: store.counts(),
    "stats": lambda store, _: store.stats(),
    "threads": lambda store, thread: read_texts(store, thread),
    "vectors": lambda store, _: store.vectors(["m2_chunk_0"]),
    "whole": lambda store, _: store.within(Filter(channels={"ops"})).whole is store.whole,
    "within": lambda store, thread: store.within(Filter(channels={"ops"})).document(thread),
}
REFUSED: dict[str, Callable[[Store, str], Any]] = {
    "at_work": lambda store, _: store.at_work(),
    "claim": lambda store, thread: store.claim([thread], owner="me", seconds=1),
    "discard_staged": lambda store, _: store.discard_staged(),
    "drop": lambda store, thread: store.drop([thread]),
    "edit_threads": lambda store, _: store.edit_threads([]),
    "embed_pending": lambda store, _: store.embed_pending(HashedEmbedder(256)),
    "purge": lambda store, _: store.purge(),
    "notes": lambda store, _: store.notes(),
    "inspect": lambda store, _: store.inspect(),
    "jobs": lambda store, _: store.jobs,
    "keys": lambda store, _: store.keys,
    "maintain": lambda store, _: store.maintain(),
    "put": lambda store, _: store.put(NEW, [], EMPTY, []),
    "put_many": lambda store, _: store.put_many([]),
    "records": lambda store, _: store.records.read("feedback"),
    "reclaim_room": lambda store, _: store.reclaim_room(0.0),
    "repair": lambda store, _: store.repair([]),
    "sessions": lambda store, _: store.sessions,
    "set_calibration": lambda store, _: store.set_calibration("x"),
    "set_stamp": lambda store, thread: store.set_stamp(thread, "x"),
    "stage_vectors": lambda store, _: store.stage_vectors(HashedEmbedder(64)),
    "stored_documents": lambda store, _: list(store.stored_documents()),
    "summarise": lambda store, thread: store.summarise(thread, "x", VECTOR),
    "switch_to_staged": lambda store, _: store.switch_to_staged(HashedEmbedder(64)),
    "thread_part": lambda store, thread: store.thread_part(thread, ["m1"], reach=1),
    "waiting_messages": lambda store, _: store.waiting_messages(["m1"], "ops"),
    "with_model_in_use": lambda store, _: store.with_model_in_use(HashedEmbedder(64)),
}


@pytest.fixture
def whole() -> Iterator[Store]:
    with Engine.open(":memory:", embedder="hashed:256") as engine:
        engine.add_messages(
            Message(text, author="ana", at=NOON, id=id_, channel="ops", access=labels) for id_, text, labels in TOLD
        )
        assert isinstance(engine.opened.store, Store)
        yield engine.opened.store


def test_every_method_is_looked_at() -> None:
    methods = {name for name in dir(Store) if not name.startswith("_")}
    assert methods - READS.keys() - REFUSED.keys() == set()
    assert not READS.keys() & REFUSED.keys()


@pytest.mark.parametrize("name", READS)
def test_what_is_read_is_within_the_filter(whole: Store, name: str) -> None:
    (thread,) = whole.documents()
    store = whole.within(STAFF)
    assert SECRET in repr(whole.document(thread.id))
    for _ in range(2):
        assert SECRET not in repr(READS[name](store, thread.id))


@pytest.mark.parametrize("name", REFUSED)
def test_all_else_is_refused(whole: Store, name: str) -> None:
    (thread,) = whole.documents()
    if name == "switch_to_staged":
        whole.stage_vectors(HashedEmbedder(64))
    before = whole.change_number()
    with pytest.raises(SettingsError, match="sees a part of the collection and only reads"):
        REFUSED[name](whole.within(STAFF), thread.id)
    assert (whole.change_number(), whole.calibration()) == (before, "")


def test_a_filter_in_a_filter_admits_what_both_do(whole: Store) -> None:
    inner = whole.within(STAFF).within(Filter(access={"board"}))
    assert [chunk.text for chunk in inner.scan()] == ["Who orders pizza?", "I do"]
    assert whole.within(Filter()) is whole
    assert whole.within(STAFF) is whole.within(Filter(access={"staff"}))  # with what it knows of documents


def test_a_new_stamp_is_shown_in_every_view() -> None:
    with Engine.open(":memory:", embedder="hashed:256") as engine:
        engine.add_documents([Document("page", "On pizza", stamp="one")])
        whole = engine.opened.store
        stores = [whole, whole.within(STAFF), whole.within(Filter(kinds={"page"}))]
        for stamp in ("two", "three"):
            whole.set_stamp("page", stamp)
            assert [hit.document.stamp for each in stores for hit in each.search_vectors(VECTOR, 1)] == [stamp] * 3


def test_a_store_at_one_state_reads_it_once(whole: Store) -> None:
    held = whole.at_one_state()
    before = held.change_number()
    found = held.search_terms({"pizza": 1}, 3)
    assert len(found) == 1
    assert held.at_one_state() is held
    whole.drop([record.id for record in whole.documents()])
    assert held.change_number() == before < whole.change_number()
    assert held.search_terms({"pizza": 1}, 3) == found  # of that state
    assert whole.search_terms({"pizza": 1}, 3) == []


def test_a_store_at_one_state_reads_it_again_where_rows_are_gone(whole: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    held, index = whole.at_one_state(), whole._backend.index
    before, find = held.change_number(), index.matching
    found = find(whole._backend.head(), pack_terms({"pizza": 1}), 3, EVERYTHING)
    whole.drop([record.id for record in whole.documents()])
    answers = iter([found])  # of an index that is behind, then as it is
    monkeypatch.setattr(type(index), "matching", lambda _, *asked: next(answers, None) or find(*asked))
    assert held.search_terms({"pizza": 1}, 3) == []
    assert held.change_number() == whole.change_number() > before
