"""The peers split as they should, and the study runs on made-up texts."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import pytest

from studies import chunking
from studies.chunking import find_size, split_at_stops, split_fixed, split_recursively
from studies.sets import MissingSet, load_chunking_eval

PAGE = "\n\n".join(
    f"Paragraph {number} is about the buoy of number {number}. It drifts by {number} miles.\nA keeper notes it."
    for number in range(60)
)


def count_words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def cut_spans(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    return [text[start:end] for start, end in spans]


def test_fixed_windows_are_full_but_the_last() -> None:
    found = cut_spans(PAGE, split_fixed(PAGE, 7, 0, count_words))[:-1]
    assert all(count + piece.count(".") in (6, 7) for piece, count in zip(found, count_words(found), strict=True))
    assert cut_spans("one two three four five", split_fixed("one two three four five", 3, 1, count_words)) == [
        "one two three",
        "three four five",
    ]


def test_recursive_cuts_at_blank_lines_then_lines_then_spaces() -> None:
    text = "a b\n\nc d\n\ne f g h\ni j k"
    assert cut_spans(text, split_recursively(text, 5, 0, count_words)) == ["a b\n\nc d", "e f g h", "i j k"]
    assert cut_spans(text, split_recursively(text, 3, 0, count_words)) == ["a b", "c d", "e f g", "h", "i j k"]
    assert cut_spans("a b. c d e. f g", split_at_stops("a b. c d e. f g", 4, 0, count_words)) == [
        "a b",
        ". c d e",
        ". f g",
    ]


def test_recursive_repeats_what_fits_the_overlap() -> None:
    text = "a b\n\nc d\n\ne f\n\ng h"
    assert cut_spans(text, split_recursively(text, 4, 2, count_words)) == ["a b\n\nc d", "c d\n\ne f", "e f\n\ng h"]


def test_peers_are_set_to_a_mean_length() -> None:
    for splitter in (split_fixed, split_recursively, split_at_stops):
        size = find_size(splitter, [PAGE], 40, 0, count_words)
        mean = fmean(count_words(cut_spans(PAGE, splitter(PAGE, size, 0, count_words))))
        assert mean == pytest.approx(40, rel=0.12)  # a short text has few means to choose from


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "corpora").mkdir()
    (tmp_path / "corpora" / "buoys.md").write_text(PAGE, encoding="utf-8")
    (tmp_path / "corpora" / "lamps.md").write_text(PAGE.replace("buoy", "lamp"), encoding="utf-8")
    quote = "It drifts by 17 miles."
    start = PAGE.index(quote)
    reference = {"content": quote, "start_index": start, "end_index": start + len(quote)}
    lines = [
        {"question": "How far drifts the buoy of number 17?", "corpus_id": "buoys", "references": [reference]},
        {"question": "Of a text that is not here?", "corpus_id": "finance", "references": [reference]},
    ]
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return tmp_path


def test_only_questions_whose_text_is_there_are_asked(folder: Path) -> None:
    data = load_chunking_eval(folder)
    assert [question.corpus for question in data.questions] == ["buoys"]
    (start, end), *_ = data.questions[0].gold
    assert data.corpora["buoys"][start:end] == "It drifts by 17 miles."
    with pytest.raises(MissingSet, match="--data"):
        load_chunking_eval(folder / "corpora")


def test_the_study_prints_a_row_a_chunker(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chunking.main(["--data", str(folder), "--embedder", "hashed", "--sizes", "40/0", "40/8"])
    printed = capsys.readouterr().out
    rows = [line.split("|")[1:-1] for line in printed.partition("Published")[0].splitlines() if line.startswith("| ")]
    assert [row[0].split()[-2] for row in rows[1:]] == 2 * [
        "structure",
        "paragraphs",
        "recursive",
        "recursive_stops",
        "fixed",
    ]
    ours, *others = rows[1:6]
    assert all(0 <= float(cell) <= 100 for cell in ours[3:7])
    means = [float(row[2].split("±")[0]) for row in (ours, *others[1:])]
    assert max(means) / min(means) < 1.15
    assert "text-embedding-3-large" in printed
