"""What every Store must do, asked through the protocol alone and checked against a search written plainly here."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clew.core.candidates import Candidates, Gone, Ranking
from clew.core.errors import ConcurrentChange, DriverFailed, NotFound, StoreMismatch
from clew.core.filter import EVERYTHING, Filter
from clew.core.protocols import Mode
from clew.core.stored import NewDocument, StagedModel
from clew.core.thread import ThreadEdit, ThreadPart
from clew.core.time import to_timestamp
from clew.core.types import Chunk, Document, Hit, Matrix, Section, Vector
from clew.drivers.store import embed, rows
from clew.drivers.store.sqlite.backend import open_store
from clew.drivers.store.store import Store
from tests.contracts.conftest import DIM, MODEL, MakeStore

WORDS = ("anchor", "bell", "cable", "deck", "engine", "flag", "galley", "hull", "ink", "jib", "keel", "lamp", "mast")

Scores = list[tuple[str, float]]


@dataclass(frozen=True, slots=True)
class Bundle:
    """A document with all that is put with it."""

    document: Document
    chunks: tuple[Chunk, ...]
    vectors: Matrix
    terms: tuple[Mapping[str, int], ...]


def vectors(seed: int, many: int) -> Matrix:
    """Unit rows, the same for the same seed."""
    drawn = np.random.default_rng(seed).normal(size=(many, DIM))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), np.float32)


def vector(seed: int) -> Vector:
    return np.asarray(vectors(seed, 1)[0])


def bundle(
    name: str,
    texts: Sequence[str],
    *,
    seed: int = 0,
    kind: str = "page",
    meta: Mapping[str, Any] | None = None,
    chunk_meta: Mapping[str, Any] | None = None,
    at: datetime | None = None,
    uri: str = "",
) -> Bundle:
    """A document with a chunk for each text; ids come from the text, so equal chunks have equal ids."""
    chunks, sections, start, seen = [], [], 0, Counter[str]()
    for index, text in enumerate(texts):
        end = start + len(text)
        chunk_id = f"{name}/{text}/{seen[text]}"
        seen[text] += 1
        sections.append(Section(start, end, label=text, at=at))
        chunks.append(
            Chunk(chunk_id, name, index, len(texts), text, start, end, ("Top", text), "", at, chunk_meta or {})
        )
        start = end + 1
    document = Document(name, "\n".join(texts), tuple(sections), kind, name.title(), uri or name, "", meta or {}, "h")
    drawn = np.stack([vector(seed + sum(text.encode())) for text in texts]) if texts else vectors(0, 0)
    return Bundle(document, tuple(chunks), drawn, tuple(Counter(text.split()) for text in texts))


def put(store: Store, given: Bundle) -> None:
    store.put(given.document, given.chunks, given.vectors, given.terms)


def list_scores(hits: Sequence[Hit]) -> Scores:
    return [(hit.chunk.id, hit.score) for hit in hits]


def collect_ids(hits: Sequence[Hit]) -> set[str]:
    return {hit.chunk.id for hit in hits}


def flatten(value: object) -> list[str]:
    """A value of meta as texts: the members of a list, a whole float as an int, none of None."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return [text for member in value for text in flatten(member)]
    return [] if value is None else [f"{value:g}" if isinstance(value, float) else str(value).replace("True", "true")]


def admits(where: Filter, document: Document, chunk: Chunk) -> bool:
    """Whether a filter admits a chunk, by the definition."""
    sides = [admits(each, document, chunk) for each in where.any_of or ()]
    if (where.any_of is not None and not any(sides)) or not all(admits(each, document, chunk) for each in where.all_of):
        return False
    meta, at = {**document.meta, **chunk.meta}, to_timestamp(chunk.at)
    since, until = to_timestamp(where.since), to_timestamp(where.until)
    labels = chunk.meta.get("access", document.access)
    named: list[tuple[Set[str] | None, Any]] = [(where.documents, document.id), (where.kinds, document.kind)]
    named += [(where.channels, meta.get("channel")), (where.authors, meta.get("author"))]
    return (
        all(values is None or value in values for values, value in named)
        and all(set(flatten(meta.get(key))) & set(flatten(value)) for key, value in where.meta.items())
        and (where.access is None or (bool(where.access) and (labels is None or bool(set(labels) & where.access))))
        and (since is None or (at is not None and at >= since))
        and (until is None or (at is not None and at < until))
    )


def rank_scores(scores: Mapping[str, float], k: int) -> Scores:
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:k]


def plain_nearest(kept: Sequence[Bundle], query: Vector, k: int, where: Filter = EVERYTHING) -> Scores:
    """The nearest chunks by the definition."""
    scores = {
        chunk.id: round(float(np.dot(row.astype(float), query.astype(float))), 6)
        for each in kept
        for chunk, row in zip(each.chunks, each.vectors, strict=True)
        if admits(where, each.document, chunk)
    }
    return rank_scores(scores, k)


def plain_matching(kept: Sequence[Bundle], query: Mapping[str, int], k: int, where: Filter = EVERYTHING) -> Scores:
    """The best matching chunks by the definition of BM25."""
    everything = [(each.document, *pair) for each in kept for pair in zip(each.chunks, each.terms, strict=True)]
    average = sum(sum(terms.values()) for _, _, terms in everything) / max(len(everything), 1)
    have = {word: sum(1 for _, _, terms in everything if word in terms) for word in query}
    scores: dict[str, float] = {}
    for document, chunk, terms in everything:
        total = 0.0
        for word, times in query.items():
            if word in terms:
                rarity = math.log(1 + (max(len(everything), 100) - have[word] + 0.5) / (have[word] + 0.5))
                norm = 1.2 * (0.25 + 0.75 * sum(terms.values()) / average)
                total += times * rarity * terms[word] / (terms[word] + norm)
        if total and admits(where, document, chunk):
            scores[chunk.id] = round(total, 9)
    return rank_scores(scores, k)


def plain_scan(kept: Sequence[Bundle], where: Filter = EVERYTHING) -> list[Chunk]:
    by_id = sorted(kept, key=lambda each: each.document.id)
    return [chunk for each in by_id for chunk in each.chunks if admits(where, each.document, chunk)]


def assert_same_results(
    store: Store, kept: Sequence[Bundle], *, where: Filter = EVERYTHING, k: int = 10, seed: int = 99
) -> None:
    """Fails unless the store finds what a plain search finds, with the same scores in the same order."""
    query, words = vector(seed), {WORDS[seed % 7]: 1, WORDS[seed % 5 + 3]: 2, "absent": 1}
    near, match = plain_nearest(kept, query, k, where), plain_matching(kept, words, k, where)
    for hits, expected in (
        (store.search_vectors(query, k, where, mode="exact"), near),
        (store.search_vectors(query, k, where), near),
        (store.search_terms(words, k, where), match),
    ):
        assert [name for name, _ in list_scores(hits)] == [name for name, _ in expected]
        assert [hit.score for hit in hits] == pytest.approx([score for _, score in expected], abs=1e-6)
    assert list(store.scan(where)) == plain_scan(kept, where)


def random_bundle(rng: np.random.Generator, name: str) -> Bundle:
    texts = [" ".join(rng.choice(WORDS, rng.integers(1, 9))) for _ in range(rng.integers(0, 5))]
    at = datetime(2025, 1, int(rng.integers(1, 28)), tzinfo=UTC) if rng.random() < 0.7 else None
    meta = {"channel": str(rng.choice(["deck", "port"])), "year": int(rng.integers(2020, 2023)), "tags": ["a", "b"]}
    return bundle(
        name,
        texts,
        kind=str(rng.choice(["page", "chat"])),
        meta=meta,
        at=at,
        chunk_meta={"author": WORDS[int(rng.integers(3))]},
    )


# -- keeping


def put_many(store: Store, *given: Bundle) -> None:
    store.put_many([NewDocument(each.document, each.chunks, each.vectors, each.terms) for each in given])


def test_documents_that_are_put_together_are_as_if_put_one_by_one(make_store: MakeStore) -> None:
    first, second = bundle("a", ["anchor bell", "cable"]), bundle("b", ["deck engine"], seed=3)
    changed = bundle("a", ["anchor bell", "flag galley"])
    together, alone = make_store("together"), make_store("alone")
    for state in ([first, second], [changed, bundle("c", [])]):
        put_many(together, *state)
        for each in state:
            put(alone, each)
    assert [each.document.id for each in together.stored_documents()] == ["a", "b", "c"]
    for one, other in zip(together.stored_documents(), alone.stored_documents(), strict=True):
        assert one.fingerprint() == other.fingerprint()
    assert (together.stats().documents, together.stats().chunks) == (3, 3)
    assert list_scores(together.search_terms({"flag": 1, "deck": 1}, 9)) == list_scores(
        alone.search_terms({"flag": 1, "deck": 1}, 9)
    )
    assert list_scores(together.search_vectors(vector(1), 9)) == list_scores(alone.search_vectors(vector(1), 9))


def test_of_documents_that_are_put_together_none_is_stored_where_one_cannot_be(make_store: MakeStore) -> None:
    store, good, other = make_store(), bundle("a", ["anchor"]), bundle("b", ["bell"])
    taken = replace(other, chunks=tuple(replace(chunk, id=good.chunks[0].id) for chunk in other.chunks))
    with pytest.raises(DriverFailed):
        put_many(store, good, taken)
    assert list(store.documents()) == []
    assert store.search_terms({"anchor": 1}, 9) == []
    put_many(store)
    put_many(store, good, other)
    assert [record.id for record in store.documents()] == ["a", "b"]


def test_a_document_comes_back_as_it_was_put(make_store: MakeStore) -> None:
    store = make_store()
    at = datetime(2025, 3, 1, 12, 30, tzinfo=timezone(timedelta(hours=2)))
    given = bundle(
        "log", ["anchor bell", "cable"], meta={"n": 1, "x": 1.5, "on": True, "tags": ["a", 2], "none": None}, at=at
    )
    sections = (Section(0, 11, "A", None, "m1", "ann", at, 3), Section(11, 17, "B", 0, "m2", "bob", None, None))
    document = replace(
        given.document, sections=sections, summary="short", hash="abc", stamp="1:2", title="Log", uri="a/b.md"
    )
    store.put(document, given.chunks, given.vectors, given.terms)
    assert store.document("log") == document
    assert store.chunks("log") == list(given.chunks)
    (record,) = store.documents()
    assert (record.id, record.title, record.uri, record.kind) == ("log", "Log", "a/b.md", "page")
    assert (record.hash, record.stamp, record.chars, record.chunks) == ("abc", "1:2", len(document.text), 2)
    assert (record.summary, record.meta) == ("short", document.meta)
    assert store.search_vectors(given.vectors[0], 1)[0].chunk == given.chunks[0]


def test_naive_times_stay_naive(make_store: MakeStore) -> None:
    store, at = make_store(), datetime(2025, 3, 1, 12, 30, 0, 125)
    put(store, bundle("log", ["anchor"], at=at))
    assert store.chunks("log")[0].at == at


def test_putting_twice_changes_nothing(make_store: MakeStore) -> None:
    store, given = make_store(), bundle("log", ["anchor bell", "cable", "cable"])
    put(store, given)
    before = (
        store.stats().chunks,
        store.chunks("log"),
        list_scores(store.search_vectors(vector(1), 9)),
        list_scores(store.search_terms({"cable": 1}, 9)),
    )
    put(store, given)
    after = (
        store.stats().chunks,
        store.chunks("log"),
        list_scores(store.search_vectors(vector(1), 9)),
        list_scores(store.search_terms({"cable": 1}, 9)),
    )
    assert before == after
    assert store.stats().documents == 1


def test_replacing_removes_what_is_no_longer_there(make_store: MakeStore) -> None:
    store = make_store()
    put(store, bundle("log", ["anchor", "bell", "cable", "deck"]))
    shorter = bundle("log", ["deck", "engine"], kind="chat", meta={"channel": "deck"})
    assert_same_results(store, [bundle("log", ["anchor", "bell", "cable", "deck"])])
    put(store, shorter)
    assert store.stats().chunks == 2
    assert store.document("log") == shorter.document
    assert store.chunks("log") == list(shorter.chunks)
    assert collect_ids(store.search_vectors(vector(1), 99)) == {chunk.id for chunk in shorter.chunks}
    assert store.search_terms({"anchor": 1}, 5) == []
    assert_same_results(store, [shorter])
    assert_same_results(store, [shorter], where=Filter(kinds=frozenset({"chat"})))


def test_a_chunk_that_moved_is_shown_where_it_is_now(make_store: MakeStore) -> None:
    store = make_store()
    put(store, bundle("log", ["anchor", "bell"]))
    assert store.search_vectors(vector(1), 9)
    moved = bundle("log", ["cable", "bell", "anchor"])
    put(store, moved)
    assert store.chunks("log") == list(moved.chunks)
    shown = {hit.chunk.id: hit.chunk for hit in store.search_vectors(vector(1), 9)}
    assert shown == {chunk.id: chunk for chunk in moved.chunks}


def test_an_empty_document_is_kept(make_store: MakeStore) -> None:
    store = make_store()
    put(store, bundle("void", []))
    assert store.document("void").text == ""
    assert store.chunks("void") == []
    assert store.search_vectors(vector(1), 5) == []
    assert (store.stats().documents, store.stats().chunks) == (1, 0)


def test_dropping_removes_all_of_it(make_store: MakeStore) -> None:
    store = make_store()
    put(store, bundle("log", ["anchor", "bell"]))
    put(store, bundle("map", ["anchor", "cable"]))
    assert_same_results(store, [bundle("log", ["anchor", "bell"]), bundle("map", ["anchor", "cable"])])
    assert store.drop(["log", "nothing", "log"]) == 1
    assert (
        collect_ids(store.search_vectors(vector(1), 9))
        == collect_ids(store.search_terms({"anchor": 1, "cable": 1}, 9))
        == {"map/anchor/0", "map/cable/0"}
    )
    assert_same_results(store, [bundle("map", ["anchor", "cable"])])
    assert [record.id for record in store.documents()] == ["map"]
    assert store.vectors(["log/anchor/0"]) == {}
    assert store.drop(["log"]) == 0
    assert store.drop([]) == 0


def test_what_is_not_there_is_not_found(make_store: MakeStore) -> None:
    store = make_store()
    with pytest.raises(NotFound, match="'log'"):
        store.document("log")
    with pytest.raises(NotFound, match="'log'"):
        store.chunks("log")
    with pytest.raises(NotFound, match="'log'"):
        store.summarise("log", "short", vector(1))


@pytest.mark.parametrize(
    "name",
    [
        "o'brien",
        'say "hi"',
        "%",
        "_",
        "naïve ☕ 日本語",
        "a;b--",
        "a\nb\tc",
        "\\x",
        "[1]",
        " ",
        "C:\\dir",
        "\x1f",
        "Plain",
        "plain ",
    ],
)
def test_odd_ids_name_only_themselves(make_store: MakeStore, name: str) -> None:
    store = make_store()
    odd, plain = bundle(name, ["anchor", "bell"]), bundle("plain", ["anchor", "cable"])
    put(store, odd)
    put(store, plain)
    assert store.document(name).id == name
    assert set(store.vectors([odd.chunks[0].id])) == {odd.chunks[0].id}
    assert collect_ids(store.search_vectors(vector(1), 9, Filter(documents=frozenset({name})))) == {
        chunk.id for chunk in odd.chunks
    }
    assert [record.id for record in store.documents(Filter(documents=frozenset({name})))] == [name]
    assert store.drop([name]) == 1
    assert_same_results(store, [plain])


def test_a_chunk_id_belongs_to_one_document(make_store: MakeStore) -> None:
    store, given = make_store(), bundle("log", ["anchor"])
    put(store, given)
    other = Document("map", "anchor")
    with pytest.raises(DriverFailed, match="chunk id"):
        store.put(other, given.chunks, given.vectors, given.terms)
    with pytest.raises(DriverFailed, match="chunk id"):
        store.put(other, bundle("map", ["bell"]).chunks * 2, vectors(1, 2), [{}, {}])
    assert_same_results(store, [given])
    assert [record.id for record in store.documents()] == ["log"]


def test_collections_never_mix(make_store: MakeStore) -> None:
    one, two = make_store("one"), make_store("two")
    put(one, bundle("log", ["anchor"]))
    put(two, bundle("log", ["bell"]))
    assert collect_ids(one.search_vectors(vector(1), 9)) == {"log/anchor/0"}
    assert collect_ids(two.search_vectors(vector(1), 9)) == {"log/bell/0"}
    assert one.drop(["log"]) == 1
    assert collect_ids(two.search_terms({"bell": 1}, 9)) == {"log/bell/0"}


def test_vectors_come_back_as_they_were(make_store: MakeStore) -> None:
    store, given = make_store(), bundle("log", ["anchor", "bell"])
    put(store, given)
    kept = store.vectors([chunk.id for chunk in given.chunks] + ["absent"])
    assert set(kept) == {chunk.id for chunk in given.chunks}
    for chunk, row in zip(given.chunks, given.vectors, strict=True):
        np.testing.assert_array_equal(kept[chunk.id], row)
    assert store.vectors([]) == {}


def assert_same_candidates(
    store: Store, found: Candidates, vector: Vector, terms: Mapping[str, int], rankings: Sequence[Ranking], mode: Mode
) -> None:
    """Candidates are what the searches find, each chunk once, with the numbers that other methods give."""
    for near, matching, (where, k, words) in zip(found.near, found.matching, rankings, strict=True):
        nearest = store.search_vectors(vector, k, where, mode=mode)
        assert [found.ids[place] for place in near] == [hit.chunk.id for hit in nearest]
        assert found.cosines[list(near)].tolist() == pytest.approx([hit.score for hit in nearest], abs=1e-6)
        best = store.search_terms(terms, words, where)
        assert [found.ids[place] for place in matching] == [hit.chunk.id for hit in best]
        assert [found.by_words[place] for place in matching] == pytest.approx([hit.score for hit in best])
    assert set(found.by_words) == {place for ranking in found.matching for place in ranking}
    assert len(set(found.ids)) == len(found.ids)
    kept = store.vectors(found.ids)
    assert found.cosines.tolist() == pytest.approx([float(kept[id_] @ vector) for id_ in found.ids], abs=1e-6)
    matches = store.match_terms(terms, found.ids)
    assert found.shares.tolist() == pytest.approx([matches[id_].share for id_ in found.ids])
    assert found.strengths.tolist() == pytest.approx([matches[id_].strength for id_ in found.ids])
    chunks, hits = store.chunks_by_id(found.ids), found.read_hits(range(len(found.ids)))
    assert [hit.chunk for hit in hits] == [chunks[id_] for id_ in found.ids]
    assert found.is_message.tolist() == ["message" in hit.chunk.meta for hit in hits]


ASKED_WORDS: list[Mapping[str, int]] = [{"anchor": 1, "bell": 2}, {}, {"rope": 1, "unheard": 1}]
FEW = Filter(documents=frozenset({"log", "chat"}))
CHATS = Filter(kinds=frozenset({"thread"}))
RANKINGS = [
    [Ranking(EVERYTHING, 9, 9)],
    [Ranking(EVERYTHING, 2, 1)],
    [Ranking(FEW, 9, 9)],
    [Ranking(EVERYTHING, 3, 3), Ranking(CHATS, 2, 2), Ranking(FEW & CHATS, 9, 9)],
    [Ranking(Filter(documents=frozenset()), 9, 9)],
    [Ranking(EVERYTHING, 0, 9), Ranking(EVERYTHING, 9, 0)],
]


def put_pages_and_a_chat(store: Store) -> None:
    put(store, bundle("log", ["anchor", "bell", "cable", "anchor bell"]))
    put(store, bundle("map", ["anchor", "rope", "rope keel"]))
    put(store, bundle("chat", ["anchor mast", "lamp", "rope bell"], kind="thread", chunk_meta={"message": "m"}))


@pytest.mark.parametrize("mode", ["ann", "exact"])
@pytest.mark.parametrize("rankings", RANKINGS)
def test_candidates_are_what_the_searches_find(make_store: MakeStore, rankings: list[Ranking], mode: Mode) -> None:
    store = make_store()
    put_pages_and_a_chat(store)
    asked = vectors(5, len(ASKED_WORDS))
    for wanted in ([], ["map/rope/0", "nowhere", "log/cable/0", "map/rope/0"]):
        found = store.find_candidates(asked, ASKED_WORDS, rankings, wanted, mode=mode)
        assert len(found) == len(ASKED_WORDS)
        for each, query, terms in zip(found, asked, ASKED_WORDS, strict=True):
            assert_same_candidates(store, each, query, terms, rankings, mode)
            ranked = {place for ranking in (*each.near, *each.matching) for place in ranking}
            assert {id_ for place, id_ in enumerate(each.ids) if place not in ranked} <= set(wanted)
            assert {id_ for id_ in wanted if id_ != "nowhere"} <= set(each.ids)


def test_candidates_follow_every_change(make_store: MakeStore) -> None:
    store, asked, rankings = make_store(), vectors(5, 1), [Ranking(EVERYTHING, 9, 9)]

    def find() -> Candidates:
        (found,) = store.find_candidates(asked, ASKED_WORDS[:1], rankings)
        assert_same_candidates(store, found, asked[0], ASKED_WORDS[0], rankings, "ann")
        return found

    assert list(find().ids) == []
    put_pages_and_a_chat(store)
    assert len(find().ids) == 9
    store.drop(["map"])
    assert not any(id_.startswith("map") for id_ in find().ids)
    put(store, bundle("map", ["anchor"], seed=3))
    assert "map/anchor/0" in find().ids


def test_candidates_within_a_filter_are_of_it(make_store: MakeStore) -> None:
    store, asked = make_store(), vectors(5, 1)
    put_pages_and_a_chat(store)
    part, rankings = store.within(FEW), [Ranking(EVERYTHING, 9, 9), Ranking(CHATS, 9, 9)]
    (found,) = part.find_candidates(asked, [{"anchor": 1, "rope": 1}], rankings)
    assert_same_candidates(part, found, asked[0], {"anchor": 1, "rope": 1}, rankings, "ann")
    assert {id_.split("/")[0] for id_ in found.ids} == {"log", "chat"}


def test_a_candidate_within_a_filter_is_not_found_by_its_id_outside_of_it(make_store: MakeStore) -> None:
    store = make_store()
    put_pages_and_a_chat(store)
    (found,) = store.within(FEW).find_candidates(vectors(5, 1), [{}], [Ranking(EVERYTHING, 1, 1)], ["map/rope/0"])
    assert "map/rope/0" not in found.ids


def test_candidates_that_are_removed_before_they_are_read_are_gone_or_as_they_were(make_store: MakeStore) -> None:
    store = make_store()
    put_pages_and_a_chat(store)
    (found,) = store.find_candidates(vectors(5, 1), [{}], [Ranking(EVERYTHING, 20, 20)])
    store.drop(["map"])
    places = [place for place, id_ in enumerate(found.ids) if id_.startswith("map")]
    try:  # a backend that keeps old states reads the one that was searched
        hits, threads = found.read_hits(places), found.read_threads(places)
    except Gone:
        return
    assert [hit.chunk.id for hit in hits] == [found.ids[place] for place in places]
    assert [thread.text for thread in threads] == [hit.chunk.text for hit in hits]


def test_the_place_of_a_candidate_in_its_thread(make_store: MakeStore) -> None:
    store = make_store()
    said = bundle("chat", ["anchor", "lamp", "rope"], kind="thread")
    meta: list[dict[str, Any]] = [{"message": f"m{n}"} | ({"reply_to": "m0"} if n == 2 else {}) for n in range(3)]
    chunks = tuple(replace(chunk, meta=about) for chunk, about in zip(said.chunks, meta, strict=True))
    put(store, replace(said, chunks=chunks))
    put(store, bundle("other", ["mast"], kind="thread", chunk_meta={"message": "o"}))
    (found,) = store.find_candidates(vectors(5, 1), [{}], [Ranking(EVERYTHING, 9, 9)])
    order = sorted(range(len(found.ids)), key=found.ids.__getitem__)
    first, second, third, other = found.read_threads(order)
    assert [(each.message, each.reply_to, each.text) for each in (first, second, third)] == [
        ("m0", "", "anchor"),
        ("m1", "", "lamp"),
        ("m2", "m0", "rope"),
    ]
    assert [each.number - first.number for each in (first, second, third)] == [0, 1, 2]
    assert first.thread == second.thread == third.thread != other.thread


def test_chunks_are_found_by_their_ids(make_store: MakeStore) -> None:
    store, given = make_store(), bundle("a", ["anchor", "bell", "cable"])
    put(store, given)
    wanted = [given.chunks[2].id, given.chunks[0].id]
    assert store.chunks_by_id([*wanted, "nowhere", wanted[0]]) == {
        given.chunks[at].id: given.chunks[at] for at in (0, 2)
    }
    assert store.chunks_by_id([]) == {}


def test_the_latest_of_a_channel_are_those_that_were_added_last(make_store: MakeStore) -> None:
    store = make_store()
    one = bundle("one", ["anchor", "bell", "cable"], chunk_meta={"channel": "deck"})
    put(store, one)
    put(store, bundle("elsewhere", ["flag"], chunk_meta={"channel": "hull"}))
    put(store, bundle("page", ["galley"]))
    two = bundle("two", ["engine", "jib"], chunk_meta={"channel": "deck"})
    put(store, two)
    assert [chunk.text for chunk in store.latest_chunks("deck", 3)] == ["cable", "engine", "jib"]
    assert [chunk.text for chunk in store.latest_chunks("deck", 9)] == ["anchor", "bell", "cable", "engine", "jib"]
    assert store.latest_chunks("nowhere", 3) == []
    store.drop(["two"])
    assert [chunk.text for chunk in store.latest_chunks("deck", 1)] == ["cable"]


def test_files_are_the_documents_with_a_stamp(make_store: MakeStore) -> None:
    store = make_store()
    for name, stamp in (("page", "1:2"), ("program", "")):
        given = bundle(name, ["anchor"])
        put(store, replace(given, document=replace(given.document, uri=f"{name}.md", stamp=stamp)))
    assert store.files() == [("page", "page.md")]


def test_documents_are_listed_by_uri_and_id(make_store: MakeStore) -> None:
    store = make_store()
    for name, uri in (("c", "b"), ("a", "é"), ("b", "b"), ("d", "B"), ("e", "z")):
        put(store, bundle(name, ["anchor"], uri=uri))
    assert [record.id for record in store.documents()] == ["d", "b", "c", "e", "a"]


def test_documents_are_filtered_by_what_is_said_of_them(make_store: MakeStore) -> None:
    store = make_store()
    put(store, bundle("log", ["anchor"], kind="chat", meta={"channel": "deck", "year": 2020}))
    put(store, bundle("map", ["bell"], meta={"tags": ["x", "y"]}))
    for where, expected in (
        (EVERYTHING, ["log", "map"]),
        (Filter(documents=frozenset({"map", "absent"})), ["map"]),
        (Filter(kinds=frozenset({"chat"})), ["log"]),
        (Filter(channels=frozenset({"deck"})), ["log"]),
        (Filter(meta={"tags": "y"}), ["map"]),
        (Filter(meta={"year": 2020}, documents=frozenset({"map"})), []),
    ):
        assert [record.id for record in store.documents(where)] == expected


# -- growing


def test_the_channels_are_those_that_have_chunks(make_store: MakeStore) -> None:
    store = make_store()
    assert store.channels() == []
    for name, channel in (("one", "hull"), ("two", "deck"), ("three", "deck"), ("four", "Ärger")):
        put(store, bundle(name, ["anchor", "bell"], chunk_meta={"channel": channel}))
    put(store, bundle("page", ["galley"]))
    assert store.channels() == ["deck", "hull", "Ärger"]
    store.drop(["one"])
    assert store.channels() == ["deck", "Ärger"]


def test_only_the_text_that_was_read_is_replaced(make_store: MakeStore) -> None:
    store, old, new = make_store(), bundle("a", ["anchor", "bell"]), bundle("a", ["cable"])
    put(store, old)
    with pytest.raises(ConcurrentChange, match="read it again"):
        store.put(new.document, new.chunks, new.vectors, new.terms, expected_text=old.document.text + " and more")
    assert store.document("a").text == old.document.text
    store.put(new.document, new.chunks, new.vectors, new.terms, expected_text=old.document.text)
    assert store.document("a").text == new.document.text
    with pytest.raises(ConcurrentChange):
        store.put(old.document, old.chunks, old.vectors, old.terms, expected_text=old.document.text)
    store.drop(["a"])
    with pytest.raises(ConcurrentChange):  # what is gone does not come back
        store.put(new.document, new.chunks, new.vectors, new.terms, expected_text=new.document.text)
    assert list(store.documents()) == []


# -- threads


def thread(texts: Sequence[str], *, name: str = "talk", parents: Sequence[int | None] = ()) -> Bundle:
    """A thread of messages m0, m1, …, each a section and a chunk."""
    sections, chunks, at = [], [], 0
    for n, text in enumerate(texts):
        parent = parents[n] if parents else (n - 1 if n else None)
        sections.append(Section(at, at + len(text) + 1, parent=parent, id=f"m{n}", author="Ann"))
        chunks.append(Chunk(f"m{n}_chunk_0", name, n, len(texts), text, at, at + len(text), meta={"message": f"m{n}"}))
        at += len(text) + 1
    document = Document(
        name, "".join(f"{text}\n" for text in texts), tuple(sections), "thread", "Talk", "talk", hash="h"
    )
    rows = np.stack([vector(sum(text.encode())) for text in texts])
    return Bundle(document, tuple(chunks), rows, tuple(Counter(text.split()) for text in texts))


def make_edit(part: ThreadPart, texts: Mapping[int, str], *, removed: Sequence[int] = (), append: bool = False) -> Any:
    """The edit of a part after which the messages with these numbers say something else, and others are gone."""
    said = {**dict(zip(part.numbers, part.document.text.split("\n"), strict=False)), **texts}
    numbers = tuple(sorted(said.keys() - set(removed)))
    whole = thread([said[n] for n in numbers])
    sections = tuple(replace(s, id=f"m{n}") for s, n in zip(whole.document.sections, numbers, strict=True))
    ids = [f"m{n}_chunk_0" for n in numbers]
    chunks = [replace(c, id=i, meta={"message": i[:-8]}) for c, i in zip(whole.chunks, ids, strict=True)]
    at = [position for position, n in enumerate(numbers) if n in texts or (n - 1) in removed]
    return ThreadEdit(
        replace(part.document, text=whole.document.text, sections=sections),
        numbers,
        tuple(at),
        tuple(chunks[position] for position in at),
        whole.vectors[at],
        tuple(whole.terms[position] for position in at),
        tuple(removed),
        part.revision,
        append,
    )


def test_a_thread_that_is_edited_equals_one_that_is_put(make_store: MakeStore) -> None:
    texts = [f"{WORDS[n % 13]} number{n}" for n in range(300)]
    store, whole = make_store(), thread(texts)
    put(store, whole)
    assert store.document("talk") == whole.document
    part = store.thread_part("talk", ["m140"], reach=2)
    assert set(range(136, 145)) <= set(part.numbers)
    assert {0, 1, 299} <= set(part.numbers)
    assert len(part.numbers) < 40
    assert (part.first, part.last) == (0, 299)
    store.edit_threads([make_edit(part, {140: "anchor edited and longer"})])
    texts[140] = "anchor edited and longer"
    changed = thread(texts)
    assert store.document("talk") == replace(changed.document, hash="")
    assert store.chunks("talk") == list(changed.chunks)
    assert_same_results(store, [replace(changed, document=replace(changed.document, hash=""))])
    assert store.chunks_by_id(["m299_chunk_0"]) == {"m299_chunk_0": changed.chunks[299]}
    assert list(store.scan()) == list(changed.chunks)
    (stored,) = store.stored_documents()
    assert stored.chunks == changed.chunks


def test_messages_are_removed_and_added_in_a_thread(make_store: MakeStore) -> None:
    store = make_store()
    put(store, thread([f"{WORDS[n % 13]} number{n}" for n in range(200)]))
    store.summarise("talk", "about anchors", vector(3))
    part = store.thread_part("talk", ["m100"], reach=1)
    store.edit_threads([make_edit(part, {}, removed=[100])])
    document = store.document("talk")
    assert [section.id for section in document.sections] == [f"m{n}" for n in range(200) if n != 100]
    assert [section.parent for section in document.sections] == [None, *range(198)]
    assert (document.summary, store.search_documents(vector(3), 1)) == ("", [])
    assert "number100 " not in document.text
    store.summarise("talk", "about anchors", vector(3))
    part = store.thread_part("talk", [], reach=1)
    store.edit_threads([make_edit(part, {200: "keel new"}, append=True)])
    assert store.document("talk").sections[-1].id == "m200"
    assert (store.document("talk").summary, store.search_documents(vector(3), 1)) == ("", [])
    chunks, document = store.chunks("talk"), store.document("talk")
    assert [chunk.index for chunk in chunks] == list(range(200))
    assert all(chunk.text == document.text[chunk.start : chunk.end] for chunk in chunks)
    assert [hit.chunk for hit in store.search_terms({"new": 1}, 3)] == [chunks[-1]]


def test_an_edit_of_what_has_changed_meanwhile_is_refused(make_store: MakeStore) -> None:
    store = make_store()
    put(store, thread(["anchor", "bell", "cable"]))
    part = store.thread_part("talk", ["m1"], reach=1)
    store.edit_threads([make_edit(part, {1: "deck"})])
    before = store.document("talk")
    for stale in (make_edit(part, {2: "engine"}), make_edit(part, {}, removed=[2])):
        with pytest.raises(ConcurrentChange, match="read it again"):
            store.edit_threads([stale])
    assert store.document("talk") == before
    with pytest.raises(NotFound):
        store.thread_part("gone", ["m1"], reach=1)
    part = store.thread_part("talk", ["m0", "m1", "m2"], reach=1)
    store.drop(["talk"])
    with pytest.raises(ConcurrentChange):
        store.edit_threads([make_edit(part, {1: "deck"})])


def test_a_thread_that_loses_all_its_messages_goes(make_store: MakeStore) -> None:
    store = make_store()
    put(store, thread(["anchor", "bell"]))
    part = store.thread_part("talk", ["m0", "m1"], reach=1)
    empty = replace(part.document, text="", sections=())
    store.edit_threads([ThreadEdit(empty, (), (), (), vectors(0, 0), (), part.numbers, part.revision)])
    assert list(store.documents()) == []
    assert (store.stats().documents, store.stats().chunks) == (0, 0)


def test_messages_that_wait_are_found_by_what_they_wait_for(make_store: MakeStore) -> None:
    store, given = make_store(), thread(["anchor", "bell"])
    sections = (replace(given.document.sections[0], awaits="m9"), given.document.sections[1])
    document = replace(given.document, sections=sections, meta={"channel": "deck"})
    put(store, replace(given, document=document))
    assert store.document("talk") == document
    assert store.waiting_messages(["m9", "m8"], "deck") == {"m9": [("m0", "talk")]}
    assert store.waiting_messages(["m9"], "hull") == {}


# -- summaries


def test_documents_are_found_by_their_summaries(make_store: MakeStore) -> None:
    store = make_store()
    rows = vectors(5, 4)
    for name, row, kind in zip("abcd", rows, ("page", "page", "chat", "page"), strict=True):
        put(store, bundle(name, ["anchor"], kind=kind))
        if name != "d":
            store.summarise(name, f"about {name}", row)
    assert store.search_documents(rows[1], 1) == [("b", 1.0)]
    scores = {
        name: float(np.dot(row.astype(float), rows[1].astype(float))) for name, row in zip("abc", rows[:3], strict=True)
    }
    near = store.search_documents(rows[1], 9)
    assert [name for name, _ in near] == [name for name, _ in rank_scores(scores, 9)]
    assert dict(near) == pytest.approx(scores, abs=1e-6)
    assert [name for name, _ in store.search_documents(rows[1], 9, Filter(kinds=frozenset({"chat"})))] == ["c"]
    assert store.document("a").summary == "about a"
    assert {record.id: record.summary for record in store.documents()}["d"] == ""
    store.drop(["b"])
    assert {name for name, _ in store.search_documents(rows[1], 9)} == {"a", "c"}
    store.summarise("a", "equal", rows[2])
    assert [name for name, _ in store.search_documents(rows[2], 2)] == ["a", "c"]


def test_a_summary_says_who_made_it_and_is_refused_for_another_text(make_store: MakeStore) -> None:
    store = make_store()
    given = bundle("log", ["anchor", "bell"])
    put(store, given)
    store.summarise("log", "short", vector(3), by="a model", expected_text=given.document.text)
    assert (store.document("log").summary, store.document("log").summary_by) == ("short", "a model")
    with pytest.raises(ConcurrentChange):
        store.summarise("log", "stale", vector(4), by="a model", expected_text="Another text.")
    assert store.document("log").summary == "short"
    assert dict(store.search_documents(vector(3), 1)) == pytest.approx({"log": 1.0}, abs=1e-5)
    with pytest.raises(NotFound):
        store.summarise("gone", "short", vector(3), by="a model", expected_text="")


def test_a_document_is_claimed_by_one_owner_until_its_time_is_over(make_store: MakeStore) -> None:
    store = make_store()
    put(store, bundle("log", ["anchor", "bell"]))
    change = store.change_number()
    assert store.claim(["log", "unknown"], owner="a", seconds=600) == {"log"}
    assert store.claim(["log"], owner="b", seconds=600) == set()
    assert store.claim(["log"], owner="a", seconds=600) == {"log"}  # extended
    assert store.claim(["log"], owner="a", seconds=0) == {"log"}  # given back
    assert store.claim(["log"], owner="b", seconds=-1) == {"log"}  # over at once, as after a crash
    assert store.claim(["log"], owner="a", seconds=600) == {"log"}
    assert store.change_number() == change
    store.drop(["log"])
    put(store, bundle("log", ["anchor", "bell"]))
    assert store.claim(["log"], owner="b", seconds=600) == {"log"}


def test_a_summary_stays_when_its_document_is_put_again_with_it(make_store: MakeStore) -> None:
    store, given = make_store(), bundle("log", ["anchor"])
    put(store, given)
    store.summarise("log", "short", vector(3))
    put(store, replace(given, document=replace(given.document, summary="short")))
    assert store.search_documents(vector(3), 1) == [("log", 1.0)]
    put(store, given)
    assert store.search_documents(vector(3), 1) == []


# -- moving


def read_fingerprints(store: Store) -> dict[str, str]:
    return {each.document.id: each.fingerprint() for each in store.stored_documents()}


def test_whole_documents_move_to_another_store_as_they_are(make_store: MakeStore) -> None:
    store, at = make_store(), datetime(2025, 3, 1, 12, 30, tzinfo=timezone(timedelta(hours=2)))
    first = bundle("log", ["anchor bell bell", "cable"], meta={"n": 1, "tags": ["a", 2]}, at=at)
    put(store, replace(first, document=replace(first.document, summary="short", stamp="1:2")))
    store.summarise("log", "short", vector(5))
    put(store, bundle("note", ["deck", "more"], chunk_meta={"channel": "c"}))
    put(store, bundle("empty", []))
    other = open_store(None, embedder=MODEL, dim=DIM)
    moved = list(store.stored_documents())
    assert [each.document.id for each in moved] == ["log", "note", "empty"]
    assert moved[0].document == store.document("log")
    assert list(moved[0].chunks) == store.chunks("log")
    assert np.array_equal(moved[0].vectors, first.vectors)
    assert [(len(each.hashes), each.length) for each in moved[0].terms] == [(2, 3), (1, 1)]
    assert np.array_equal(moved[0].summary_vector, vector(5))  # type: ignore[arg-type]
    assert moved[1].document.text == "deck\nmore"
    assert len(moved[1].chunks) == len(moved[1].vectors) == 2
    assert moved[1].summary_vector is None
    for each in moved:
        other.put_many([each])
    assert read_fingerprints(other) == read_fingerprints(store)
    for query in ({"bell": 1}, {"deck": 2, "cable": 1}):
        assert list_scores(other.search_terms(query, 9)) == list_scores(store.search_terms(query, 9))
    assert other.search_documents(vector(5), 3) == store.search_documents(vector(5), 3)
    for each in other.stored_documents():  # and back, over what is there
        store.put_many([each])
    assert read_fingerprints(other) == read_fingerprints(store)
    other.close()


def test_whole_documents_can_be_asked_for_by_name(make_store: MakeStore) -> None:
    store = make_store()
    for name in ("a", "b", "c"):
        put(store, bundle(name, [f"anchor {name}"]))
    assert [each.document.id for each in store.stored_documents(["c", "a", "nowhere"])] == ["a", "c"]
    assert list(store.stored_documents([])) == []


def test_a_kept_document_takes_the_place_of_the_one_that_was_there(make_store: MakeStore) -> None:
    store = make_store()
    put(store, bundle("log", ["anchor", "bell"]))
    store.summarise("log", "short", vector(5))
    (old,) = store.stored_documents()
    put(store, bundle("log", ["cable"]))
    store.put_many([replace(old, document=replace(old.document, summary=""))])
    assert list_scores(store.search_terms({"cable": 1}, 5)) == []
    assert len(store.search_terms({"anchor": 1, "bell": 1}, 5)) == 2
    store.put_many([replace(old, summary_vector=None)])  # the same summary, without a vector
    assert store.search_documents(vector(5), 5) == []
    with pytest.raises(DriverFailed):
        store.put_many([replace(old, summary_vector=vector(5) * 2)])
    with pytest.raises(DriverFailed):
        store.put_many([replace(old, vectors=old.vectors[:1])])
    assert store.search_documents(vector(5), 5) == []


def test_many_whole_documents_come_a_few_at_a_time(make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_CHUNKS", 3)
    store, kept = make_store(), [bundle(f"d{n:02}", ["anchor", "bell"][: n % 3]) for n in range(12)]
    for each in kept:
        put(store, each)
    assert [each.document.id for each in store.stored_documents()] == [each.document.id for each in kept]


# -- another model


class Other:
    """A model of another width: the vector of a text depends on its letters alone."""

    name, dim, max_tokens, min_similarity = "model-b", 16, 512, 0.0

    def __init__(self, *, fail_after: int | None = None, then: Callable[[], None] | None = None) -> None:
        self.texts: list[str] = []
        self._fail_after, self._then = fail_after, then

    def embed(self, texts: Sequence[str], *, role: str) -> Matrix:
        if self._fail_after is not None and len(self.texts) >= self._fail_after:
            raise DriverFailed("the model is gone")
        if self._then:
            then, self._then = self._then, None
            then()
        self.texts += texts
        return np.stack([self.of(text) for text in texts])

    def of(self, text: str) -> Vector:
        drawn = np.random.default_rng(sum(text.encode())).normal(size=self.dim)
        return np.asarray(drawn / np.linalg.norm(drawn), np.float32)

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text) for text in texts]


@pytest.fixture
def switch() -> Iterator[Callable[[Store, Other], Store]]:
    """Switches a store to a model whose vectors stand beside; what comes back is closed in the end."""
    with ExitStack() as stack:
        yield lambda store, model: stack.enter_context(closing(store.switch_to_staged(model)))


Switch = Callable[[Store, Other], Store]


def test_a_collection_is_switched_to_another_model_and_back(make_store: MakeStore, switch: Switch) -> None:
    store, given = make_store(), bundle("log", ["anchor bell", "cable", "deck"])
    put(store, given)
    store.summarise("log", "short", vector(5))
    put(store, bundle("one", ["keel"]))
    store.summarise("one", "said otherwise", store.vectors(["one/keel/0"])["one/keel/0"])
    model, before = Other(), (read_fingerprints(store), list_scores(store.search_vectors(vector(1), 9)))
    assert store.staged_model() is None
    assert store.stage_vectors(model) == 6
    assert store.staged_model() == StagedModel("model-b", 16, was_used=False)
    assert (read_fingerprints(store), list_scores(store.search_vectors(vector(1), 9))) == before
    other = switch(store, model)
    facts = other.stats()
    assert (facts.embedder, facts.dim, facts.chunks, facts.documents) == ("model-b", 16, 4, 2)
    query = model.of("x")
    texts = {chunk.id: model.of(chunk.embed_text) for name in ("log", "one") for chunk in other.chunks(name)}
    expected = rank_scores({name: round(float(row @ query), 6) for name, row in texts.items()}, 9)
    for mode in ("exact", "ann"):
        hits = other.search_vectors(query, 9, mode=mode)
        assert [name for name, _ in list_scores(hits)] == [name for name, _ in expected]
        assert [hit.score for hit in hits] == pytest.approx([score for _, score in expected], abs=1e-5)
    summaries = {"log": float(model.of("short") @ query), "one": float(model.of("said otherwise") @ query)}
    assert dict(other.search_documents(query, 9)) == pytest.approx(summaries, abs=1e-5)
    assert other.staged_model() == StagedModel(MODEL, DIM, was_used=True)
    other.flush()
    assert list_scores(other.search_vectors(query, 9)) == list_scores(hits)
    old = Other()
    old.name, old.dim = MODEL, DIM
    assert other.stage_vectors(old) == 0
    back = switch(other, old)
    assert old.texts == []
    assert (read_fingerprints(back), list_scores(back.search_vectors(vector(1), 9))) == before
    assert back.discard_staged()
    assert back.staged_model() is None
    assert not back.discard_staged()


def test_what_changes_while_another_model_works_is_caught_up_with(make_store: MakeStore, switch: Switch) -> None:
    store = make_store()
    for name in ("a", "b", "c"):
        put(store, bundle(name, [f"anchor {name}", f"bell {name}"]))
        store.summarise(name, f"about {name}", vector(5))
    changed = bundle("b", ["bell b", "deck b"])
    kept = bundle("c", ["anchor c", "bell c"])
    respelt = tuple(replace(chunk, text=chunk.text.upper()) for chunk in kept.chunks)  # the same words and vectors

    def meanwhile() -> None:
        put(store, bundle("new", ["flag", "hull"]))
        put(store, changed)
        store.drop(["a"])
        store.put(kept.document, respelt, kept.vectors, kept.terms)
        store.summarise("c", "about C", vector(6))
        put(store, bundle("new", ["flag", "hull", "mast"]))

    model = Other(then=meanwhile)
    store.stage_vectors(model)
    other = switch(store, model)
    wanted = [chunk for name in ("b", "c", "new") for chunk in other.chunks(name)]
    kept_now = other.vectors([chunk.id for chunk in wanted])
    assert len(wanted) == 7
    for chunk in wanted:
        assert np.allclose(kept_now[chunk.id], model.of(chunk.embed_text), atol=1e-6), chunk
    ((_, score),) = other.search_documents(model.of("about C"), 1)
    assert score == pytest.approx(1.0, abs=1e-5)
    last = Other()
    last.name, last.dim = MODEL, DIM
    put_as = bundle("later", ["ink"])
    other.put(put_as.document, put_as.chunks, model.embed(["ink"], role="passage"), put_as.terms)
    back = switch(other, last)
    assert last.texts == [other.chunks("later")[0].embed_text]  # only what came since
    assert back.vectors(["later/ink/0"])["later/ink/0"].shape == (DIM,)


def test_work_of_another_model_that_was_broken_off_goes_on(
    make_store: MakeStore, switch: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embed, "SLICE", 2)
    store, told = make_store(), list[tuple[int, int]]()
    for n in range(5):
        put(store, bundle(f"d{n}", [f"anchor {n}"]))
    with pytest.raises(DriverFailed, match="the model is gone"):
        store.stage_vectors(Other(fail_after=2))
    assert store.stats().embedder == MODEL
    assert len(store.search_vectors(vector(1), 9)) == 5
    model = Other()
    assert store.stage_vectors(model, lambda done, total, _: told.append((done, total))) == 3
    assert told == [(0, 3), (2, 3), (3, 3)]
    assert len(model.texts) == 3
    put(store, bundle("late", ["deck"]))
    with pytest.raises(DriverFailed, match="the model is gone"):
        store.switch_to_staged(Other(fail_after=0))
    assert store.stats().embedder == MODEL  # a switch that fails has not happened
    assert len(store.search_vectors(vector(1), 9)) == 6
    assert switch(store, model).stats().embedder == "model-b"


def test_a_third_model_is_refused_until_the_second_is_discarded(make_store: MakeStore) -> None:
    store, third = make_store(), Other()
    put(store, bundle("log", ["anchor"]))
    store.stage_vectors(Other())
    third.name = "model-c"
    for refused in (store.stage_vectors, store.switch_to_staged):
        with pytest.raises(StoreMismatch, match=r"of model-b \(16 dimensions\), not of model-c.*discard"):
            refused(third)
    store.discard_staged()
    assert store.stage_vectors(third) == 1


def test_two_that_embed_anew_at_once_do_not_mix_models(make_store: MakeStore, switch: Switch) -> None:
    store, before = make_store(), dict[str, Vector]()
    for n in range(3):
        put(store, bundle(f"d{n}", [f"anchor {n}"]))
        before |= store.vectors([f"d{n}/anchor {n}/0"])
    switched = list[Store]()

    def instead() -> None:
        third = Other()
        third.name = "model-c"
        store.discard_staged()
        store.stage_vectors(third)

    def sooner() -> None:
        store.stage_vectors(Other())
        switched.append(switch(store, Other()))

    with pytest.raises(StoreMismatch, match=r"of model-c \(16 dimensions\), not of model-b"):
        store.stage_vectors(Other(then=instead))
    store.discard_staged()
    with pytest.raises(StoreMismatch, match="switched from model-a to model-b meanwhile"):
        store.stage_vectors(Other(then=sooner))
    old = Other()
    old.name, old.dim = MODEL, DIM
    back = switch(switched[0], old)
    after = back.vectors(list(before))
    assert old.texts == []
    assert all(np.array_equal(after[name], row) for name, row in before.items())


def test_who_had_it_open_is_told_that_it_was_switched(make_store: MakeStore, switch: Switch) -> None:
    store, given = make_store(), bundle("log", ["anchor"])
    put(store, given)
    store.stage_vectors(Other())
    other = switch(store, Other())
    for call in (
        lambda: store.search_vectors(vector(1), 3),
        lambda: store.search_documents(vector(1), 3),
        lambda: put(store, given),
        lambda: store.put_many([next(iter(other.stored_documents()))]),
        lambda: store.summarise("log", "short", vector(1)),
        lambda: list(store.stored_documents()),  # an export would call them vectors of the old model
        lambda: store.vectors([given.chunks[0].id]),
        lambda: store.stage_vectors(Other()),
        store.discard_staged,
        lambda: store.set_calibration("of the old model"),
    ):
        with pytest.raises((StoreMismatch, DriverFailed)):
            call()
    with pytest.raises(StoreMismatch, match="switched from model-a to model-b meanwhile; open it again"):
        put(store, given)
    assert other.stats().chunks == 1
    assert [chunk.text for chunk in store.chunks("log")] == ["anchor"]


# -- refusing


def test_another_model_is_refused(make_store: MakeStore, request: pytest.FixtureRequest) -> None:
    store = make_store()
    if "memory" in request.node.callspec.id:
        pytest.skip("a collection in memory is opened once")
    put(store, bundle("log", ["anchor"]))
    with pytest.raises(StoreMismatch, match=r"model-a.*model-b"):
        make_store(embedder="model-b")
    with pytest.raises(StoreMismatch, match=r"8 dimensions.*16"):
        make_store(dim=16)


@pytest.mark.parametrize(
    ("rows", "many", "words"),
    [
        (np.array([[np.nan, *vector(1)[1:]], vector(2)], np.float32), 2, "not a number"),
        (np.full((2, DIM), np.inf, np.float32), 2, "not a number"),
        (np.zeros((2, DIM), np.float32), 2, "unit"),
        (3 * vectors(1, 2), 2, "unit"),
        (np.ones((2, DIM + 1), np.float32), 2, "dimensions"),
        (vectors(1, 1), 2, "count mismatch"),
        (vectors(1, 2), 1, "count mismatch"),
        (vectors(1, 0), 2, "count mismatch"),
    ],
)
def test_unsound_vectors_are_refused_and_nothing_is_stored(
    make_store: MakeStore, rows: Matrix, many: int, words: str
) -> None:
    store, old = make_store(), bundle("log", ["anchor"])
    put(store, old)
    new = bundle("log", ["bell", "cable"])
    with pytest.raises(DriverFailed, match=words):
        store.put(new.document, new.chunks, rows, new.terms[:many])
    assert store.document("log") == old.document
    assert_same_results(store, [old])


@pytest.mark.parametrize("query", [np.full(DIM, np.nan), np.zeros(DIM), np.ones(DIM + 1), np.ones((1, DIM))])
def test_unsound_queries_are_refused(make_store: MakeStore, query: Vector) -> None:
    store = make_store()
    put(store, bundle("log", ["anchor"]))
    with pytest.raises(DriverFailed):
        store.search_vectors(query.astype(np.float32), 3)
    with pytest.raises(DriverFailed):
        store.search_documents(query.astype(np.float32), 3)
    with pytest.raises(DriverFailed):
        store.summarise("log", "short", query.astype(np.float32))


def test_a_closed_store_raises(make_store: MakeStore) -> None:
    store, given = make_store(), bundle("log", ["anchor"])
    put(store, given)
    store.search_vectors(vector(1), 1)
    store.close()
    store.close()
    calls: list[Callable[[], object]] = [
        lambda: store.search_vectors(vector(1), 1),
        lambda: store.search_terms({"anchor": 1}, 1),
        lambda: store.search_documents(vector(1), 1),
        lambda: store.match_terms({"anchor": 1}, ["log/anchor/0"]),
        store.calibration,
        lambda: store.set_calibration("x"),
        lambda: store.document("log"),
        lambda: list(store.documents()),
        lambda: put(store, given),
        lambda: store.drop(["log"]),
        store.stats,
        store.flush,
    ]
    for call in calls:
        with pytest.raises(DriverFailed, match="closed"):
            call()


# -- finding


def test_an_empty_store_finds_nothing(make_store: MakeStore) -> None:
    store = make_store()
    assert store.search_vectors(vector(1), 5) == store.search_terms({"anchor": 1}, 5) == []
    assert store.search_documents(vector(1), 5) == []
    assert list(store.documents()) == []
    facts = store.stats()
    assert (facts.documents, facts.chunks, facts.embedder, facts.dim) == (0, 0, MODEL, DIM)


def test_as_many_are_found_as_are_asked_for_and_there(make_store: MakeStore) -> None:
    store = make_store()
    given = bundle("log", [f"anchor {word}" for word in (*WORDS, "net", "oar")])
    put(store, given)
    for k, many in ((5, 5), (15, 15), (1000, 15), (0, 0)):
        assert len(store.search_vectors(vector(1), k)) == len(store.search_terms({"anchor": 1}, k)) == many
    assert len(store.search_terms({"bell": 1}, 9)) == 1
    assert store.search_terms({"absent": 1}, 9) == store.search_terms({}, 9) == []


def test_scores_are_cosines_that_descend(make_store: MakeStore) -> None:
    store = make_store()
    rows = np.concatenate([vectors(1, 20), -vectors(1, 1), vectors(1, 1)])
    given = bundle("log", [f"{word} {n}" for n in range(2) for word in WORDS][:22])
    store.put(given.document, given.chunks, rows, given.terms)
    hits = store.search_vectors(rows[0], 30)
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert all(-1 <= score <= 1 for score in scores)
    assert scores[:2] == [1.0, 1.0]
    assert scores[-1] == -1.0


def test_equal_scores_are_ordered_by_id(make_store: MakeStore) -> None:
    store = make_store()
    for name in np.random.default_rng(3).permutation(40).astype(str):
        given = bundle(f"d{name:0>2}", ["anchor bell"])
        store.put(given.document, given.chunks, vectors(7, 1), given.terms)
    expected = [f"d{n:02}/anchor bell/0" for n in range(40)]
    for k in (1, 7, 40):
        assert [hit.chunk.id for hit in store.search_vectors(vector(1), k)] == expected[:k]
        assert [hit.chunk.id for hit in store.search_terms({"bell": 1}, k)] == expected[:k]


def test_a_word_asked_twice_counts_twice(make_store: MakeStore) -> None:
    store, given = make_store(), bundle("log", ["anchor bell", "anchor cable"])
    put(store, given)
    (once, *_), (twice, *_) = store.search_terms({"bell": 1}, 1), store.search_terms({"bell": 2}, 1)
    assert twice.score == pytest.approx(2 * once.score)


EARLY, LATE = datetime(2025, 1, 10, tzinfo=UTC), datetime(2025, 1, 20, tzinfo=UTC)
FILTERS = {
    "documents": Filter(documents=frozenset({"d1", "d3", "d5", "absent"})),
    "no such document": Filter(documents=frozenset({"absent"})),
    "kinds": Filter(kinds=frozenset({"chat"})),
    "channels": Filter(channels=frozenset({"deck"})),
    "authors": Filter(authors=frozenset({"anchor", "bell"})),
    "since": Filter(since=EARLY),
    "until": Filter(until=LATE),
    "since and until": Filter(since=EARLY, until=LATE),
    "naive since": Filter(since=EARLY.replace(tzinfo=None)),
    "since elsewhere": Filter(since=EARLY.astimezone(timezone(timedelta(hours=-8)))),
    "an instant": Filter(since=EARLY, until=EARLY),
    "int": Filter(meta={"year": 2021}),
    "int as text": Filter(meta={"year": "2021"}),
    "int as float": Filter(meta={"year": 2021.0}),
    "any of ints": Filter(meta={"year": [2020, 2021]}),
    "member": Filter(meta={"tags": "a"}),
    "members": Filter(meta={"tags": ["b", "z"]}),
    "no member": Filter(meta={"tags": "z"}),
    "bool": Filter(meta={"on": True}),
    "other bool": Filter(meta={"on": False}),
    "of the chunk": Filter(meta={"author": "bell"}),
    "none of it": Filter(meta={"year": []}),
    "no such key": Filter(meta={"absent": 1}),
    "two metas": Filter(meta={"year": 2021, "tags": "a"}),
    "all together": Filter(
        documents=frozenset(f"d{n}" for n in range(30)),
        kinds=frozenset({"page", "chat"}),
        channels=frozenset({"deck", "port"}),
        authors=frozenset({"anchor", "cable"}),
        since=EARLY,
        until=LATE,
        meta={"year": [2020, 2021], "tags": "a"},
    ),
}


@pytest.mark.parametrize("name", FILTERS)
def test_filters_admit_what_they_say(make_store: MakeStore, name: str) -> None:
    store, rng, where = make_store(), np.random.default_rng(11), FILTERS[name]
    kept = [random_bundle(rng, f"d{n}") for n in range(20)]
    kept += [bundle("on", ["anchor bell"], meta={"on": True}), bundle("edge", ["anchor bell"], at=EARLY)]
    for each in kept:
        put(store, each)
    assert_same_results(store, kept, where=where, seed=1)
    assert_same_results(store, kept, where=where, seed=2, k=100)


def test_a_hit_knows_its_document(make_store: MakeStore) -> None:
    store, words = make_store(), {"anchor": 1}
    log = bundle("log", ["anchor bell", "cable"], meta={"team": ["red"], "year": 2021})
    for each in (log, bundle("map", ["anchor deck"], kind="chat", uri="maps/a.md")):
        put(store, each)

    def assert_records_are_those_listed() -> None:
        listed = {record.id: record for record in store.documents()}
        for hits in (store.search_vectors(vector(1), 9), store.search_terms(words, 9)):
            assert {hit.document.id for hit in hits} == set(listed)
            assert [hit.document for hit in hits] == [listed[hit.chunk.doc_id] for hit in hits]
            assert all(hit.with_score(2.0, "twice").document == hit.document for hit in hits)

    assert_records_are_those_listed()
    store.set_stamp("log", "touched")
    assert_records_are_those_listed()
    store.summarise("map", "A map.", vector(3))
    assert_records_are_those_listed()
    put(store, bundle("log", ["anchor bell", "cable", "flag"]))
    assert_records_are_those_listed()


def test_a_stamp_that_another_program_sets_is_seen_in_hits(
    make_store: MakeStore, request: pytest.FixtureRequest
) -> None:
    if "memory" in request.node.callspec.params.values():
        pytest.skip("a collection in memory has one opener")
    store, other = make_store(), make_store()
    put(store, bundle("log", ["anchor"]))
    assert [hit.document.stamp for hit in store.search_terms({"anchor": 1}, 1)] == [""]
    other.set_stamp("log", "touched")
    assert [hit.document.stamp for hit in store.search_terms({"anchor": 1}, 1)] == ["touched"]


@pytest.mark.slow
def test_a_scan_has_no_limit(make_store: MakeStore, request: pytest.FixtureRequest) -> None:
    if "postgres-graph" in request.node.callspec.params.values():
        pytest.skip("scans as without a graph, into which 12,000 inserts take 20 seconds")
    store, many = make_store(), 12_000
    chunks = [
        Chunk(f"c{n:05}", "log", n, many, "x", n, n + 1, meta={"author": "ann" if n % 6 else "bob"})
        for n in range(many)
    ]
    store.put(Document("log", "x" * many), chunks, vectors(1, many), [{}] * many)
    put(store, bundle("page", ["anchor"]))
    assert [chunk.id for chunk in store.scan(Filter(authors=frozenset({"ann"})))] == [
        chunk.id for chunk in chunks if chunk.meta["author"] == "ann"
    ]
    assert sum(1 for _ in store.scan()) == many + 1


def test_a_scan_goes_on_while_documents_change(make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_CHUNKS", 3)
    store, where = make_store(), Filter(kinds=frozenset({"page"}))
    long = ["anchor", "bell", "cable", "deck", "engine", "flag", "hull"]
    for name, texts in (("a", long[:2]), ("b", long), ("c", ["ink"]), ("d", ["jib", "keel"]), ("e", ["lamp"])):
        put(store, bundle(name, texts))
    scan, seen = store.scan(where), list[str]()
    for chunk in scan:
        seen.append(chunk.id)
        if chunk.id == "b/bell/0":  # its chunks move to and fro around the ones that were read
            put(store, bundle("b", ["mast", *long[3:], "ghost", *long[:3]]))
        elif chunk.id == "b/engine/0":
            put(store, bundle("b", [*reversed(long), "mast"]))
            store.drop(["e"])
            put(store, bundle("d", ["keel", "jib"], kind="chat"))
    stayed = [f"a/{text}/0" for text in long[:2]] + [f"b/{text}/0" for text in long] + ["c/ink/0"]
    assert sorted(each for each in seen if each in stayed) == stayed
    assert not {"d/jib/0", "d/keel/0", "e/lamp/0"} & set(seen)


def test_a_chunk_says_more_of_itself_than_its_document(make_store: MakeStore) -> None:
    store = make_store()
    put(store, bundle("log", ["anchor"], meta={"team": "deck", "lang": "en"}, chunk_meta={"team": "port"}))
    found = store.search_vectors(vector(1), 5, Filter(meta={"team": "port", "lang": "en"}))
    assert collect_ids(found) == {"log/anchor/0"}
    assert store.search_vectors(vector(1), 5, Filter(meta={"team": "deck"})) == []


def test_a_chunk_is_in_the_channel_of_its_document(make_store: MakeStore) -> None:
    store = make_store()
    put(store, bundle("log", ["anchor", "bell"], meta={"channel": "deck"}, chunk_meta={"channel": "port"}))
    deck, port = (Filter(channels=frozenset({name})) for name in ("deck", "port"))
    assert collect_ids(store.search_vectors(vector(1), 5, deck)) == {"log/anchor/0", "log/bell/0"}
    assert store.search_vectors(vector(1), 5, port) == []
    assert (store.channels(), store.latest_chunks("port", 5)) == (["deck"], [])
    assert [chunk.meta["channel"] for chunk in store.within(deck).chunks("log")] == ["deck", "deck"]
    assert list(store.within(port).documents()) == []


def test_a_change_of_what_is_said_of_a_document_is_seen(make_store: MakeStore) -> None:
    store = make_store()
    put(store, bundle("log", ["anchor"], meta={"team": "red"}))
    assert collect_ids(store.search_vectors(vector(1), 5, Filter(meta={"team": "red"}))) == {"log/anchor/0"}
    put(store, bundle("log", ["anchor"], meta={"team": "blue"}))
    assert store.search_vectors(vector(1), 5, Filter(meta={"team": "red"})) == []
    assert collect_ids(store.search_terms({"anchor": 1}, 5, Filter(meta={"team": "blue"}))) == {"log/anchor/0"}


def test_flushing_changes_no_answer(make_store: MakeStore) -> None:
    store, rng = make_store(), np.random.default_rng(2)
    kept = [random_bundle(rng, f"d{n}") for n in range(20)]
    for each in kept[:10]:
        put(store, each)
    store.flush()
    assert_same_results(store, kept[:10])
    for each in kept[10:]:
        put(store, each)
    assert_same_results(store, kept)
    store.flush()
    store.flush()
    assert_same_results(store, kept)


def test_the_change_number_grows(make_store: MakeStore) -> None:
    store, given = make_store(), bundle("log", ["anchor"])
    numbers = [store.stats().change]
    changes: list[Callable[[], object]] = [
        lambda: put(store, given),
        lambda: store.summarise("log", "short", vector(1)),
        lambda: store.drop(["log"]),
        lambda: store.set_calibration("measured"),
    ]
    for change in changes:
        change()
        numbers.append(store.stats().change)
    assert numbers == sorted(set(numbers))


NUMBER = count()
STEP = st.tuples(st.sampled_from(["put", "drop", "search", "flush"]), st.integers(0, 4), st.integers(0, 2**16))


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, min_size=1, max_size=14))
def test_any_order_of_changes_equals_a_fresh_start(make_store: MakeStore, steps: list[tuple[str, int, int]]) -> None:
    store, kept = make_store(f"c{next(NUMBER)}"), dict[str, Bundle]()
    for verb, which, seed in steps:
        name, rng = f"d{which}", np.random.default_rng(seed)
        if verb == "put":
            kept[name] = random_bundle(rng, name)
            put(store, kept[name])
        elif verb == "drop":
            assert store.drop([name]) == (kept.pop(name, None) is not None)
        elif verb == "flush":
            store.flush()
        else:
            assert_same_results(store, list(kept.values()), seed=seed)
    assert_same_results(store, list(kept.values()))
    assert_same_results(store, list(kept.values()), where=FILTERS["all together"])
    assert store.stats().chunks == sum(len(each.chunks) for each in kept.values())
    for name, each in kept.items():
        assert store.document(name) == each.document
        assert store.chunks(name) == list(each.chunks)
    store.close()
