"""`python -m studies.reranking --data FOLDER`: how much does a reranker improve a ranking?

On the passages of TREC Deep Learning 2019: the top 100 of a published run, reranked, measured by nDCG@10 over all
judgements, so that the numbers are comparable with those of papers.

With `--calibrate FOLDER` it also fits the two parameters that turn a score into a probability (Platt scaling). The
examples are the judged passages of that run (grades 2 and 3 are relevant, 0 is not) and claims of SciFact's training
half with their relevant abstracts and the best irrelevant ones by BM25. Each of the four groups weighs a quarter, so
that the prior probability of relevance is one half.
"""

import argparse
import gzip
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from time import perf_counter, process_time

import numpy as np
from numpy.typing import NDArray

from clew import Document, Engine, Section, Settings, drivers
from clew.core.protocols import Reranker
from clew.core.settings import IngestionConfig, RerankerConfig, SearchConfig
from studies.measures import bootstrap, ndcg_at
from studies.sets import MissingSet, read_jsonl, report_missing_set

DEPTH = 10
YEAR = "dl19"
MIN_ANSWER_GRADE = 2  # the lowest grade of a relevant passage; 1 is "related" and left out of the fit
CLAIMS = 150
NEGATIVES = 4  # irrelevant abstracts per claim, from the first BEST by BM25
BEST = 20
UNLIMITED_CHUNK = 1_000_000  # a chunk size that no text reaches: an abstract is one chunk
PUBLISHED = """
Published, nDCG@10 on the same questions:
| BM25 (Anserini's regression) | 50.58 |
| ms-marco-MiniLM-L-12-v2 in full precision, of the track's own top 1000 (sbert.net) | 74.31 |
| RepLLaMA, first stage (the run in the folder) | 74.39 |"""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RankedSet:
    """Questions, passages, relevance grades and an initial ranking, all by id."""

    questions: Mapping[str, str]
    passages: Mapping[str, str]
    grades: Mapping[str, Mapping[str, int]]
    ranked: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class RerankerRun:
    """The scores of a reranker by question and passage, and the time it took."""

    scores: dict[str, dict[str, float]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PlattFit:
    """The probability of relevance: logistic(scale · score + offset)."""

    scale: float
    offset: float

    def to_probabilities(self, scores: Sequence[float]) -> Floats:
        """The probability for each score."""
        return 1 / (1 + np.exp(-(self.scale * np.asarray(scores, np.float64) + self.offset)))


def load_run(folder: Path, run: str) -> RankedSet:
    """The questions of a year and one of its runs."""
    path = folder / "runs" / f"{run}.top100.tsv.gz"
    if not path.is_file():
        raise MissingSet(
            f"there is no {path}; give the folder trec-dl-pool with --data and the name of a run with --run"
        )
    grades: dict[str, dict[str, int]] = {}
    for row in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        question, passage, grade = row.split("\t")
        grades.setdefault(question, {})[passage] = int(grade)
    ranked: dict[str, list[tuple[int, str]]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in file:
            question, passage, rank = row.split("\t")
            ranked.setdefault(question, []).append((int(rank), passage))
    return RankedSet(
        {line["_id"]: line["text"] for line in read_jsonl(folder / "queries.jsonl")},
        {line["_id"]: line["text"] for line in read_jsonl(folder / "corpus_pool.jsonl.gz")},
        grades,
        {question: [passage for _, passage in sorted(found)] for question, found in ranked.items()},
    )


def score_run(data: RankedSet, reranker: Reranker) -> RerankerRun:
    """The reranker's score for every passage of the run."""
    outcome = RerankerRun()
    for question, passages in data.ranked.items():
        began, worked = perf_counter(), process_time()
        scores = reranker.score(data.questions[question], [data.passages[each] for each in passages])
        outcome.seconds.append(perf_counter() - began)
        outcome.cpu_seconds.append(process_time() - worked)
        outcome.scores[question] = dict(zip(passages, scores, strict=True))
    return outcome


def compute_ndcg(data: RankedSet, scores: Mapping[str, Mapping[str, float]] | None = None) -> list[float]:
    """nDCG@10 of each question, ordered by the scores (ties as in the run), or without scores as in the run."""
    values = []
    for question, passages in data.ranked.items():
        given = scores[question] if scores else dict.fromkeys(passages, 0.0)
        ranking = sorted(passages, key=lambda each: -given[each])
        values.append(ndcg_at(DEPTH, ranking, data.grades[question]))
    return values


def make_ideal_scores(data: RankedSet) -> dict[str, dict[str, float]]:
    """The grades as scores: the upper bound, as no reranker finds what the run lacks."""
    return {
        question: {each: float(data.grades[question].get(each, 0)) for each in passages}
        for question, passages in data.ranked.items()
    }


def make_row(data: RankedSet, name: str, outcome: RerankerRun) -> str:
    """The row of one reranker; its lead is over the run, paired by question."""
    before, after = compute_ndcg(data), compute_ndcg(data, outcome.scores)
    pairs = sum(map(len, outcome.scores.values()))
    return (
        f"| {name} | {100 * fmean(after):.2f} | {bootstrap(after, before)} "
        f"| {pairs / sum(outcome.seconds):.1f} | {pairs / sum(outcome.cpu_seconds):.1f} |"
    )


# -- the calibration


def fit_platt(answers: Sequence[Sequence[float]], others: Sequence[Sequence[float]]) -> PlattFit:
    """Platt scaling: logistic regression by Newton's method; every group of scores weighs the same."""
    groups = [(group, 1.0) for group in answers if group] + [(group, 0.0) for group in others if group]
    scores = np.concatenate([np.asarray(group, np.float64) for group, _ in groups])
    truth = np.concatenate([np.full(len(group), answer) for group, answer in groups])
    weight = np.concatenate([np.full(len(group), 1 / len(group)) for group, _ in groups])
    columns = np.stack([scores, np.ones_like(scores)], axis=1)
    numbers = np.zeros(2)
    for _ in range(100):
        chance = 1 / (1 + np.exp(-columns @ numbers))
        gradient = columns.T @ (weight * (truth - chance))
        hessian = (columns * (weight * chance * (1 - chance))[:, None]).T @ columns
        change = np.linalg.solve(hessian + 1e-9 * np.eye(2), gradient)
        numbers = numbers + change
        if abs(change).max() < 1e-9:
            break
    return PlattFit(float(numbers[0]), float(numbers[1]))


def load_claims(folder: Path, count: int) -> Iterator[tuple[str, list[str], list[str]]]:
    """Claims of SciFact's training half, each with its relevant abstracts and the best irrelevant ones by BM25."""
    texts = {line["_id"]: f"{line['title']} {line['text']}" for line in read_jsonl(folder / "corpus.jsonl.gz")}
    claims = [(line["_id"], line["text"]) for line in read_jsonl(folder / "queries.train.jsonl")]
    relevant: dict[str, list[str]] = {}
    for row in (folder / "qrels.train.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        claim, abstract, _ = row.split("\t")
        relevant.setdefault(claim, []).append(abstract)
    ingestion = IngestionConfig(chunk_size=UNLIMITED_CHUNK, chunk_overlap=0, language="en")
    settings = Settings(ingestion=ingestion, search=SearchConfig(strategy="lexical"))
    with Engine.open(":memory:", embedder="hashed", settings=settings) as engine:
        engine.add_documents([Document(id_, text, (Section(0, len(text)),)) for id_, text in texts.items()])
        for id_, text in claims[:: max(1, len(claims) // count)][:count]:
            found = [hit.chunk.doc_id for hit in engine.search(text, k=BEST)]
            others = [each for each in found if each not in relevant[id_]][:NEGATIVES]
            yield text, [texts[each] for each in relevant[id_]], [texts[each] for each in others]


def make_calibration_rows(
    data: RankedSet, outcome: RerankerRun, reranker: Reranker, folder: Path, count: int
) -> Iterator[str]:
    """The fitted parameters, and how well they separate relevant from irrelevant texts."""
    names = ("relevant passages", "relevant abstracts", "irrelevant passages", "irrelevant abstracts")
    groups: dict[str, list[float]] = {name: [] for name in names}
    for question, scores in outcome.scores.items():
        for passage, score in scores.items():
            grade = data.grades[question].get(passage)
            if grade is not None and grade != 1:
                groups[names[0] if grade >= MIN_ANSWER_GRADE else names[2]].append(score)
    for claim, right, wrong in load_claims(folder, count):
        scores_of = reranker.score(claim, [*right, *wrong])
        groups[names[1]] += scores_of[: len(right)]
        groups[names[3]] += scores_of[len(right) :]
    fit = fit_platt([groups[name] for name in names[:2]], [groups[name] for name in names[2:]])
    yield f"scale {fit.scale:.3f}, offset {fit.offset:.3f}"
    yield "| group | scores | 10th percentile | median | 90th percentile | mean probability | probability over 0.5 |"
    yield "|---|---|---|---|---|---|---|"
    for name, group in groups.items():
        low, middle, high = np.percentile(group, [10, 50, 90])
        chances = fit.to_probabilities(group)
        yield (
            f"| {name} | {len(group)} | {low:.1f} | {middle:.1f} | {high:.1f} "
            f"| {chances.mean():.2f} | {(chances > 0.5).mean():.0%} |"
        )
    marks = (0.2, 0.4, 0.5, 0.6, 0.8)
    at = [(np.log(mark / (1 - mark)) - fit.offset) / fit.scale for mark in marks]
    yield "probability " + ", ".join(f"{mark} is a score of {score:.1f}" for mark, score in zip(marks, at, strict=True))


@report_missing_set
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table and, with --calibrate, the fit."""
    parser = argparse.ArgumentParser(prog="studies.reranking", description="A published top 100, reranked.")
    parser.add_argument("--data", type=Path, required=True, help="the folder of trec-dl-pool")
    parser.add_argument("--run", default="bm25", help="the run in the folder to rerank")
    parser.add_argument("--reranker", nargs="+", default=["overlap", "ms-marco-minilm"])
    parser.add_argument("--calibrate", type=Path, help="the folder of scifact; calibrates the last reranker")
    parser.add_argument("--claims", type=int, default=CLAIMS, help="how many claims of scifact")
    given = parser.parse_args(arguments)
    data = load_run(given.data / YEAR, given.run)
    print(f"{len(data.ranked)} questions, {sum(map(len, data.ranked.values()))} pairs", flush=True)
    print("| ranking | nDCG@10 | lead | pairs/s | pairs/s per core |\n|---|---|---|---|---|")
    print(f"| {given.run} | {100 * fmean(compute_ndcg(data)):.2f} | | | |")
    print(
        f"| ideal order | {100 * fmean(compute_ndcg(data, make_ideal_scores(data))):.2f} | | | |",
        flush=True,
    )
    for name in given.reranker:
        reranker = drivers.make_reranker(RerankerConfig(name=name))
        if reranker is None:
            parser.error("--reranker is empty; give a name")
        outcome = score_run(data, reranker)
        print(make_row(data, name, outcome), flush=True)
        if given.calibrate and name == given.reranker[-1]:
            for line in make_calibration_rows(data, outcome, reranker, given.calibrate, given.claims):
                print(line, flush=True)
    print(PUBLISHED)


if __name__ == "__main__":
    main()
