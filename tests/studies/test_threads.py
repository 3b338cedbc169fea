"""The studies of messages: loading, measures and tables, on threads small enough to count by hand."""

import gzip
import json
from pathlib import Path

import pytest

from studies import locomo, mixed
from studies.sets import MissingSet
from studies.threads import load_locomo as chats
from studies.threads import load_qmsum as meetings

SESSION = {
    "date_time": "1:56 pm on 8 May, 2023",
    "turns": [
        {"dia_id": "D1:1", "speaker": "Ann", "text": "Did the crane fall?"},
        {"dia_id": "D1:2", "speaker": "Bo", "text": "No, see.", "blip_caption": "a crane that stands"},
    ],
}
ASKED = [
    {"question": "Did the crane fall?", "sample_id": "c1", "evidence": ["D1:2"], "category": "single"},
    {"question": "Nobody knows?", "sample_id": "c1", "evidence": [], "category": "single"},
    {"question": "Of another chat?", "sample_id": "c2", "evidence": ["D1:1"], "category": "single"},
]
TURNS = ["the crane is old", "yes", "the crane must go", "lunch", *["soup and bread and tea"] * 8]
MEETING = {
    "meeting_id": "m",
    "meeting_transcripts": [{"speaker": "Ann", "content": text} for text in TURNS],
    "specific_query_list": [{"query": "what of the crane?", "answer": "", "relevant_text_span": [["0", "1"]]}],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("locomo", "qmsum"):
        (tmp_path / name).mkdir()
    with gzip.open(tmp_path / "locomo" / "conversations.jsonl.gz", "wt") as file:
        for chat in ("c1", "c2"):
            print(json.dumps({"sample_id": chat, "sessions": [SESSION]}), file=file)
    (tmp_path / "locomo" / "qa.jsonl").write_text("\n".join(map(json.dumps, ASKED)), encoding="utf-8")
    with gzip.open(tmp_path / "qmsum" / "val.jsonl.gz", "wt") as file:
        print(json.dumps(MEETING), file=file)
    return tmp_path


def test_a_session_is_a_thread_and_a_picture_is_part_of_its_turn(folder: Path) -> None:
    talks = chats(folder)
    assert [(each.channel, len(each.messages)) for each in talks.threads] == [("c1", 2), ("c2", 2)]
    shown = talks.threads[0].messages[1]
    assert (shown.text, shown.author, f"{shown.at:%Y-%m-%d %H:%M}") == (
        "No, see.\n[image: a crane that stands]",
        "Bo",
        "2023-05-08 13:56",
    )
    assert [(each.channel, each.gold) for each in talks.questions] == [
        ("c1", frozenset({"c1/D1:2"})),
        ("c2", frozenset({"c2/D1:1"})),
    ]
    assert len(chats(folder, max_talks=1).questions) == 1


def test_a_meeting_is_a_thread_whose_spans_are_turns(folder: Path) -> None:
    talks = meetings(folder)
    assert talks.questions[0].gold == {"m/0", "m/1"}
    assert talks.words["m"]["m/2"] == 4


def test_a_set_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingSet, match=r"there is no .*conversations"):
        chats(tmp_path)


def test_every_strategy_has_a_row_a_part(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    locomo.main(["--data", str(folder), "--embedder", "hashed"])
    head, _, _, *rows, published = capsys.readouterr().out.splitlines()
    assert head == "2 questions, 2 talks, 4 messages, hashed"
    assert len(rows) == 3 * 4
    assert rows[-1].startswith("| hybrid, with context and flow, the default | 100.0 | 100.0 | 100.0 |")
    assert "56.7" in published


def test_a_sixth_of_the_words_is_all_that_counts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    locomo.main(["--data", str(folder), "--qmsum", "--embedder", "hashed", "--strategies", "lexical", "--context-only"])
    *_, context, flow = capsys.readouterr().out.splitlines()
    # 50 words: a sixth is two of the turns of four words, of which one is gold and holds four of the five gold words
    assert [row.split("|")[2].strip() for row in (context, flow)] == ["80.0", "80.0"]


def test_a_mixed_question_is_answered_by_either_kind() -> None:
    asked = mixed.MixedQuestion("?", "both", frozenset({"p"}), frozenset({"m"}))
    assert mixed.score_ranking(asked, ["x", "m"]) == {"Recall@5": 1, "Recall@10": 1, "MRR": 0.5, "both kinds in 10": 0}
    assert mixed.score_ranking(asked, ["m", "p"])["both kinds in 10"] == 1
    page = mixed.MixedQuestion("?", "page", frozenset({"p", "q"}), frozenset())
    assert mixed.score_ranking(page, ["p"])["Recall@5"] == 0.5


def test_the_mixed_study_has_a_row_for_every_search_that_can_find_something(
    capsys: pytest.CaptureFixture[str],
) -> None:
    mixed.main(["--embedder", "hashed", "--every", "7"])
    head, _, _, *rows = capsys.readouterr().out.splitlines()
    assert head == "21 questions, hashed, hybrid"
    assert [row.split("|")[1].strip() for row in rows] == ["page", "page", "chat", "chat", "both", "both", "both"]
    assert all(float(row.split("|")[3]) > 0 for row in rows)
