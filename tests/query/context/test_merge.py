"""Joining results: by source and heading, in document order, within a size, with overlaps and copies once."""

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import SettingsError
from clew.core.settings import MergerConfig
from clew.core.types import Chunk, DocumentRecord, Hit
from clew.query.context.merge import ChunkMerger, get_best_similarity, merge_hits

TEXT = "".join(f"Sentence {number} says so. " for number in range(300))


def row(
    text: str, score: float = 0.5, *, index: int | None = 0, source: str = "a.md", path: Any = "A"
) -> dict[str, Any]:
    return {
        "text": text,
        "source": source,
        "heading_path": path,
        "similarity": score,
        "metadata": None if index is None else {"chunk_index": index},
    }


def hit(start: int, end: int, score: float = 0.5, *, doc: str = "d", headings: tuple[str, ...] = ("A",)) -> Hit:
    chunk = Chunk(f"{doc}{start}-{end}", doc, start, 999, TEXT[start:end], start, end, headings)
    return Hit(chunk, DocumentRecord(doc), score)


def texts(results: list[Any], **config: Any) -> list[str]:
    return [each.text for each in ChunkMerger(MergerConfig(**config)).merge(results)]


def test_the_defaults() -> None:
    config = ChunkMerger().config
    assert (config.max_merged_size, config.preserve_order, config.require_adjacent) == (2000, True, False)
    assert ChunkMerger().merge([]) == []
    with pytest.raises(SettingsError, match=r"merger\.max_merged_size"):
        MergerConfig(max_merged_size=0)


def test_one_heading_of_one_source_is_one_stretch() -> None:
    (merged,) = ChunkMerger().merge([row("First chunk."), row("Second chunk.", index=1)])
    assert merged.text == "First chunk.\n\nSecond chunk."
    assert len(merged.chunks) == 2
    assert (merged.source, merged.heading_path, merged.heading_display) == ("a.md", ("A",), "A")
    assert merged.content_length == len(merged.text)
    assert len(texts([row("x"), row("y", index=1, path="B")])) == 2
    assert len(texts([row("x"), row("y", index=1, source="b.md")])) == 2
    four = [row("A1"), row("A2", index=1), row("B1", index=2, path="B"), row("A3", source="b.md")]
    assert len(texts(four)) == 3


def test_document_order_and_the_average() -> None:
    found = [row("Third.", 0.95, index=2), row("First.", 0.8), row("Second.", 0.7, index=1)]
    assert texts(found) == ["First.\n\nSecond.\n\nThird."]
    (merged,) = ChunkMerger().merge([row("x", 0.7), row("y", 0.9, index=1)])
    assert merged.avg_similarity == pytest.approx(0.8)
    assert get_best_similarity(merged) == 0.9
    (merged,) = ChunkMerger().merge(
        [row("five", 0.92, index=5), row("three", 0.88, index=3), row("seven", 0.85, index=7)]
    )
    assert [each.chunk.index for each in merged.chunks] == [3, 5, 7]
    assert merged.avg_similarity == pytest.approx(0.883333, abs=1e-6)
    assert f"{merged.avg_similarity:.2f}" == "0.88"


def test_similarity_is_the_cosine_and_not_the_score() -> None:
    found = [replace(hit(0, 100, 1.0), similarity=0.4), replace(hit(100, 200, 0.0), similarity=0.6), hit(200, 300, 0.9)]
    other = replace(hit(0, 100, 0.1, doc="e", headings=("B",)), similarity=0.7)
    merged = ChunkMerger().merge([*found, other])
    assert [each.heading_display for each in merged] == ["B", "A"]  # by similarity, whatever the scores
    assert [each.avg_similarity for each in merged] == [0.7, pytest.approx(0.5)]  # without the hit that has none
    assert [get_best_similarity(each) for each in merged] == [0.7, 0.6]
    assert ChunkMerger().to_result_list(merged)[1]["metadata"]["best_similarity"] == 0.6
    (unknown,) = ChunkMerger().merge([hit(0, 100, 0.4), hit(100, 200, 0.8)])
    assert unknown.avg_similarity == pytest.approx(0.6)
    assert get_best_similarity(unknown) == 0.8


def test_the_best_average_stands_first() -> None:
    assert texts([row("low", 0.2), row("high", 0.9, path="B"), row("mid", 0.5, path="C")]) == ["high", "mid", "low"]


@pytest.mark.parametrize(("most", "stretches"), [(50, 2), (60, 2), (61, 2), (62, 1)])
def test_the_size_counts_separators(most: int, stretches: int) -> None:
    found = texts([row("a" * 30), row("b" * 30, index=1)], max_merged_size=most)
    assert len(found) == stretches
    assert all(len(text) <= most for text in found)


def test_a_chunk_that_is_larger_than_the_size_stays_whole() -> None:
    assert texts([row("a" * 30), row("b" * 30, index=1)], max_merged_size=10) == ["a" * 30, "b" * 30]


def test_a_copy_counts_once_under_its_best_score() -> None:
    (merged,) = ChunkMerger().merge([row("Same.", 0.4), row("Same.", 0.8)])
    assert (merged.text, merged.avg_similarity, len(merged.chunks)) == ("Same.", 0.8, 1)


def test_an_overlap_appears_once_by_position() -> None:
    (merged,) = ChunkMerger().merge([hit(0, 100), hit(80, 200)])
    assert (merged.text, merged.spans) == (TEXT[:200], ((0, 200),))
    placed = [
        {**row("one two"), "metadata": {"chunk_index": 0, "start": 0, "end": 7}},
        {**row("two two"), "metadata": {"chunk_index": 1, "start": 4, "end": 11}},
    ]
    assert texts(placed) == ["one two two"]
    (merged,) = ChunkMerger().merge([hit(0, 300), hit(50, 90)])  # one inside the other
    assert (merged.text, len(merged.chunks)) == (TEXT[:300], 2)
    two = ChunkMerger().merge([hit(0, 100), hit(80, 200, headings=("B",))])  # in two sections
    assert sorted(span for each in two for span in each.spans)[1][0] >= 100


def test_an_overlap_over_the_size_is_not_shown_again() -> None:
    merged = ChunkMerger(MergerConfig(max_merged_size=150)).merge([hit(0, 100, 0.9), hit(80, 200, 0.8)])
    assert [each.text for each in merged] == [TEXT[:100], TEXT[100:200].lstrip()]
    assert all(each.text == TEXT[slice(*each.spans[0])] for each in merged)


def test_a_gap_is_marked_or_never_joined() -> None:
    found: list[Any] = [hit(0, 100), hit(150, 200)]
    assert texts(found) == [f"{TEXT[:100]}\n\n[…]\n\n{TEXT[150:200]}"]
    assert texts(found, gap_mark="") == [f"{TEXT[:100]}\n\n{TEXT[150:200]}"]
    assert texts(found, gap_mark="(left out)") == [f"{TEXT[:100]}\n\n(left out)\n\n{TEXT[150:200]}"]
    assert texts(found, require_adjacent=True) == [TEXT[:100], TEXT[150:200]]
    assert ChunkMerger().merge(found)[0].spans == ((0, 100), (150, 200))
    assert ChunkMerger(MergerConfig(gap_mark="")).merge([hit(0, 98), hit(100, 200)])[0].spans == ((0, 98), (100, 200))
    apart = [row("x"), row("y", index=2)]
    assert texts(apart, require_adjacent=True) == ["x", "y"]
    assert texts([row("x"), row("y", index=1)], require_adjacent=True) == ["x\n\ny"]


def test_white_space_between_is_the_documents_own() -> None:
    place = TEXT.index(" ", 100)
    found = [hit(0, place), hit(place + 1, 200)]
    (merged,) = merge_hits(found, MergerConfig(), text=lambda _: TEXT)
    assert (merged.text, merged.spans) == (TEXT[:200], ((0, 200),))
    apart = merge_hits(
        found, MergerConfig(require_adjacent=True), text=lambda _: TEXT.swapcase()
    )  # it has changed since
    assert len(apart) == 2


def test_the_best_first_where_order_is_not_kept() -> None:
    found: list[Any] = [row("First.", 0.2), row("Second.", 0.9, index=1)]
    assert texts(found, preserve_order=False) == ["Second.\n\nFirst."]
    spans = ChunkMerger(MergerConfig(preserve_order=False)).merge(
        [hit(0, 50, 0.1), hit(60, 99, 0.9), hit(99, 120, 0.2)]
    )
    assert spans[0].spans == ((60, 120), (0, 50))


def test_headings_are_read_in_every_shape() -> None:
    for path in ("Chapter > Section", ["Chapter", "Section"], ("Chapter", "Section")):
        (merged,) = ChunkMerger().merge([row("x", index=None, path=path)])
        assert merged.heading_path == ("Chapter", "Section")
    (merged,) = ChunkMerger().merge([{"text": "x", "metadata": {"headings": ["Chapter", "Section"]}}])
    assert merged.heading_display == "Chapter > Section"
    assert ChunkMerger().merge([{"text": "x"}])[0].heading_path == ()


def test_rows_without_an_index_stay_as_they_were_given() -> None:
    assert texts([row("zzz", index=None), row("aaa", index=None)]) == ["zzz\n\naaa"]
    assert texts([row("zzz", index=None), row("mmm", index=None), row("aaa", index=None)], max_merged_size=8) == [
        "zzz\n\nmmm",
        "aaa",
    ]
    assert texts([row("zzz", index=None), row("aaa", index=None)], max_merged_size=3) == ["zzz", "aaa"]
    assert texts([row("zzz", index=1), row("aaa", index=0)]) == ["aaa\n\nzzz"]
    assert texts([row("b", index=0), row("a", index=0)]) == texts([row("a", index=0), row("b", index=0)])


def test_the_source_is_the_address_of_the_document() -> None:
    chunk = hit(0, 100).chunk
    for record, name in [
        (DocumentRecord("d", "Auth", "docs/auth.md"), "docs/auth.md"),
        (DocumentRecord("d", "Auth"), "Auth"),
        (DocumentRecord("d"), "d"),
    ]:
        (alone,) = ChunkMerger().merge([Hit(chunk, record, 0.5)])
        (joined,) = ChunkMerger().merge([Hit(chunk, record, 0.5), Hit(hit(100, 200).chunk, record, 0.5)])
        assert (alone.source, joined.source) == (name, name)


@pytest.mark.parametrize("result", [7, {"source": "a.md"}])
def test_what_is_no_result_is_refused(result: Any) -> None:
    with pytest.raises(TypeError, match="a result"):
        ChunkMerger().merge([result])


def test_back_to_rows() -> None:
    merger = ChunkMerger()
    merged = merger.merge([row("x", 0.8, path="Chapter > Section"), row("y", 1.0, index=1, path="Chapter > Section")])
    assert merger.to_result_list(merged) == [
        {
            "text": "x\n\ny",
            "source": "a.md",
            "heading_path": "Chapter > Section",
            "similarity": pytest.approx(0.9),
            "metadata": {
                "headings": ["Chapter", "Section"],
                "content_length": 4,
                "merged_count": 2,
                "best_similarity": 1.0,
            },
        }
    ]
    assert [each.text for each in merger.merge(merger.to_result_list(merged))] == ["x\n\ny"]


SPANS = st.tuples(
    st.integers(0, 3000), st.integers(1, 700), st.sampled_from([0.2, 0.5, 0.9]), st.sampled_from([("A",), ("A", "B")])
)
CONFIGS = st.builds(
    MergerConfig,
    max_merged_size=st.integers(1, 3000),
    preserve_order=st.booleans(),
    require_adjacent=st.booleans(),
    gap_mark=st.sampled_from(["[…]", ""]),
)


@given(st.lists(SPANS, max_size=12), CONFIGS, st.randoms(use_true_random=False))
def test_any_order_gives_the_same_stretches_of_the_document(
    spans: list[tuple[int, int, float, tuple[str, ...]]], config: MergerConfig, chance: random.Random
) -> None:
    hits = [hit(start, start + size, score, headings=headings) for start, size, score, headings in spans]
    merged = ChunkMerger(config).merge(hits)
    assert ChunkMerger(config).merge(chance.sample(hits, len(hits))) == merged
    shown = sorted(span for each in merged for span in each.spans)
    assert all(before[1] <= after[0] for before, after in pairwise(shown))  # nothing twice
    wanted = {place for one in hits for place in range(one.chunk.start, one.chunk.end) if not TEXT[place].isspace()}
    covered = {place for start, end in shown for place in range(start, end) if not TEXT[place].isspace()}
    assert covered == wanted
    for each in merged:
        rest = each.text
        for start, end in each.spans:
            before, found, rest = rest.partition(TEXT[start:end])
            assert found
            assert before.strip() in ("", config.gap_mark)
        assert rest == ""
        assert len(each.text) <= config.max_merged_size or len(each.spans) == 1
    assert {each.chunk.id for stretch in merged for each in stretch.chunks} == {each.chunk.id for each in hits}
