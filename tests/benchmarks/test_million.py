"""The benchmark of a million chunks, with few."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import Setup, million


def test_it_tells_of_every_stage_and_no_search_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(million, "FEW", 60)
    monkeypatch.setattr(million, "BATCH", 30)
    monkeypatch.setattr(million, "PAUSE", 0.005)
    lines = list(million.measure_million(Setup(None, tmp_path)))
    stages = ["adding", "added", "searches while adding", "last graph and checkpoint", "searches after", "index"]
    assert [line.partition(":")[0] for line in lines] == [*stages, "memory", "restart"]
    assert "60 chunks" in lines[1]
    assert lines[4].endswith("failed in all: 0")


def test_a_text_has_one_vector_of_unit_length() -> None:
    texts = ["w1 w2", "w3", "w1 w2"]
    vectors = million.PointEmbedder().embed(texts, role="passage")
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0)
    assert np.array_equal(vectors[0], vectors[2])
    assert np.array_equal(million.PointEmbedder().embed(texts[1:2], role="query")[0], vectors[1])
