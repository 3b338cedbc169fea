"""Why something is not shown when a floor left it out: the stage is the threshold, and the floor is what to change."""

from collections.abc import Iterator

import pytest

from clew import Document, Engine, Settings
from clew.core.settings.override import override_settings
from tests.engine.chosen import ChosenEmbedder

ASKED = "who rotates the signing keys?"
PAGES = {"answer": ("Signing keys are rotated by Dan.", 0.9), "soup": ("Soup is served at noon.", 0.2)}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    plan = {text: {"q": cosine} for text, cosine in PAGES.values()}
    with Engine.open(":memory:", embedder=ChosenEmbedder({**plan, ASKED: {"q": 1.0}})) as opened:
        opened.add_documents(Document(name, text, uri=name) for name, (text, _) in PAGES.items())
        yield opened


@pytest.mark.parametrize(
    ("strategy", "floor", "minimum", "target"),
    [
        *((name, "min_similarity", 0.95, "answer") for name in ("hybrid", "lexical", "semantic")),
        *((name, "min_relevance", 0.5, "soup") for name in ("hybrid", "semantic")),
    ],
)
def test_a_minimum_is_named_and_lowered(engine: Engine, strategy: str, floor: str, minimum: float, target: str) -> None:
    settings = override_settings(Settings(), {f"search.{floor}": minimum})
    lost = engine.why_not(ASKED, target, strategy=strategy, settings=settings)
    assert lost.stage == "threshold"
    assert target == "soup" or "0.9" in lost.reason
    assert lost.fix is not None
    assert lost.fix.setting == f"search.{floor}"
    lower = override_settings(settings, {lost.fix.setting: lost.fix.value})
    assert target in {hit.chunk.doc_id for hit in engine.search(ASKED, strategy=strategy, settings=lower)}


def test_the_floor_of_a_context_is_named(engine: Engine) -> None:
    lost = engine.why_not(ASKED, "soup", tokens=500)
    assert lost.stage == "threshold"
    assert "relevance" in lost.reason
    assert lost.fix is not None
    assert lost.fix.setting == "context.min_relevance"


def test_what_small_talk_does_not_show_is_left_out_by_the_chance_of_an_answer(engine: Engine) -> None:
    lost = engine.why_not("thanks!", "soup", tokens=500)
    assert lost.stage == "threshold"
    assert "relevance" in lost.reason
