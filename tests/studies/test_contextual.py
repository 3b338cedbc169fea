"""The study of contextual retrieval runs on made-up files."""

import gzip
import json
from pathlib import Path

import pytest

from studies import contextual
from studies.contextual import make_document
from studies.sets import load_contextual_retrieval

FILES = {
    "d1": [
        "class Buoy:\n",
        "    def drift(self):\n        return self.miles\n",
        "\n    def sink(self):\n        pass\n",
    ],
    "d2": ["class Lamp:\n", "    def drift(self):\n        return 0\n", "\n    def light(self):\n        pass\n"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    chunks = [
        {"chunk_id": f"{id_}_{index}", "doc_id": id_, "original_index": index, "content": text}
        for id_, texts in FILES.items()
        for index, text in reversed(list(enumerate(texts)))
    ]
    documents = [{"doc_id": id_, "content": "".join(texts)} for id_, texts in FILES.items()]
    queries = [{"_id": "q1", "text": "How does a Buoy drift?", "golden_chunk_ids": ["d1_1"]}]
    for name, lines in (("chunks.jsonl.gz", chunks), ("documents.jsonl.gz", documents)):
        with gzip.open(tmp_path / name, "wt", encoding="utf-8") as file:
            file.write("\n".join(map(json.dumps, lines)))
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)), encoding="utf-8")
    return tmp_path


def test_pieces_are_the_sections_of_their_file(folder: Path) -> None:
    data = load_contextual_retrieval(folder)
    document = make_document(data.files[0])
    assert document.text == "".join(FILES["d1"])
    assert [document.text[each.start : each.end] for each in document.sections] == FILES["d1"]
    assert data.questions[0].gold == (FILES["d1"][1].strip(),)


def test_the_study_prints_a_row_a_system(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    contextual.main(["--data", str(folder), "--embedder", "hashed"])
    rows = [line for line in capsys.readouterr().out.partition("Published")[0].splitlines() if line.startswith("| ")]
    assert [row.split("|")[1].strip() for row in rows[1:]] == [system.name for system in contextual.SYSTEMS]
    assert "100.00" in rows[1]
