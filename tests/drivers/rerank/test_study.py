"""The study of rerankers on a small set: the run's own measure, the order by scores, and the fit of chances."""

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest

from clew.drivers.rerank.overlap import OverlapReranker
from studies.reranking import RankedSet, compute_ndcg, fit_platt, load_run, main, score_run
from studies.sets import MissingSet


@pytest.fixture
def data(tmp_path: Path) -> Path:
    year = tmp_path / "dl19"
    (year / "runs").mkdir(parents=True)
    passages = {"a": "Lunch is at noon.", "b": "The vault.", "c": "Keys are rotated every ninety days."}
    (year / "queries.jsonl").write_text(json.dumps({"_id": "1", "text": "how often are keys rotated"}) + "\n")
    (year / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n1\ta\t0\n1\tc\t3\n1\tz\t1\n")
    with gzip.open(year / "corpus_pool.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"_id": id_, "text": text}) + "\n" for id_, text in passages.items())
    with gzip.open(year / "runs" / "bm25.top100.tsv.gz", "wt") as file:
        file.write("1\ta\t1\n1\tc\t3\n1\tb\t2\n")
    return tmp_path


def test_the_run_and_the_order_by_scores(data: Path) -> None:
    read = load_run(data / "dl19", "bm25")
    ideal = 3 + 1 / math.log2(3)
    assert list(read.ranked["1"]) == ["a", "b", "c"]
    assert compute_ndcg(read) == [pytest.approx(3 / math.log2(4) / ideal)]
    assert compute_ndcg(read, score_run(read, OverlapReranker()).scores) == [pytest.approx(3 / ideal)]


def test_equal_scores_keep_the_order_of_the_run() -> None:
    read = RankedSet({"1": "q"}, {}, {"1": {"b": 1}}, {"1": ["a", "b"]})
    assert compute_ndcg(read, {"1": {"a": 0.5, "b": 0.5}}) == compute_ndcg(read)


def test_the_table(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--data", str(data), "--reranker", "overlap"])
    shown = capsys.readouterr().out
    assert "1 questions, 3 pairs" in shown
    assert "| overlap | 82.62 |" in shown


def test_a_run_that_is_not_there(data: Path) -> None:
    with pytest.raises(MissingSet, match="name of a run"):
        load_run(data / "dl19", "splade")


def test_the_fit_finds_the_two_numbers_again() -> None:
    scores = np.linspace(-10, 10, 2001)
    chances = 1 / (1 + np.exp(-(0.5 * scores - 1)))
    random = np.random.default_rng(0)
    answers = random.random((40, len(scores))) < chances
    right = np.broadcast_to(scores, answers.shape)[answers].tolist()
    wrong = np.broadcast_to(scores, answers.shape)[~answers].tolist()
    fit = fit_platt([right], [wrong])
    # Both groups weigh the same, which moves the offset by the log of how many more of one there are.
    assert fit.scale == pytest.approx(0.5, abs=0.01)
    assert fit.offset == pytest.approx(-1 + math.log(len(wrong) / len(right)), abs=0.03)


def test_a_large_group_weighs_no_more_than_a_small_one() -> None:
    small = fit_platt([[1.0, 2.0, 3.0]], [[-1.0, 0.0, 2.5]])
    large = fit_platt([[1.0, 2.0, 3.0] * 50], [[-1.0, 0.0, 2.5]])
    assert large.scale == pytest.approx(small.scale)
    assert large.offset == pytest.approx(small.offset)
