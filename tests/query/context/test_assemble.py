"""From hits to a context: neighbours joined by position, a budget that is never passed, a ledger of the rest."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from math import isnan
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clew.core.cite import Context
from clew.core.errors import NotFound
from clew.core.settings import ContextConfig, FormatterConfig, MergerConfig, Settings
from clew.core.text import estimate_tokens
from clew.core.types import Chunk, Document, DocumentRecord, Hit, Query
from clew.query.context.assemble import MIN_COPY_CHARS, NEIGHBOUR, SECTION, build_context
from clew.query.context.budget import BUDGET, CUT, DUPLICATE, GONE
from clew.query.context.format.renderers import RENDERERS
from tests.soak import choose_runs

BUDGETS = choose_runs(few=1000, many=5000)  # with each counter

TEXT = " ".join(f"Sentence number {number} of the page." for number in range(200))
TEXTS = {
    "d": TEXT,
    "e": TEXT.replace("of the page", "on my sheet"),
    "f": TEXT.replace("of the page", "in our copy"),
}  # of one length, and no two of them the same
DOCS = tuple(TEXTS)
RECORDS = {doc: DocumentRecord(doc, "Page", f"{doc}.md", "page", "", "", len(TEXT), 1) for doc in DOCS}


def hit(start: int, end: int, score: float = 0.5, *, doc: str = "d", headings: tuple[str, ...] = ("A", "B")) -> Hit:
    chunk = Chunk(f"{doc}{start}-{end}{headings}", doc, 0, 1, TEXTS.get(doc, TEXT)[start:end], start, end, headings)
    return Hit(chunk, RECORDS.get(doc) or DocumentRecord(doc), score)


def read(doc_id: str) -> Document:
    if doc_id not in RECORDS:
        raise NotFound(f"there is no document {doc_id}")
    return Document(doc_id, TEXTS[doc_id])


def no_chunks(doc_id: str) -> list[Chunk]:
    raise NotFound(f"there is no document {doc_id}")


def made(
    hits: Sequence[Hit],
    tokens: int = 1000,
    *,
    render: str = "numbered",
    merger: MergerConfig | None = None,
    count: Callable[[str], int] = estimate_tokens,
    chunks: Callable[[str], list[Chunk]] = no_chunks,
    numbers: dict[str, int] | None = None,
    **config: Any,
) -> Context:
    config = {"grow": "none", **config}
    tree = Settings(merger=merger or MergerConfig(), context=ContextConfig(**config))
    return build_context(
        Query("q"),
        hits,
        RECORDS,
        read=read,
        chunks=chunks,
        tokens=tokens,
        render=RENDERERS[render],
        settings=tree,
        count=count,
        numbers=numbers or {},
    )


def test_an_overlap_is_read_once() -> None:
    context = made([hit(0, 100, 0.9), hit(80, 200, 0.8)])
    assert [passage.text for passage in context.passages] == [TEXT[0:200]]
    assert context.passages[0].spans == ((0, 200),)
    assert context.passages[0].avg_similarity == pytest.approx(0.85)
    assert len(context.passages[0].chunks) == 2


def test_the_similarity_is_that_of_the_hits_which_have_one() -> None:
    near, far = replace(hit(0, 100, 1.0), similarity=0.6), replace(hit(100, 200, 0.0), similarity=0.3)
    unlike = replace(hit(0, 100, 0.5, doc="e"), similarity=0.9)
    context = made([near, unlike, far, hit(200, 300, 0.4)])
    assert [(each.source, each.avg_similarity) for each in context.passages] == [
        ("d.md", pytest.approx(0.45)),
        ("e.md", 0.9),  # after the first, though more similar: the order is that of the search
    ]


def test_another_heading_keeps_apart_and_a_gap_where_that_is_asked() -> None:
    assert len(made([hit(0, 100), hit(150, 200)]).passages) == 1
    assert len(made([hit(0, 100), hit(150, 200)], merger=MergerConfig(require_adjacent=True)).passages) == 2
    assert len(made([hit(0, 100), hit(90, 200, headings=("C",))]).passages) == 2


def test_a_long_page_found_from_end_to_end_gives_its_best_parts() -> None:
    hits = [hit(start, start + 700, 1 - start / 10_000) for start in range(0, 5600, 600)]
    context = made(hits, tokens=500)
    assert context.passages
    assert 400 <= context.tokens <= 500
    assert context.passages[0].text.startswith(TEXT[:600])
    assert len(context.dropped) == len(hits) - sum(len(passage.chunks) for passage in context.passages)


def test_the_ledger_says_why() -> None:
    context = made([hit(0, 100, 0.9, doc="gone"), hit(0, 100, 0.8), hit(0, 100, 0.7), hit(200, 5000, 0.6)], tokens=50)
    assert [passage.source for passage in context.passages] == ["d.md"]
    assert [(each.reason, each.tokens) for each in context.dropped] == [(GONE, 25), (DUPLICATE, 25), (BUDGET, 1200)]
    assert made([hit(0, 100, doc="gone")]).reason == "nothing in the collection matches the query"
    assert made([hit(0, 100)], tokens=1).reason == "no hit fits in 1 token"
    assert made([hit(0, 100)], tokens=1).text == ""


def test_what_is_too_large_is_passed_over() -> None:
    context = made([hit(0, 4000, 0.9), hit(0, 100, 0.8, doc="e"), hit(0, 900, 0.7, doc="f")], tokens=60)
    assert [passage.source for passage in context.passages] == ["e.md"]


def test_one_short_hit_in_its_budget() -> None:
    bare = Settings(formatter=FormatterConfig(include_source=False))
    shown = build_context(
        Query("q"), [hit(0, 200)], RECORDS, read=read, chunks=no_chunks, tokens=60, render=RENDERERS["numbered"],
        settings=bare,
    )  # fmt: skip
    assert len(shown.passages) == 1
    assert shown.tokens == estimate_tokens(shown.text) == 53  # 50 of the text, 3 of its number and headings


def test_all_that_just_fits_is_there() -> None:
    hits = [hit(0, 333, 0.9), hit(100, 777, 0.8, doc="e"), hit(1000, 1500, 0.7), hit(2000, 2100, 0.6, doc="f")]
    for render in RENDERERS:
        whole = made(hits, 10_000, render=render)
        assert not made(hits, whole.tokens, render=render).dropped
        assert made(hits, whole.tokens - 1, render=render).dropped


def test_the_order_that_was_given_is_kept() -> None:
    hits = [hit(500, 600, 0.2, headings=("C",)), hit(0, 100, 0.9, doc="e"), hit(0, 100, 0.8)]
    assert [each.spans[0][0] for each in made(hits).passages] == [500, 0, 0]
    assert [each.source for each in made(hits, order="score").passages] == ["d.md", "e.md", "d.md"]
    reading = made(hits, order="reading").passages
    assert [(each.source, each.spans[0][0]) for each in reading] == [("d.md", 0), ("d.md", 500), ("e.md", 0)]
    assert made(hits, 60).passages[0].spans == ((500, 600),)  # the first given, though not of the best score


def test_the_wrapper_counts() -> None:
    bare = made([hit(0, 100)])
    inside = made([hit(0, 100)], wrap="xml", tag="notes")
    assert inside.text == f"<notes>\n{bare.text}\n</notes>"
    assert inside.tokens == estimate_tokens(inside.text)
    assert not made([hit(0, 100)], bare.tokens, wrap="xml").passages
    assert made([hit(0, 100)], wrap="prose").text.startswith("Knowledge base:\n\n[1]")


def test_tokens_are_counted_as_the_model_does() -> None:
    context = made([hit(0, 1000, 0.9), hit(0, 1000, 0.8, doc="e")], 250, count=lambda text: len(text.split()))
    assert context.tokens == len(context.text.split())
    assert len(context.passages) == 1


def test_documents_keep_their_numbers() -> None:
    shown = made([hit(0, 50), hit(0, 50, 0.4, doc="e")], render="knowledge_base", numbers={"e": 3}).text
    assert "### [4] d.md\n" in shown
    assert "### [3] e.md\n" in shown


def test_what_does_not_fit_is_cut_at_a_sentence_where_asked() -> None:
    assert not made([hit(0, 2000)], tokens=100).passages
    context = made([hit(0, 2000)], tokens=100, cut=True)
    (passage,) = context.passages
    assert passage.text.endswith(" of the page.")
    assert passage.text == TEXT[slice(*passage.spans[0])]
    assert 90 <= context.tokens <= 100
    (rest,) = context.dropped
    assert rest.reason == CUT
    assert rest.passage.text == TEXT[slice(*rest.passage.spans[0])]
    assert f"{passage.text} {rest.passage.text}" == TEXT[:2000]


# -- growing

CHUNKS = [
    Chunk(f"c{place}", "d", place, 6, TEXT[at : at + 200], at, at + 200, ("A",) if place < 4 else ("B",))
    for place, at in enumerate(range(0, 1200, 200))
]


def grown(places: list[int], grow: str, tokens: int = 1000, **config: Any) -> tuple[list[str], Context]:
    hits = [Hit(CHUNKS[place], RECORDS["d"], 0.9 - place / 100) for place in places]
    context = made(hits, tokens, chunks=lambda _: CHUNKS, grow=grow, **config)
    return sorted(one.chunk.id for passage in context.passages for one in passage.chunks), context


def test_neighbours_fill_the_room_that_is_left() -> None:
    assert grown([2], "none")[0] == ["c2"]
    ids, context = grown([2], "neighbours")
    assert ids == ["c1", "c2", "c3"]
    assert context.passages[0].text == TEXT[200:800]
    assert [NEIGHBOUR in one.scores for one in context.passages[0].chunks] == [True, False, True]
    assert context.passages[0].avg_similarity == pytest.approx(0.88)
    assert all(isnan(one.similarity) and isnan(one.relevance) for one in context.passages[0].chunks)
    found = replace(Hit(CHUNKS[2], RECORDS["d"], 0.88), similarity=0.5, relevance=0.7)
    (passage,) = made([found], chunks=lambda _: CHUNKS, grow="neighbours").passages
    assert [one.similarity for one in passage.chunks if not isnan(one.similarity)] == [0.5]
    assert [one.relevance for one in passage.chunks if not isnan(one.relevance)] == [0.7]
    assert passage.avg_similarity == 0.5
    assert grown([2], "neighbours", 130)[0] == ["c2", "c3"]
    assert grown([2, 0], "neighbours", 130)[0] == ["c0", "c2"]  # what was found comes first
    assert grown([4], "neighbours")[0] == ["c4", "c5"]  # c3 stands under another heading
    assert not grown([2], "neighbours", 130)[1].dropped  # what was not found is not left out


def test_a_neighbour_comes_before_hits_that_are_worth_less() -> None:
    hits = [Hit(CHUNKS[2], RECORDS["d"], 1.0), Hit(CHUNKS[0], RECORDS["d"], 0.5), Hit(CHUNKS[5], RECORDS["d"], 0.45)]

    def shown(tokens: int) -> list[str]:
        context = made(hits, tokens, chunks=lambda _: CHUNKS, grow="neighbours")
        return sorted(one.chunk.id for passage in context.passages for one in passage.chunks)

    assert shown(180) == ["c1", "c2", "c3"]
    hits = [replace(hits[0], score=0.6), *hits[1:]]
    assert shown(180) == ["c0", "c2", "c3"]  # .8 · .6 is between the two
    hits = [replace(hit, score=score) for hit, score in zip(hits, (-1.0, -1.2, -1.22), strict=True)]
    assert shown(180) == ["c0", "c2", "c5"]  # as a reranker may score: a neighbour has -1 / .8


def test_a_section_is_completed_when_most_of_it_was_found() -> None:
    assert grown([0, 3], "section")[0] == ["c0", "c1", "c2", "c3"]
    assert SECTION in grown([0, 3], "section")[1].passages[0].chunks[1].scores
    assert grown([1], "section")[0] == ["c1"]
    assert grown([4], "section")[0] == ["c4", "c5"]


def test_a_document_that_is_gone_does_not_grow() -> None:
    hits = [Hit(CHUNKS[2], RECORDS["d"], 0.9)]
    assert len(made(hits, grow="neighbours").passages[0].chunks) == 1


# -- laws

SEPARATOR = 3  # tokens of the longest one

Spans = list[tuple[int, int, float, tuple[str, ...], str]]
SPANS = st.tuples(
    st.integers(0, 5000),
    st.integers(1, 900),
    st.sampled_from([0.1, 0.3, 0.5, 0.9]),
    st.sampled_from([("A",), ("A", "B")]),
    st.sampled_from(DOCS),
)
CONFIGS = st.fixed_dictionaries(
    {
        "render": st.sampled_from(list(RENDERERS)),
        "wrap": st.sampled_from(["none", "xml", "markdown", "prose"]),
        "order": st.sampled_from(["score", "reading"]),
        "cut": st.booleans(),
        "merger": st.builds(MergerConfig, max_merged_size=st.integers(1, 3000), require_adjacent=st.booleans()),
    }
)


def hits_of(spans: Spans) -> list[Hit]:
    return [hit(start, start + size, score, headings=path, doc=doc) for start, size, score, path, doc in spans]


@settings(max_examples=300)
@given(st.lists(SPANS, max_size=12), st.integers(1, 600), CONFIGS)
@pytest.mark.slow
def test_no_budget_is_passed_and_every_passage_is_of_the_document(
    spans: Spans, tokens: int, config: dict[str, Any]
) -> None:
    hits = hits_of(spans)
    context = made(hits, tokens, **config)
    assert estimate_tokens(context.text) == context.tokens <= tokens
    for passage in context.passages:
        at = 0
        text = TEXTS[passage.chunks[0].chunk.doc_id]
        for start, end in passage.spans:
            at = passage.text.index(text[start:end], at) + end - start
        assert at == len(passage.text)
    assert bool(context.reason) == (not context.passages)
    assert {each.reason for each in context.dropped} <= {BUDGET, CUT, DUPLICATE, GONE}
    shown = {one.chunk.id for passage in context.passages for one in passage.chunks}
    left = {one.chunk.id for each in context.dropped if each.reason == BUDGET for one in each.passage.chunks}
    assert shown | left == {one.chunk.id for one in hits}
    assert not shown & left


@settings(max_examples=200)
@given(st.lists(SPANS, max_size=12), st.integers(1, 600), CONFIGS)
def test_a_text_of_several_documents_is_shown_once(spans: Spans, tokens: int, config: dict[str, Any]) -> None:
    hits = [
        replace(one, chunk=replace(one.chunk, text=TEXT[one.chunk.start : one.chunk.end])) for one in hits_of(spans)
    ]
    context = made(hits, tokens, **config)
    assert estimate_tokens(context.text) == context.tokens <= tokens
    shown = [one.chunk for passage in context.passages for one in passage.chunks]
    assert all(
        a.doc_id == b.doc_id or a.text.split() != b.text.split() or len(a.text) < MIN_COPY_CHARS
        for a, b in combinations(shown, 2)
    )
    for passage in context.passages:
        for copy in passage.copies:
            assert copy.chunk.doc_id != passage.chunks[0].chunk.doc_id
            assert copy.chunk.text.split() in [one.chunk.text.split() for one in passage.chunks]
    copied = {one.chunk.doc_id for passage in context.passages for one in passage.copies}
    assert {record.id for record in context.documents} == {chunk.doc_id for chunk in shown} | copied
    left = {one.chunk.id for each in context.dropped for one in each.passage.chunks}
    assert {chunk.id for chunk in shown} | left == {one.chunk.id for one in hits}


@pytest.mark.soak
@pytest.mark.parametrize("words", [False, True], ids=["estimate", "words"])
@pytest.mark.slow
def test_random_budgets_are_never_passed(words: bool) -> None:
    chance = random.Random(7)
    count: Callable[[str], int] = (lambda text: len(text.split())) if words else estimate_tokens
    used = 0
    for _ in range(BUDGETS):
        hits = [
            hit(at, at + chance.randint(1, 700), chance.random(), doc=chance.choice(DOCS))
            for at in (chance.randint(0, 5000) for _ in range(chance.randint(1, 9)))
        ]
        tokens = chance.randint(1, 500)
        context = made(hits, tokens, count=count, render=chance.choice(list(RENDERERS)), cut=chance.random() < 0.2)
        assert count(context.text) == context.tokens <= tokens
        used += bool(context.passages)
    assert used > BUDGETS / 2


@settings(max_examples=300)
@given(st.lists(SPANS, min_size=1, max_size=15), st.integers(30, 600), st.sampled_from(list(RENDERERS)))
@pytest.mark.slow
def test_four_fifths_are_used_where_enough_was_found(spans: Spans, tokens: int, render: str) -> None:
    """Enough: something was left out whose entry, with the separator before it, takes at most a fifth of the budget."""
    context = made(hits_of(spans), tokens, render=render)
    left = [each.passage.chunks[0] for each in context.dropped if each.reason == BUDGET]
    if any(made([one], 10_000, render=render).tokens + SEPARATOR <= tokens / 5 for one in left):
        assert context.tokens >= 0.8 * tokens


@settings(max_examples=300)
@given(st.lists(SPANS, max_size=12), st.integers(20, 600), CONFIGS, st.randoms(use_true_random=False))
@example([(0, 100, 0.5, ("A",), "d"), (0, 100, 0.5, ("A",), "e")], 40, {}, random.Random(1))
@pytest.mark.slow
def test_equal_hits_in_any_order_give_the_same_context(
    spans: Spans, tokens: int, config: dict[str, Any], chance: random.Random
) -> None:
    """However hits came: once they stand best first, as a search gives them, the context is the same."""
    hits = hits_of(spans)
    first, second = (sorted(some, key=lambda one: -one.score) for some in (hits, chance.sample(hits, len(hits))))
    assert made(first, tokens, **config) == made(second, tokens, **config)


def test_a_stale_hit_is_not_joined_by_what_now_stands_between() -> None:
    stale = replace(hit(100, 200), chunk=replace(hit(100, 200).chunk, text="x" * 100))
    context = made([hit(0, 99), stale], merger=MergerConfig(require_adjacent=True))
    assert len(context.passages) == 2
