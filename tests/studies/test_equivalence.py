"""The study of equivalence on made-up sets, and its arithmetic."""

import gzip
import json
from pathlib import Path

import pytest

from benchmarks import Setup, Skipped
from benchmarks import postgres as bench
from benchmarks.corpus import CorpusText
from clew import Engine
from studies import equivalence
from studies.equivalence import (
    LANGUAGES,
    StoreComparison,
    compare_stores,
    draw_questions,
    load_sets,
    make_documents,
    make_table,
)

WORDS = {"en": "buoy lamp tide rope", "de": "Boje Lampe Gezeit Seil", "zh": "浮标 灯塔 潮汐 绳索"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for language in LANGUAGES:
        write_set(tmp_path / "xquad" / language, "corpus.jsonl", "queries.jsonl", "qrels.tsv", WORDS[language].split())
    write_set(tmp_path / "scifact", "corpus.jsonl.gz", "queries.train.jsonl", "qrels.train.tsv", ["cell", "gene"])
    return tmp_path


def write_set(folder: Path, corpus: str, queries: str, qrels: str, words: list[str]) -> None:
    folder.mkdir(parents=True)
    pages = "\n".join(json.dumps({"_id": f"d{n}", "title": "", "text": f"{w} {w}x."}) for n, w in enumerate(words))
    if corpus.endswith(".gz"):
        (folder / corpus).write_bytes(gzip.compress(pages.encode()))
    else:
        (folder / corpus).write_text(pages, encoding="utf-8")
    asked = "\n".join(json.dumps({"_id": f"q{n}", "text": f"{w}?"}) for n, w in enumerate(words))
    (folder / queries).write_text(asked, encoding="utf-8")
    rows = "\n".join(f"q{n}\td{n}\t1" for n in range(len(words)))
    (folder / qrels).write_text(f"query-id\tcorpus-id\tscore\n{rows}", encoding="utf-8")


def test_the_stores_answer_alike_and_a_round_trip_changes_nothing(data: Path, postgres: str) -> None:
    report = equivalence.run_study(data, postgres, embedder="hashed", max_questions=16)
    assert report.startswith("14 documents, 14 chunks, hashed; exact, in memory and exact, in PostgreSQL; 64 searches")
    assert "Round trip: 14 documents, 0 not equal row by row" in report
    for mode in ("exact", "ANN", "lexical"):
        (line,) = [line for line in report.splitlines() if line.startswith(f"| {mode} |")]
        assert set(line.split(" | ")[2:-1]) == {"1.0000"}


def test_questions_are_of_four_kinds_under_four_filters(data: Path) -> None:
    asked = draw_questions(load_sets(data), 16)
    assert [each.language for each in asked] == ["en"] * 4 + ["de"] * 4 + ["zh"] * 4 + ["mixed"] * 4
    assert {tuple(each.filters) for each in asked} == {("none", "language", "half", "2 %")}
    assert len({each.text for each in asked}) == 16


def test_what_differs_is_counted(data: Path) -> None:
    given = load_sets(data)
    with (
        Engine.open(":memory:", embedder="hashed", settings=equivalence.SETTINGS) as one,
        Engine.open(":memory:", embedder="hashed", settings=equivalence.SETTINGS) as other,
    ):
        one.add_documents(make_documents(given))
        assert {
            each.overlap for each in compare_stores(one, other, draw_questions(given, 4)) if each.filter == "none"
        } == {0.0}


def test_the_table_has_means() -> None:
    made = [StoreComparison(mode, "en", "none", 0.5, False) for mode in equivalence.MODES]
    made += [StoreComparison(mode, "de", "half", 1.0, True) for mode in equivalence.MODES]
    lines = make_table(made).splitlines()
    assert lines[0] == "| mode | goal | all | language en | language de | filter none | filter half | identical |"
    assert lines[2] == "| exact | ≥ 0.99 | 0.7500 | 0.5000 | 1.0000 | 0.5000 | 1.0000 | 0.5000 |"


def test_the_benchmark_needs_its_sets(tmp_path: Path) -> None:
    with pytest.raises(Skipped):
        bench.measure_stores(Setup(None, tmp_path))


def test_the_benchmark_measures_both_stores(tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("safetensors")
    texts = [
        CorpusText(f"t{n}", f"The buoy number {n} lies off cape {n % 17} by {n * 7 % 31} fathoms.") for n in range(1200)
    ]
    monkeypatch.setattr(bench, "SMALL_SIZE", 1200)
    monkeypatch.setattr(bench, "load_texts", lambda _, size: texts[:size])
    monkeypatch.setattr(bench, "load_scifact", lambda _: ([], texts[:20]))
    monkeypatch.setattr(bench, "START_OWN", postgres)
    lines = {line.name: line.value for line in bench.measure_stores(Setup(None, tmp_path))}
    assert len(lines) == 3 + 6 + 4 + 6
    assert all(value > 0 for value in lines.values())
    assert lines["recall@10 of its approximate search, PostgreSQL"] > 0.9
    assert lines["… under a filter of 2 %, embedded"] > 0.9
