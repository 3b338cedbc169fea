"""`python -m studies.auto --data FOLDER --values FILE`: how far is `auto` from the best strategy of each set?

Every strategy answers the same questions of parts of the open sets (`studies.asked`), nDCG@10. The regret of `auto` is
the distance from the strategy that is best on that set, known only afterwards. What a search says of each question is
kept with the values in a file, to which further sets are added; `--report` prints the tables of all that it holds. The
second table leaves each set out: the threshold of certainty with the least mean regret on the others decides there.
`--systems lexical,hybrid` asks only these, which takes seconds, and then the table has their leads over hybrid.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from clew import Engine, drivers
from clew.core.ids import digest
from clew.core.protocols import Embedder, Reranker
from clew.core.settings import DEFAULTS, EmbedderConfig
from clew.drivers.cache import CacheFile
from clew.query.search.choose import CERTAIN, Signs, choose_by_signs, read_signs
from clew.query.search.find import build_query
from studies.asked import LOADERS, AskedSet, load_part
from studies.measures import bootstrap
from studies.sets import report_missing_set
from studies.strategies import SETTINGS

FIXED = ("lexical", "semantic", "hybrid", "rerank")
SYSTEMS = (*FIXED, "auto")
CERTAINTIES = (0.5, 0.7, 0.8, CERTAIN, 0.95, 0.98, 1.1)  # 1.1: no hit is certain
Row = Mapping[str, Any]  # a question: set, id, values by system, signs


class CachedReranker:
    """A reranker whose scores are kept in a file: the slow part of the study."""

    def __init__(self, reranker: Reranker, path: str) -> None:
        self._reranker, self._cache = reranker, CacheFile(path)
        self.name, self.calibrate = reranker.name, reranker.calibrate

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """The scores of the reranker."""
        keys = [digest(self.name, query, text) for text in texts]
        known = self._cache.get(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        scores = self._reranker.score(query, list(missing.values())) if missing else []
        fresh = {key: str(score).encode() for key, score in zip(missing, scores, strict=True)}
        self._cache.put(fresh)
        return [float({**known, **fresh}[key]) for key in keys]


def ask_set(
    asked: AskedSet, ids: Sequence[str], embedder: Embedder, reranker: Reranker, systems: Sequence[str] = SYSTEMS
) -> Iterator[Row]:
    """The values of each question by every system, and the signs of a first search."""
    settings = SETTINGS
    with Engine.open(":memory:", embedder=embedder, reranker=reranker, settings=settings) as engine:
        engine.add_documents(asked.data.documents)
        for id_ in ids:
            made = engine.opened.finder.build_drivers(settings)
            query = build_query(asked.data.questions[id_], 10, asked.where(id_), asked.histories.get(id_, ()), settings)
            first = made.build_strategy("hybrid")(query)
            yield {
                "set": asked.data.name,
                "embedder": embedder.name,
                "id": id_,
                "values": {name: asked.measure(id_, asked.search(engine, id_, name)) for name in systems},
                "signs": asdict(read_signs(made.evidence, query, first)),
            }


def make_rows(rows: Sequence[Row], reranker: Reranker) -> Iterator[str]:
    """Both tables."""
    sets = {name: [row for row in rows if row["set"] == name] for name in dict.fromkeys(row["set"] for row in rows)}
    yield f"| set | embedder | questions | {' | '.join(SYSTEMS)} | best | regret |"
    yield "|---" * (5 + len(SYSTEMS)) + "|"
    regrets: list[float] = []
    for name, own in sets.items():
        means = {system: 100 * fmean(row["values"][system] for row in own) for system in SYSTEMS}
        best = max(FIXED, key=lambda system: means[system])
        regrets.append(means[best] - means["auto"])
        cells = " | ".join(f"{means[system]:.1f}" for system in SYSTEMS)
        yield f"| {name} | {own[0]['embedder']} | {len(own)} | {cells} | {best} | {regrets[-1]:.1f} |"
    yield f"| mean, worst | | {len(rows)} |{' |' * len(SYSTEMS)} | {fmean(regrets):.2f}, {max(regrets):.1f} |"
    yield ""
    yield f"| set left out | certainty chosen | regret there | {' | '.join(f'with {each}' for each in CERTAINTIES)} |"
    yield "|---" * (3 + len(CERTAINTIES)) + "|"
    found = {name: [find_regret(own, reranker, each) for each in CERTAINTIES] for name, own in sets.items()}
    left_out: list[float] = []
    for name, lost in found.items():
        others = [[each[place] for other, each in found.items() if other != name] for place in range(len(CERTAINTIES))]
        chosen = min(range(len(CERTAINTIES)), key=[fmean(each) for each in others].__getitem__)
        left_out.append(lost[chosen])
        cells = " | ".join(f"{each:.1f}" for each in lost)
        yield f"| {name} | {CERTAINTIES[chosen]} | {lost[chosen]:.1f} | {cells} |"
    yield f"| mean, worst | | {fmean(left_out):.2f}, {max(left_out):.1f} |{' |' * len(CERTAINTIES)}"


def make_lead_rows(rows: Sequence[Row]) -> Iterator[str]:
    """The table of systems without `auto`: their means, and the paired leads over hybrid."""
    systems = list(rows[0]["values"])
    yield f"| set | embedder | questions | {' | '.join(f'{name} | lead' for name in systems)} |"
    yield "|---" * (3 + 2 * len(systems)) + "|"
    leads: dict[str, list[float]] = {name: [] for name in systems}
    for name in dict.fromkeys(row["set"] for row in rows):
        own = [row for row in rows if row["set"] == name]
        values = {system: [row["values"][system] for row in own] for system in systems}
        cells = " | ".join(
            f"{100 * fmean(found):.1f} | {'' if system == 'hybrid' else bootstrap(found, values['hybrid'])}"
            for system, found in values.items()
        )
        for system, found in values.items():
            leads[system].append(100 * (fmean(found) - fmean(values["hybrid"])))
        yield f"| {name} | {own[0]['embedder']} | {len(own)} | {cells} |"
    means = " | ".join(f"| {fmean(found):+.2f}" for found in leads.values())
    yield f"| mean lead | | {len(rows)} | {means} |"


def find_regret(rows: Sequence[Row], reranker: Reranker, certain: float) -> float:
    """The distance from the best fixed strategy with a threshold of certainty, in points."""
    chosen = [choose_by_signs(Signs(**row["signs"]), lambda: reranker, certain=certain)[0] for row in rows]
    reached = fmean(row["values"][name] for row, name in zip(rows, chosen, strict=True))
    return 100 * (max(fmean(row["values"][name] for row in rows) for name in FIXED) - reached)


@report_missing_set
def main(arguments: Sequence[str] | None = None) -> None:
    """Asks the questions of sets, or prints the tables."""
    parser = argparse.ArgumentParser(prog="studies.auto", description="auto against every fixed strategy.")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds the sets")
    parser.add_argument("--values", type=Path, required=True, help="the file of what was measured (JSON Lines)")
    parser.add_argument("--report", action="store_true", help="print the tables, ask nothing")
    parser.add_argument("--sets", default=",".join(LOADERS))
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    parser.add_argument("--scores", default="", help="a file that caches the scores of the reranker")
    parser.add_argument("--questions", type=int, default=60, help="of each set")
    parser.add_argument("--places", default="1:0", help="which of them: '5:0,2' asks the first and third of every five")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="those that are asked")
    given = parser.parse_args(arguments)
    reranker = drivers.make_reranker(DEFAULTS.reranker)
    assert reranker is not None
    if not given.report:
        if given.scores:
            reranker = CachedReranker(reranker, given.scores)
        embedder = drivers.make_embedder(EmbedderConfig(name=given.embedder, cache=given.cache))
        every, _, places = given.places.partition(":")
        for name in given.sets.split(","):
            asked = load_part(given.data, name, given.questions)
            kept = [
                id_
                for at, id_ in enumerate(asked.data.questions)
                if at % int(every) in set(map(int, places.split(",")))
            ]
            with given.values.open("a", encoding="utf-8") as file:
                for row in ask_set(asked, kept, embedder, reranker, given.systems.split(",")):
                    file.write(json.dumps(row) + "\n")
                    file.flush()
            print(f"{name}: {len(kept)} questions", flush=True)
        return
    rows = [json.loads(line) for line in given.values.read_text("utf-8").splitlines()]
    for line in make_rows(rows, reranker) if "auto" in rows[0]["values"] else make_lead_rows(rows):
        print(line)


if __name__ == "__main__":
    main()
