"""`python -m studies.abstention --data FOLDER [--cache FILE]`: does it know when the collection holds no answer?

Claims of SciFact's training half are asked of the corpus as it is, and of the corpus without the abstracts that bear on
them: what a search finds there is what it finds here, those abstracts left out. The answer is the one without a model.
AUC is the chance that a claim whose abstract is there has more confidence than one whose is not; risk is the share of
the answers given whose first citation does not bear on the claim (of turns: that should not be given); the calibration
error is the mean gap between confidence and truth over ten bins of equal width, where the truth is that the collection
holds an answer. Nothing of SciFact is in the weights of the confidence; `studies.confidence` fits those.

Beside it, turns of MTRAG with what was said before them: those that its annotators called answerable from the passages,
and those that they did not.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from clew import Engine, Message, Settings, drivers
from clew.core.protocols import Reranker
from clew.core.settings import EmbedderConfig, IngestionConfig, RerankerConfig
from clew.core.types import EVERYTHING
from clew.query.answer import Look, extracted
from clew.query.answer.confidence import Signals, confidence, signals
from clew.query.answer.extract import READ
from clew.query.search.find import build_query
from studies.judged import SETS, JudgedSet
from studies.sets import Missing, lines

QUESTIONS = 300
DEPTH = 100  # hits that are looked at, so that enough are left without those that answer
BINS = 10
THRESHOLDS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
WHOLE = 1_000_000  # a chunk size that nothing reaches: what is judged is one chunk


@dataclass(frozen=True, slots=True)
class Asked:
    """The confidence of an answer, whether the collection held one, and whether its first citation is right."""

    confidence: float
    held: bool
    right: bool


@dataclass(frozen=True, slots=True)
class Case:
    """A question, what a collection shows of it, the documents that answer it, and whether the collection has them."""

    question: str
    look: Look
    answers: frozenset[str]
    held: bool


# -- the measures


def auc(asked: Sequence[Asked]) -> float:
    """The chance that an answer that was there has more confidence than one that was not; ties count half."""
    there = np.array([each.confidence for each in asked if each.held])
    absent = np.array([each.confidence for each in asked if not each.held])
    if not len(there) or not len(absent):
        return 0.5
    more = (there[:, None] > absent[None, :]).mean() + 0.5 * (there[:, None] == absent[None, :]).mean()
    return float(more)


def calibration_error(
    asked: Sequence[Asked], *, true: Callable[[Asked], bool] = lambda each: each.held, bins: int = BINS
) -> float:
    """The mean gap between confidence and the share that is true, over bins weighted by how many are in them.

    Naeini, Cooper and Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian Binning", 2015.
    """
    places = np.minimum((np.array([each.confidence for each in asked]) * bins).astype(int), bins - 1)
    error = 0.0
    for place in range(bins):
        few = [each for each, own in zip(asked, places, strict=True) if own == place]
        if few:
            sure = sum(each.confidence for each in few) / len(few)
            share = sum(true(each) for each in few) / len(few)
            error += abs(sure - share) * len(few) / len(asked)
    return error


def coverage_and_risk(asked: Sequence[Asked], least: float) -> tuple[float, float]:
    """The share of questions that are answered at a confidence, and the share of the answers that are wrong."""
    given = [each for each in asked if each.confidence >= least]
    wrong = sum(not each.right for each in given)
    return len(given) / len(asked), wrong / len(given) if given else 0.0


# -- the questions


class Kept:
    """A reranker that keeps its scores: what is asked twice is read once."""

    def __init__(self, reranker: Reranker) -> None:
        self._reranker = reranker
        self._scores: dict[tuple[str, str], float] = {}
        self.name = reranker.name

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score a text, in order."""
        new = [text for text in dict.fromkeys(texts) if (query, text) not in self._scores]
        for text, score in zip(new, self._reranker.score(query, new), strict=True):
            self._scores[query, text] = score
        return [self._scores[query, text] for text in texts]

    def calibrated(self, score: float) -> float:
        """The chance, from 0 to 1, that a text of that score answers."""
        return self._reranker.calibrated(score)


def cases(engine: Engine, given: JudgedSet, *, many: int) -> Iterator[Case]:
    """Questions from all over the set, each asked twice: of all documents, and of all but those that answer it."""
    home: Mapping[str, str] = {name: document for (document, _), name in given.names.items()}
    names = sorted(given.questions)
    for name in names[:: max(len(names) // many, 1)][:many]:
        answers = frozenset(home[each] for each, grade in given.grades.get(name, {}).items() if grade > 0)
        look = looked(engine, given.questions[name])
        without = replace(look, hits=[hit for hit in look.hits if hit.chunk.doc_id not in answers])
        yield Case(given.questions[name], look, answers, held=True)
        yield Case(given.questions[name], without, answers, held=False)


def looked(engine: Engine, question: str, history: Sequence[Message] = ()) -> Look:
    """What `ask` looks at before it answers, and as much again."""
    settings = Settings()
    return engine._look(build_query(question, DEPTH, EVERYTHING, history, settings), settings, k=DEPTH)


def claims(engine: Engine, given: JudgedSet, reranker: Reranker, *, many: int) -> list[Asked]:
    """Each question answered with and without the documents that answer it."""
    found = []
    for case in cases(engine, given, many=many):
        hits = case.look.hits
        answer = extracted(case.question, hits, engine.records(hits), reranker, look=case.look, most=1, least=0.0)
        right = any(citation.document in case.answers for citation in answer.citations)
        found.append(Asked(answer.confidence, case.held, right))
    return found


def signalled(question: str, look: Look, reranker: Reranker) -> Signals:
    """The signals of a question, without an answer being made."""
    scores = reranker.score(question, [hit.chunk.embed_text for hit in look.hits[:READ]])
    return signals(look, map(reranker.calibrated, scores))


def turns(engine: Engine, folder: Path, reranker: Reranker, *, many: int) -> list[Asked]:
    """Turns by what the annotators said of them, each with what was said before: so many that can be answered."""
    said: dict[str, list[tuple[str, Look]]] = {"ANSWERABLE": [], "UNANSWERABLE": []}
    for talk in lines(folder / "mtrag" / "clapnq" / "conversations.jsonl"):
        history: list[Message] = []
        for turn in talk["turns"]:
            kind = turn["answerability"][0]
            if kind == "UNANSWERABLE" or (kind == "ANSWERABLE" and len(said[kind]) < many):
                said[kind].append((turn["user"], looked(engine, turn["user"], tuple(history))))
            history += [Message(turn["user"]), Message(turn["agent"], role="assistant")]
    return [
        Asked(confidence(signalled(question, look, reranker)), kind == "ANSWERABLE", right=kind == "ANSWERABLE")
        for kind, some in said.items()
        for question, look in some
    ]


def opened(given: JudgedSet, embedder: str, cache: str, *, whole: bool = True) -> Engine:
    """An engine over the documents of a set; each judged text is one chunk, or they are cut as usual."""
    usual = IngestionConfig(summaries=False)
    settings = Settings(
        embedder=EmbedderConfig(name=embedder, cache=cache if embedder != "wordllama" else ""),
        ingestion=replace(usual, chunk_size=WHOLE, chunk_overlap=0) if whole else usual,
    )
    engine = Engine.open(":memory:", settings=settings)
    engine.add_documents(given.documents)
    return engine


def table(asked: Sequence[Asked]) -> Iterator[str]:
    """The lines of risk against coverage."""
    there, absent = ([each for each in asked if each.held is held] for held in (True, False))
    yield "| least confidence | answered, there | answered, not there | risk |"
    yield "|---|---|---|---|"
    for least in THRESHOLDS:
        shares = [100 * coverage_and_risk(some, least)[0] for some in (there, absent)]
        yield f"| {least:.1f} | {shares[0]:.1f} | {shares[1]:.1f} | {100 * coverage_and_risk(asked, least)[1]:.1f} |"


def main() -> None:
    """Prints AUC, calibration error and the table of risk against coverage."""
    parser = argparse.ArgumentParser(prog="studies.abstention", description="When to say that there is no answer.")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds the benchmark sets")
    parser.add_argument("--cache", default="", help="a file that keeps vectors")
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--reranker", default=RerankerConfig().name)
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    parser.add_argument("--set", default="scifact", choices=sorted(SETS), help="whose questions are asked")
    parser.add_argument("--turns", action="store_true", help="the turns of MTRAG instead")
    given = parser.parse_args()
    reranker = drivers.reranker(RerankerConfig(name=given.reranker))
    if reranker is None:
        parser.error("--reranker is empty; give a name")
    try:
        data = SETS["clapnq" if given.turns else given.set](given.data)
        with opened(data, given.embedder, given.cache) as engine:
            if given.turns:
                asked = turns(engine, given.data, Kept(reranker), many=given.questions)
            else:
                asked = claims(engine, data, Kept(reranker), many=given.questions)
    except Missing as error:
        parser.error(str(error))
    counts = sum(each.held for each in asked), sum(not each.held for each in asked)
    what = "turns of MTRAG" if given.turns else f"questions of {data.name}"
    print(f"{what}, {given.embedder}, {given.reranker}: {counts[0]} that can be answered, {counts[1]} that cannot")
    print(f"AUC {auc(asked):.3f}, calibration error {calibration_error(asked):.3f}", end="")
    print("" if given.turns else f" (of a right citation {calibration_error(asked, true=lambda e: e.right):.3f})")
    print("\n".join(table(asked)))


if __name__ == "__main__":
    main()
