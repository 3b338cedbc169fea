"""The study of contexts runs on made-up files."""

import gzip
import json
from pathlib import Path

import pytest

from studies import contexts

TEXT = "# Buoys\n\nThe buoy drifts for many miles. It is red.\n\n# Lamps\n\nThe lamp is lit at dusk."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "chunking-eval" / "corpora").mkdir(parents=True)
    (tmp_path / "qmsum").mkdir()
    (tmp_path / "chunking-eval" / "corpora" / "sea.md").write_text(TEXT, encoding="utf-8")
    at = TEXT.index("It is red.")
    question = {
        "question": "Which colour has the buoy that drifts?",
        "corpus_id": "sea",
        "references": [{"start_index": at, "end_index": at + 10}] * 2,
    }
    (tmp_path / "chunking-eval" / "questions.jsonl").write_text(json.dumps(question), encoding="utf-8")
    meeting = {
        "meeting_id": "m",
        "meeting_transcripts": [{"speaker": "Ann", "content": f"Point {number} of the buoy."} for number in range(4)],
        "specific_query_list": [{"query": "point 2?", "answer": "", "relevant_text_span": [["1", "2"]]}],
    }
    with gzip.open(tmp_path / "qmsum" / "val.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(json.dumps(meeting))
    return tmp_path


def test_gold_turns_are_spans_of_the_meeting(folder: Path) -> None:
    (meeting,), (asked,) = contexts.load_turn_questions(folder)
    assert [meeting.text[start:end].strip() for start, end in asked.gold] == [
        "Ann: Point 1 of the buoy.",
        "Ann: Point 2 of the buoy.",
    ]


def test_the_study_prints_a_row_a_context(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    contexts.main(["--data", str(folder), "--embedder", "hashed"])
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    names = [row.split("|")[1].strip() for row in rows]
    assert names == ["context", "raw", *contexts.SYSTEMS] * 2
    assert all("100.0" in row for row in rows if "context" not in row)
