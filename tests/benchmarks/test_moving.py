"""The benchmark of export and restore: what it prints, on a few chunks."""

from pathlib import Path

import pytest

from benchmarks import Setup, Skipped
from benchmarks import moving as bench
from benchmarks.corpus import CorpusText


@pytest.mark.slow
def test_the_memory_of_moving_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [CorpusText(f"t{n}", f"The bell of deck {n} is rung at noon.") for n in range(60)]
    monkeypatch.setattr(bench, "SMALL_SIZE", 20)
    monkeypatch.setattr(bench, "LARGE_SIZE", 60)
    monkeypatch.setattr(bench, "load_texts", lambda _, size: texts[:size])
    lines = bench.measure_transfer_memory(Setup(tmp_path, tmp_path))
    assert [line.name for line in lines] == [
        "peak memory of export, 60 chunks, GB",
        "… / of 20 chunks",
        "peak memory of restore, 60 chunks, GB",
        "… / of 20 chunks",
    ]
    assert all(0.01 < line.value < 10 for line in lines)


def test_only_where_memory_of_its_own_can_be_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "STATUS", tmp_path / "none")
    with pytest.raises(Skipped, match="Linux"):
        bench.measure_transfer_memory(Setup(tmp_path, tmp_path))
