"""Document boost with chosen cosines, through Engine, on both stores: case 9.1, no cliff, threads in the same list."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from clew import Document, Engine, Extensions, Message, Settings
from clew.core.settings import IngestionConfig, SearchConfig
from clew.core.types import Hit
from tests.engine.chosen import ChosenEmbedder, OpenEngine, documents, split_paragraphs

ASKED = "quozzle"
PLAIN = Settings(ingestion=IngestionConfig())


def fill(open_engine: OpenEngine, cosines: Mapping[str, tuple[float, float]]) -> Engine:
    """An engine over documents, each with a part and a summary of these cosines to the question."""
    plan = {f"part of {name}": {"q": chunk} for name, (chunk, _) in cosines.items()}
    plan |= {f"gist of {name}": {"q": summary} for name, (_, summary) in cosines.items()}
    engine = open_engine(
        embedder=ChosenEmbedder({**plan, ASKED: {"q": 1.0}}), extensions=Extensions(chunker=split_paragraphs)
    )
    engine.add_documents(
        Document(name, f"opening of {name}\n\npart of {name}", summary=f"gist of {name}") for name in cosines
    )
    return engine


def search(engine: Engine, k: int = 20, **search: Any) -> list[Hit]:
    settings = Settings(search=SearchConfig(**search))
    return [hit for hit in engine.search(ASKED, k=k, strategy="document_boost", settings=settings) if hit.similarity]


def scores(hits: list[Hit]) -> dict[str, float]:
    return {hit.chunk.doc_id: hit.score for hit in hits if hit.chunk.text.startswith("part")}


CASE_9_1 = {"a": (0.80, 0.35), "b": (0.75, 0.90), "c": (0.90, 0.30), "d": (0.60, 0.95)}


def test_9_1_by_its_numbers(open_engine: OpenEngine) -> None:
    engine = fill(open_engine, CASE_9_1)
    found = search(engine, document_min_similarity=0.3)
    assert scores(found) == pytest.approx({"a": 0.665, "b": 0.795, "c": 0.63, "d": 0.705}, abs=1e-6)
    assert found[0].chunk.doc_id == "b"
    assert list(scores(search(engine, document_weight=0.0))) == ["c", "a", "b", "d"]
    assert list(scores(search(engine, document_weight=1.0))) == ["d", "b", "a", "c"]
    similar = {hit.chunk.doc_id: hit.similarity for hit in found if hit.chunk.text.startswith("part")}
    assert similar == pytest.approx({name: chunk for name, (chunk, _) in CASE_9_1.items()}, abs=1e-6)


def test_without_a_minimum_every_summary_counts(open_engine: OpenEngine) -> None:
    found = scores(search(fill(open_engine, CASE_9_1)))
    assert found["c"] == pytest.approx(0.7 * 0.90 + 0.3 * 0.30, abs=1e-6)


@pytest.mark.parametrize("count", [10, 11, 12, 30])
def test_there_is_no_cliff_at_the_eleventh_document(open_engine: OpenEngine, count: int) -> None:
    cosines = {f"d{place:02}": (0.70 - place / 1000, 0.80 - place / 1000) for place in range(count)}
    found = scores(search(fill(open_engine, cosines), k=count))
    by_hand = {name: 0.7 * chunk + 0.3 * summary for name, (chunk, summary) in cosines.items()}
    assert found == pytest.approx(by_hand, abs=1e-6)
    assert list(found) == sorted(cosines)


def test_a_page_comes_before_a_message_that_is_farther(open_engine: OpenEngine) -> None:
    """A thread has no summary: its best chunk stands for it, as if it had been mixed like a page."""
    engine = fill(open_engine, {"page": (0.80, 0.25)})  # below the 0.3 that summaries once had to pass
    embedder = engine.opened.embedder
    assert isinstance(embedder, ChosenEmbedder)
    embedder.plan["chat hit"] = {"q": 0.60}
    when = datetime(2026, 5, 1, tzinfo=UTC)
    engine.add_messages([Message("chat hit", author="ada", channel="ops", id="m", at=when)], settings=PLAIN)
    found = search(engine)
    assert [hit.document.kind for hit in found] == ["page", "thread"]
    assert [hit.score for hit in found] == pytest.approx([0.7 * 0.80 + 0.3 * 0.25, 0.60], abs=1e-6)


def test_a_document_far_down_by_chunks_is_reached_by_its_summary(open_engine: OpenEngine) -> None:
    cosines = {f"d{place:02}": (0.80 - place / 1000, 0.31) for place in range(20)} | {"best": (0.50, 0.99)}
    found = search(fill(open_engine, cosines), k=1, document_weight=0.9)
    assert documents(found) == ["best"]


def test_a_page_without_a_summary_counts_by_the_mean_of_its_chunks() -> None:
    ingestion = IngestionConfig(chunk_size=8, chunk_overlap=0)
    with Engine.open(":memory:", embedder="hashed", settings=Settings(ingestion=ingestion)) as engine:
        engine.add_documents(
            [Document("keys", "# Keys\n\nKeys of the vault.\n\n# Tides\n\nTides of the harbour at noon.")]
        )
        (first, *_) = engine.search("vault keys", strategy="document_boost")
        store = engine.opened.store
        vectors = np.stack(list(store.vectors([chunk.id for chunk in store.chunks("keys")]).values()))
        assert len(vectors) > 1
        mean = vectors.mean(axis=0)
        asked = engine.opened.embedder.embed(["vault keys"], role="query")[0]
    assert first.scores["document"] == pytest.approx(asked @ mean / np.linalg.norm(mean), abs=1e-6)


def test_a_page_that_is_dropped_meanwhile_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_documents([Document("keys", "Keys of the vault."), Document("tides", "Tides of the harbour.")])
        store: Any = engine.opened.store
        read = store.chunks
        monkeypatch.setattr(store, "chunks", lambda doc_id: (store.drop([doc_id]), read(doc_id))[1])
        assert engine.search("vault keys", strategy="document_boost")
