"""`python -m studies.confidence --data FOLDER [--cache FILE]`: fits and tests the confidence weights.

Questions of several sets are asked of a collection with and without their relevant documents (as in
`studies.abstention`), and a logistic regression weighs the signals, every set counting the same. The first row has the
weights fitted on all sets but SciFact, which is never trained on; the second those in use. Then every set is tested
with weights fitted on the others (leave one set out); XQuAD in two languages counts as one set. ClapNQ is embedded by
wordllama, which is fast, the others by bge-small.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clew import Document, Engine, drivers
from clew.core.protocols import Reranker
from clew.core.settings import RerankerConfig
from clew.query.answer.confidence import WEIGHTS, ConfidenceSignals, ConfidenceWeights, compute_confidence
from studies.abstention import (
    AnswerOutcome,
    CachedReranker,
    auc,
    calibration_error,
    compute_coverage_and_risk,
    compute_question_signals,
    make_cases,
    open_engine,
)
from studies.judged import SETS, USUAL_MEASURES, JudgedSet
from studies.sets import MissingSet, load_quote_questions

EXAMPLES = Path(__file__).parents[1] / "examples"
QUESTIONS = 80
MIN_CONFIDENCE = 0.5  # from which `ask` answers
HELD_OUT = "scifact"  # never used for fitting the reported weights
RIDGE = 1e-3

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SetConfig:
    """A set: its name, how it is embedded and chunked, and the family that is held out with it."""

    name: str
    family: str
    embedder: str = "bge-small"
    one_chunk_each: bool = True


SOURCES = (
    SetConfig("handbook", "handbook", one_chunk_each=False),
    SetConfig("xquad-en", "xquad"),
    SetConfig("xquad-de", "xquad"),
    SetConfig("cosqa", "cosqa"),
    SetConfig("clapnq", "clapnq", embedder="wordllama"),
    SetConfig(HELD_OUT, HELD_OUT),
)


@dataclass(frozen=True, slots=True)
class Example:
    """The signals of a question, and whether the collection holds an answer."""

    signals: ConfidenceSignals
    is_answerable: bool


def load_handbook(examples: Path) -> JudgedSet:
    """The sample handbook with its judged questions; each has one relevant document."""
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add(examples / "handbook")
        documents: Sequence[Document] = [engine.read(record.id) for record in engine.list()]
    questions = load_quote_questions(examples / "questions.jsonl")
    grades = {each.id: {_find_document_id(each.document, documents): 1.0} for each in questions}
    names = {(document.id, 0): document.id for document in documents}
    return JudgedSet("handbook", documents, names, {each.id: each.text for each in questions}, grades, USUAL_MEASURES)


def make_examples(
    source: SetConfig, given: JudgedSet, reranker: Reranker, *, cache: str, max_questions: int
) -> list[Example]:
    """The signals of the questions of a set, each with and without its relevant documents."""
    with open_engine(given, source.embedder, cache, one_chunk_each=source.one_chunk_each) as engine:
        return [
            Example(compute_question_signals(case.question, case.probe, reranker), case.is_answerable)
            for case in make_cases(engine, given, max_questions=max_questions)
        ]


def fit_weights(groups: Sequence[Sequence[Example]]) -> ConfidenceWeights:
    """Logistic regression by Newton's method with a small ridge; every group weighs the same."""
    columns = np.array([(each.signals.margin, each.signals.reranker, 1.0) for group in groups for each in group])
    truth = np.array([float(each.is_answerable) for group in groups for each in group])
    weight = np.array([1 / len(group) for group in groups for _ in group])
    ridge = RIDGE * np.diag([1.0, 1.0, 0.0])
    numbers: Floats = np.zeros(3)
    for _ in range(100):
        chance = 1 / (1 + np.exp(-columns @ numbers))
        gradient = columns.T @ (weight * (truth - chance)) - ridge @ numbers
        hessian = (columns * (weight * chance * (1 - chance))[:, None]).T @ columns + ridge
        change = np.linalg.solve(hessian, gradient)
        numbers = numbers + change
        if abs(change).max() < 1e-9:
            break
    margin, reranker, offset = map(float, numbers)
    return replace(WEIGHTS, margin=margin, reranker=reranker, offset=offset)


def make_rows(sets: Mapping[SetConfig, Sequence[Example]]) -> Iterator[str]:
    """The weights, and for each set the measures of weights fitted on the others."""
    yield _format_weights(
        "fitted on all but SciFact", fit_weights([some for source, some in sets.items() if source.name != HELD_OUT])
    )
    yield _format_weights("in use", WEIGHTS)
    yield (
        "| set | questions | AUC | of the reranker alone | of the margin alone "
        "| calibration error | answered at 0.5, answerable | unanswerable |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for source, some in sets.items():
        others = [rest for other, rest in sets.items() if other.family not in (source.family, HELD_OUT)]
        weights = fit_weights(others)
        outcomes = [
            AnswerOutcome(compute_confidence(each.signals, weights), each.is_answerable, is_right=each.is_answerable)
            for each in some
        ]
        alone = (
            [AnswerOutcome(each.signals.reranker, each.is_answerable, is_right=each.is_answerable) for each in some],
            [AnswerOutcome(each.signals.margin, each.is_answerable, is_right=each.is_answerable) for each in some],
        )
        there, absent = (
            100
            * compute_coverage_and_risk([each for each in outcomes if each.is_answerable is held], MIN_CONFIDENCE)[0]
            for held in (True, False)
        )
        yield (
            f"| {source.name} ({source.embedder}) | {len(some) // 2} | {auc(outcomes):.3f} | {auc(alone[0]):.3f} "
            f"| {auc(alone[1]):.3f} | {calibration_error(outcomes):.3f} | {there:.0f} | {absent:.0f} |"
        )


def main() -> None:
    """Prints the weights and the table."""
    parser = argparse.ArgumentParser(prog="studies.confidence", description="The weights of the confidence.")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds the benchmark sets")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    parser.add_argument("--examples", type=Path, default=EXAMPLES, help="the folder of the sample handbook")
    parser.add_argument("--reranker", default=RerankerConfig().name)
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="of each set")
    parser.add_argument("--embedder", default="", help="for all sets, instead of those in the table")
    given = parser.parse_args()
    reranker = drivers.make_reranker(RerankerConfig(name=given.reranker))
    if reranker is None:
        parser.error("--reranker is empty; give a name")
    sets = {}
    try:
        for each in SOURCES:
            source = replace(each, embedder=given.embedder or each.embedder)
            data = load_handbook(given.examples) if source.name == "handbook" else SETS[source.name](given.data)
            sets[source] = make_examples(
                source, data, CachedReranker(reranker), cache=given.cache, max_questions=given.questions
            )
    except MissingSet as error:
        parser.error(str(error))
    for row in make_rows(sets):
        print(row)


def _find_document_id(address: str, documents: Sequence[Document]) -> str:
    """The id of the document with a uri."""
    found = next((document.id for document in documents if document.uri.endswith(address)), None)
    if found is None:
        raise MissingSet(f"there is no {address} in the folder of the sample handbook; give it with --examples")
    return found


def _format_weights(what: str, weights: ConfidenceWeights) -> str:
    return (
        f"{what}: margin {weights.margin:.2f}, reranker {weights.reranker:.2f}, offset {weights.offset:.2f}, "
        f"words {weights.words:.2f}"
    )


if __name__ == "__main__":
    main()
