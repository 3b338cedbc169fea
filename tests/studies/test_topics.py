"""The arithmetic of topic measures and coverage; the study itself runs on a few lines of made-up data."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from clew.core.types import Message
from studies.conversations import ConversationQuery
from studies.topics import compute_coverage, f1, find_dips, main, pk


def test_covered_is_the_share_of_topics_among_the_first() -> None:
    gold = [frozenset("ab"), frozenset("c"), frozenset("d")]
    assert compute_coverage(["x", "b", "c", "d"], gold, 3) == pytest.approx(2 / 3)
    assert compute_coverage([], gold, 5) == 0


def test_pk_counts_pairs_that_are_wrongly_apart_or_together() -> None:
    """Eight messages in two topics: pairs two apart, of which those over the missed cut, 2-4 and 3-5, are wrong."""
    assert pk([4], [4], 8) == 0
    assert pk([4], [], 8) == pytest.approx(2 / 6)
    assert pk([], [], 1) == 0


def test_f1_is_over_all_conversations() -> None:
    assert f1([([2, 4], [2]), ([3], [5])]) == pytest.approx(2 * 1 / 5)
    assert f1([([], [])]) == 0


def test_dips_are_where_the_words_change() -> None:
    said = [*["the hotel in paris"] * 8, *["the parser crashes"] * 8]
    assert find_dips([Message(text) for text in said]) == [8]


def test_topics_of_a_conversation_begin_where_they_stand() -> None:
    asked = ConversationQuery(((Message("a"), Message("b")), (Message("c"),), (Message("d"),)))
    assert asked.starts == [2, 3]
    assert [message.text for message in asked.messages] == list("abcd")


def make_meeting(name: str, *subjects: str) -> dict[str, Any]:
    spans = [[[str(15 * at), str(15 * at + 14)]] for at in range(len(subjects))]
    return {
        "meeting_id": name,
        "meeting_transcripts": [
            {"speaker": "Ada", "content": f"{subject} {turn}"} for subject in subjects for turn in range(15)
        ],
        "topic_list": [{"topic": each, "relevant_text_span": span} for each, span in zip(subjects, spans, strict=True)],
        "specific_query_list": [
            {"query": f"What about {each}?", "answer": f"They like {each}.", "relevant_text_span": span}
            for each, span in zip(subjects, spans, strict=True)
        ],
    }


def test_the_study_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("qmsum", "tiage"):
        (tmp_path / folder).mkdir()
    subjects = ("paris", "parsers", "soup", "chess", "ships", "moss", "jazz", "glass", "wool", "salt")
    rows = [make_meeting(f"m{at}", *subjects[at : at + 2]) for at in range(0, 10, 2)]
    with gzip.open(tmp_path / "qmsum" / "train.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    turns = [
        {"text": text, "topic_shift": int(at == 2)} for at, text in enumerate(("a cat", "a cat", "a car", "a car"))
    ]
    (tmp_path / "tiage" / "train.jsonl").write_text(json.dumps({"turns": turns}) + "\n", encoding="utf-8")
    main(["--data", str(tmp_path), "--split", "train", "--embedder", "hashed", "--windows", "1", "--meetings", "1"])
    shown = capsys.readouterr().out
    assert "| lexical | topics, coverage | 100.0 | 100.0 | 100.0 |" in shown
    assert "| topics | " in shown


def test_a_folder_without_the_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="holds qmsum and tiage"):
        main(["--data", str(tmp_path), "--embedder", "hashed"])
