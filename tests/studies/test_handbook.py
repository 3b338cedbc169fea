"""The handbook study runs on the sample handbook."""

import pytest

from studies import handbook


def test_the_study_prints_a_row_a_strategy(capsys: pytest.CaptureFixture[str]) -> None:
    handbook.main(["--embedder", "hashed"])
    head, _, _, *rows = capsys.readouterr().out.splitlines()
    assert head == "83 questions, hashed"
    assert [row.split("|")[1].strip() for row in rows] == ["semantic", "hybrid"]
    assert all(float(row.split("|")[2]) > 40 for row in rows)
