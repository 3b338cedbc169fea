"""A program's own chunkers and enrichers: where they run, what is checked of them, and when documents are redone."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from clew import Document, Engine, Message, Settings, SettingsError
from clew.core.protocols import Chunker, Enricher
from clew.core.report import Report
from clew.core.settings import DEFAULTS, IngestionConfig
from clew.core.types import Chunk
from clew.drivers.llm.scripted import ScriptedLLM
from clew.index.add.context import IngestContext
from clew.index.add.ingest import add_documents, add_messages
from clew.index.chunk.build import get_component_name

PAGE = Document("winches", "# Winches\n\nOil them in May.\n\nStore them in October.")
CONTEXTUAL = Settings(ingestion=IngestionConfig(use_contextual_enrichment=True))


@pytest.fixture
def context() -> Iterator[IngestContext]:
    with Engine.open(":memory:", embedder="hashed") as engine:
        yield IngestContext(engine.opened.store, engine.opened.embedder, None, DEFAULTS, Path.cwd())


def add(context: IngestContext, page: Document = PAGE, **components: Any) -> Report:
    return add_documents(replace(context, **components), [page], max_cost=None, on_progress=None)


def make_chunk(document: Document, start: int, end: int, **fields: Any) -> Chunk:
    return replace(Chunk("", document.id, 0, 0, document.text[start:end], start, end), **fields)


def chunk_lines(document: Document) -> list[Chunk]:
    return [make_chunk(document, *match.span()) for match in re.finditer(r".+", document.text)]


def add_season(document: Document, chunks: list[Chunk]) -> list[Chunk]:
    return [replace(chunk, context=f"{chunk.context} season".strip()) for chunk in chunks]


def test_a_given_chunker_replaces_the_built_in_one_for_pages(context: IngestContext) -> None:
    report = add(context, chunker=chunk_lines)
    chunks = context.store.chunks("winches")
    assert [chunk.text for chunk in chunks] == ["# Winches", "Oil them in May.", "Store them in October."]
    assert [(chunk.index, chunk.total) for chunk in chunks] == [(0, 3), (1, 3), (2, 3)]
    assert len({chunk.id for chunk in chunks} - {""}) == report.embedded == 3


def test_messages_keep_their_own_chunker_and_are_not_enriched(context: IngestContext) -> None:
    def refuse(*_: object) -> list[Chunk]:
        raise AssertionError

    messages = [Message("Oil the winches.\nIn May.", author="ann", id="m1", channel="yard")]
    report = add_messages(replace(context, chunker=refuse, enrichers=[refuse]), messages)
    assert (report.added, report.chunks) == (("m1",), 1)


def test_enrichers_run_in_order_after_the_built_in_one(context: IngestContext) -> None:
    def add_year(document: Document, chunks: list[Chunk]) -> list[Chunk]:
        return [replace(chunk, context=f"{chunk.context} 2026") for chunk in chunks]

    add(context, settings=CONTEXTUAL, enrichers=[add_season, add_year])
    (chunk,) = context.store.chunks("winches")
    assert chunk.context == "Winches season 2026"
    assert chunk.text == PAGE.text


def test_another_chunker_or_enricher_redoes_the_document_and_the_same_does_not(context: IngestContext) -> None:
    class Versioned:
        def __init__(self, name: str) -> None:
            self.name = name

        def __call__(self, document: Document) -> list[Chunk]:
            return chunk_lines(document)

    for components in (
        {},
        {"chunker": chunk_lines},
        {"chunker": Versioned("lines 1")},
        {"chunker": Versioned("lines 2")},
        {"enrichers": [add_season]},
        {"chunker": chunk_lines, "enrichers": [add_season]},
    ):
        assert add(context, **components).skipped == 0
        assert add(context, **components).skipped == 1


def test_the_name_of_a_component() -> None:
    class Named:
        name = "lines 2"

        def __call__(self, document: Document) -> list[Chunk]:
            return []

    assert get_component_name(Named()) == "lines 2"
    assert get_component_name(chunk_lines) == get_component_name(partial(chunk_lines)) == "chunk_lines"


@pytest.mark.parametrize(
    ("chunker", "reason"),
    [
        (lambda d: [make_chunk(d, 0, 5, text="other")], "is not the text from 0 to 5"),
        (lambda d: [replace(make_chunk(d, 0, 5), end=5000)], "spans 0 to 5000; it must be a span of the text"),
        (lambda d: [make_chunk(d, 5, 5)], "spans 5 to 5"),
        (lambda d: [make_chunk(d, 0, 5, doc_id="x")], "has the doc_id 'x'; it must be that of the document, 'winches'"),
        (lambda d: [make_chunk(d, 9, 12), make_chunk(d, 0, 5)], "chunk 1 of winches starts at 0, before"),
        (lambda d: [d.text], "is a str; it must be a Chunk"),
        (lambda _: None, "returned NoneType; it must return a list of Chunk"),
    ],
)
def test_what_breaks_the_rules_of_spans_is_named(
    context: IngestContext, chunker: Callable[[Document], Any], reason: str
) -> None:
    with pytest.raises(SettingsError, match=re.escape(reason)) as caught:
        add(context, chunker=chunker)
    assert "chunker test_" in str(caught.value) or "chunker <lambda>" in str(caught.value)
    with pytest.raises(SettingsError, match=r"enricher .*" + re.escape(reason)):
        add(context, enrichers=[lambda document, _: chunker(document)])
    assert list(context.store.documents()) == []


def test_a_component_that_fails_for_one_document_does_not_stop_the_others(context: IngestContext) -> None:
    def fussy(document: Document, chunks: list[Chunk] | None = None) -> list[Chunk]:
        if "Oil" in document.text:
            raise ValueError("no oil")
        return chunks or chunk_lines(document)

    pages = [PAGE, Document("ropes", "Coil them.")]
    chunker: Chunker = fussy
    enricher: Enricher = fussy
    for kind, components in (("chunker", {"chunker": chunker}), ("enricher", {"enrichers": [enricher]})):
        using = replace(context, **components)
        report = add_documents(using, pages, max_cost=None, on_progress=None)
        assert len(report.added) + len(report.changed) == 1
        ((source, why),) = [(failure.source, failure.reason) for failure in report.failed]
        assert source == "winches"
        assert why.startswith(kind)
        assert why.endswith("failed: ValueError: no oil")


def test_a_written_context_is_reused_and_not_enriched_twice(context: IngestContext) -> None:
    llm = ScriptedLLM(lambda _: "Written.")
    settings = replace(CONTEXTUAL, ingestion=replace(CONTEXTUAL.ingestion, chunk_size=8, chunk_overlap=0))
    using = replace(context, llm=llm, settings=settings, enrichers=[add_season])
    add(using)
    before = llm.usage.calls
    assert {chunk.context for chunk in context.store.chunks("winches")} == {"Written. season"}
    add(using, replace(PAGE, text=f"{PAGE.text}\n\n# Ropes\n\nCoil them after each use, please."))
    contexts = [chunk.context for chunk in context.store.chunks("winches")]
    assert set(contexts) == {"Written. season"}
    assert 0 < llm.usage.calls - before < len(contexts)
