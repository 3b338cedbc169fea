"""The study of questions among small talk runs on the sample."""

import pytest

from studies import chatter


def test_the_study_prints_coverage_and_what_the_floor_costs(capsys: pytest.CaptureFixture[str]) -> None:
    chatter.main(["--embedder", "hashed", "--every", "8"])
    covered, talk, kept = capsys.readouterr().out.splitlines()
    assert "3 conversations, covered" in covered
    assert int(talk.split(": ")[1].split(" of ")[0]) < 8
    assert float(kept.split("(")[1].split(" %")[0]) > 70
