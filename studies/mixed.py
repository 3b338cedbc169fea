"""`python -m studies.mixed`: is one list of pages and messages as good as a search of the right kind alone?

On the sample of `examples/`: questions whose answers are in the handbook alone, in the chat alone, or in both. The one
list is compared with searches of a single kind, which cannot find anything on the other kind's slice. If both kinds
hold evidence, either counts, and the last column says how often both are among the first ten.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from clew import Engine, Filter, Hit, Settings, drivers
from clew.core.protocols import Embedder
from clew.core.settings import EmbedderConfig, SearchConfig
from studies.handbook import EXAMPLES
from studies.measures import bootstrap, recall_at, reciprocal_rank
from studies.sets import read_jsonl

SLICES = ("page", "chat", "both")
SEARCHES: Mapping[str, Filter] = {
    "one list": Filter(),
    "pages only": Filter(kinds={"page"}),
    "messages only": Filter(kinds={"thread"}),
}
DEPTH = 50
MEASURES = ("Recall@5", "Recall@10", "MRR")
KINDS = "both kinds in 10"
Values = dict[str, list[float]]  # each measure, question by question


@dataclass(frozen=True, slots=True)
class MixedQuestion:
    """A question, where its answer is, and the pages and messages that hold it."""

    text: str
    slice: str
    pages: frozenset[str]
    messages: frozenset[str]


def load_questions(path: Path) -> list[MixedQuestion]:
    """The judged questions about handbook and chat."""
    return [
        MixedQuestion(row["question"], row["slice"], frozenset(row["documents"]), frozenset(row["messages"]))
        for row in read_jsonl(path)
    ]


def score_ranking(question: MixedQuestion, names: Sequence[str]) -> dict[str, float]:
    """The measures of a ranking; if both kinds hold evidence, one piece of it is enough."""
    gold = question.pages | question.messages
    either = question.slice == "both"

    def recall(k: int) -> float:
        return float(bool(gold.intersection(names[:k]))) if either else recall_at(k, names, gold)

    both = bool(question.pages.intersection(names[:10])) and bool(question.messages.intersection(names[:10]))
    values = (recall(5), recall(10), reciprocal_rank(names, gold), float(both))
    return dict(zip((*MEASURES, KINDS), values, strict=True))


def measure_searches(
    examples: Path, questions: Sequence[MixedQuestion], embedder: Embedder, strategy: str
) -> dict[tuple[str, str], Values]:
    """Every measure of every question, by search and slice."""
    values: dict[tuple[str, str], Values] = {}
    with Engine.open(
        ":memory:", embedder=embedder, settings=Settings(search=SearchConfig(mode="exact", cache=0))
    ) as engine:
        engine.add(examples / "handbook", examples / "chat")
        pages = {
            record.id: record.uri[record.uri.find("handbook/") :] for record in engine.list(Filter(kinds={"page"}))
        }

        def get_name(hit: Hit) -> str:
            return str(hit.chunk.meta.get("message") or pages[hit.chunk.doc_id])

        for question in questions:
            for search, where in SEARCHES.items():
                hits = engine.search(question.text, k=DEPTH, strategy=strategy, where=where)
                for measure, value in score_ranking(question, [get_name(hit) for hit in hits]).items():
                    values.setdefault((search, question.slice), {}).setdefault(measure, []).append(value)
    return values


def make_rows(values: Mapping[tuple[str, str], Values]) -> Iterator[str]:
    """The rows of the table, with the lead of the one list over each search."""
    yield f"| answer in | search | {' | '.join(MEASURES)} | {KINDS} | lead of the one list at 5 | at 10 |"
    yield "|---" * (5 + len(MEASURES)) + "|"
    for slice_ in SLICES:
        for search in SEARCHES:
            if (search, slice_) not in values or (search, slice_) in (
                ("pages only", "chat"),
                ("messages only", "page"),
            ):
                continue
            own, one = values[search, slice_], values["one list", slice_]
            cells = " | ".join(f"{100 * fmean(own[measure]):.1f}" for measure in MEASURES)
            both = f"{100 * fmean(own[KINDS]):.1f}" if slice_ == "both" and search == "one list" else ""
            leads = ["", ""] if search == "one list" else [str(bootstrap(one[m], own[m])) for m in MEASURES[:2]]
            yield f"| {slice_} | {search} | {cells} | {both} | {' | '.join(leads)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="studies.mixed", description="Pages and messages in one list.")
    parser.add_argument("--examples", type=Path, default=EXAMPLES, help="the folder of handbook, chat and questions")
    parser.add_argument("--strategy", default="hybrid")
    parser.add_argument("--every", type=int, default=1, help="use only every so many-th question")
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    given = parser.parse_args(arguments)
    questions = load_questions(given.examples / "chat-questions.jsonl")[:: given.every]
    embedder = drivers.make_embedder(EmbedderConfig(name=given.embedder, cache=given.cache))
    print(f"{len(questions)} questions, {embedder.name}, {given.strategy}", flush=True)
    for row in make_rows(measure_searches(given.examples, questions, embedder, given.strategy)):
        print(row, flush=True)


if __name__ == "__main__":
    main()
