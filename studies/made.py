"""`python -m studies.made`: do questions made from a handbook rank the strategies as people's questions do?

The strategies and fusions are ordered by the judged questions of `examples/` and by those that `clew evaluate make`
makes of the same pages, of each source alone and of all together; Kendall's τ says how far the orders agree.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

from clew import Engine, Settings, drivers
from clew.core.protocols import Embedder
from clew.core.settings import EmbedderConfig, SearchConfig
from clew.core.settings.override import override_settings
from clew.evaluation import Evaluation, JudgedQuestion, QuestionSource, evaluate, make_questions, read_questions

EXAMPLES = Path(__file__).parents[1] / "examples"
MEASURES = ("nDCG@10", "evidence@10")
STRATEGIES = ("semantic", "lexical", "hybrid", "document_boost")
FUSIONS: Mapping[str, Mapping[str, object]] = {
    "weight .2": {"search.semantic_weight": 0.2},
    "weight .6": {"search.semantic_weight": 0.6},
    "weight .8": {"search.semantic_weight": 0.8},
    "rrf": {"search.fusion": "rrf"},
    "convex": {"search.fusion": "convex"},
}
SOURCES: Sequence[QuestionSource] = ("headings", "titles", "replies")
Means = dict[str, dict[str, float]]  # by system, then by measure


def measure_systems(engine: Engine, questions: Sequence[JudgedQuestion]) -> Means:
    """The means of each strategy and fusion."""
    fusions = {name: override_settings(engine.settings, values) for name, values in FUSIONS.items()}
    runs: list[Evaluation] = [
        evaluate(engine, questions, strategies=STRATEGIES, tokens=0, keep=False),
        evaluate(engine, questions, strategies=["hybrid"], settings=fusions, tokens=0, keep=False),
    ]
    return {score.system.name: dict(score.means) for run in runs for score in run.scores}


def make_rows(examples: Path, embedder: Embedder, *, count: int) -> Iterator[str]:
    """The rows of the table, one per system, then τ."""
    settings = Settings(search=SearchConfig(mode="exact"))
    with Engine.open(":memory:", embedder=embedder, settings=settings) as engine:
        engine.add(examples / "handbook", examples / "chat")
        sets = {"judged": read_questions(examples / "questions.jsonl")}
        for source in SOURCES:
            sets[source] = make_questions(engine, sources=[source], count=count)
        sets["all made"] = make_questions(engine, count=count)
        means = {name: measure_systems(engine, questions) for name, questions in sets.items()}
    columns = [f"{name} ({len(questions)}) {measure}" for name, questions in sets.items() for measure in MEASURES]
    yield f"| system | {' | '.join(columns)} |"
    yield "|---" * (1 + len(columns)) + "|"
    for system in means["judged"]:
        cells = [f"{100 * means[name][system][measure]:.1f}" for name in sets for measure in MEASURES]
        yield f"| {system} | {' | '.join(cells)} |"
    taus = [
        kendall_tau(_list_values(means["judged"], measure), _list_values(means[name], measure))
        for name in sets
        for measure in MEASURES
    ]
    yield f"| τ with judged | {' | '.join(f'{tau:+.2f}' for tau in taus)} |"


def _list_values(means: Means, measure: str) -> list[float]:
    return [each[measure] for each in means.values()]


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="studies.made", description="Made questions against judged ones.")
    parser.add_argument("--examples", type=Path, default=EXAMPLES, help="the folder of the handbook and its questions")
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    parser.add_argument("--count", type=int, default=300, help="at most so many questions of each kind")
    given = parser.parse_args(arguments)
    embedder = drivers.make_embedder(EmbedderConfig(name=given.embedder, cache=given.cache))
    print(f"{embedder.name}", flush=True)
    for row in make_rows(given.examples, embedder, count=given.count):
        print(row, flush=True)


def kendall_tau(left: Sequence[float], right: Sequence[float]) -> float:
    """Compute Kendall's τ-b of two lists of scores: 1 if they order alike, -1 if in reverse, 0 without an order."""
    agree = differ = left_ties = right_ties = 0
    for one, other in combinations(range(len(left)), 2):
        first, second = left[one] - left[other], right[one] - right[other]
        left_ties += first == 0
        right_ties += second == 0
        agree += first * second > 0
        differ += first * second < 0
    pairs = len(left) * (len(left) - 1) // 2
    scale = ((pairs - left_ties) * (pairs - right_ties)) ** 0.5
    return float((agree - differ) / scale) if scale else 0.0


if __name__ == "__main__":
    main()
