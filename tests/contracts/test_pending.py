"""Contract of vectors that are made after the text: until then words find a chunk, and nothing is made twice."""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from clew.core.errors import CostLimit, DriverFailed
from clew.core.types import Matrix
from clew.drivers.store import embed
from clew.drivers.store.store import Store
from tests.contracts.conftest import DIM, MODEL, MakeStore
from tests.contracts.test_store import Bundle, Other, bundle, list_scores, read_fingerprints, vector


class Model(Other):
    """The model of the collection; it fails at texts with a word."""

    name, dim = MODEL, DIM

    def __init__(self, *, fails_at: str = "\0", fail_after: int | None = None) -> None:
        super().__init__(fail_after=fail_after)
        self.calls: list[list[str]] = []
        self._fails_at = fails_at

    def embed(self, texts: Sequence[str], *, role: str) -> Matrix:
        if any(self._fails_at in text for text in texts):
            raise DriverFailed(f"cannot read {self._fails_at!r}")
        made = super().embed(texts, role=role)
        self.calls.append(list(texts))
        return made


def put_words(store: Store, given: Bundle, *, summary: str = "") -> None:
    """Puts a document without vectors."""
    nothing = np.full((len(given.chunks), DIM), math.nan, np.float32)
    store.put(replace(given.document, summary=summary), given.chunks, nothing, given.terms)


def put_vectors(store: Store, given: Bundle) -> None:
    """Puts a document with the vectors of the model."""
    made = np.stack([Model().of(chunk.embed_text) for chunk in given.chunks])
    store.put(given.document, given.chunks, made, given.terms)


def test_words_find_what_has_no_vector_yet(make_store: MakeStore) -> None:
    store, whole = make_store("words"), make_store("whole")
    given = [bundle(f"d{n}", [f"anchor {n}", f"bell {n} cable"]) for n in range(3)]
    put_vectors(store, given[0])
    for each in given[1:]:
        put_words(store, each)
    for each in given:
        put_vectors(whole, each)
    assert (store.stats().chunks, store.stats().pending) == (6, 4)
    assert list_scores(store.search_terms({"bell": 1, "2": 1}, 9)) == list_scores(
        whole.search_terms({"bell": 1, "2": 1}, 9)
    )
    assert {hit.chunk.doc_id for hit in store.search_vectors(vector(1), 9)} == {"d0"}
    assert store.vectors([chunk.id for chunk in given[1].chunks]) == {}
    assert all(np.isnan(each.vectors).all() for each in store.stored_documents(["d1"]))
    change = store.change_number()
    assert store.embed_pending(Model()) == (4, {})
    assert store.stats().pending == 0
    assert store.change_number() > change
    for mode in ("exact", "ann"):
        found = store.search_vectors(vector(1), 9, mode=mode)
        assert list_scores(found) == list_scores(whole.search_vectors(vector(1), 9, mode=mode))
    assert sorted(read_fingerprints(store)) == sorted(read_fingerprints(whole))
    assert isinstance(store, Store)
    assert not store.inspect().defects
    assert store.embed_pending(Model()) == (0, {})


def test_the_newest_come_first_and_texts_of_like_length_together(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embed, "WINDOW", 4)
    monkeypatch.setattr(embed, "SLICE", 2)
    store, model, told = make_store(), Model(), list[tuple[int, int]]()
    for n in range(3):
        put_words(store, bundle(f"d{n}", [f"anchor {'long ' * (n % 2 + 1)}{n}", f"bell {n}"]))
    assert store.embed_pending(model, lambda done, total, _: told.append((done, total))) == (6, {})
    assert [len(call) for call in model.calls] == [2, 2, 2]
    assert {text[-1] for call in model.calls[:2] for text in call} == {"1", "2"}
    assert [len(text) for text in (*model.calls[0], *model.calls[1])] == sorted(
        len(text) for text in (*model.calls[0], *model.calls[1])
    )
    assert told == [(0, 6), (2, 6), (4, 6), (6, 6)]


def test_a_document_that_is_put_again_keeps_the_vectors_that_were_made(make_store: MakeStore) -> None:
    store, model = make_store(), Model()
    put_words(store, bundle("log", ["anchor", "bell", "cable"]))
    store.embed_pending(model)
    model.calls.clear()
    put_words(store, bundle("log", ["anchor", "bell", "cable"]))
    assert store.stats().pending == 0
    put_words(store, bundle("log", ["deck", "anchor", "bell"]))  # two of them have moved
    assert store.stats().pending == 1
    store.embed_pending(model)
    assert model.calls == [["Top: deck"]]
    assert {chunk: row.tolist() for chunk, row in store.vectors([c.id for c in store.chunks("log")]).items()} == {
        chunk.id: model.of(chunk.embed_text).tolist() for chunk in store.chunks("log")
    }
    put_words(store, bundle("log", ["keel"]))
    store.drop(["log"])
    assert store.stats().pending == 0


def test_only_the_documents_that_are_named_are_embedded(make_store: MakeStore) -> None:
    store = make_store()
    for name in ("a", "b"):
        put_words(store, bundle(name, [f"anchor {name}"]), summary=f"about {name}")
    assert store.embed_pending(Model(), documents=["a"]) == (1, {})
    assert {hit.chunk.doc_id for hit in store.search_vectors(vector(1), 9)} == {"a"}
    assert [doc_id for doc_id, _ in store.search_documents(vector(1), 9)] == ["a"]
    assert store.embed_pending(Model(), documents=[]) == (0, {})
    assert store.stats().pending == 1


def test_a_summary_without_a_vector_is_pending(make_store: MakeStore) -> None:
    store, model = make_store(), Model()
    put_vectors(store, bundle("log", ["anchor"]))
    store.summarise("log", "about ships")
    assert store.search_documents(vector(1), 9) == []
    assert store.embed_pending(model) == (0, {})
    assert model.calls == [["about ships"]]
    ((doc_id, score),) = store.search_documents(model.of("about ships"), 9)
    assert doc_id == "log"
    assert score == pytest.approx(1.0, abs=1e-5)


def test_what_was_broken_off_goes_on_and_makes_nothing_twice(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embed, "SLICE", 2)
    store = make_store()
    put_words(store, bundle("log", [f"anchor {n}" for n in range(9)]))
    first, second = Model(fail_after=4), Model()
    with pytest.raises(DriverFailed, match="the model is gone"):
        store.embed_pending(first)
    assert store.stats().pending == 5
    assert store.embed_pending(second) == (5, {})
    assert sorted((*first.texts, *second.texts)) == sorted(chunk.embed_text for chunk in store.chunks("log"))


def test_a_limit_of_the_cost_leaves_the_rest_pending(make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed, "SLICE", 2)

    class Dear(Model):
        def embed(self, texts: Sequence[str], *, role: str) -> Matrix:
            if len(self.texts) >= 2:
                raise CostLimit("the limit of 1.00 is reached")
            return super().embed(texts, role=role)

    store = make_store()
    put_words(store, bundle("log", ["anchor", "bell", "cable"]))
    with pytest.raises(CostLimit):
        store.embed_pending(Dear())
    assert store.stats().pending == 1


def test_one_text_that_the_model_cannot_read_leaves_the_others(make_store: MakeStore) -> None:
    store = make_store()
    for name in ("a", "b", "c"):
        put_words(store, bundle(name, [f"anchor {name}"]))
    made, reasons = store.embed_pending(Model(fails_at="anchor b"))
    assert (made, list(reasons), store.stats().pending) == (2, ["b"], 1)
    assert "cannot read" in reasons["b"]
    assert [hit.chunk.doc_id for hit in store.search_terms({"b": 1}, 9)] == ["b"]


def test_a_model_that_returns_no_unit_vectors_is_refused(make_store: MakeStore) -> None:
    class Broken(Model):
        def embed(self, texts: Sequence[str], *, role: str) -> Matrix:
            return np.full((len(texts), DIM), math.nan, np.float32)

    store = make_store()
    put_words(store, bundle("log", ["anchor"]))
    _, reasons = store.embed_pending(Broken())
    assert "not a number" in reasons["log"]
    assert store.stats().pending == 1


def test_a_collection_with_pending_vectors_is_switched_to_another_model(make_store: MakeStore) -> None:
    store, model = make_store(), Other()
    put_vectors(store, bundle("a", ["anchor"]))
    put_words(store, bundle("b", ["bell"]), summary="about bells")
    assert store.stage_vectors(model) == 3
    other = store.switch_to_staged(model)
    try:
        assert (other.stats().pending, other.stats().dim) == (0, 16)
        assert {hit.chunk.doc_id for hit in other.search_vectors(model.of("bell"), 9)} == {"a", "b"}
        assert [doc_id for doc_id, _ in other.search_documents(model.of("about bells"), 9)] == ["b"]
        assert isinstance(other, Store)
        assert not other.inspect().defects
    finally:
        other.close()


def test_two_at_work_share_it(make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed, "WINDOW", 4)
    monkeypatch.setattr(embed, "SLICE", 2)
    monkeypatch.setattr(embed, "WAIT_SECONDS", 0.01)
    store, models = make_store(), [Model(), Model()]
    put_words(store, bundle("log", [f"anchor {n}" for n in range(24)]))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(store.embed_pending, models))
    assert store.stats().pending == 0
    texts = [text for model in models for text in model.texts]
    assert len(texts) - len(set(texts)) <= 2  # a rest that is too small to be claimed


def test_a_summary_that_changes_while_it_is_pending_takes_its_staged_vector_along(make_store: MakeStore) -> None:
    store, model = make_store(), Other()
    put_vectors(store, bundle("log", ["anchor"]))
    store.summarise("log", "about ships")
    store.stage_vectors(model)
    store.summarise("log", "about bells")
    other = store.switch_to_staged(model)
    try:
        ((_, score),) = other.search_documents(model.of("about bells"), 9)
        assert score == pytest.approx(1.0, abs=1e-5)
    finally:
        other.close()
