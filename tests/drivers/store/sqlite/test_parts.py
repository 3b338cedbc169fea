"""The parts of the stores that are formulas and small structures: the test is the arithmetic."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.drivers.store import bm25, scan
from clew.drivers.store.rows import pack_terms
from clew.drivers.store.sqlite import checkpoint, exact
from clew.drivers.store.sqlite.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from clew.drivers.store.sqlite.files import try_lock
from clew.drivers.store.sqlite.signals import WordCounts, load_word_counts


def test_bm25_is_the_formula() -> None:
    assert bm25.idf(210, 3) == pytest.approx(math.log(1 + (210 - 3 + 0.5) / (3 + 0.5)))
    assert bm25.idf(10, 3) == bm25.idf(100, 3)  # a word is as rare among a few pages
    assert bm25.idf(10, 10) > 0
    norms = bm25.length_norm(np.array([4.0, 8.0]), 4.0)
    assert norms.tolist() == pytest.approx([1.2, 1.2 * (0.25 + 0.75 * 2)])
    assert bm25.saturate(np.array([1, 3], np.float32), norms).tolist() == pytest.approx([1 / 2.2, 3 / (3 + 2.1)])


def test_terms_are_scored_where_they_are_found() -> None:
    weights, norms = np.array([3.0, 1.0]), np.array([1.0, 2.0, 1.0])
    found = [(np.array([0, 2]), np.array([1, 3], np.float32)), (np.array([2]), np.array([1], np.float32))]
    scored = bm25.score_terms(found, weights, norms)
    assert scored.sum_by_chunk(3).tolist() == pytest.approx([3 / 2, 0, 3 * 3 / 4 + 1 / 2])
    shares, strengths = scored.measure(3)
    assert shares.tolist() == pytest.approx([3 / 4, 0, 1])
    assert strengths.tolist() == pytest.approx([3 / 8, 0, (9 / 4 + 1 / 2) / 4])
    assert [each.tolist() for each in scored.measure(3, np.array([2, 1]))] == [
        [shares[2], 0],
        [strengths[2], 0],
    ]
    nothing = bm25.score_terms([], np.empty(0), norms)
    assert [each.tolist() for each in nothing.measure(2)] == [[0, 0], [0, 0]]


def test_a_longer_average_raises_a_score_by_no_more_than_its_ratio() -> None:
    lengths, tf = np.linspace(1, 500, 50), np.full(50, 3, np.float32)
    before, after = (bm25.saturate(tf, bm25.length_norm(lengths, average)) for average in (40.0, 50.0))
    assert (after / before).max() <= 50 / 40
    assert (before / after).max() <= 1


def test_terms_are_packed_in_the_order_of_their_numbers() -> None:
    packed = pack_terms({"anchor": 2, "bell": 1, "ghost": 0, "cable": 70_000})
    assert packed.length == 70_003
    assert packed.hashes.tolist() == sorted(packed.hashes.tolist())
    assert sorted(packed.counts.tolist()) == [1, 2, 65_535]
    assert pack_terms({}).length == 0
    assert pack_terms({"anchor": 5}).hashes.tolist() == pack_terms({"anchor": 1}).hashes.tolist()


@given(st.lists(st.lists(st.integers(-5, 5), max_size=6, unique=True), max_size=30), st.data())
def test_word_counts_count(chunks: list[list[int]], data: st.DataObject) -> None:
    known, plain = WordCounts(), Counter[int]()
    for chunk in chunks:
        known.update(np.array(chunk, np.int64))
        plain.update(chunk)
    gone = data.draw(st.lists(st.sampled_from(chunks), unique_by=id)) if chunks else []
    known.update(np.empty(0, np.int64), [np.array(chunk, np.int64) for chunk in gone])
    for chunk in gone:
        plain.subtract(chunk)
    asked = np.arange(-6, 6, dtype=np.int64)
    assert known.count(asked) == [plain[word] for word in asked.tolist()]


def test_word_counts_settle_and_survive_a_file(tmp_path: Path) -> None:
    known = WordCounts()
    for start in range(0, 20_000, 5_000):
        known.update(np.arange(start, start + 5_500, dtype=np.int64))
    known.save(tmp_path / "counts.npy")
    for each in (known, load_word_counts(tmp_path / "counts.npy")):
        asked = np.array([0, 4_999, 5_000, 5_499, 5_500, 20_499, 20_500], np.int64)
        assert each.count(asked) == [1, 1, 2, 2, 1, 1, 0]


@pytest.mark.parametrize("most", [1, 7, 1000])
def test_postings_find_what_was_added_however_it_came(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(exact, "MAX_UNSORTED", most)
    rng, known, plain = np.random.default_rng(1), exact.NO_POSTINGS, dict[int, dict[int, float]]()
    for slot in range(60):
        chunk = rng.choice(20, rng.integers(0, 8), replace=False).astype(np.int64)
        times = rng.integers(1, 5, len(chunk)).astype(np.float32)
        older = known
        shown = [column.tolist() for pair in older.find(np.arange(20)) for column in pair]
        known = known.extend(chunk, np.full(len(chunk), slot, np.int32), times)
        assert shown == [column.tolist() for pair in older.find(np.arange(20)) for column in pair]
        for word, many in zip(chunk.tolist(), times.tolist(), strict=True):
            plain.setdefault(word, {})[slot] = many
    found = known.find(np.arange(21, dtype=np.int64))
    for word, (slots, times) in enumerate(found):
        assert dict(zip(slots.tolist(), times.tolist(), strict=True)) == plain.get(word, {})


def test_contenders_are_all_that_may_be_among_the_best() -> None:
    scores = np.array([0.5, 0.9, 0.7, 0.7 - 1e-7, 0.1])
    assert scan.select_candidates(scores, 2, 1e-6).tolist() == [1, 2, 3]
    assert scan.select_candidates(scores, 9, 1e-6).tolist() == [0, 1, 2, 3, 4]


def test_the_best_are_ordered_by_score_then_id() -> None:
    found = scan.top_k([1, 2, 3, 4], ["d", "c", "b", "a"], np.array([0.5, 0.9, 0.5, 0.5]), 3)
    assert found == [(2, 0.9), (4, 0.5), (3, 0.5)]


def test_a_search_for_more_answers_one_for_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "MAX_KNOWN", 2)
    known = scan.PrefixCache[int]()
    known.put(b"a", ("all",), 3, [7, 8, 9])
    assert known.get(b"a", ("all",), 2) == [7, 8]
    assert known.get(b"a", ("all",), 4) is None
    assert known.get(b"a", ("some",), 2) is None
    for key in (b"b", b"c"):
        known.put(key, ("all",), 1, [1])
    assert known.get(b"a", ("all",), 2) is None
    assert known.get(b"c", ("all",), 1) == [1]


def test_cosines_do_not_depend_on_the_place() -> None:
    row = np.random.default_rng(1).normal(size=(1, 384)).astype(np.float32)
    row /= np.linalg.norm(row)
    assert set(scan.compute_cosines(np.repeat(row, 101, axis=0), row[0]).tolist()) == {1.0}


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    held = try_lock(tmp_path / "lock")
    assert held
    assert try_lock(tmp_path / "lock") is None
    held.close()
    again = try_lock(tmp_path / "lock")
    assert again
    again.close()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"birth": 1, "more": 2}', '{"birth":"b","dim":1,"average":1.0,"format":99}']
)
def test_a_checkpoint_that_is_not_understood_is_none(tmp_path: Path, text: str) -> None:
    assert read_checkpoint(tmp_path) is None
    (tmp_path / checkpoint.FILE).write_text(text)
    assert read_checkpoint(tmp_path) is None


def test_a_checkpoint_comes_back(tmp_path: Path) -> None:
    written = Checkpoint("b", 8, 12.5, row=3, change=4, unindexed=5, counts="c.npy")
    write_checkpoint(tmp_path, written)
    assert read_checkpoint(tmp_path) == written


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = Checkpoint("b", 8, 12.5, row=3, change=4, unindexed=5, counts="c")
    write_checkpoint(tmp_path, written)
    assert read_checkpoint(tmp_path) == written
    write_checkpoint(tmp_path, replace(written, format=checkpoint.FORMAT - 1))
    assert read_checkpoint(tmp_path) is None
