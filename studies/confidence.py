"""`python -m studies.confidence --data FOLDER [--cache FILE]`: the weights of the confidence, and whether they hold.

Questions of several sets are asked of a collection with and without the documents that answer them (as in
`studies.abstention`), and the signals are weighed by a logistic regression in which every set counts the same. The
first row are weights fitted on all sets but SciFact, which is only ever asked; the second are those in use. Then every
set is asked with weights that were fitted on the others, so that none is judged by what it taught; XQuAD in two
languages counts as one set there. ClapNQ is embedded by wordllama, which is quick, the rest by bge-small.
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
MIN_CONFIDENCE = 0.5  # the confidence from which `ask` answers
HELD_OUT = "scifact"  # what is reported is never fitted
RIDGE = 1e-3

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SetConfig:
    """A set by its name, how it is embedded and cut, and the family that is left out with it."""

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
    """The signals of a question, and whether the collection held its answer."""

    signals: ConfidenceSignals
    is_answerable: bool


def load_handbook(examples: Path) -> JudgedSet:
    """The sample handbook with its judged questions; each is answered by one document."""
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add(examples / "handbook")
        documents: Sequence[Document] = [engine.read(record.id) for record in engine.list()]
    asked = load_quote_questions(examples / "questions.jsonl")
    grades = {each.id: {_find_document_id(each.document, documents): 1.0} for each in asked}
    names = {(document.id, 0): document.id for document in documents}
    return JudgedSet("handbook", documents, names, {each.id: each.text for each in asked}, grades, USUAL_MEASURES)


def make_examples(
    source: SetConfig, given: JudgedSet, reranker: Reranker, *, cache: str, max_questions: int
) -> list[Example]:
    """The signals of questions of a set, each with and without the documents that answer it."""
    with open_engine(given, source.embedder, cache, one_chunk_each=source.one_chunk_each) as engine:
        return [
            Example(compute_question_signals(case.question, case.probe, reranker), case.is_answerable)
            for case in make_cases(engine, given, max_questions=max_questions)
        ]


def fit_weights(groups: Sequence[Sequence[Example]]) -> ConfidenceWeights:
    """Logistic regression by Newton's steps, with a little ridge; every group weighs the same."""
    columns = np.array([(each.signals.margin, each.signals.reranker, 1.0) for group in groups for each in group])
    truth = np.array([float(each.is_answerable) for group in groups for each in group])
    weight = np.array([1 / len(group) for group in groups for _ in group])
    ridge = RIDGE * np.diag([1.0, 1.0, 0.0])
    numbers: Floats = np.zeros(3)
    for _ in range(100):
        chance = 1 / (1 + np.exp(-columns @ numbers))
        slope = columns.T @ (weight * (truth - chance)) - ridge @ numbers
        bend = (columns * (weight * chance * (1 - chance))[:, None]).T @ columns + ridge
        change = np.linalg.solve(bend, slope)
        numbers = numbers + change
        if abs(change).max() < 1e-9:
            break
    margin, reranker, offset = map(float, numbers)
    return replace(WEIGHTS, margin=margin, reranker=reranker, offset=offset)


def make_rows(sets: Mapping[SetConfig, Sequence[Example]]) -> Iterator[str]:
    """The weights, and for each set how those hold that were fitted on the others."""
    yield _format_weights(
        "fitted on all but SciFact", fit_weights([some for source, some in sets.items() if source.name != HELD_OUT])
    )
    yield _format_weights("in use", WEIGHTS)
    yield (
        "| set | asked | AUC | of the reranker alone | of standing out alone "
        "| calibration error | answered at 0.5, there | not there |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for source, some in sets.items():
        others = [rest for other, rest in sets.items() if other.family not in (source.family, HELD_OUT)]
        weights = fit_weights(others)
        asked = [
            AnswerOutcome(compute_confidence(each.signals, weights), each.is_answerable, is_right=each.is_answerable)
            for each in some
        ]
        alone = (
            [AnswerOutcome(each.signals.reranker, each.is_answerable, is_right=each.is_answerable) for each in some],
            [AnswerOutcome(each.signals.margin, each.is_answerable, is_right=each.is_answerable) for each in some],
        )
        there, absent = (
            100 * compute_coverage_and_risk([each for each in asked if each.is_answerable is held], MIN_CONFIDENCE)[0]
            for held in (True, False)
        )
        yield (
            f"| {source.name} ({source.embedder}) | {len(some) // 2} | {auc(asked):.3f} | {auc(alone[0]):.3f} "
            f"| {auc(alone[1]):.3f} | {calibration_error(asked):.3f} | {there:.0f} | {absent:.0f} |"
        )


def main() -> None:
    """Prints the weights and the table."""
    parser = argparse.ArgumentParser(prog="studies.confidence", description="The weights of the confidence.")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds the benchmark sets")
    parser.add_argument("--cache", default="", help="a file that keeps vectors")
    parser.add_argument("--examples", type=Path, default=EXAMPLES, help="the folder of the sample handbook")
    parser.add_argument("--reranker", default=RerankerConfig().name)
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="of each set")
    parser.add_argument("--embedder", default="", help="for all sets, instead of their own")
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
    """The id of the document with an address."""
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
