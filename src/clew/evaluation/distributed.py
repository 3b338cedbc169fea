"""An evaluation on a Ray cluster: each worker opens the collection for itself, and asks the questions it is given."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from clew.core.errors import ClewError
from clew.core.filter import Filter
from clew.core.protocols import LLM, Embedder
from clew.core.report import OnProgress
from clew.core.settings import Settings
from clew.engine import Engine
from clew.engine.distributed import RayOptions, check_reachable, report_nodes
from clew.engine.opened import Extensions
from clew.evaluation.ask import WARM_UP, AskOptions, ask_question, prepare_engine
from clew.evaluation.questions.judged import JudgedQuestion
from clew.evaluation.questions.resolve import Judgement
from clew.evaluation.types import EvaluatedSystem, QuestionResult

if TYPE_CHECKING:
    from clew.ray import Work

Task = tuple[str, tuple[tuple[JudgedQuestion, Judgement], ...]]  # the name of a system, and what it is asked
TASK_QUESTIONS = 8  # of a task: little is asked again if its worker is lost


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """How a worker opens what the driver has open, to read it; models are opened as the driver opened them."""

    address: str
    collection: str
    settings: Settings
    used: Settings  # with the models' own, by which those are made
    embedder: Embedder | None
    llm: LLM | None
    extensions: Extensions
    boundary: Filter

    def open(self) -> Engine:
        """The engine of this process, with the settings and the sight of the driver's."""
        engine = Engine.open(
            self.address,
            collection=self.collection,
            embedder=self.embedder,
            llm=self.llm,
            settings=self.used,
            create=False,
        )
        opened = replace(engine.opened, settings=self.settings, extensions=self.extensions)
        return prepare_engine(Engine(opened.within(self.boundary)))


def make_engine_spec(engine: Engine) -> EngineSpec:
    """The spec of an engine; SettingsError if no other process can open its collection."""
    opened = engine.opened
    check_reachable(opened)
    embedder, llm = opened.embedder_config, opened.llm_config
    settings = opened.settings
    return EngineSpec(
        opened.address,
        opened.collection,
        settings,
        replace(settings, embedder=embedder or settings.embedder, llm=llm or settings.llm),
        None if embedder else opened.embedder,
        None if llm else opened.llm,
        replace(opened.extensions, chunker=None, enrichers=(), readers={}),  # nothing is written
        opened.boundary,
    )


def make_asker(
    spec: EngineSpec, systems: Mapping[str, tuple[EvaluatedSystem, Settings]], options: AskOptions
) -> "Work":
    """What a worker does: the results of one system for some questions."""
    engine = spec.open()
    ready: dict[str, Engine] = {}

    def ask(task: Task) -> list[QuestionResult]:
        name, asked = task
        system, tree = systems[name]
        if name not in ready:
            ready[name] = warm_up(engine, system, tree)
        return [ask_question(ready[name], system, tree, *each, options) for each in asked]

    return ask


def warm_up(engine: Engine, system: EvaluatedSystem, tree: Settings) -> Engine:
    """The engine with empty caches and its models loaded, before the clock runs."""
    fresh = prepare_engine(engine)
    with suppress(ClewError):  # a fault shows with the first question
        fresh.search(WARM_UP, k=1, strategy=system.strategy, settings=tree)
    return fresh


def ask_on_cluster(
    engine: Engine,
    ray: RayOptions,
    left: Mapping[str, Sequence[JudgedQuestion]],
    systems: Mapping[str, tuple[EvaluatedSystem, Settings]],
    judgements: Mapping[str, Judgement],
    options: AskOptions,
    on_progress: OnProgress | None,
) -> Iterator[QuestionResult]:
    """The results of the questions that each system is still to be asked, as the workers return them."""
    from clew.ray import open_pool

    assert ray.address is not None
    make = partial(make_asker, make_engine_spec(engine), systems, options)
    tasks: list[Task] = [
        (name, tuple((each, judgements[each.id]) for each in questions[start : start + TASK_QUESTIONS]))
        for name, questions in left.items()
        for start in range(0, len(questions), TASK_QUESTIONS)
    ]
    if not tasks:  # nothing is left to ask, and nobody is needed
        return
    with open_pool(
        make, ray.address, workers=ray.workers, gpus=ray.gpus, on_node=partial(report_nodes, on_progress)
    ) as pool:
        for _, results in pool.run(tasks):
            yield from results
