"""The study of made questions runs on a part of the sample."""

import json
import shutil
from pathlib import Path

import pytest

from studies import made
from studies.made import kendall_tau

PART = "handbook/security/"


def copy_part(folder: Path) -> Path:
    """One folder of the handbook with its questions, and one channel."""
    shutil.copytree(made.EXAMPLES / PART, folder / PART)
    shutil.copytree(made.EXAMPLES / "chat" / "galley", folder / "chat" / "galley")
    for name in ("channels.json", "users.json"):
        shutil.copy(made.EXAMPLES / "chat" / name, folder / "chat")
    lines = (made.EXAMPLES / "questions.jsonl").read_text("utf-8").splitlines()
    own = [line for line in lines if all(name.startswith(PART) for name in json.loads(line)["documents"])]
    (folder / "questions.jsonl").write_text("\n".join(own), "utf-8")
    return folder


def test_the_study_prints_a_row_a_system_and_tau(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(made, "STRATEGIES", ("semantic", "lexical"))
    monkeypatch.setattr(made, "FUSIONS", {"rrf": {"search.fusion": "rrf"}})
    made.main(["--embedder", "hashed", "--count", "8", "--examples", str(copy_part(tmp_path))])
    name, head, _, *rows, taus = capsys.readouterr().out.splitlines()
    assert name == "hashed"
    assert "judged (" in head
    assert "all made (8) evidence@10" in head
    assert [row.split("|")[1].strip() for row in rows] == ["semantic", "lexical", "hybrid rrf"]
    assert taus.split("|")[2].strip() == "+1.00"  # of the judged questions with themselves


def test_tau_counts_pairs_in_the_same_order_and_leaves_out_ties() -> None:
    assert kendall_tau([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(4 / 6)  # five pairs alike, one not
    assert kendall_tau([1, 2, 3], [3, 2, 1]) == -1.0
    assert kendall_tau([1, 1, 2], [1, 2, 3]) == pytest.approx(2 / 6**0.5)  # a tie on the left
    assert kendall_tau([1, 1, 1], [1, 2, 3]) == 0.0
