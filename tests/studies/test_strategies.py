"""The studies of strategies and of history run on made-up sets; loading and sampling are checked."""

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from studies import history, strategies
from studies.judged import SETS, clapnq, cosqa
from studies.sets import MissingSet
from studies.strategies import SYSTEMS, make_summary_rows, sample_questions

PAGES = {
    "d1": ("Buoys", "A buoy drifts with the tide."),
    "d2": ("Lamps", "The lamp is lit at dusk."),
    "d3": ("", "Ropes are spliced, never knotted.\n\nA splice is stronger than a knot."),
}
QUESTIONS = {"q1": "How does a buoy drift?", "q2": "When is the lamp lit?", "q3": "Nobody answers this."}
GRADES = [("q1", "d1", 1), ("q2", "d2", 2), ("q2", "d3", 0), ("q3", "d1", 0)]
TURNS = ["Where are lamps made?", "When are they lit?"]


def write_jsonl(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(map(json.dumps, rows))
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")


def write_grades(path: Path, rows: Sequence[tuple[str, str, int]]) -> None:
    path.write_text("\n".join(["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in rows)]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pages = [{"_id": id_, "title": title, "text": text} for id_, (title, text) in PAGES.items()]
    questions = [{"_id": id_, "text": text} for id_, text in QUESTIONS.items()]
    write_jsonl(tmp_path / "cosqa" / "corpus.jsonl.gz", pages)
    write_jsonl(tmp_path / "cosqa" / "queries.dev.jsonl", questions)
    write_grades(tmp_path / "cosqa" / "qrels.dev.tsv", GRADES)
    place = tmp_path / "mtrag" / "clapnq"
    passages = [("1_0", "Lamps\nLamps are made of brass."), ("2_0", "Buoys drift."), ("1_9", "They are lit at dusk.")]
    write_jsonl(place / "corpus_pool.jsonl.gz", [{"_id": id_, "title": "", "text": text} for id_, text in passages])
    said = {"conversation_id": "c", "turn": 2, "last_turn": TURNS[1], "rewrite": "When are lamps lit?"}
    write_jsonl(place / "queries.jsonl", [{"_id": "c<::>2", "all_user_turns": TURNS, **said}])
    turns = [{"turn": at + 1, "user": text, "agent": "In the lamp works."} for at, text in enumerate(TURNS)]
    write_jsonl(place / "conversations.jsonl", [{"conversation_id": "c", "turns": turns}])
    write_grades(place / "qrels.tsv", [("c<::>2", "1_9", 1)])
    return tmp_path


def test_a_document_is_its_title_and_text_in_one_section(folder: Path) -> None:
    data = cosqa(folder)
    assert [each.text for each in data.documents[:2]] == ["Buoys\nA buoy drifts with the tide.", *read_texts("d2")]
    assert all(len(each.sections) == 1 for each in data.documents)
    assert list(data.questions) == ["q1", "q2"]  # what nothing answers is not asked


def read_texts(id_: str) -> list[str]:
    return ["\n".join(PAGES[id_])]


def test_passages_are_the_sections_of_their_article(folder: Path) -> None:
    data = clapnq(folder)
    lamps = data.documents[0]
    assert [lamps.text[each.start : each.end].strip() for each in lamps.sections] == [
        "Lamps\nLamps are made of brass.",
        "They are lit at dusk.",
    ]
    assert data.names == {("1", 0): "1_0", ("1", 1): "1_9", ("2", 0): "2_0"}


def test_a_sample_is_spread_over_all(folder: Path) -> None:
    data = cosqa(folder)
    assert sample_questions(data, None) == sample_questions(data, 9) == ["q1", "q2"]
    assert sample_questions(data, 1) == ["q1"]


def test_the_study_prints_a_row_a_system_and_the_leads(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    strategies.main(["--data", str(folder), "--sets", "cosqa,clapnq", "--embedder", "hashed", "--sample", "0"])
    first, second, last = capsys.readouterr().out.strip().split("\n\n")
    expected = [system.name for system in SYSTEMS if not system.sampled]
    for table in (first, second):
        rows = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")]
        assert rows[1:] == expected
    semantic = next(line for line in first.splitlines() if line.startswith("| lexical"))
    assert semantic.split("|")[2:4] == [" 2 ", " 100.00 "]
    assert "Recall@10 " in second
    assert "Recall@100" not in second
    assert "nowhere" in last


def test_a_fusion_that_is_below_a_leg_is_told() -> None:
    below = {"cosqa": ["-3.00", "below"], "xquad": ["+1.00", ""]}
    *_, row = make_summary_rows({"one": {"cosqa": ["+1.00", ""], "xquad": ["+0.00", ""]}, "two": below})
    assert row == "| two | -3.00 | +1.00 | -1.00 | cosqa |"


def test_what_is_not_there_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MissingSet, match="scifact"):
        SETS["scifact"](folder)
    with pytest.raises(SystemExit):
        strategies.main(["--data", str(folder), "--sets", "nothing"])
    assert "there is no set 'nothing'" in capsys.readouterr().err


def test_a_history_finds_what_a_last_turn_alone_does_not(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history.main(["--data", str(folder), "--embedder", "hashed", "--strategies", "lexical"])
    out = capsys.readouterr().out
    assert out.startswith("1 turns, 3 passages, hashed")
    ways = [line.split("|")[2].strip() for line in out.splitlines() if line.startswith("| lexical")]
    assert ways == list(history.load_query_texts(folder))
    told = history.load_histories(folder)["c<::>2"]
    assert [(each.text, each.role) for each in told] == [(TURNS[0], "user"), ("In the lamp works.", "assistant")]
