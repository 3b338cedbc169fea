"""When the background of an embedder is measured, where it is kept, and that both stores then say the same."""

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from clew import Calibration, Document, DriverFailed, Engine, Filter, Message, Settings
from clew.core.errors import SettingsError
from clew.core.protocols import Role
from clew.core.settings import EmbedderConfig
from clew.core.types import Hit, Matrix
from clew.drivers.embed.hashed import HashedEmbedder
from tests.engine.chosen import OpenEngine

HANDBOOK = Path(__file__).parents[3] / "examples" / "handbook"
THINGS = ("vault", "pager", "canteen", "harbour", "lantern", "winch", "ledger", "printer", "garden", "archive")
DEEDS = ("opened", "painted", "counted", "repaired", "inspected", "moved", "cleaned", "sold", "lent", "insured")
QUESTIONS = (
    "who rotates the signing keys?",
    "how do I get a refund?",
    "what happens when the pager rings at night?",
    "thanks!",
    "is there soup on the moon?",
)


def make_pages(start: int, stop: int) -> list[Document]:
    """Documents of one chunk each, every one with words of its own and some that it shares."""
    return [
        Document(f"p{n:03}", f"The {THINGS[n % 10]} of house {n} is {DEEDS[n // 10 % 10]} on day {n % 31}.")
        for n in range(start, stop)
    ]


class FailingEmbedder(HashedEmbedder):
    """An embedder whose queries fail, while `error` is set."""

    error: Exception | None = None

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        if role == "query" and self.error is not None:
            raise self.error
        return super().embed(texts, role=role)


def get_stored(engine: Engine) -> Calibration | None:
    return Calibration.from_json(engine.opened.store.calibration(), engine.opened.embedder.name)


def get_numbers(hits: Sequence[Hit]) -> dict[str, tuple[float, float]]:
    return {hit.chunk.id: (hit.similarity, hit.relevance) for hit in hits}


# -- when it is measured


def test_a_collection_is_measured_by_the_add_that_brings_the_hundredth_chunk(engine: Engine) -> None:
    engine.add_documents(make_pages(0, 99))
    assert engine.status().chunks == 99
    assert engine.opened.store.calibration() == ""
    engine.add_documents(make_pages(99, 100))
    kept = get_stored(engine)
    assert kept is not None
    assert (kept.embedder, kept.chunks) == (engine.opened.embedder.name, 100)
    assert kept.reach > kept.spread > 0
    assert kept.centre is not None


def test_the_measure_stays_until_it_is_taken_again(engine: Engine) -> None:
    engine.add_documents(make_pages(0, 100))
    text = engine.opened.store.calibration()
    found = get_numbers(engine.search("who painted the lantern of house 14?"))
    engine.add_documents(make_pages(100, 130))
    engine.drop("p099")
    assert engine.opened.store.calibration() == text
    measured = engine.calibrate()
    assert engine.opened.store.calibration() == measured.to_json() != text
    assert get_stored(engine) == measured
    again = get_numbers(engine.search("who painted the lantern of house 14?"))
    assert again != found  # read at once, also where a result was cached


def test_it_can_be_measured_at_any_size_of_two_chunks(engine: Engine) -> None:
    with pytest.raises(SettingsError, match="fewer than two chunks"):
        engine.calibrate()
    engine.add_documents(make_pages(0, 5))
    assert engine.calibrate().chunks == 5
    assert get_stored(engine) is not None


def test_it_is_kept_when_a_collection_is_opened_again(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed", collection="kept")
    engine.add_documents(make_pages(0, 100))
    text, found = engine.opened.store.calibration(), get_numbers(engine.search("who painted the lantern?"))
    engine.close()
    again = open_engine(embedder="hashed", collection="kept")
    assert again.opened.store.calibration() == text
    assert get_numbers(again.search("who painted the lantern?")) == found


def test_messages_are_measured_too(engine: Engine) -> None:
    talk = [Message(page.text, author="ada", channel="ops", id=page.id) for page in make_pages(0, 100)]
    engine.add_messages(talk[:60])
    assert get_stored(engine) is None
    engine.add_messages(talk[60:])
    assert get_stored(engine) is not None


# -- both stores


def read_handbook(prefix: str = "") -> list[Document]:
    return [Document(f"{prefix}{path.name}", path.read_text("utf-8")) for path in sorted(HANDBOOK.rglob("*.md"))]


def test_both_stores_give_the_same_relevance(tmp_path: Path, postgres: str) -> None:
    with (
        Engine.open(tmp_path / "team.clew", embedder="hashed") as folder,
        Engine.open(postgres, embedder="hashed") as server,
    ):
        for engine in (folder, server):
            engine.add_documents(read_handbook())
        assert folder.opened.store.calibration() == server.opened.store.calibration() != ""
        for strategy in ("hybrid", "semantic", "lexical"):
            for question in QUESTIONS:
                one, two = (engine.search(question, k=10, strategy=strategy) for engine in (folder, server))
                assert [hit.chunk.id for hit in one] == [hit.chunk.id for hit in two]
                for here, there in zip(one, two, strict=True):
                    numbers = here.similarity, here.relevance
                    assert numbers == pytest.approx((there.similarity, there.relevance), abs=1e-6)


@pytest.mark.slow
def test_the_measure_depends_on_the_texts_and_not_on_where_they_come_from() -> None:
    """A file has another id in another folder, and in a store without one."""
    measured = []
    for prefix in ("", "elsewhere/"):
        with Engine.open(":memory:", embedder="hashed") as engine:
            engine.add_documents(read_handbook(prefix))
            kept = get_stored(engine)
            assert kept is not None
            measured.append((kept.reach, kept.spread))
    assert measured[0] == pytest.approx(measured[1], abs=1e-6)


def test_a_filter_changes_no_relevance_of_the_best_hit(engine: Engine) -> None:
    """It takes rivals away, so that the relevance of what is left can only grow."""
    engine.add_documents(make_pages(0, 100))
    question = "who painted the lantern of house 14?"
    best, *_ = engine.search(question)
    (alone,) = engine.search(question, where=Filter(documents=frozenset({best.chunk.doc_id})))
    assert alone.similarity == pytest.approx(best.similarity, abs=1e-6)
    assert alone.relevance >= best.relevance - 1e-6


# -- failure


def test_an_embedder_that_fails_when_it_is_measured_does_not_fail_the_add(
    open_engine: OpenEngine, caplog: pytest.LogCaptureFixture
) -> None:
    embedder = FailingEmbedder()
    engine = open_engine(embedder=embedder)
    embedder.error = DriverFailed("the server is gone")
    with caplog.at_level(logging.WARNING, "clew"):
        report = engine.add_documents(make_pages(0, 120))
    assert (len(report.added), report.failed) == (120, ())
    assert engine.opened.store.calibration() == ""
    assert "the relevance could not be calibrated: the server is gone" in caplog.text
    embedder.error = None
    assert engine.search("who painted the lantern?")[0].relevance > 0
    engine.add_documents(make_pages(120, 121))
    assert get_stored(engine) is not None


def test_a_limit_of_cost_that_is_reached_by_the_measure_does_not_fail_the_add(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed", settings=Settings(embedder=EmbedderConfig(price=1000.0)))
    cost = engine.add_documents(make_pages(0, 99)).cost
    assert cost > 0
    enough = 20 * cost / 99  # for one more page, not for a hundred sentences
    report = engine.add_documents(make_pages(99, 100), max_cost=enough)
    assert (len(report.added), report.failed) == (1, ())
    assert report.cost <= enough
    assert get_stored(engine) is None


def test_a_restored_collection_has_the_calibration_of_the_exported_one(tmp_path: Path) -> None:
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_documents(make_pages(0, 100))
        kept, best = engine.opened.store.calibration(), engine.search("who painted the lantern of house 14?")[0]
        engine.export(tmp_path / "team.bundle")
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.restore(tmp_path / "team.bundle")
        assert engine.opened.store.calibration() == kept != ""
        assert engine.search("who painted the lantern of house 14?")[0].relevance == pytest.approx(best.relevance)
