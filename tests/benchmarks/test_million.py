"""The benchmark of a million chunks, with few."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import Setup, million
from clew import Engine
from clew.core.report import STAGE, Progress


def test_it_tells_of_every_stage_and_no_search_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(million, "FEW", 60)
    monkeypatch.setattr(million, "PAUSE", 0.005)
    lines = list(million.measure_million(Setup(None, tmp_path)))
    searches = ["searches while adding", "searches while the last graph was built", "searches after"]
    stages = ["added", "processor ms a chunk", *searches, "index", "memory", "restart"]
    assert [line.partition(":")[0] for line in lines] == stages
    assert "60 chunks" in lines[0]
    assert lines[4].endswith("failed in all: 0")


def test_a_text_has_one_vector_of_unit_length() -> None:
    texts = ["w1 w2", "w3", "w1 w2"]
    vectors = million.PointEmbedder().embed(texts, role="passage")
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0)
    assert np.array_equal(vectors[0], vectors[2])
    assert np.array_equal(million.PointEmbedder().embed(texts[1:2], role="query")[0], vectors[1])


def test_the_seconds_of_the_index_are_not_taken_for_documents(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "c", embedder="hashed") as engine:
        searches = million.Searching(engine)
        watch = million.Watch(searches, 3)
        watch.note(Progress("adding", 3, 3, "documents"))
        stored_at = watch.stored_at
        watch.note(Progress(STAGE, 2, None, "seconds"))
    assert watch.stored_at == stored_at
    assert searches.stage == "graph"
