"""What a search found, as each stage of the context shows it: sources, similarities and headings."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from clew import Context, Document, Engine, Settings
from clew.core.settings import ContextConfig, FormatterConfig, IngestionConfig
from clew.query.context.format.formatter import ContextFormatter
from clew.query.context.merge import ChunkMerger

SIZES = Settings(ingestion=IngestionConfig(chunk_size=40, chunk_overlap=0))
SHOW_ALL = {"grow": "none", "min_relevance": 0.0, "min_chance": 0.0}  # all that was found, and nothing else
PAGES = {
    "keys": "The keys of the vault rotate every ninety days. The operator on duty signs the change.",
    "piano": "The piano has eighty-eight keys. Each of the keys is tuned in the spring, before the concerts.",
}


def page(name: str, text: str) -> Document:
    return Document(name, text, uri=f"{name}.md")


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.open(":memory:", embedder="hashed", settings=SIZES) as opened:
        opened.add_documents(page(name, text) for name, text in PAGES.items())
        yield opened


def ask(engine: Engine, text: str, *, scores: bool = False, **config: Any) -> Context:
    settings = Settings(
        context=ContextConfig(**{**SHOW_ALL, **config}), formatter=FormatterConfig(include_scores=scores)
    )
    return engine.context(text, strategy="lexical", settings=settings)


def test_every_renderer_shows_the_same_similarity(engine: Engine) -> None:
    question = "keys of the piano"
    context = ask(engine, question, scores=True)
    cosines = {hit.document.uri: hit.similarity for hit in engine.search(question, strategy="lexical")}
    relevances = {hit.document.uri: hit.relevance for hit in engine.search(question, strategy="lexical")}
    assert {each.source: each.avg_similarity for each in context.passages} == cosines
    shown = [f"{cosines[each.source]:.2f}" for each in context.passages]
    assert len(set(shown)) == 2
    for number, similarity in enumerate(shown, 1):
        assert f"[{number}] [{similarity}]\n" in context.text
    posts = ask(engine, question, render="related_posts").text
    assert [line.removeprefix("- Similarity: ") for line in posts.splitlines() if "Similarity" in line] == shown
    for entry in json.loads(ask(engine, question, render="json").text):
        assert entry["similarity"] == pytest.approx(cosines[entry["document"]["source"]], abs=1e-6)
        assert entry["relevance"] == pytest.approx(relevances[entry["document"]["source"]], abs=1e-6)


def test_hits_of_a_search_are_written_under_their_address(engine: Engine) -> None:
    hits = engine.search("keys of the vault", k=1, strategy="lexical")
    assert ContextFormatter().format(hits) == f"[1]\n{hits[0].chunk.text}\n(Source: keys.md)"
    merged = ChunkMerger().merge(hits)
    assert ContextFormatter().format_merged(merged) == f"[1]\n{hits[0].chunk.text}\n(Source: keys.md)"
    assert ChunkMerger().to_result_list(merged)[0]["source"] == "keys.md"


def test_a_page_says_its_headings_once() -> None:
    text = "# Authentication\n\nAll of it.\n\n## OAuth 2.0\n\nConfigure the client of the vault."
    with Engine.open(":memory:", embedder="hashed", settings=SIZES) as engine:
        engine.add_documents([page("auth", text)])
        context = ask(engine, "configure client", k=1)
        assert context.text == ("[1] Authentication > OAuth 2.0\nConfigure the client of the vault.\n(Source: auth.md)")
        (passage,) = context.passages
        assert passage.text == text[slice(*passage.spans[0])] == "## OAuth 2.0\n\nConfigure the client of the vault."
        assert ask(engine, "configure client", k=1, tokens=context.tokens).text == context.text
