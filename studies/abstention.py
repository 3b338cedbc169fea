"""`python -m studies.abstention --data FOLDER [--cache FILE]`: is confidence low without an answer?

Each training claim of SciFact is asked of the corpus, and of the corpus without the abstracts that answer it (the same
hits without those abstracts). Answers are extractive, without a language model, read by `--reader`. AUC is the
probability that an answerable claim gets more confidence than an unanswerable one; risk is the share of given answers
whose first citation is wrong (for turns: that should not have been given); the calibration error is the mean gap
between confidence and truth over ten bins of equal width, where truth means that the collection holds an answer. The
weights of the confidence are not fitted on SciFact; `studies.confidence` fits those of the reranker.

With --turns: turns of MTRAG with their history, by whether its annotators called them answerable from the passages.
With --pairs FILE: pairs of an answerable question and a near miss on `--documents` (by default the sample), asked as
`ask` does; `studies.pairs` says what the file holds.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from clew import Engine, Message, Settings, drivers
from clew.core.filter import EVERYTHING
from clew.core.protocols import Reranker
from clew.core.settings import AnswerConfig, EmbedderConfig, IngestionConfig, RerankerConfig
from clew.engine.answer import build_probe, find_probe_hits
from clew.query.answer import Probe, extract_answer
from clew.query.answer.confidence import READER_WEIGHTS, WEIGHTS, ConfidenceSignals, compute_signals
from clew.query.answer.extract import READ_HITS, ExtractedAnswer
from clew.query.answer.question import is_statement
from clew.query.search.find import build_query
from studies.handbook import EXAMPLES
from studies.judged import SETS, JudgedSet
from studies.pairs import ask_pairs, load_pairs, make_pair_rows
from studies.sets import MissingSet, read_jsonl

QUESTIONS = 300
DEPTH = 100  # hits, so that enough are left without the relevant ones
BINS = 10
THRESHOLDS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SAMPLE = (EXAMPLES / "handbook", EXAMPLES / "chat")
UNLIMITED_CHUNK = 1_000_000  # a chunk size that no text reaches: each judged text is one chunk


@dataclass(frozen=True, slots=True)
class AnswerOutcome:
    """The confidence of an answer, whether the collection holds one, and whether its first citation is right."""

    confidence: float
    is_answerable: bool
    is_right: bool


@dataclass(frozen=True, slots=True)
class AbstentionCase:
    """A question, the probe of the collection, the relevant documents, and whether the collection has them."""

    question: str
    probe: Probe
    answers: frozenset[str]
    is_answerable: bool


# -- the measures


def auc(outcomes: Sequence[AnswerOutcome]) -> float:
    """The probability that an answerable question has more confidence than an unanswerable one; ties count half."""
    there = np.array([each.confidence for each in outcomes if each.is_answerable])
    absent = np.array([each.confidence for each in outcomes if not each.is_answerable])
    if not len(there) or not len(absent):
        return 0.5
    more = (there[:, None] > absent[None, :]).mean() + 0.5 * (there[:, None] == absent[None, :]).mean()
    return float(more)


def compute_auc_interval(outcomes: Sequence[AnswerOutcome], *, rounds: int = 1000) -> tuple[float, float]:
    """The 95 % interval of the AUC, by a bootstrap of the answerable and of the unanswerable questions."""
    there = np.array([each.confidence for each in outcomes if each.is_answerable])
    absent = np.array([each.confidence for each in outcomes if not each.is_answerable])
    if not len(there) or not len(absent):
        return 0.0, 1.0
    wins = (there[:, None] > absent[None, :]) + 0.5 * (there[:, None] == absent[None, :])
    chance = np.random.default_rng(7)
    found = [
        wins[np.ix_(chance.integers(0, len(there), len(there)), chance.integers(0, len(absent), len(absent)))].mean()
        for _ in range(rounds)
    ]
    low, high = np.quantile(found, (0.025, 0.975))
    return float(low), float(high)


def calibration_error(
    outcomes: Sequence[AnswerOutcome],
    *,
    is_true: Callable[[AnswerOutcome], bool] = lambda each: each.is_answerable,
    bins: int = BINS,
) -> float:
    """The expected calibration error: the mean gap between confidence and truth over bins, weighted by their size.

    Naeini, Cooper and Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian Binning", 2015.
    """
    places = np.minimum((np.array([each.confidence for each in outcomes]) * bins).astype(int), bins - 1)
    error = 0.0
    for place in range(bins):
        in_bin = [each for each, own in zip(outcomes, places, strict=True) if own == place]
        if in_bin:
            confidence = sum(each.confidence for each in in_bin) / len(in_bin)
            share = sum(is_true(each) for each in in_bin) / len(in_bin)
            error += abs(confidence - share) * len(in_bin) / len(outcomes)
    return error


def compute_coverage_and_risk(outcomes: Sequence[AnswerOutcome], min_confidence: float) -> tuple[float, float]:
    """The share of questions answered from a minimum confidence on, and the share of wrong ones among the answers."""
    given = [each for each in outcomes if each.confidence >= min_confidence]
    wrong = sum(not each.is_right for each in given)
    return len(given) / len(outcomes), wrong / len(given) if given else 0.0


# -- the questions


class CachedReranker:
    """A reranker that caches its scores."""

    def __init__(self, reranker: Reranker) -> None:
        self._reranker = reranker
        self._scores: dict[tuple[str, str], float] = {}
        self.name = reranker.name

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score per text, in order."""
        new = [text for text in dict.fromkeys(texts) if (query, text) not in self._scores]
        for text, score in zip(new, self._reranker.score(query, new), strict=True):
            self._scores[query, text] = score
        return [self._scores[query, text] for text in texts]

    def calibrate(self, score: float) -> float:
        """The probability that a text with this score is relevant."""
        return self._reranker.calibrate(score)


def make_cases(engine: Engine, given: JudgedSet, *, max_questions: int) -> Iterator[AbstentionCase]:
    """Questions spread over the set, each outcomes twice: of all documents, and of all but the relevant ones."""
    document_of: Mapping[str, str] = {name: document for (document, _), name in given.names.items()}
    names = sorted(given.questions)
    for name in names[:: max(len(names) // max_questions, 1)][:max_questions]:
        answers = frozenset(document_of[each] for each, grade in given.grades.get(name, {}).items() if grade > 0)
        probe = probe_collection(engine, given.questions[name])
        without = replace(probe, hits=[hit for hit in probe.hits if hit.chunk.doc_id not in answers])
        yield AbstentionCase(given.questions[name], probe, answers, is_answerable=True)
        yield AbstentionCase(given.questions[name], without, answers, is_answerable=False)


def probe_collection(engine: Engine, question: str, history: Sequence[Message] = ()) -> Probe:
    """The probe that `ask` makes before it answers, with more hits."""
    settings = Settings()
    query = build_query(question, DEPTH, EVERYTHING, history, settings)
    hits = find_probe_hits(engine.opened, query, settings, k=DEPTH)
    return build_probe(engine.opened, question, hits, settings)


@dataclass(frozen=True, slots=True)
class Reading:
    """What reads the hits, as `ask` reads them: the reader with the reranker for topics, or the reranker alone."""

    reranker: Reranker
    reader: Reranker | None = None

    def answer(self, question: str, probe: Probe) -> ExtractedAnswer:
        """The best part of the hits of a probe, however low its confidence is; a statement is read by the reranker."""
        if self.reader and is_statement(question):
            return Reading(self.reranker).answer(question, probe)
        return extract_answer(
            question,
            probe.hits,
            {hit.document.id: hit.document for hit in probe.hits},
            self.reader or self.reranker,
            probe=probe,
            max_sentences=1,
            min_confidence=0.0,
            weights=READER_WEIGHTS if self.reader else WEIGHTS,
            topics=self.reranker if self.reader else None,
        )


def answer_claims(engine: Engine, given: JudgedSet, reading: Reading, *, max_questions: int) -> list[AnswerOutcome]:
    """The outcome of each question with and without its relevant documents."""
    found = []
    for case in make_cases(engine, given, max_questions=max_questions):
        answer = reading.answer(case.question, case.probe)
        right = any(citation.document in case.answers for citation in answer.citations)
        found.append(AnswerOutcome(answer.confidence, case.is_answerable, right))
    return found


def compute_question_signals(question: str, look: Probe, reranker: Reranker) -> ConfidenceSignals:
    """The confidence signals of a question, without making an answer."""
    scores = reranker.score(question, [hit.chunk.embed_text for hit in look.hits[:READ_HITS]])
    return compute_signals(look, map(reranker.calibrate, scores))


def answer_turns(engine: Engine, folder: Path, reading: Reading, *, max_questions: int) -> list[AnswerOutcome]:
    """The outcomes of all unanswerable turns and at most so many answerable ones, each outcomes with its history."""
    turns_by_kind: dict[str, list[tuple[str, Probe]]] = {"ANSWERABLE": [], "UNANSWERABLE": []}
    for talk in read_jsonl(folder / "mtrag" / "clapnq" / "conversations.jsonl"):
        history: list[Message] = []
        for turn in talk["turns"]:
            kind = turn["answerability"][0]
            if kind == "UNANSWERABLE" or (kind == "ANSWERABLE" and len(turns_by_kind[kind]) < max_questions):
                turns_by_kind[kind].append((turn["user"], probe_collection(engine, turn["user"], tuple(history))))
            history += [Message(turn["user"]), Message(turn["agent"], role="assistant")]
    return [
        AnswerOutcome(
            reading.answer(question, look).confidence,
            kind == "ANSWERABLE",
            is_right=kind == "ANSWERABLE",
        )
        for kind, some in turns_by_kind.items()
        for question, look in some
    ]


def open_engine(given: JudgedSet, embedder: str, cache: str, *, one_chunk_each: bool = True) -> Engine:
    """An engine over the documents of a set; each judged text is one chunk, or it is chunked as usual."""
    usual = IngestionConfig()
    settings = Settings(
        embedder=EmbedderConfig(name=embedder, cache=cache if embedder != "wordllama" else ""),
        ingestion=replace(usual, chunk_size=UNLIMITED_CHUNK, chunk_overlap=0) if one_chunk_each else usual,
    )
    engine = Engine.open(":memory:", settings=settings)
    engine.add_documents(given.documents)
    return engine


def make_rows(outcomes: Sequence[AnswerOutcome]) -> Iterator[str]:
    """The rows of the table of risk against coverage."""
    there, absent = ([each for each in outcomes if each.is_answerable is held] for held in (True, False))
    yield "| minimum confidence | answered, answerable | answered, unanswerable | risk |"
    yield "|---|---|---|---|"
    for minimum in THRESHOLDS:
        shares = [100 * compute_coverage_and_risk(some, minimum)[0] for some in (there, absent)]
        risk = 100 * compute_coverage_and_risk(outcomes, minimum)[1]
        yield f"| {minimum:.1f} | {shares[0]:.1f} | {shares[1]:.1f} | {risk:.1f} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints AUC, calibration error and the table of risk against coverage."""
    parser = argparse.ArgumentParser(
        prog="studies.abstention", description="Abstention: confidence with and without an answer."
    )
    parser.add_argument("--data", type=Path, default=Path(), help="the folder that holds the benchmark sets")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--reranker", default=RerankerConfig().name)
    parser.add_argument("--reader", default=AnswerConfig().reader)
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    parser.add_argument("--set", default="scifact", choices=sorted(SETS), help="the set to take questions from")
    parser.add_argument("--turns", action="store_true", help="use the turns of MTRAG instead")
    parser.add_argument("--pairs", type=Path, help="a file of answerable questions and near misses to ask instead")
    parser.add_argument("--documents", type=Path, nargs="+", default=SAMPLE, help="what the pairs are asked of")
    given = parser.parse_args(arguments)
    if given.pairs:
        _print_pairs(given.pairs, given.documents, given.embedder, given.reranker, given.cache)
        return
    reranker = drivers.make_reranker(RerankerConfig(name=given.reranker))
    if reranker is None:
        parser.error("--reranker is empty; give a name")
    reader = drivers.make_reader(AnswerConfig(reader=given.reader))
    reading = Reading(CachedReranker(reranker), CachedReranker(reader) if reader else None)
    try:
        data = SETS["clapnq" if given.turns else given.set](given.data)
        with open_engine(data, given.embedder, given.cache) as engine:
            if given.turns:
                outcomes = answer_turns(engine, given.data, reading, max_questions=given.questions)
            else:
                outcomes = answer_claims(engine, data, reading, max_questions=given.questions)
    except MissingSet as error:
        parser.error(str(error))
    counts = sum(each.is_answerable for each in outcomes), sum(not each.is_answerable for each in outcomes)
    what = "turns of MTRAG" if given.turns else f"questions of {data.name}"
    print(
        f"{what}, {given.embedder}, {given.reranker}, {given.reader}: {counts[0]} answerable, {counts[1]} unanswerable"
    )
    low, high = compute_auc_interval(outcomes)
    print(f"AUC {auc(outcomes):.3f} (95 % interval {low:.3f} to {high:.3f}), ", end="")
    print(f"calibration error {calibration_error(outcomes):.3f}", end="")
    print(
        ""
        if given.turns
        else f" (of a right first citation {calibration_error(outcomes, is_true=lambda e: e.is_right):.3f})"
    )
    print("\n".join(make_rows(outcomes)))


def _print_pairs(file: Path, documents: Sequence[Path], embedder: str, reranker: str, cache: str) -> None:
    settings = Settings(
        embedder=EmbedderConfig(name=embedder, cache=cache),
        reranker=RerankerConfig(name=reranker),
        ingestion=IngestionConfig(),
    )
    try:
        pairs = load_pairs(file)
    except MissingSet as error:
        raise SystemExit(f"error: {error}") from None
    with Engine.open(":memory:", settings=settings) as engine:
        engine.add(*documents)
        for row in make_pair_rows(ask_pairs(engine, pairs)):
            print(row)


if __name__ == "__main__":
    main()
