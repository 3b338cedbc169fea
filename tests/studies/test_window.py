"""The window study on a set small enough to count by hand."""

import gzip
import json
from pathlib import Path

import pytest

from clew.drivers.embed.hashed import HashedEmbedder
from studies.sets import MissingSet
from studies.window import BUDGETS, ChannelOrder, load_questions, load_threads, make_rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    def make_session(number: int, *texts: str) -> dict[str, object]:
        turns = [{"speaker": "ab"[n % 2], "dia_id": f"D{number}:{n + 1}", "text": text} for n, text in enumerate(texts)]
        return {"session": number, "date_time": f"1:56 pm on {number} May, 2023", "turns": turns}

    sessions = [make_session(1, "the red boat", "where?", "in the harbour"), make_session(2, "lunch", "soup")]
    with gzip.open(tmp_path / "conversations.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(json.dumps({"sample_id": "c", "sessions": sessions}))
    asked = [
        {"question": "which boat?", "sample_id": "c", "evidence": ["D1:1"]},
        {"question": "nothing", "sample_id": "c", "evidence": []},
    ]
    (tmp_path / "qa.jsonl").write_text("\n".join(map(json.dumps, asked)), encoding="utf-8")
    return tmp_path


def test_sessions_are_threads_and_questions_have_evidence(folder: Path) -> None:
    made = load_threads(folder)
    assert [[message.id for message in each.messages] for each in made] == [
        ["c/D1:1", "c/D1:2", "c/D1:3"],
        ["c/D2:1", "c/D2:2"],
    ]
    assert [(each.text, each.evidence) for each in load_questions(folder)] == [("which boat?", frozenset({"c/D1:1"}))]


def test_neighbours_fill_the_budget(folder: Path) -> None:
    channels = ChannelOrder(load_threads(folder))
    assert channels.fill_budget(["c/D1:2"], 100, 0) == {"c/D1:2"}
    assert channels.fill_budget(["c/D1:2"], 100, 1) == {"c/D1:1", "c/D1:2", "c/D1:3"}
    assert channels.fill_budget(["c/D1:2", "c/D2:1"], 8, 0) == {"c/D1:2", "c/D2:1"}
    assert channels.fill_budget(["c/D1:2", "c/D2:1"], 7, 0) == {"c/D1:2"}


def test_the_table(folder: Path) -> None:
    table = list(make_rows(folder, HashedEmbedder()))
    window = next(row for row in table if row.startswith("| context_window |"))
    assert window == "| context_window | " + " | ".join(["100.0"] * len(BUDGETS)) + " |"
    assert any(row.startswith("| lead of context_window over ±0 |") for row in table)


def test_a_set_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(MissingSet, match="--data"):
        load_threads(tmp_path)
