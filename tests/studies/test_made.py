"""The study of made questions runs on the sample."""

import pytest

from studies import made


def test_the_study_prints_a_row_a_system_and_tau(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(made, "STRATEGIES", ("semantic", "lexical"))
    monkeypatch.setattr(made, "FUSIONS", {"rrf": {"search.fusion": "rrf"}})
    made.main(["--embedder", "hashed", "--count", "20"])
    name, head, _, *rows, taus = capsys.readouterr().out.splitlines()
    assert name == "hashed"
    assert "judged (83) nDCG@10" in head
    assert "all made (20) evidence@10" in head
    assert [row.split("|")[1].strip() for row in rows] == ["semantic", "lexical", "hybrid rrf"]
    assert taus.split("|")[2].strip() == "+1.00"  # of the judged questions with themselves
