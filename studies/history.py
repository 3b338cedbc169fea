"""`python -m studies.history --data FOLDER`: does a question find more when its conversation comes along?

Turns of MTRAG's conversations over the passages of ClapNQ, asked four ways: the last turn as it was said, the rewrite
that the set supplies (a language model's), all that the user said so far, and the last turn with its conversation as
`history`, which is what a caller of `engine.search` has. The lead is over the supplied rewrite.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from clew import Engine, Message, drivers
from clew.core.protocols import Embedder
from clew.core.settings import EmbedderConfig
from studies.judged import JudgedSet, clapnq
from studies.measures import bootstrap, recall_at
from studies.sets import read_jsonl, report_missing_set
from studies.strategies import SETTINGS

STRATEGIES = ("lexical", "semantic", "hybrid", "multi_query")
REWRITE = "supplied rewrite"
OURS = "last turn and its history"
DEPTHS = (5, 10)


def load_query_texts(folder: Path) -> dict[str, Mapping[str, str]]:
    """The text that asks, by the way and the question."""
    rows = list(read_jsonl(folder / "mtrag" / "clapnq" / "queries.jsonl"))
    return {
        "last turn": {row["_id"]: row["last_turn"] for row in rows},
        REWRITE: {row["_id"]: row["rewrite"] for row in rows},
        "all that the user said": {row["_id"]: " ".join(row["all_user_turns"]) for row in rows},
        OURS: {row["_id"]: row["last_turn"] for row in rows},
    }


def load_histories(folder: Path) -> dict[str, tuple[Message, ...]]:
    """What was said before each question, by both sides."""
    place = folder / "mtrag" / "clapnq"
    turns = {row["conversation_id"]: row["turns"] for row in read_jsonl(place / "conversations.jsonl")}
    return {
        row["_id"]: tuple(
            message
            for turn in turns[row["conversation_id"]]
            if turn["turn"] < row["turn"]
            for message in (Message(turn["user"]), Message(turn["agent"], role="assistant"))
        )
        for row in read_jsonl(place / "queries.jsonl")
    }


def make_rows(
    data: JudgedSet, folder: Path, embedder: Embedder, strategies: Sequence[str] = STRATEGIES
) -> Iterator[str]:
    """The lines of the table."""
    shown = " | ".join(f"Recall@{depth} | over the rewrite" for depth in DEPTHS)
    yield f"| strategy | asked by | {shown} |"
    yield "|---" * (2 + 2 * len(DEPTHS)) + "|"
    before = load_histories(folder)
    with Engine.open(":memory:", embedder=embedder, settings=SETTINGS) as engine:
        engine.add_documents(data.documents)
        for strategy in strategies:
            found = {
                way: [
                    data.name_hits(
                        engine.search(
                            texts[id_], k=max(DEPTHS), strategy=strategy, history=before[id_] if way == OURS else ()
                        )
                    )
                    for id_ in data.questions
                ]
                for way, texts in load_query_texts(folder).items()
            }
            values = {way: [_compute_recalls(data, ranked, depth) for depth in DEPTHS] for way, ranked in found.items()}
            for way, columns in values.items():
                cells = " | ".join(
                    f"{100 * fmean(column):.1f} | {bootstrap(column, other) if way != REWRITE else ''}"
                    for column, other in zip(columns, values[REWRITE], strict=True)
                )
                yield f"| {strategy} | {way} | {cells} |"


def _compute_recalls(data: JudgedSet, ranked: Sequence[Sequence[str]], depth: int) -> list[float]:
    return [recall_at(depth, ranking, data.grades[id_]) for ranking, id_ in zip(ranked, data.questions, strict=True)]


@report_missing_set
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="studies.history", description="A question and its conversation.")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds mtrag")
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--cache", default="", help="a file that keeps vectors, so that nothing is embedded twice")
    parser.add_argument("--strategies", nargs="+", default=STRATEGIES)
    given = parser.parse_args(arguments)
    data = clapnq(given.data)
    embedder = drivers.make_embedder(EmbedderConfig(name=given.embedder, cache=given.cache))
    print(f"{len(data.questions)} turns, {len(data.names)} passages, {embedder.name}", flush=True)
    for row in make_rows(data, given.data, embedder, given.strategies):
        print(row, flush=True)


if __name__ == "__main__":
    main()
