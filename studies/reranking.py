"""`python -m studies.reranking --data FOLDER`: does reading the question and the text together rank better?

On the passages of TREC Deep Learning 2019: the first hundred of a published run, ordered again by a reranker, measured
by nDCG@10 over all that was judged, so that the numbers stand beside those of papers.

With `--calibrate FOLDER` it also fits the two numbers that make a chance of a score. The examples are the judged
passages of that run (grade 2 and 3 answer, 0 does not) and claims of SciFact's training half with the abstracts that
bear on them and the best ones by BM25 that do not. Each of the four groups weighs a quarter: the chance is that of a
text which, before it was read, might as well answer as not.
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
MIN_ANSWER_GRADE = 2  # the least grade of a passage that answers; 1 is "related" and left out of the fit
CLAIMS = 150
NEGATIVES = 4  # abstracts a claim, from among the first BEST by BM25
BEST = 20
UNLIMITED_CHUNK = 1_000_000  # a chunk size that nothing reaches: an abstract is one chunk
PUBLISHED = """
Published, nDCG@10 on the same questions:
| BM25 (Anserini's regression) | 50.58 |
| ms-marco-MiniLM-L-12-v2 in full precision, of the track's own top 1000 (sbert.net) | 74.31 |
| RepLLaMA, first stage (the run in the folder) | 74.39 |"""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RankedSet:
    """Questions, passages, the grades that were given and a ranking to begin with; all by id."""

    questions: Mapping[str, str]
    passages: Mapping[str, str]
    grades: Mapping[str, Mapping[str, int]]
    ranked: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class RerankerRun:
    """What a reranker gave: a score for each question and passage, and the time it took."""

    scores: dict[str, dict[str, float]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)  # seconds of processor time


@dataclass(frozen=True, slots=True)
class PlattFit:
    """The chance that a text of some score answers is logistic(scale · score + offset)."""

    scale: float
    offset: float

    def to_probabilities(self, scores: Sequence[float]) -> Floats:
        """The chance of each score."""
        return 1 / (1 + np.exp(-(self.scale * np.asarray(scores, np.float64) + self.offset)))


def load_run(folder: Path, run: str) -> RankedSet:
    """A year of the set and one of its runs."""
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
    """nDCG@10 of each question in the order of the scores, equal ones in the order of the run; without any, the run."""
    values = []
    for question, passages in data.ranked.items():
        given = scores[question] if scores else dict.fromkeys(passages, 0.0)
        ranking = sorted(passages, key=lambda each: -given[each])
        values.append(ndcg_at(DEPTH, ranking, data.grades[question]))
    return values


def make_ideal_scores(data: RankedSet) -> dict[str, dict[str, float]]:
    """The grades as scores: what a run lacks, no reranker can find."""
    return {
        question: {each: float(data.grades[question].get(each, 0)) for each in passages}
        for question, passages in data.ranked.items()
    }


def make_row(data: RankedSet, name: str, outcome: RerankerRun) -> str:
    """The line of one reranker; its lead is over the run, question by question."""
    before, after = compute_ndcg(data), compute_ndcg(data, outcome.scores)
    pairs = sum(map(len, outcome.scores.values()))
    return (
        f"| {name} | {100 * fmean(after):.2f} | {bootstrap(after, before)} "
        f"| {pairs / sum(outcome.seconds):.1f} | {pairs / sum(outcome.cpu_seconds):.1f} |"
    )


# -- the calibration


def fit_platt(answers: Sequence[Sequence[float]], others: Sequence[Sequence[float]]) -> PlattFit:
    """Platt's logistic regression by Newton's steps; every group of scores weighs the same."""
    groups = [(group, 1.0) for group in answers if group] + [(group, 0.0) for group in others if group]
    scores = np.concatenate([np.asarray(group, np.float64) for group, _ in groups])
    truth = np.concatenate([np.full(len(group), answer) for group, answer in groups])
    weight = np.concatenate([np.full(len(group), 1 / len(group)) for group, _ in groups])
    columns = np.stack([scores, np.ones_like(scores)], axis=1)
    numbers = np.zeros(2)
    for _ in range(100):
        chance = 1 / (1 + np.exp(-columns @ numbers))
        slope = columns.T @ (weight * (truth - chance))
        bend = (columns * (weight * chance * (1 - chance))[:, None]).T @ columns
        change = np.linalg.solve(bend + 1e-9 * np.eye(2), slope)
        numbers = numbers + change
        if abs(change).max() < 1e-9:
            break
    return PlattFit(float(numbers[0]), float(numbers[1]))


def load_claims(folder: Path, count: int) -> Iterator[tuple[str, list[str], list[str]]]:
    """So many claims of SciFact's training half, the abstracts that bear on each, and the likeliest that do not."""
    texts = {line["_id"]: f"{line['title']} {line['text']}" for line in read_jsonl(folder / "corpus.jsonl.gz")}
    asked = [(line["_id"], line["text"]) for line in read_jsonl(folder / "queries.train.jsonl")]
    bearing: dict[str, list[str]] = {}
    for row in (folder / "qrels.train.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        claim, abstract, _ = row.split("\t")
        bearing.setdefault(claim, []).append(abstract)
    ingestion = IngestionConfig(chunk_size=UNLIMITED_CHUNK, chunk_overlap=0, summaries=False, language="en")
    settings = Settings(ingestion=ingestion, search=SearchConfig(strategy="lexical"))
    with Engine.open(":memory:", embedder="hashed", settings=settings) as engine:
        engine.add_documents([Document(id_, text, (Section(0, len(text)),)) for id_, text in texts.items()])
        for id_, text in asked[:: max(1, len(asked) // count)][:count]:
            found = [hit.chunk.doc_id for hit in engine.search(text, k=BEST)]
            others = [each for each in found if each not in bearing[id_]][:NEGATIVES]
            yield text, [texts[each] for each in bearing[id_]], [texts[each] for each in others]


def make_calibration_rows(
    data: RankedSet, outcome: RerankerRun, reranker: Reranker, folder: Path, count: int
) -> Iterator[str]:
    """The two numbers, and how well they tell what answers from what does not."""
    names = ("passages that answer", "abstracts that bear on the claim", "other passages", "other abstracts")
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
    yield "| group | scores | lowest tenth | median | highest tenth | mean chance | chance over one half |"
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
    yield "a chance of " + ", ".join(f"{mark} is a score of {score:.1f}" for mark, score in zip(marks, at, strict=True))


@report_missing_set
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table and, if asked, the fit."""
    parser = argparse.ArgumentParser(prog="studies.reranking", description="A published top 100, ordered again.")
    parser.add_argument("--data", type=Path, required=True, help="the folder of trec-dl-pool")
    parser.add_argument("--run", default="bm25", help="which of the runs in the folder is ordered again")
    parser.add_argument("--reranker", nargs="+", default=["overlap", "ms-marco-minilm"])
    parser.add_argument("--calibrate", type=Path, help="the folder of scifact; fits the last reranker's chances")
    parser.add_argument("--claims", type=int, default=CLAIMS, help="how many claims of it")
    given = parser.parse_args(arguments)
    data = load_run(given.data / YEAR, given.run)
    print(f"{len(data.ranked)} questions, {sum(map(len, data.ranked.values()))} pairs", flush=True)
    print("| ranking | nDCG@10 | lead | pairs/s | pairs/s of a core |\n|---|---|---|---|---|")
    print(f"| {given.run} | {100 * fmean(compute_ndcg(data)):.2f} | | | |")
    print(
        f"| the best order there could be | {100 * fmean(compute_ndcg(data, make_ideal_scores(data))):.2f} | | | |",
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
