"""`python -m clew.study.abstention --data FOLDER [--cache FILE]`: does it know when the collection holds no answer?

Claims of SciFact's training half are asked of the corpus as it is, and of the corpus without the abstracts that bear on
them: what a search finds there is what it finds here, those abstracts left out. The answer is the one without a model.
AUC is the chance that a claim whose abstract is there has more confidence than one whose is not; risk is the share of
the answers given whose first citation does not bear on the claim; the calibration error is the mean gap between
confidence and truth over ten bins of equal width.

Beside it, turns of MTRAG: those that its annotators called answerable from the passages, and those that they did not.
"""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clew import Engine, Hit, Settings, drivers
from clew.core.protocols import Reranker
from clew.core.settings import EmbedderConfig, IngestionConfig, RerankerConfig
from clew.query.answer import extracted
from clew.study.judged import SETS, JudgedSet
from clew.study.sets import Missing, lines

QUESTIONS = 300
DEPTH = 20  # hits that are looked at, those left out among them
BINS = 10
THRESHOLDS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
WHOLE = 1_000_000  # a chunk size that nothing reaches: what is judged is one chunk


@dataclass(frozen=True, slots=True)
class Asked:
    """The confidence of an answer, whether the collection held one, and whether its first citation is right."""

    confidence: float
    held: bool
    right: bool


def auc(asked: Sequence[Asked]) -> float:
    """The chance that an answer that was there has more confidence than one that was not; ties count half."""
    there = np.array([each.confidence for each in asked if each.held])
    absent = np.array([each.confidence for each in asked if not each.held])
    if not len(there) or not len(absent):
        return 0.5
    more = (there[:, None] > absent[None, :]).mean() + 0.5 * (there[:, None] == absent[None, :]).mean()
    return float(more)


def calibration_error(asked: Sequence[Asked], *, bins: int = BINS) -> float:
    """The mean gap between confidence and the share that is right, over bins weighted by how many are in them.

    Naeini, Cooper and Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian Binning", 2015.
    """
    places = np.minimum((np.array([each.confidence for each in asked]) * bins).astype(int), bins - 1)
    error = 0.0
    for place in range(bins):
        few = [each for each, own in zip(asked, places, strict=True) if own == place]
        if few:
            sure = sum(each.confidence for each in few) / len(few)
            true = sum(each.right for each in few) / len(few)
            error += abs(sure - true) * len(few) / len(asked)
    return error


def coverage_and_risk(asked: Sequence[Asked], least: float) -> tuple[float, float]:
    """The share of questions that are answered at a confidence, and the share of the answers that are wrong."""
    given = [each for each in asked if each.confidence >= least]
    wrong = sum(not each.right for each in given)
    return len(given) / len(asked), wrong / len(given) if given else 0.0


def claims(engine: Engine, given: JudgedSet, reranker: Reranker, *, many: int) -> list[Asked]:
    """Each claim asked twice: of all abstracts, and of all but those that bear on it."""
    found: list[Asked] = []
    for name in sorted(given.questions)[:many]:
        relevant = {document for document, grade in given.grades.get(name, {}).items() if grade > 0}
        hits = engine.search(given.questions[name], k=DEPTH)
        named = dict(zip((hit.chunk.id for hit in hits), given.ranking(hits), strict=True))
        without = [hit for hit in hits if named[hit.chunk.id] not in relevant]
        for some, held in ((hits, True), (without, False)):
            found.append(_asked(engine, given.questions[name], some, reranker, relevant, named, held=held))
    return found


def _asked(
    engine: Engine,
    question: str,
    hits: Sequence[Hit],
    reranker: Reranker,
    relevant: Iterable[str],
    named: dict[str, str],
    *,
    held: bool,
) -> Asked:
    answer = extracted(question, hits, engine.records(hits), reranker, most=1, least=0.0)
    documents = {hit.chunk.doc_id: named[hit.chunk.id] for hit in hits}
    right = any(documents[citation.document] in relevant for citation in answer.citations[:1])
    return Asked(answer.confidence, held, right)


def turns(engine: Engine, folder: Path, reranker: Reranker, *, many: int) -> list[Asked]:
    """First turns and later ones that stand alone, by what the annotators said of them."""
    found: list[Asked] = []
    for talk in lines(folder / "mtrag" / "clapnq" / "conversations.jsonl"):
        for turn in talk["turns"]:
            said = turn["answerability"][0]
            if said in ("ANSWERABLE", "UNANSWERABLE") and (said == "UNANSWERABLE" or turn["turn"] == 1):
                hits = engine.search(turn["user"], k=DEPTH)
                answer = extracted(turn["user"], hits, engine.records(hits), reranker, most=1, least=0.0)
                found.append(Asked(answer.confidence, said == "ANSWERABLE", right=False))
    few = [each for each in found if not each.held]
    return few + [each for each in found if each.held][:many]


def opened(given: JudgedSet, embedder: str, cache: str) -> Engine:
    """An engine over the documents of a set, each judged text one chunk."""
    settings = Settings(
        embedder=EmbedderConfig(name=embedder, cache=cache),
        ingestion=IngestionConfig(chunk_size=WHOLE, chunk_overlap=0, summaries=False),
    )
    engine = Engine.open(":memory:", settings=settings)
    engine.add_documents(given.documents)
    return engine


def main() -> None:
    """Prints AUC, calibration error and the table of risk against coverage."""
    parser = argparse.ArgumentParser(prog="clew.study.abstention", description="When to say that there is no answer.")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds the benchmark sets")
    parser.add_argument("--cache", default="", help="a file that keeps vectors")
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    parser.add_argument("--turns", action="store_true", help="also the turns of MTRAG")
    given = parser.parse_args()
    reranker = drivers.reranker(RerankerConfig())
    if reranker is None:
        parser.error("there is no reranker")
    try:
        data = SETS["scifact"](given.data)
        with opened(data, given.embedder, given.cache) as engine:
            asked = claims(engine, data, reranker, many=given.questions)
        print(f"{len(asked) // 2} claims of SciFact, {given.embedder}, with and without their abstracts")
        print(f"AUC {auc(asked):.3f}, calibration error {calibration_error(asked):.3f}")
        print("| least confidence | answered, there | answered, not there | risk |\n|---|---|---|---|")
        for least in THRESHOLDS:
            there, absent = ([each for each in asked if each.held is held] for held in (True, False))
            shares = [100 * coverage_and_risk(some, least)[0] for some in (there, absent)]
            risk = 100 * coverage_and_risk(asked, least)[1]
            print(f"| {least:.1f} | {shares[0]:.1f} | {shares[1]:.1f} | {risk:.1f} |")
        if given.turns:
            pool = SETS["clapnq"](given.data)
            with opened(pool, given.embedder, given.cache) as engine:
                said = turns(engine, given.data, reranker, many=given.questions)
            counts = sum(each.held for each in said), sum(not each.held for each in said)
            print(f"{counts[0]} answerable and {counts[1]} unanswerable turns of MTRAG: AUC {auc(said):.3f}")
    except Missing as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
