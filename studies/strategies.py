"""`python -m studies.strategies --data FOLDER`: which way of finding finds best, and which fusion is the default?

Every set is added through the front door and asked by `engine.search`: a hundred hits by each strategy, with a lead
over either leg of the hybrid, question by question. What a cross-encoder reads is slow, so the strategies that use it
answer a sample of the questions, spread over all of them; their lead is over the legs on the same ones.

The last table holds the fusions against each other over all sets: none is worth being the default that is
significantly below a leg anywhere.
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
from studies.sets import plainly

WHOLE = 1_000_000  # a chunk size that nothing reaches: a section is one chunk
DEEP = 100
FEW = 10  # hits where only the first ten are ordered
DEEPEST = (f"Recall@{DEEP}", "MRR")  # what looks at all the hundred
SETTINGS = Settings(
    ingestion=IngestionConfig(chunk_size=WHOLE, chunk_overlap=0), search=SearchConfig(mode="exact", cache=0)
)
LEGS = ("semantic", "lexical")


@dataclass(frozen=True, slots=True)
class System:
    """A way to find: a strategy, what its settings change, how many hits, and whether it asks only a sample."""

    name: str
    strategy: str
    search: Mapping[str, Any] = field(default_factory=dict)
    k: int = DEEP
    sampled: bool = False

    @property
    def settings(self) -> Settings:
        return replace(SETTINGS, search=replace(SETTINGS.search, **self.search))


def _fusion(name: str, fusion: str, weight: float) -> System:
    return System(name, "hybrid", {"fusion": fusion, "semantic_weight": weight})


FUSIONS = (
    *(_fusion(f"hybrid, confident {weight}", "confident", weight) for weight in (0.4, 0.5, 0.6)),
    *(_fusion(f"hybrid, convex {weight}", "convex", weight) for weight in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)),
    *(_fusion(f"hybrid, rrf {weight}", "rrf", weight) for weight in (0.5, 0.7)),
    _fusion("hybrid, round robin 1:1", "round_robin", 0.5),
    _fusion("hybrid, round robin 2:1", "round_robin", 0.7),
    System("hybrid, the default", "hybrid"),
)
SYSTEMS = (
    *(System(leg, leg) for leg in LEGS),
    *FUSIONS,
    System("the default, ten hits", "hybrid", k=FEW),
    System("document_boost", "document_boost"),
    System("multi_query", "multi_query"),
    System("rerank", "rerank", k=FEW, sampled=True),
    System("self_reflective", "self_reflective", k=FEW, sampled=True),
)
Values = dict[str, list[float]]  # of one system: each measure, question by question


def asked(data: JudgedSet, count: int | None) -> list[str]:
    """The ids of so many questions, spread evenly over all; None: every one."""
    ids = list(data.questions)
    if count is None or count >= len(ids):
        return ids
    return [ids[at * len(ids) // count] for at in range(count)]


def measured(engine: Engine, data: JudgedSet, system: System, ids: Sequence[str]) -> Values:
    """Every measure of every question; one that looks further than the system's hits is left out."""
    rankings = [
        data.ranking(engine.search(data.questions[id_], k=system.k, strategy=system.strategy, settings=system.settings))
        for id_ in ids
    ]
    return {
        name: [measure(ranking, data.grades[id_]) for ranking, id_ in zip(rankings, ids, strict=True)]
        for name, measure in data.measures.items()
        if system.k >= DEEP or name not in DEEPEST
    }


def studied(
    data: JudgedSet, embedder: Embedder, *, systems: Sequence[System] = SYSTEMS, most: int | None, sample: int
) -> Iterator[tuple[System, Values, dict[str, Values]]]:
    """Each system, its values, and those of the legs on the same questions."""
    ids = asked(data, most)
    few = set(asked(replace(data, questions={id_: data.questions[id_] for id_ in ids}), sample))
    with Engine.open(":memory:", embedder=embedder, settings=SETTINGS) as engine:
        engine.add_documents(data.documents)
        legs = {leg: measured(engine, data, System(leg, leg), ids) for leg in LEGS}
        for system in systems:
            kept = [id_ in few or not system.sampled for id_ in ids]
            values = (
                legs[system.strategy]
                if system.strategy in legs
                else measured(engine, data, system, [id_ for id_, keep in zip(ids, kept, strict=True) if keep])
            )
            yield system, values, {leg: _some(each, kept) for leg, each in legs.items()}


def rows(
    data: JudgedSet, found: Iterator[tuple[System, Values, dict[str, Values]]], leads: dict[str, dict[str, list[str]]]
) -> Iterator[str]:
    """The lines of the table of a set; what the last table needs is put into `leads`."""
    shown = " | ".join(f"{name} | over semantic | over lexical" for name in data.measures)
    yield f"| {data.name} | questions | {shown} |"
    yield "|---" * (2 + 3 * len(data.measures)) + "|"
    foremost = next(iter(data.measures))
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
            leads.setdefault(system.name, {})[data.name] = _held(
                values[foremost], [legs[leg][foremost] for leg in LEGS]
            )
        yield f"| {system.name} | {len(values[foremost])} | {' | '.join(cells)} |"


def _held(values: Sequence[float], legs: Sequence[Sequence[float]]) -> list[str]:
    """The lead over the better leg, and a word where the values are significantly below one."""
    better = max(legs, key=fmean)
    below = any(bootstrap(values, leg).high < 0 for leg in legs)
    return [f"{100 * (fmean(values) - fmean(better)):+.2f}", "below" if below else ""]


def last_rows(leads: Mapping[str, Mapping[str, Sequence[str]]]) -> Iterator[str]:
    """The lines of the table over all sets: a fusion's lead over the better leg of each, marked where it is below."""
    sets = list(next(iter(leads.values()), {}))
    yield f"| lead over the better leg | {' | '.join(sets)} | mean | significantly below a leg |"
    yield "|---" * (3 + len(sets)) + "|"
    for name, by_set in leads.items():
        numbers = [float(by_set[each][0]) for each in sets]
        below = [each for each in sets if by_set[each][1]]
        cells = " | ".join(f"{number:+.2f}" for number in numbers)
        yield f"| {name} | {cells} | {fmean(numbers):+.2f} | {', '.join(below) or 'nowhere'} |"


def _some(values: Values, kept: Sequence[bool]) -> Values:
    return {name: [value for value, keep in zip(each, kept, strict=True) if keep] for name, each in values.items()}


@plainly
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a table a set, and one over all."""
    parser = argparse.ArgumentParser(prog="studies.strategies", description="Every strategy and fusion.")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds the sets")
    parser.add_argument("--sets", default="scifact,xquad-en,xquad-de,cosqa,clapnq", help=f"of {', '.join(SETS)}")
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--cache", default="", help="a file that keeps vectors, so that nothing is embedded twice")
    parser.add_argument("--questions", type=int, default=None, help="of a set, at most (default all)")
    parser.add_argument("--sample", type=int, default=200, help="of them for what a cross-encoder reads; 0: leave out")
    given = parser.parse_args(arguments)
    names = given.sets.split(",")
    for name in names:
        if name not in SETS:
            parser.error(f"there is no set {name!r}; there are {', '.join(SETS)}")
    embedder = drivers.embedder(EmbedderConfig(name=given.embedder, cache=given.cache))
    systems = [system for system in SYSTEMS if given.sample or not system.sampled]
    leads: dict[str, dict[str, list[str]]] = {}
    for name in names:
        data = SETS[name](given.data)
        print(f"\n{data.name}: {len(data.documents)} documents, {embedder.name}", flush=True)
        found = studied(data, embedder, systems=systems, most=given.questions, sample=given.sample)
        for row in rows(data, found, leads):
            print(row, flush=True)
    print()
    for row in last_rows(leads):
        print(row, flush=True)


if __name__ == "__main__":
    main()
