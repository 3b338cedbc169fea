"""The study of verification: the perturbations, and how they are counted."""

import json
from pathlib import Path
from random import Random

import pytest

from studies.perturbations import PERTURBATIONS
from studies.sets import MissingSet
from studies.support.sentences import AnswerSentence, is_kept, load_sentences, measure_perturbations

TEXT = (
    "The pump of Lowport was never opened before 3 May 1931 by Ada. In 1950 the valve of Highmoor was sold to Bob for "
    "20 dollars. Its output rose by 7 percent in 12 years."
)


@pytest.mark.parametrize(
    ("lie", "sentence", "false"),
    [
        ("increment_number", "It rose in 12 years.", "It rose in 13 years."),
        ("shift_day", "It was on May 3.", "It was on May 4."),
        ("shift_month", "It was in May 1931.", "It was in June 1931."),
        ("percent_to_points", "It rose by 7 percent.", "It rose by 7 percentage points."),
        ("drop_negation", "It was never opened.", "It was opened."),
        ("negate", "It was opened.", "It was not opened."),
        ("invert_word", "It was before that.", "It was after that."),
        ("exchange_names", "Then Ada sold to Bob.", "Then Bob sold to Ada."),
        ("swap_year", "It was in 1931.", "It was in 1950."),
    ],
)
def test_a_lie_changes_one_thing(lie: str, sentence: str, false: str) -> None:
    assert PERTURBATIONS[lie](sentence, TEXT, Random(1)) == false
    assert PERTURBATIONS[lie]("Nothing here.", TEXT, Random(1)) == ""


def test_true_ones_and_lies_are_counted() -> None:
    few = [
        AnswerSentence("In 1950 the valve of Highmoor was sold to Bob for 20 dollars.", "who?", (TEXT,)),
        AnswerSentence("The moon is made of green cheese and smells.", "who?", (TEXT,)),
    ]
    assert [is_kept(each.sentence, each) for each in few] == [True, False]
    share, lies = measure_perturbations(few)
    assert share == 0.5
    assert lies["swap_year"] == (1, 1)  # only a verifier tells where a year belongs
    assert lies["increment_number"][0] == 1
    assert lies["drop_negation"] == (0, 0)


def test_the_set_is_read(tmp_path: Path) -> None:
    import gzip

    with pytest.raises(MissingSet, match="--data"):
        list(load_sentences(tmp_path))
    place = tmp_path / "mtrag" / "clapnq"
    place.mkdir(parents=True)
    turn = {"task_id": "t1", "user": "who?", "agent": f"{TEXT} Yes.", "answerability": ["ANSWERABLE"]}
    other = {**turn, "task_id": "t2", "answerability": ["UNANSWERABLE"]}
    (place / "conversations.jsonl").write_text(json.dumps({"turns": [turn, other]}) + "\n", encoding="utf-8")
    (place / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nt1\tp1\t1\nt2\tp1\t1\n", encoding="utf-8")
    with gzip.open(place / "corpus_pool.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(json.dumps({"_id": "p1", "text": TEXT}) + "\n")
    assert [each.passages for each in load_sentences(tmp_path)] == [(TEXT,)] * 3
