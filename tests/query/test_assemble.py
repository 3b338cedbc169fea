"""From hits to a context: neighbours joined by position, and a budget that is never passed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import NotFound
from clew.core.text import estimate_tokens
from clew.core.types import Chunk, Context, Document, DocumentRecord, Hit, Query
from clew.query.assemble import assemble
from clew.query.format import numbered

TEXT = " ".join(f"Sentence number {number} of the page." for number in range(200))
RECORDS = {"d": DocumentRecord("d", "Page", "page.md", "page", "", "", len(TEXT), 1)}


def hit(start: int, end: int, score: float = 0.5, *, doc: str = "d", headings: tuple[str, ...] = ("A", "B")) -> Hit:
    return Hit(Chunk(f"{doc}{start}-{end}", doc, 0, 1, TEXT[start:end], start, end, headings), score)


def read(doc_id: str) -> Document:
    if doc_id != "d":
        raise NotFound(f"there is no document {doc_id}")
    return Document("d", TEXT)


def made(hits: list[Hit], tokens: int = 1000) -> Context:
    return assemble(Query("q"), hits, RECORDS, read=read, tokens=tokens, render=numbered)


def test_an_overlap_is_read_once() -> None:
    context = made([hit(0, 100, 0.9), hit(80, 200, 0.8)])
    assert [passage.text for passage in context.passages] == [TEXT[0:200]]
    assert context.passages[0].spans == ((0, 200),)
    assert context.passages[0].avg_similarity == pytest.approx(0.85)
    assert len(context.passages[0].chunks) == 2


def test_a_gap_and_another_heading_keep_apart() -> None:
    assert len(made([hit(0, 100), hit(150, 200)]).passages) == 2
    assert len(made([hit(0, 100), hit(90, 200, headings=("C",))]).passages) == 2


def test_a_long_page_found_from_end_to_end_gives_its_best_parts() -> None:
    hits = [hit(start, start + 700, 1 - start / 10_000) for start in range(0, 5600, 600)]
    context = made(hits, tokens=500)
    assert context.passages
    assert 400 <= context.tokens <= 500
    assert context.passages[0].text.startswith(TEXT[:600])
    assert len(context.dropped) == len(hits) - sum(len(passage.chunks) for passage in context.passages)


def test_what_was_dropped_meanwhile_is_left_out() -> None:
    context = made([hit(0, 100, 0.9, doc="gone"), hit(0, 100, 0.8)])
    assert [passage.source for passage in context.passages] == ["page.md"]
    assert made([hit(0, 100, doc="gone")]).reason == "nothing in the collection matches"


Spans = list[tuple[int, int, float, tuple[str, ...]]]
SPANS = st.tuples(st.integers(0, 5000), st.integers(1, 900), st.floats(0, 1), st.sampled_from([("A",), ("A", "B")]))


@given(st.lists(SPANS, max_size=12), st.integers(1, 600))
def test_no_budget_is_passed_and_every_passage_is_a_span(spans: Spans, tokens: int) -> None:
    hits = [hit(start, start + size, score, headings=headings) for start, size, score, headings in spans]
    context = made(hits, tokens)
    assert estimate_tokens(context.text) == context.tokens <= tokens
    for passage in context.passages:
        ((start, end),) = passage.spans
        assert passage.text == TEXT[start:end]
    assert bool(context.reason) == (not context.passages)
