"""Evaluation by workers, in this process: each asks what the engine itself would ask."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from clew import DriverFailed, Engine, Filter, JudgedQuestion, SettingsError, evaluate
from clew.evaluation.ask import AskOptions
from clew.evaluation.distributed import make_asker, make_engine_spec
from clew.evaluation.evaluate import build_systems
from clew.evaluation.questions.resolve import resolve_questions
from clew.query.search.strategies import STRATEGIES
from clew.ray.pool import TaskWorker
from clew.ray.spec import dump

OpenCollection = Callable[..., Engine]


def test_a_worker_asks_with_the_strategies_and_the_sight_of_the_engine(
    open_collection: OpenCollection, pages: Path
) -> None:
    def reverse(drivers: Any) -> Any:
        strategy = STRATEGIES["lexical"](drivers)
        return lambda query: strategy(query)[::-1]

    whole = open_collection("a", strategies={"reverse": reverse})
    whole.add(pages)
    first = next(record.id for record in whole.list() if record.uri.endswith("000.md"))
    asked = [JudgedQuestion(f"gauge {n}.1", {f"{n:03}.md": 1.0}, id=str(n)) for n in range(9)]
    names = ["reverse", "hybrid"]
    for engine in (whole, whole.within(Filter(documents=frozenset({first})))):
        plain = evaluate(engine, asked, strategies=names, keep=False).run.results
        systems, (judgements, _) = build_systems(engine, names, None), resolve_questions(engine, asked)
        worker = TaskWorker(dump(partial(make_asker, make_engine_spec(engine), systems, AskOptions())))
        task = tuple((each, judgements[each.id]) for each in asked)
        made = [result for name in systems for result in worker.run((name, task))]
        assert [replace(each, ms=0.0) for each in made] == [replace(each, ms=0.0) for each in plain]
        assert (sum(each.values["recall@10"] for each in made) == 2) == (engine is not whole)


def test_an_evaluation_needs_a_cluster_and_a_collection_that_its_workers_can_open(
    tmp_path: Path, open_collection: OpenCollection
) -> None:
    asked = [JudgedQuestion("where?", is_answerable=False)]
    refused = pytest.raises(SettingsError, match="belongs to this machine")
    with Engine.open(tmp_path / "team", embedder="hashed") as engine, refused:
        evaluate(engine, asked, ray="local")
    engine = open_collection("a")
    with pytest.raises(SettingsError, match="give its address too"):
        evaluate(engine, asked, workers=2)
    with pytest.raises(DriverFailed, match="no Ray cluster at"):
        evaluate(engine, asked, ray="127.0.0.1:1")
