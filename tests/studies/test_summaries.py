"""The study of summaries runs on made-up documents, and reports the half that chose nothing."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from clew import drivers
from clew.core.settings import EmbedderConfig
from studies import summaries
from studies.judged import JudgedSet, make_document, make_recall
from studies.summaries import SummarySet, make_rows, measure_set, name_documents, sample, search_settings

TOPICS = ("harbour", "orchard", "quarry", "tannery")


@pytest.fixture
def given() -> SummarySet:
    documents = [
        make_document(name, [f"The {name} is old and has many keepers who write.", f"Part two of {name} is short."])
        for name in TOPICS
    ]
    questions = {name: f"the keepers of the {name}" for name in TOPICS}
    grades = {name: {name: 1.0} for name in TOPICS}
    data = JudgedSet("made up", documents, {}, questions, grades, {})
    return SummarySet(data, summaries.UNLIMITED_CHUNK, name_documents, "Recall@1", make_recall(1))


def test_every_base_is_shown_with_and_without_summaries(given: SummarySet) -> None:
    embedder = drivers.make_embedder(EmbedderConfig(name="hashed"))
    rows = measure_set(given, embedder, weights=(0.3,))
    assert [row.system for row in rows] == [
        "semantic",
        "document_boost over semantic, 0.3",
        "hybrid",
        "document_boost over hybrid, 0.3",
    ]
    assert [row.lead is None for row in rows] == [True, False, True, False]
    table = list(make_rows(given, rows))
    assert table[0] == "| made up | Recall@1 | lead over the base |"
    assert len(table) == 6


def test_the_weight_is_chosen_on_one_half_and_measured_on_the_other(
    given: SummarySet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(_engine: object, _given: object, _base: str, weight: float | None) -> Sequence[float]:
        return {None: [0.5] * 4, 0.1: [1.0, 0.0, 1.0, 0.0], 0.5: [0.0, 1.0, 0.0, 1.0]}[weight]

    monkeypatch.setattr(summaries, "measure_search", measure)
    rows = measure_set(given, drivers.make_embedder(EmbedderConfig(name="hashed")), weights=(0.1, 0.5))
    assert rows[1].system == "document_boost over semantic, 0.1"
    assert (rows[0].value, rows[1].value) == (0.5, 0.0)


def test_a_search_with_summaries_is_document_boost_over_its_base() -> None:
    assert search_settings("hybrid", None, 64)[0] == "hybrid"
    strategy, settings = search_settings("hybrid", 0.2, 64)
    assert (strategy, settings.search.document_strategy, settings.search.document_weight) == (
        "document_boost",
        "hybrid",
        0.2,
    )
    assert settings.ingestion.chunk_size == 64


def test_a_sample_is_spread_over_the_questions(given: SummarySet) -> None:
    assert list(sample(given, 2).data.questions) == ["harbour", "quarry"]
    assert sample(given, None).data.questions == given.data.questions


@pytest.mark.parametrize("name", summaries.SETS)
def test_a_set_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(SystemExit, match="there is no"):
        summaries.main(["--data", str(tmp_path), "--embedder", "hashed", "--sets", name])
