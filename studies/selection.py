"""`python -m studies.selection --data FOLDER [--cache FILE]`: which part of the hits is shown first, without a model?

Questions of public sets with marked evidence (spans of Chroma's chunking evaluation, turns of LoCoMo, sentences with
the answer in the supporting paragraphs of HotpotQA and 2WikiMultihopQA) are searched as `ask` does. For every candidate
the signals of `score_candidates` are computed, and a conditional logistic regression over the candidates of a question
weighs them. Every set is tested with weights fitted on the others, and with those in use. The sample of `examples/` is
not used: `studies.answers` reports on it.
"""

import argparse
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clew import Document, Engine, Filter, Section, Settings, drivers
from clew.core.filter import EVERYTHING
from clew.core.protocols import Reranker
from clew.core.settings import AnswerConfig, EmbedderConfig, IngestionConfig, RerankerConfig, SearchConfig
from clew.engine.answer import find_probe_hits
from clew.query.answer.candidates import Candidate, collect_candidates
from clew.query.answer.extract import READ_HITS
from clew.query.answer.features import WEIGHTS, compute_features
from clew.query.search.find import build_query
from studies.judged import read_grades
from studies.sets import MissingSet, load_chunking_eval, read_jsonl
from studies.threads import load_locomo

QUESTIONS = 70
MAX_PARAGRAPHS = 700  # of a multi-hop set: those of its first questions
MAX_TALKS = 4
RIDGE = 0.5
NAMES = ("part", "chunk", "kind", "facts", "distance", "topic")

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SelectionQuestion:
    """A question, where it is searched, and which candidates are its evidence."""

    text: str
    where: Filter
    is_evidence: Callable[[Candidate], bool]


@dataclass(frozen=True, slots=True)
class SelectionSet:
    """Documents, and questions with marked evidence."""

    name: str
    documents: Sequence[Document]
    questions: Sequence[SelectionQuestion]


@dataclass(frozen=True, slots=True)
class SelectionExample:
    """The features of the candidates of a question, a row each, and which of them are evidence."""

    features: Floats
    evidence: Floats

    def is_right(self, weights: Floats) -> bool:
        """Whether the candidate of the highest score is evidence."""
        return bool(len(self.evidence)) and bool(self.evidence[int(np.argmax(self.features @ weights))])


def load_spans(folder: Path) -> SelectionSet:
    """Chroma's chunking evaluation: a candidate is evidence that overlaps half of a gold span, or lies half in one."""
    given = load_chunking_eval(folder / "chunking-eval")
    documents = [
        Document(name, text, (Section(0, len(text)),), title=name, meta={"format": "text"})
        for name, text in given.corpora.items()
    ]

    def make(corpus: str, gold: Sequence[tuple[int, int]]) -> Callable[[Candidate], bool]:
        return lambda each: (
            each.hit.chunk.doc_id == corpus
            and any(
                min(each.end, high) - max(each.start, low) >= 0.5 * min(high - low, each.end - each.start)
                for low, high in gold
            )
        )

    questions = [SelectionQuestion(each.text, EVERYTHING, make(each.corpus, each.gold)) for each in given.questions]
    return SelectionSet("chunking-eval", documents, questions)


def load_turns(folder: Path) -> SelectionSet:
    """LoCoMo's questions that have an answer in the chat; evidence is a marked turn."""
    given = load_locomo(folder, max_talks=MAX_TALKS)

    def make(gold: frozenset[str]) -> Callable[[Candidate], bool]:
        return lambda each: each.hit.chunk.meta.get("message") in gold

    questions = [
        SelectionQuestion(each.text, Filter(channels=frozenset({each.channel})), make(each.gold))
        for each in given.questions
        if each.kind not in ("adversarial", "open")
    ]
    return SelectionSet("locomo", given.documents, questions)


def load_paragraphs(folder: Path, name: str) -> SelectionSet:
    """A multi-hop set; evidence holds the answer, in a supporting paragraph."""
    place = folder / "multihop" / name
    grades = read_grades(place / "qrels.tsv")
    documents = [
        Document(row["_id"], row["text"], (Section(0, len(row["text"]), label=row["title"]),), title=row["title"])
        for row in read_jsonl(place / "corpus.jsonl.gz")
    ][:MAX_PARAGRAPHS]

    def make(answer: str, gold: frozenset[str]) -> Callable[[Candidate], bool]:
        return lambda each: each.hit.chunk.doc_id in gold and answer in each.shown.casefold()

    questions = [
        SelectionQuestion(
            row["text"],
            EVERYTHING,
            make(
                str(row["answer"]).casefold(), frozenset(id_ for id_, grade in grades[row["_id"]].items() if grade > 0)
            ),
        )
        for row in read_jsonl(place / "queries.jsonl")
        if str(row["answer"]).casefold() not in ("yes", "no")
    ]
    return SelectionSet(name, documents, questions[:QUESTIONS])


def make_examples(
    given: SelectionSet,
    embedder: str,
    cache: str,
    reranker: Reranker,
    *,
    max_questions: int,
    reader: Reranker | None = None,
) -> list[SelectionExample]:
    """The examples of a seeded choice of the questions of a set, read by the reader or by the reranker alone."""
    settings = Settings(
        embedder=EmbedderConfig(name=embedder, cache=cache),
        ingestion=IngestionConfig(),
        search=SearchConfig(mode="exact"),
    )
    chosen = random.Random(7).sample(list(given.questions), min(max_questions, len(given.questions)))
    found = []
    with Engine.open(":memory:", settings=settings) as engine:
        engine.add_documents(given.documents)
        for question in chosen:
            query = build_query(question.text, READ_HITS, question.where, (), settings)
            hits = find_probe_hits(engine.opened, query, settings)[:READ_HITS]
            candidates = collect_candidates(hits, engine.opened.store.chunks)
            topics = reranker if reader else None
            rows = compute_features(question.text, candidates, hits, reader or reranker, topics=topics)
            features = np.array([[getattr(each, name) for name in NAMES] for each in rows], dtype=np.float64)
            evidence = np.array([question.is_evidence(each) for each in candidates], dtype=np.float64)
            found.append(SelectionExample(features, evidence))
    return found


def fit_weights(examples: Sequence[SelectionExample], *, ridge: float = RIDGE) -> Floats:
    """Weights by conditional logistic regression: the chance that the candidate chosen by softmax is evidence."""
    usable = [each for each in examples if each.evidence.any()]
    weights: Floats = np.zeros(len(NAMES))
    for _ in range(200):
        gradient, hessian = -ridge * weights, ridge * np.eye(len(NAMES))
        for each in usable:
            scores = each.features @ weights
            chance = np.exp(scores - scores.max())
            chance /= chance.sum()
            right = chance * each.evidence
            mean = each.features.T @ chance
            gradient = gradient + each.features.T @ (right / right.sum() - chance)
            hessian = hessian + (each.features * chance[:, None]).T @ each.features - np.outer(mean, mean)
        change = np.linalg.solve(hessian, gradient)
        change *= min(1.0, 1.0 / max(float(np.linalg.norm(change)), 1e-12))
        weights = weights + change
        if abs(change).max() < 1e-7:
            break
    return weights


def make_rows(sets: Mapping[str, Sequence[SelectionExample]]) -> Iterator[str]:
    """For each set the share of questions with evidence among the candidates, and with evidence first."""
    used = np.array([1.0, WEIGHTS.chunk, WEIGHTS.kind, WEIGHTS.facts, -WEIGHTS.distance, WEIGHTS.topic])
    yield "| set | n | among the candidates, % | first, weights in use | first, fitted on the others | these weights |"
    yield "|---|---|---|---|---|---|"
    for name, examples in sets.items():
        others = [each for other, some in sets.items() if other != name for each in some]
        fitted = fit_weights(others) if others else used
        shares = [100 * float(np.mean([each.is_right(weights) for each in examples])) for weights in (used, fitted)]
        among = 100 * float(np.mean([each.evidence.any() for each in examples]))
        yield f"| {name} | {len(examples)} | {among:.1f} | {shares[0]:.1f} | {shares[1]:.1f} | {_format(fitted)} |"
    yield f"in use: {_format(used)}; fitted on all: {_format(fit_weights([e for some in sets.values() for e in some]))}"


def _format(weights: Floats) -> str:
    scale = weights[0] if weights[0] > 0 else 1.0
    return ", ".join(f"{name} {value / scale:.2f}" for name, value in zip(NAMES, weights, strict=True))


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table and the weights."""
    parser = argparse.ArgumentParser(prog="studies.selection", description="The weights of candidates of an answer.")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds the sets")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--reranker", default=RerankerConfig().name)
    parser.add_argument("--reader", default=AnswerConfig().reader)
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="of each set")
    given = parser.parse_args(arguments)
    reranker = drivers.make_reranker(RerankerConfig(name=given.reranker))
    if reranker is None:
        parser.error("--reranker is empty; give a name")
    reader = drivers.make_reader(AnswerConfig(reader=given.reader))
    try:
        loaded = [
            load_spans(given.data),
            load_turns(given.data),
            load_paragraphs(given.data, "hotpotqa"),
            load_paragraphs(given.data, "2wikimultihopqa"),
        ]
    except MissingSet as error:
        parser.error(str(error))
    sets = {
        each.name: make_examples(
            each, given.embedder, given.cache, reranker, max_questions=given.questions, reader=reader
        )
        for each in loaded
    }
    for row in make_rows(sets):
        print(row, flush=True)


if __name__ == "__main__":
    main()
