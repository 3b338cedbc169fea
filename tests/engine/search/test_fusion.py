"""How a hybrid search fuses its two legs is a setting, and every collection may have its own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from clew import Document, Engine, Settings
from clew.core.settings import SearchConfig
from clew.surface.settings.load import load_invocation

# By the letters of their words (the hashed embedder's meaning) keyboards are nearest to keyholes; by the words
# themselves only the first page has one that was asked for.
PAGES = {
    "keys": "The vault is opened at noon; its keyhole is beside the door, below the lantern of the harbour office.",
    "board": "Keyboards, keynotes, keystones, keypads.",
    "lamp": "The lamp keeper lights the lamp at dusk and trims the wick.",
    "boat": "A boat without a lamp is fined by the harbour office.",
}
ASKED = "keyholes"
Fusion = Literal["confident", "convex", "rrf", "round_robin"]


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_documents(Document(id_, text) for id_, text in PAGES.items())
        yield engine


def found(engine: Engine, fusion: Fusion = "convex", weight: float = 0.5) -> list[tuple[str, float]]:
    settings = Settings(search=SearchConfig(fusion=fusion, semantic_weight=weight, min_similarity=-1))
    return [(hit.chunk.doc_id, round(hit.score, 9)) for hit in engine.search(ASKED, settings=settings)]


def test_every_fusion_scores_in_its_own_way(engine: Engine) -> None:
    outcomes = [tuple(found(engine, fusion)) for fusion in ("confident", "convex", "rrf", "round_robin")]
    assert len(set(outcomes)) == 4
    for outcome in outcomes:
        assert {id_ for id_, _ in outcome} == set(PAGES)


@pytest.mark.parametrize("fusion", ["confident", "convex", "rrf", "round_robin"])
def test_the_weight_counts_in_every_fusion(engine: Engine, fusion: Fusion) -> None:
    alone = {
        leg: [hit.chunk.doc_id for hit in engine.search(ASKED, strategy=leg, k=4)] for leg in ("semantic", "lexical")
    }
    assert alone["semantic"][0] != alone["lexical"][0]
    assert found(engine, fusion, 1.0)[0][0] == alone["semantic"][0]
    assert found(engine, fusion, 0.0)[0][0] == alone["lexical"][0]


def test_collections_have_weights_of_their_own(tmp_path: Path) -> None:
    """Each by the settings it is opened with: the file in its folder says them."""
    firsts = {}
    for collection, weight in (("meaning", 1.0), ("words", 0.0)):
        folder = tmp_path / collection
        folder.mkdir()
        (folder / "clew.toml").write_text(
            f'collection = "{collection}"\n[search]\nsemantic_weight = {weight}\nmin_similarity = -1.0\n',
            encoding="utf-8",
        )
        given = load_invocation(environ={}, overrides={}, folder=folder)
        with Engine.open(
            tmp_path / "team.clew", collection=given.collection, embedder="hashed", settings=given.settings
        ) as engine:
            engine.add_documents(Document(id_, text) for id_, text in PAGES.items())
            firsts[collection] = engine.search(ASKED)[0].chunk.doc_id
    assert firsts == {"meaning": "board", "words": "keys"}
