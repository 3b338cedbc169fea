"""The evaluation of a collection: every system is asked every judged question, and the differences are tested."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from clew.core.errors import ClewError, SettingsError
from clew.core.filter import EVERYTHING, Filter
from clew.core.ids import digest
from clew.core.report import OnProgress, Progress
from clew.core.settings import Settings
from clew.core.settings.override import diff_settings
from clew.engine import Engine
from clew.engine.opened import check_filter, check_positive_count
from clew.engine.search import look_up_by_name
from clew.evaluation.ask import WARM_UP, AskOptions, ask_question, prepare_engine
from clew.evaluation.questions.judged import JudgedQuestion, read_questions
from clew.evaluation.questions.resolve import Judgement, resolve_questions
from clew.evaluation.report import check_measures, list_measures, score_run
from clew.evaluation.runs import append_result, continue_run, find_runs, list_runs, start_run
from clew.evaluation.types import EvaluatedSystem, Evaluation, EvaluationRun, QuestionResult

FETCH = 2  # chunks fetched for each document that is ranked


def evaluate(
    engine: Engine,
    questions: str | Path | Sequence[JudgedQuestion],
    *,
    strategies: Sequence[str] = (),
    settings: Mapping[str, Settings] | None = None,
    k: int = 10,
    hits: int | None = None,
    tokens: int | None = None,
    answers: bool = False,
    where: Filter = EVERYTHING,
    measures: Sequence[str] = (),
    keep: bool = True,
    folder: str | Path | None = None,
    resume: bool = True,
    on_progress: OnProgress | None = None,
) -> Evaluation:
    """The measures of each strategy under each of the settings, and how they differ from the first of them.

    The questions are judged ones, a JSON Lines file or a BEIR folder of them. Without strategies or settings those of
    the engine are measured. Measures are taken at `k` documents, of `hits` chunks (default: two for each document), and
    of a context of so many `tokens` (0: none is made). With `answers` every question is also answered. `measures` are
    those that are compared (default: nDCG, and the evidence in the context).

    The run is kept with the collection, or in `folder`, and one that broke off is continued, unless
    `resume` is False. Nothing is kept of the texts.
    """
    asked = read_questions(questions) if isinstance(questions, (str, Path)) else list(questions)
    check_questions(asked)
    k = check_positive_count("k", k)
    options = AskOptions(
        k=k,
        hits=FETCH * k if hits is None else check_positive_count("hits", hits),
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
        unfinished = _find_unfinished(engine, run, folder) if resume else None
        run = continue_run(unfinished, place) if unfinished else start_run(run, place)
    results = list(run.results)
    for result in _ask_all(engine, asked, trees, judgements, options, run, on_progress):
        if place is not None:
            append_result(run, result, place)
        results.append(result)
    return score_run(replace(run, results=tuple(results)), measures=measures)


def build_systems(
    engine: Engine, strategies: Sequence[str], settings: Mapping[str, Settings] | None
) -> dict[str, tuple[EvaluatedSystem, Settings]]:
    """The systems by name, each with its settings: every strategy with every one of the settings."""
    if isinstance(strategies, str):
        strategies = (strategies,)
    found: dict[str, tuple[EvaluatedSystem, Settings]] = {}
    for label, given in (settings or {"": engine.settings}).items():
        tree = engine.opened.resolve_settings(given)
        for strategy in strategies or (tree.search.strategy,):
            look_up_by_name(strategy, engine.strategies, "strategy")
            name = " ".join(filter(None, (strategy, label)))
            found[name] = EvaluatedSystem(name, strategy, diff_settings(engine.settings, tree)), tree
    return found


def make_run(
    engine: Engine,
    questions: Sequence[JudgedQuestion],
    systems: Mapping[str, tuple[EvaluatedSystem, Settings]],
    judgements: Mapping[str, Judgement],
    options: AskOptions,
    notes: tuple[str, ...] = (),
) -> EvaluationRun:
    """A run without results, whose key stands for all that they depend on."""
    stats = engine.opened.store.stats()
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
    """The kept run that broke off and asks just the same, if there is one."""
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
    """The results that the run lacks, one by one."""
    done = {(result.system, result.question) for result in run.results}
    report = _make_reporter(len(systems) * len(questions), len(done), on_progress)
    left = {name: [each for each in questions if (name, each.id) not in done] for name in systems}
    for name, (system, tree) in systems.items():
        fresh = _warm_up(engine, system, tree) if left[name] else engine
        for question in left[name]:
            yield ask_question(fresh, system, tree, question, judgements[question.id], options)
            report()


def _warm_up(engine: Engine, system: EvaluatedSystem, tree: Settings) -> Engine:
    """Return the engine with empty caches and its models loaded, before the clock runs."""
    fresh = prepare_engine(engine)
    with suppress(ClewError):  # a fault shows with the first question
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
    """Raises SettingsError unless there are questions, each with an id of its own."""
    if not questions:
        raise SettingsError("there are no questions; `clew evaluate make` writes some")
    if len({question.id for question in questions}) < len(questions):
        raise SettingsError("two questions have the same id; give each an id of its own")
