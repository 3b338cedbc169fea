"""`python -m studies.relevance --data FOLDER`: is relevance a chance? Fits its weights, tests them on sets left out.

The first 20 hits of `hybrid` of every question of a set are a pool. For each set the weights are fitted on all the
others, with both embedders, and the chance of each hit in the pool is compared with how often such hits are relevant:
the expected calibration error (ECE) over bins of equal mass, for the pool and for first hits alone, and the AUC pooled
over all questions. Questions of other sets, which have no answer, teach when there is none.

The last lines are the weights fitted on all sets: those of `clew.query.rank.calibrate`.
"""

import argparse
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clew import Engine, Hit, Query, drivers
from clew.core.protocols import Embedder
from clew.core.settings import EmbedderConfig, IngestionConfig
from clew.query.rank.calibrate import AnswerWeights, Evidence, Field, HitWeights, compare_evidence, pair_evidence
from clew.query.search.evidence import FIELD_DEPTH
from studies.handbook import EXAMPLES
from studies.judged import SETS as JUDGED
from studies.measures import count_characters, intersect_spans
from studies.sets import read_jsonl, report_missing_set
from studies.strategies import SETTINGS

SETS = ("handbook", "chat", "scifact", "xquad-en", "xquad-de", "cosqa", "clapnq")
SAME_SOURCE = ({"handbook", "chat"}, {"xquad-en", "clapnq", "xquad-de"})  # a question of one may be answered in another
POOL, CANDIDATES = 20, 100
STRANGERS = 30  # questions of each other set
ANSWERED = 0.9  # share of questions that have an answer, where both kinds are fitted together
MIN_BIN = 40  # first hits in a bin: fewer would measure chance
Floats = NDArray[np.float64]
Judge = Callable[[str, Hit], bool]


@dataclass(frozen=True, slots=True)
class Pool:
    """The features of the hits of one set: those of each hit, the best of each question, and which are relevant."""

    hits: list[Floats]  # per question, a row per hit: its signals and their distances from the field
    pairs: list[Floats]  # per question, a row per hit: what says that a text answers at all
    best: Floats  # a row per question
    relevant: list[Floats]  # per question
    unanswered: Floats  # the rows of questions without an answer


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of both factors, constants first."""

    hit: Floats
    answer: Floats

    def estimate(self, pool: Pool) -> list[Floats]:
        """The relevance of the hits of each question."""
        return [
            squash(add_constant(pairs) @ self.answer) * squash(add_constant(hits) @ self.hit)
            for pairs, hits in zip(pool.pairs, pool.hits, strict=True)
        ]


# -- pools


def gather_pool(engine: Engine, questions: Mapping[str, str], strangers: Sequence[str], judge: Judge) -> Pool:
    """The features and judgements of the first hits of each question."""
    hits, pairs, best, relevant = [], [], [], []
    for id_, text in questions.items():
        found, evidence, field = search_with_evidence(engine, text)
        if found:
            hits.append(compare_evidence(evidence, field)[:POOL])
            pairs.append(pair_evidence(evidence)[:POOL])
            best.append(find_best(evidence))
            relevant.append(np.array([judge(id_, hit) for hit in found[:POOL]], float))
    unanswered = [find_best(search_with_evidence(engine, text)[1]) for text in strangers]
    return Pool(hits, pairs, np.array(best), relevant, np.array(unanswered))


def find_best(evidence: Evidence) -> Floats:
    """The greatest of each column of `pair_evidence`."""
    best: Floats = pair_evidence(evidence).max(axis=0, initial=0.0)
    return best


def search_with_evidence(engine: Engine, text: str) -> tuple[list[Hit], Evidence, Field]:
    """The candidates of a question by relevance, their evidence, and the field that they are compared with."""
    opened = engine.opened
    source = opened.finder.build_drivers(opened.settings).evidence
    found = source.judge(Query(text, k=CANDIDATES, depth=CANDIDATES))
    order = sorted(found.list_places(), key=lambda place: -found.relevance[place])[:CANDIDATES]
    best = {place: None for ranking in (*found.near, *found.matching) for place in ranking[:FIELD_DEPTH]}
    evidence, foreign = found.evidence, found.evidence.foreign
    meaning, words, share = (column[order] for column in evidence[:3])
    ordered = Evidence(meaning, words, share, None if foreign is None else foreign[order])
    return found.candidates.read_hits(order), ordered, evidence.measure_field(list(best))


def load_pool(name: str, folder: Path, embedder: Embedder, strangers: Sequence[str]) -> Pool:
    """The pool of a set."""
    if name in JUDGED:
        data = JUDGED[name](folder)
        with Engine.open(":memory:", embedder=embedder, settings=SETTINGS) as engine:
            engine.add_documents(data.documents)
            return gather_pool(
                engine,
                data.questions,
                strangers,
                lambda id_, hit: data.grades[id_].get(data.name_hits([hit])[0], 0) > 0,
            )
    with Engine.open(":memory:", embedder=embedder, settings=replace(SETTINGS, ingestion=IngestionConfig())) as engine:
        engine.add(EXAMPLES / name)
        rows = list(load_example_questions(name))
        ids = {record.uri[record.uri.find("handbook/") :]: record.id for record in engine.list()}
        texts = {id_: engine.read(id_).text for id_ in ids.values()} if name == "handbook" else {}
        by_id = {row["id"]: row for row in rows}

        def judge(id_: str, hit: Hit) -> bool:
            row = by_id[id_]
            if name == "chat":
                return hit.chunk.meta.get("message") in row["messages"]
            if hit.chunk.doc_id != ids[row["documents"][0]]:
                return False
            start = texts[hit.chunk.doc_id].find(row["quote"])
            gold = (start, start + len(row["quote"]))
            held = count_characters(intersect_spans([(hit.chunk.start, hit.chunk.end)], [gold]))
            return 2 * held >= len(row["quote"])

        return gather_pool(engine, {row["id"]: row["question"] for row in rows}, strangers, judge)


def load_example_questions(name: str) -> Iterator[dict[str, Any]]:
    """The questions of `examples/` about the handbook, or about the chat."""
    if name == "handbook":
        yield from read_jsonl(EXAMPLES / "questions.jsonl")
    wanted = ("page",) if name == "handbook" else ("chat", "both")
    yield from (row for row in read_jsonl(EXAMPLES / "chat-questions.jsonl") if row["slice"] in wanted)


def pick_strangers(name: str, folder: Path, sets: Sequence[str]) -> list[str]:
    """Questions of other sets, which this one cannot answer."""
    chosen: list[str] = []
    for other in sets:
        if other == name or any({other, name} <= each for each in SAME_SOURCE):
            continue
        if other in JUDGED:
            questions = list(JUDGED[other](folder).questions.values())
        else:
            questions = [row["question"] for row in load_example_questions(other)]
        chosen += random.Random(name).sample(questions, min(STRANGERS, len(questions)))
    return chosen


# -- the fit


def fit_weights(pools: Sequence[Pool]) -> Weights:
    """The weights of both factors; every pool counts alike, and better ranks more."""
    rows, labels, masses = [], [], []
    best, answered, shares = [], [], []
    for pool in pools:
        hits = np.concatenate(pool.hits)
        mass = np.concatenate([1 / np.sqrt(np.arange(1, len(each) + 1)) for each in pool.hits])
        rows.append(hits)
        labels.append(np.concatenate(pool.relevant))
        masses.append(mass / mass.sum())
        found = pool.best[[bool(each[:10].any()) for each in pool.relevant]]
        for features, label, share in ((found, 1.0, ANSWERED), (pool.unanswered, 0.0, 1 - ANSWERED)):
            best.append(features)
            answered.append(np.full(len(features), label))
            shares.append(np.full(len(features), share / len(features)))
    return Weights(fit_logistic(rows, labels, masses), fit_logistic(best, answered, shares))


def fit_logistic(rows: Sequence[Floats], labels: Sequence[Floats], masses: Sequence[Floats]) -> Floats:
    """The weights of a logistic function that grows with every feature; the constant is the first.

    A feature whose weight would be negative is left out, the worst first, until none is.
    """
    features, wanted, mass = (np.concatenate(each) for each in (rows, labels, masses))
    kept = list(range(features.shape[1]))
    while True:
        weights = _maximise_likelihood(add_constant(features[:, kept]), wanted, mass / mass.sum())
        if not kept or weights[1:].min() >= 0:
            break
        worst = int(np.argmin(weights[1:] * features[:, kept].std(axis=0)))
        kept.pop(worst)
    whole = np.zeros(features.shape[1] + 1)
    whole[[0, *(1 + place for place in kept)]] = weights
    return whole


def _maximise_likelihood(features: Floats, labels: Floats, mass: Floats, *, ridge: float = 1e-4) -> Floats:
    """Newton's method for logistic regression with a small ridge penalty."""
    scale = np.where(features.std(axis=0) > 0, features.std(axis=0), 1.0)
    scaled, weights = features / scale, np.zeros(features.shape[1])
    penalty = ridge * np.diag([0.0, *np.ones(features.shape[1] - 1)])
    for _ in range(50):
        chances = squash(scaled @ weights)
        gradient = scaled.T @ (mass * (labels - chances)) - penalty @ weights
        curvature = (scaled * (mass * chances * (1 - chances))[:, None]).T @ scaled + penalty
        change = np.linalg.solve(curvature + 1e-12 * np.eye(len(weights)), gradient)
        weights += change
        if np.abs(change).max() < 1e-8:
            break
    return np.asarray(weights / scale, np.float64)


def add_constant(features: Floats) -> Floats:
    """The features after a column of ones."""
    return np.column_stack([np.ones(len(features)), features])


def squash(log_odds: Floats) -> Floats:
    """1 / (1 + e^-x)."""
    return np.asarray(1 / (1 + np.exp(-log_odds)), np.float64)


# -- the measures


def measure_calibration_error(chances: Floats, labels: Floats, bins: int) -> float:
    """ECE: the mean distance between chance and frequency, over bins of equal mass."""
    parts = [part for part in np.array_split(np.argsort(chances, kind="stable"), bins) if len(part)]
    return float(sum(abs(chances[part].mean() - labels[part].mean()) * len(part) for part in parts) / len(chances))


def measure_auc(chances: Floats, labels: Floats) -> float:
    """AUC: how often a relevant hit has a greater chance than another, ties counting half."""
    _, place, counts = np.unique(chances, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    positive = int(labels.sum())
    wins = ranks[labels > 0].sum() - positive * (positive + 1) / 2
    return float(wins / (positive * (len(labels) - positive)))


def make_rows(pools: Mapping[tuple[str, str], Pool]) -> Iterator[str]:
    """The rows of the table: each set with the weights of the others."""
    yield "| set | embedder | questions | ECE of 20 | ECE of first hits | mean chance of first | relevant | AUC |"
    yield "|---" * 8 + "|"
    columns: list[tuple[float, ...]] = []
    for (name, embedder), pool in pools.items():
        weights = fit_weights([each for (other, _), each in pools.items() if other != name])
        chances = weights.estimate(pool)
        whole, labels = np.concatenate(chances), np.concatenate(pool.relevant)
        first = np.array([each[0] for each in chances])
        right = np.array([each[0] for each in pool.relevant])
        bins = min(10, max(1, len(first) // MIN_BIN))
        values = (
            measure_calibration_error(whole, labels, 10),
            measure_calibration_error(first, right, bins),
            measure_auc(whole, labels),
        )
        columns.append(values)
        yield (
            f"| {name} | {embedder} | {len(first)} | {values[0]:.3f} | {values[1]:.3f} ({bins} bins) "
            f"| {first.mean():.2f} | {right.mean():.2f} | {values[2]:.3f} |"
        )
    errors, first_errors, areas = zip(*columns, strict=True)
    yield f"| mean | | | {fmean(errors):.3f} | {fmean(first_errors):.3f} | | | {fmean(areas):.3f} |"
    yield f"| worst | | | {max(errors):.3f} | {max(first_errors):.3f} | | | {min(areas):.3f} |"


@report_missing_set
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table and the weights."""
    parser = argparse.ArgumentParser(prog="studies.relevance", description="Is relevance a chance?")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds the sets")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--embedders", default="bge-small,wordllama")
    parser.add_argument("--cache", default="", help="the start of the names of files that cache vectors")
    given = parser.parse_args(arguments)
    sets = given.sets.split(",")
    pools: dict[tuple[str, str], Pool] = {}
    for model in given.embedders.split(","):
        cache = f"{given.cache}{model}.cache" if given.cache else ""
        embedder = drivers.make_embedder(EmbedderConfig(name=model, cache=cache))
        for name in sets:
            pools[name, model] = load_pool(name, given.data, embedder, pick_strangers(name, given.data, sets))
            print(f"{name}, {model}: {len(pools[name, model].hits)} questions", flush=True)
    for row in make_rows(pools):
        print(row, flush=True)
    weights = fit_weights(list(pools.values()))
    for kind, fitted in ((HitWeights, weights.hit), (AnswerWeights, weights.answer)):
        print(kind(*(round(float(weight), 2) for weight in fitted)))


if __name__ == "__main__":
    main()
