"""`python -m studies.strategies --data FOLDER`: which strategy retrieves best, and which fusion should be the default?

Every set is added through the public API and searched by `engine.search`: a hundred hits by each strategy, with its
lead over either leg of the hybrid, paired by question. A cross-encoder is slow, so the strategies that use one answer a
sample of the questions, spread evenly; their lead is over the legs on the same questions.

The last table compares the fusions over all sets: the default must not be significantly below a leg on any set.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from clew import Engine, Settings, drivers
from clew.core.protocols import Embedder
from clew.core.settings import EmbedderConfig, IngestionConfig, SearchConfig
from studies.judged import SETS, JudgedSet
from studies.measures import bootstrap
from studies.sets import report_missing_set

UNLIMITED_CHUNK = 1_000_000  # a chunk size that no text reaches: a section is one chunk
DEPTH = 100
SHALLOW = 10  # hits of the strategies that order only the first ten
DEEP_MEASURES = (f"Recall@{DEPTH}", "MRR")  # need all hundred hits
SETTINGS = Settings(
    ingestion=IngestionConfig(chunk_size=UNLIMITED_CHUNK, chunk_overlap=0), search=SearchConfig(mode="exact", cache=0)
)
LEGS = ("semantic", "lexical")


@dataclass(frozen=True, slots=True)
class SearchSystem:
    """A strategy with its search settings, the number of hits, and whether it answers only a sample."""

    name: str
    strategy: str
    search: Mapping[str, Any] = field(default_factory=dict)
    k: int = DEPTH
    sampled: bool = False

    @property
    def settings(self) -> Settings:
        return replace(SETTINGS, search=replace(SETTINGS.search, **self.search))


def _make_fusion(name: str, fusion: str, weight: float) -> SearchSystem:
    return SearchSystem(name, "hybrid", {"fusion": fusion, "semantic_weight": weight})


FUSIONS = (
    *(_make_fusion(f"hybrid, confident {weight}", "confident", weight) for weight in (0.4, 0.5, 0.6)),
    *(_make_fusion(f"hybrid, convex {weight}", "convex", weight) for weight in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)),
    *(_make_fusion(f"hybrid, rrf {weight}", "rrf", weight) for weight in (0.5, 0.7)),
    _make_fusion("hybrid, round robin 1:1", "round_robin", 0.5),
    _make_fusion("hybrid, round robin 2:1", "round_robin", 0.7),
    SearchSystem("hybrid, the default", "hybrid"),
)
SYSTEMS = (
    *(SearchSystem(leg, leg) for leg in LEGS),
    *FUSIONS,
    SearchSystem("the default, ten hits", "hybrid", k=SHALLOW),
    SearchSystem("document_boost", "document_boost"),
    SearchSystem("rerank", "rerank", k=SHALLOW, sampled=True),
    SearchSystem("self_reflective", "self_reflective", k=SHALLOW, sampled=True),
)
Values = dict[str, list[float]]  # of one system: each measure by question


def sample_questions(data: JudgedSet, count: int | None) -> list[str]:
    """The ids of so many questions, spread evenly over the set; None: all."""
    ids = list(data.questions)
    if count is None or count >= len(ids):
        return ids
    return [ids[at * len(ids) // count] for at in range(count)]


def measure_system(engine: Engine, data: JudgedSet, system: SearchSystem, ids: Sequence[str]) -> Values:
    """Each measure of each question, without measures that need more hits than the system has."""
    rankings = [
        data.name_hits(
            engine.search(data.questions[id_], k=system.k, strategy=system.strategy, settings=system.settings)
        )
        for id_ in ids
    ]
    return {
        name: [measure(ranking, data.grades[id_]) for ranking, id_ in zip(rankings, ids, strict=True)]
        for name, measure in data.measures.items()
        if system.k >= DEPTH or name not in DEEP_MEASURES
    }


def measure_systems(
    data: JudgedSet,
    embedder: Embedder,
    *,
    systems: Sequence[SearchSystem] = SYSTEMS,
    max_questions: int | None,
    sample: int,
) -> Iterator[tuple[SearchSystem, Values, dict[str, Values]]]:
    """Each system with its values, and those of the legs on the same questions."""
    ids = sample_questions(data, max_questions)
    sampled = set(sample_questions(replace(data, questions={id_: data.questions[id_] for id_ in ids}), sample))
    with Engine.open(":memory:", embedder=embedder, settings=SETTINGS) as engine:
        engine.add_documents(data.documents)
        legs = {leg: measure_system(engine, data, SearchSystem(leg, leg), ids) for leg in LEGS}
        for system in systems:
            kept = [id_ in sampled or not system.sampled for id_ in ids]
            values = (
                legs[system.strategy]
                if system.strategy in legs
                else measure_system(engine, data, system, [id_ for id_, keep in zip(ids, kept, strict=True) if keep])
            )
            yield system, values, {leg: _select(each, kept) for leg, each in legs.items()}


def make_rows(
    data: JudgedSet,
    found: Iterator[tuple[SearchSystem, Values, dict[str, Values]]],
    leads: dict[str, dict[str, list[str]]],
) -> Iterator[str]:
    """The rows of the table of a set; fills `leads` for the last table."""
    header = " | ".join(f"{name} | over semantic | over lexical" for name in data.measures)
    yield f"| {data.name} | questions | {header} |"
    yield "|---" * (2 + 3 * len(data.measures)) + "|"
    main = next(iter(data.measures))
    for system, values, legs in found:
        cells = []
        for name in data.measures:
            if name not in values:
                cells += ["", "", ""]
                continue
            cells.append(f"{100 * fmean(values[name]):.2f}")
            for leg in LEGS:
                cells.append("" if system.strategy in LEGS else str(bootstrap(values[name], legs[leg][name])))
        if system in FUSIONS:
            leads.setdefault(system.name, {})[data.name] = _compare_with_legs(
                values[main], [legs[leg][main] for leg in LEGS]
            )
        yield f"| {system.name} | {len(values[main])} | {' | '.join(cells)} |"


def _compare_with_legs(values: Sequence[float], legs: Sequence[Sequence[float]]) -> list[str]:
    """The lead over the better leg, and "below" if the values are significantly below a leg."""
    better = max(legs, key=fmean)
    below = any(bootstrap(values, leg).high < 0 for leg in legs)
    return [f"{100 * (fmean(values) - fmean(better)):+.2f}", "below" if below else ""]


def make_summary_rows(leads: Mapping[str, Mapping[str, Sequence[str]]]) -> Iterator[str]:
    """The rows of the last table: each fusion's lead over the better leg of each set, and where it is below one."""
    sets = list(next(iter(leads.values()), {}))
    yield f"| lead over the better leg | {' | '.join(sets)} | mean | significantly below a leg |"
    yield "|---" * (3 + len(sets)) + "|"
    for name, by_set in leads.items():
        numbers = [float(by_set[each][0]) for each in sets]
        below = [each for each in sets if by_set[each][1]]
        cells = " | ".join(f"{number:+.2f}" for number in numbers)
        yield f"| {name} | {cells} | {fmean(numbers):+.2f} | {', '.join(below) or 'nowhere'} |"


def _select(values: Values, kept: Sequence[bool]) -> Values:
    return {name: [value for value, keep in zip(each, kept, strict=True) if keep] for name, each in values.items()}


@report_missing_set
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints one table per set, and one over all sets."""
    parser = argparse.ArgumentParser(prog="studies.strategies", description="All strategies and fusions compared.")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds the sets")
    parser.add_argument("--sets", default="scifact,xquad-en,xquad-de,cosqa,clapnq", help=f"of {', '.join(SETS)}")
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    parser.add_argument("--questions", type=int, default=None, help="at most so many per set (default all)")
    parser.add_argument(
        "--sample", type=int, default=200, help="questions for strategies with a cross-encoder; 0: skip them"
    )
    given = parser.parse_args(arguments)
    names = given.sets.split(",")
    for name in names:
        if name not in SETS:
            parser.error(f"there is no set {name!r}; there are {', '.join(SETS)}")
    embedder = drivers.make_embedder(EmbedderConfig(name=given.embedder, cache=given.cache))
    systems = [system for system in SYSTEMS if given.sample or not system.sampled]
    leads: dict[str, dict[str, list[str]]] = {}
    for name in names:
        data = SETS[name](given.data)
        print(f"\n{data.name}: {len(data.documents)} documents, {embedder.name}", flush=True)
        found = measure_systems(data, embedder, systems=systems, max_questions=given.questions, sample=given.sample)
        for row in make_rows(data, found, leads):
            print(row, flush=True)
    print()
    for row in make_summary_rows(leads):
        print(row, flush=True)


if __name__ == "__main__":
    main()
