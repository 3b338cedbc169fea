"""The evaluation of a collection: ask every system every judged question, and test the differences.

It runs here or as a job of a worker. A result gets the measures that the judgement of its question allows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any, Final

from clew.core.answer import Answer
from clew.core.cite import Context
from clew.core.errors import ClewError, SettingsError
from clew.core.filter import EVERYTHING, Filter
from clew.core.ids import digest
from clew.core.jobs import Job
from clew.core.report import OnProgress, Progress
from clew.core.settings import Settings
from clew.core.settings.override import diff_settings
from clew.core.suggest import unknown_name_error
from clew.core.text import extract_terms
from clew.engine import Engine
from clew.engine.jobs import make_job_id, register_runner
from clew.engine.opened import check_filter, check_positive_count, make_finder
from clew.evaluation.measures import (
    Span,
    average_precision,
    intersect_spans,
    measure_cover,
    ndcg_at,
    precision_at,
    recall_at,
    reciprocal_rank,
    topic_coverage,
)
from clew.evaluation.questions.judged import (
    JudgedQuestion,
    Judgement,
    format_question,
    parse_question,
    read_questions,
    resolve_questions,
)
from clew.evaluation.report import check_measures, list_measures, score_run
from clew.evaluation.runs import append_result, continue_run, find_runs, list_runs, start_run
from clew.evaluation.types import EvaluatedSystem, Evaluation, EvaluationRun, QuestionResult

KIND: Final = "evaluate"  # kind of job
FETCH = 2  # chunks fetched for each of the k documents; the documents of these chunks are ranked
WARM_UP = "warm-up"


@dataclass(frozen=True, slots=True)
class AskOptions:
    """The options with which each question is asked."""

    k: int = 10  # cut-off of the measures
    tokens: int = 2000  # budget of the context; 0: no context
    answers: bool = False
    where: Filter = EVERYTHING


# Every surface has these parameters.
def evaluate(
    engine: Engine,
    questions: str | Path | Sequence[JudgedQuestion],
    *,
    strategies: Sequence[str] = (),
    settings: Mapping[str, Settings] | None = None,
    k: int = 10,
    tokens: int | None = None,
    answers: bool = False,
    where: Filter = EVERYTHING,
    measures: Sequence[str] = (),
    keep: bool = True,
    folder: str | Path | None = None,
    on_progress: OnProgress | None = None,
) -> Evaluation:
    """Measure each strategy under each of the settings, and compare each with the first one.

    questions: Judged questions, or a JSON Lines file or BEIR folder of them.
    strategies, settings: Default: the engine's own.
    k: Documents that the measures take into account.
    tokens: Budget of the measured context (default: `context.tokens`); 0 for no context.
    answers: Also answer every question.
    where: The part of the collection to search in.
    measures: Measures to compare (default: nDCG, and the evidence in the context).
    keep: Keep the run with the collection, or in `folder`, without any texts, and continue an interrupted one of the
        same questions and settings.
    """
    asked = read_questions(questions) if isinstance(questions, (str, Path)) else list(questions)
    check_questions(asked)
    k = check_positive_count("k", k)
    options = AskOptions(
        k=k,
        tokens=engine.settings.context.tokens if tokens is None else tokens,
        answers=answers,
        where=check_filter(where),
    )
    check_measures(measures, list_measures(k, options.tokens, answers=answers))
    trees = build_systems(engine, strategies, settings)
    judgements, notes = resolve_questions(engine, asked)
    run = make_run(engine, asked, trees, judgements, options, notes)
    if isinstance(questions, (str, Path)):
        run = replace(run, source=Path(questions).name)
    place = find_runs(engine, folder) if keep else None
    if place is not None:
        unfinished = _find_unfinished(engine, run, folder)
        run = continue_run(unfinished, place) if unfinished else start_run(run, place)
    results = list(run.results)
    for result in _ask_all(engine, asked, trees, judgements, options, run, on_progress):
        if place is not None:
            append_result(run, result, place)
        results.append(result)
    return score_run(replace(run, results=tuple(results)), measures=measures)


def enqueue_evaluation(
    engine: Engine,
    questions: Sequence[JudgedQuestion],
    *,
    strategies: Sequence[str] = (),
    k: int = 10,
    tokens: int | None = None,
    answers: bool = False,
) -> Job:
    """Queue an `evaluate` for a worker (a server, `clew jobs work`) and return the job.

    The job stores the questions; the settings are the worker's. Its result has the id of the run and the measures of
    each strategy.
    """
    engine.opened.check_unbounded()
    check_questions(questions)
    build_systems(engine, strategies, None)  # report an unknown strategy now,
    resolve_questions(engine, questions)  # and questions about another collection
    request = {
        "questions": [format_question(each) for each in questions],
        "strategies": list(strategies),
        "k": check_positive_count("k", k),
        "tokens": tokens,
        "answers": answers,
    }
    return engine.opened.store.jobs.put(Job(make_job_id(), KIND, request))


def run_evaluation(engine: Engine, job: Job, on_progress: OnProgress) -> Mapping[str, Any]:
    """Run the job; return the id of its run, the measures of each system, and the notes."""
    request = job.request
    try:
        questions = [parse_question(each) for each in request["questions"]]
        options = {name: request[name] for name in ("strategies", "k", "tokens", "answers")}
    except KeyError as error:
        raise SettingsError(f"the job has no {error}; queue it again with this version") from error
    made = evaluate(engine, questions, **options, on_progress=on_progress)
    return {
        "run": made.run.id,
        "is_kept": made.run.is_kept,
        "systems": {score.system.name: dict(score.means) for score in made.scores},
        "notes": list(made.notes),
    }


register_runner(KIND, run_evaluation)


def build_systems(
    engine: Engine, strategies: Sequence[str], settings: Mapping[str, Settings] | None
) -> dict[str, tuple[EvaluatedSystem, Settings]]:
    """Build the systems by name, each with its settings: every strategy under each of the settings."""
    if isinstance(strategies, str):
        strategies = (strategies,)
    found: dict[str, tuple[EvaluatedSystem, Settings]] = {}
    for label, given in (settings or {"": engine.settings}).items():
        tree = engine.opened.resolve_settings(given)
        changes = diff_settings(engine.settings, tree)
        if fixed := [name for name in changes if name.startswith(("embedder.", "ingestion.", "store."))]:
            raise SettingsError(
                f"{fixed[0]} is of the collection and changes no question; make another collection with it "
                "(`clew --collection NAME add`), evaluate that too, and `clew evaluate compare` the runs"
            )
        for strategy in strategies or (tree.search.strategy,):
            if strategy not in engine.strategies:
                raise unknown_name_error("strategy", strategy, engine.strategies)
            name = " ".join(filter(None, (strategy, label)))
            found[name] = EvaluatedSystem(name, strategy, changes), tree
    return found


def make_run(
    engine: Engine,
    questions: Sequence[JudgedQuestion],
    systems: Mapping[str, tuple[EvaluatedSystem, Settings]],
    judgements: Mapping[str, Judgement],
    options: AskOptions,
    notes: tuple[str, ...] = (),
) -> EvaluationRun:
    """Make a run without results, whose key is a digest of everything that the results depend on."""
    stats = engine.opened.store.counts()
    parts = [
        *(f"{question!r} {judgements[question.id]!r}" for question in questions),
        *(f"{system.name} {tree!r}" for system, tree in systems.values()),
        f"{options!r} {stats.embedder} {stats.change} {getattr(engine.opened.llm, 'name', '')}",
    ]
    key = digest(*parts)
    now = datetime.now(UTC)
    return EvaluationRun(
        id=f"{now:%Y%m%d-%H%M%S-%f}"[:-3] + f"-{key[:4]}",
        key=key,
        created=now,
        systems=tuple(system for system, _ in systems.values()),
        questions=tuple(question.id for question in questions),
        grades={question.id: dict(judgements[question.id].grades) for question in questions},
        k=options.k,
        tokens=options.tokens,
        embedder=stats.embedder,
        notes=notes,
    )


def _find_unfinished(engine: Engine, run: EvaluationRun, folder: str | Path | None) -> EvaluationRun | None:
    """Find the last interrupted run with the same key."""
    kept = (each for each in reversed(list_runs(engine, folder=folder)) if each.key == run.key)
    return next((each for each in kept if not each.is_finished), None)


def _ask_all(
    engine: Engine,
    questions: Sequence[JudgedQuestion],
    systems: Mapping[str, tuple[EvaluatedSystem, Settings]],
    judgements: Mapping[str, Judgement],
    options: AskOptions,
    run: EvaluationRun,
    on_progress: OnProgress | None,
) -> Iterator[QuestionResult]:
    """Ask the questions that the run has no result for, and yield each result."""
    done = {(result.system, result.question) for result in run.results}
    report = _make_reporter(len(systems) * len(questions), len(done), on_progress)
    left = {name: [each for each in questions if (name, each.id) not in done] for name in systems}
    for name, (system, tree) in systems.items():
        fresh = _warm_up(engine, system, tree) if left[name] else engine
        for question in left[name]:
            yield ask_question(fresh, system, tree, question, judgements[question.id], options)
            report()


def _warm_up(engine: Engine, system: EvaluatedSystem, tree: Settings) -> Engine:
    """Return the engine with empty caches and loaded models, so that loading is not timed."""
    fresh = _empty_caches(engine)
    with suppress(ClewError):  # the first question will raise the error
        fresh.search(WARM_UP, k=1, strategy=system.strategy, settings=tree)
    return fresh


def _make_reporter(total: int, before: int, on_progress: OnProgress | None) -> Callable[[], None]:
    started, done = monotonic(), before

    def report() -> None:
        nonlocal done
        done += 1
        if on_progress:
            rate = (done - before) / max(monotonic() - started, 1e-9)
            on_progress(Progress("evaluating", done, total, "questions", rate, (total - done) / rate))

    return report


def check_questions(questions: Sequence[JudgedQuestion]) -> None:
    """Raise SettingsError unless there are questions, each with a unique id."""
    if not questions:
        raise SettingsError("there are no questions; `clew evaluate make` writes some")
    for each in questions:
        if not isinstance(each, JudgedQuestion):
            raise SettingsError(f"a question has the type {type(each).__name__}; give JudgedQuestion(…), or a file")
    if len({question.id for question in questions}) < len(questions):
        raise SettingsError("two questions have the same id; give each an id of its own")


def _empty_caches(engine: Engine) -> Engine:
    """Return the same engine with empty caches, so that all systems are timed under equal conditions."""
    opened = engine.opened
    finder = make_finder(opened.store, opened.embedder, opened.llm, opened.settings, opened.extensions)
    return Engine(replace(opened, finder=finder))


def ask_question(
    engine: Engine,
    system: EvaluatedSystem,
    settings: Settings,
    question: JudgedQuestion,
    judgement: Judgement,
    options: AskOptions,
) -> QuestionResult:
    """Ask a system a question; measure and return the result."""
    settings = replace(settings, search=replace(settings.search, cache=0))  # do not time a cached result
    asked: dict[str, Any] = {
        "strategy": system.strategy,
        "where": options.where,
        "history": question.history,
        "settings": settings,
    }
    started = perf_counter()
    hits = engine.search(question.question, k=FETCH * options.k, **asked)
    ms = 1000 * (perf_counter() - started)
    best: dict[str, float] = {}
    for hit in hits:
        best.setdefault(hit.chunk.doc_id, hit.relevance if isfinite(hit.relevance) else 0.0)
    ranking = tuple(best)
    values: dict[str, float] = {}
    tokens: int | None = None
    if question.is_answerable:
        values |= measure_ranking(ranking, judgement, options.k)
        spans = [(hit.chunk.doc_id, (hit.chunk.start, hit.chunk.end)) for hit in hits[: options.k]]
        values |= _measure_evidence(spans, judgement, f"evidence@{options.k}")
    if options.tokens and (judgement.spans or not question.is_answerable):
        context = engine.context(question.question, tokens=options.tokens, **asked)
        tokens = context.tokens
        name = f"evidence@{options.tokens} tokens"
        values |= _measure_evidence(_list_context_spans(context), judgement, name)
        if not question.is_answerable:
            values["left empty"] = float(not context.passages)
    confidence: float | None = None
    if options.answers:
        answer = engine.ask(question.question, **asked)
        values |= measure_answer(answer, question, judgement)
        tokens = (tokens or 0) + answer.usage.input_tokens + answer.usage.output_tokens
        confidence = answer.confidence
    return QuestionResult(system.name, question.id, ranking, tuple(best.values()), values, ms, tokens, confidence)


def measure_ranking(ranking: Sequence[str], judgement: Judgement, k: int) -> dict[str, float]:
    """Measure a ranking of documents; return no measures if nothing is relevant."""
    relevant = {name for name, grade in judgement.grades.items() if grade > 0}
    if not relevant:
        return {}
    values = {
        f"nDCG@{k}": ndcg_at(k, ranking, judgement.grades),
        f"recall@{k}": recall_at(k, ranking, relevant),
        f"precision@{k}": precision_at(k, ranking, relevant),
        "MRR": reciprocal_rank(ranking, relevant),
        "MAP": average_precision(ranking, relevant),
    }
    if judgement.topics:
        values[f"topics@{k}"] = topic_coverage(k, ranking, judgement.topics)
    return values


def measure_answer(answer: Answer, question: JudgedQuestion, judgement: Judgement) -> dict[str, float]:
    """Measure an answer.

    It is right if it cites the evidence, or without evidence, a relevant document; any answer to an unanswerable
    question is wrong. `answer F1` compares its words (without a model, the chosen words of the passages) with the
    reference answer.
    """
    values = {"answered": float(answer.found)}
    if not answer.found:
        return values
    cited = [(each.document, (each.start, each.end)) for each in answer.citations]
    right = [_is_evidence(document, span, judgement) for document, span in cited]
    values["right"] = float(any(right))
    if cited and question.is_answerable:
        values["citation precision"] = sum(right) / len(right)
    if question.answer:
        said = " ".join(part.chosen for part in answer.parts) or answer.text
        values["answer F1"] = compare_words(said, question.answer)
    return values


def compare_words(text: str, reference: str) -> float:
    """Compute the F1 of the terms of a text and a reference, without function words."""
    said, wanted = extract_terms(text), extract_terms(reference)
    shared = sum(min(count, wanted.get(term, 0)) for term, count in said.items())
    return 2 * shared / (sum(said.values()) + sum(wanted.values())) if shared else 0.0


def _is_evidence(document: str, span: Span, judgement: Judgement) -> bool:
    if judgement.spans:
        return bool(intersect_spans([span], [wanted for id_, wanted in judgement.spans if id_ == document]))
    return judgement.grades.get(document, 0.0) > 0


def _measure_evidence(spans: Sequence[tuple[str, Span]], judgement: Judgement, name: str) -> dict[str, float]:
    """Measure the share of the characters of each piece of evidence in the spans, and return the mean."""
    covers = [
        measure_cover([span for id_, span in spans if id_ == document], wanted) for document, wanted in judgement.spans
    ]
    return {name: sum(covers) / len(covers)} if covers else {}


def _list_context_spans(context: Context) -> list[tuple[str, Span]]:
    return [
        (passage.chunks[0].chunk.doc_id, span)
        for passage in context.passages
        if passage.chunks
        for span in passage.spans
    ]
