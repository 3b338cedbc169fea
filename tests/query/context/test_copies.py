"""A text that two documents have: shown once, with both sources, through the front door."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from clew import Context, Document, Engine, Message, Settings
from clew.core.settings import ContextConfig, IngestionConfig
from clew.query.context.budget import BUDGET, CUT, DUPLICATE

ROTATE = "The keys of the vault rotate every ninety days. The operator on duty signs the change."
SIZES = Settings(ingestion=IngestionConfig(chunk_size=40, chunk_overlap=0))
SHOW_ALL = {"grow": "none", "min_relevance": 0.0, "min_chance": 0.0}  # all that was found, and nothing else


def page(name: str, text: str, **more: Any) -> Document:
    return Document(name, text, uri=f"{name}.md", **more)


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine.open(":memory:", embedder="hashed", settings=SIZES) as opened:
        opened.add_documents(
            [
                page("a", ROTATE),
                page("b", ROTATE.replace(". ", ".\n").replace("on duty", " on\tduty")),  # wrapped another way
                page("c", ROTATE.replace("ninety", "ten")),
            ]
        )
        yield opened


def ask(engine: Engine, text: str = "vault keys rotate ninety", **config: Any) -> Context:
    settings = replace(SIZES, context=ContextConfig(**{**SHOW_ALL, **config}))
    return engine.context(text, strategy="lexical", settings=settings)


def test_a_copy_is_shown_once_with_both_sources(engine: Engine) -> None:
    context = ask(engine)
    first, other = context.passages
    copied = f"{'a' if first.source == 'a.md' else 'b'}.md"
    sources = [copied, "b.md" if copied == "a.md" else "a.md"]
    assert context.text.count("ninety") == 1
    assert context.text == (
        f"[1]\n{first.text}\n(Source: {', '.join(sources)})\n\n---\n\n[2]\n{other.text}\n(Source: c.md)"
    )
    assert [copy.document.uri for copy in first.copies] == sources[1:]
    assert other.copies == ()
    assert [record.uri for record in context.documents] == [*sources, "c.md"]
    assert [(each.reason, each.passage.source) for each in context.dropped] == [(DUPLICATE, sources[1])]


def test_a_copy_can_be_cited_where_it_stands(engine: Engine) -> None:
    context = ask(engine)
    assert {citation.uri for citation in context.citations} == {"a.md", "b.md", "c.md"}
    for citation in context.citations:
        assert engine.read(citation.document).text[citation.start : citation.end] == citation.quote
    assert {check.standing for check in engine.check(context.citations)} == {"stands"}


def test_a_copy_takes_no_room_but_its_name(engine: Engine) -> None:
    exact = ask(engine).tokens
    assert len(ask(engine, tokens=exact).passages) == 2
    less = ask(engine, tokens=exact - 1)
    assert [each.reason for each in less.dropped] == [DUPLICATE, BUDGET]
    assert len(less.passages[0].copies) == 1


def test_what_was_cut_is_no_copy(engine: Engine) -> None:
    context = ask(engine, tokens=20, cut=True)
    (passage,) = context.passages
    assert passage.text.endswith("ninety days.")
    assert passage.copies == ()
    assert len(context.documents) == 1
    assert sorted({each.reason for each in context.dropped}) == [BUDGET, CUT, DUPLICATE]


def test_a_page_that_has_a_copy_and_words_of_its_own_shows_its_own() -> None:
    own = "Own words of the second page about the vault: it stands in the cellar, behind the stairs."
    small = Settings(ingestion=replace(SIZES.ingestion, chunk_size=24))
    with Engine.open(":memory:", embedder="hashed", settings=small) as engine:
        engine.add_documents([page("a", ROTATE), page("b", f"{ROTATE}\n\n{own}")])
        context = ask(engine, "vault keys rotate cellar")
        assert context.text.count("rotate") == 1
        assert sorted(passage.text for passage in context.passages) == [own, ROTATE]
        assert {record.uri for record in context.documents} == {"a.md", "b.md"}


def test_short_texts_and_equal_texts_of_one_page_are_no_copies() -> None:
    with Engine.open(":memory:", embedder="hashed", settings=SIZES) as engine:
        engine.add_documents([page("a", "No vault keys."), page("b", "No vault keys.")])
        assert [each.copies for each in ask(engine).passages] == [(), ()]
    with Engine.open(":memory:", embedder="hashed", settings=SIZES) as engine:
        engine.add_documents([page("a", f"# One\n\n{ROTATE}\n\n# Two\n\n{ROTATE}")])
        assert ask(engine).text.count("ninety") == 2


def test_a_message_is_never_a_copy() -> None:
    def said(number: int, text: str, channel: str) -> Message:
        at = datetime(2026, 5, number, tzinfo=UTC)
        return Message(text, author=f"author{number}", at=at, id=f"m{number}", channel=channel)

    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_messages([said(1, ROTATE, "ops"), said(2, ROTATE, "legal")])
        engine.add_documents([page("a", ROTATE)])
        context = ask(engine)
        assert context.text.count("ninety") == 3
        assert not context.dropped
        assert {hit.chunk.meta.get("author") for each in context.passages for hit in each.chunks} == {
            "author1", "author2", None,
        }  # fmt: skip
