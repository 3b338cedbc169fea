"""`python -m studies.history --data FOLDER`: does `history` improve the retrieval of a follow-up question?

Turns of MTRAG's conversations over the passages of ClapNQ, queried in four ways: the last turn alone, the rewrite of
the set (by a language model), all turns of the user so far, and the last turn with its conversation as `history`, as a
caller of `engine.search` would. The lead is over the supplied rewrite.

`--standalone` asks the questions of other sets, which need no conversation, after three others of their set: how many
are expanded, and what that costs.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from clew import Engine, Message, Trace, drivers, record
from clew.core.protocols import Embedder
from clew.core.settings import EmbedderConfig
from studies.judged import SETS, JudgedSet, clapnq, ndcg10
from studies.measures import bootstrap, recall_at
from studies.sets import read_jsonl, report_missing_set
from studies.strategies import SETTINGS

STRATEGIES = ("lexical", "semantic", "hybrid")
REWRITE = "supplied rewrite"
OURS = "last turn and its history"
DEPTHS = (5, 10)
STANDALONE = "scifact,cosqa,xquad-en,musique,hotpotqa,2wikimultihopqa,limit-small"
BEFORE = 3  # questions before one that needs none


def load_query_texts(folder: Path) -> dict[str, Mapping[str, str]]:
    """The query texts, by variant and question id."""
    rows = list(read_jsonl(folder / "mtrag" / "clapnq" / "queries.jsonl"))
    return {
        "last turn": {row["_id"]: row["last_turn"] for row in rows},
        REWRITE: {row["_id"]: row["rewrite"] for row in rows},
        "all turns of the user": {row["_id"]: " ".join(row["all_user_turns"]) for row in rows},
        OURS: {row["_id"]: row["last_turn"] for row in rows},
    }


def load_histories(folder: Path) -> dict[str, tuple[Message, ...]]:
    """The messages before each question, of user and assistant."""
    set_folder = folder / "mtrag" / "clapnq"
    turns = {row["conversation_id"]: row["turns"] for row in read_jsonl(set_folder / "conversations.jsonl")}
    return {
        row["_id"]: tuple(
            message
            for turn in turns[row["conversation_id"]]
            if turn["turn"] < row["turn"]
            for message in (Message(turn["user"]), Message(turn["agent"], role="assistant"))
        )
        for row in read_jsonl(set_folder / "queries.jsonl")
    }


def make_rows(
    data: JudgedSet, folder: Path, embedder: Embedder, strategies: Sequence[str] = STRATEGIES
) -> Iterator[str]:
    """The rows of the table."""
    header = " | ".join(f"Recall@{depth} | over the rewrite" for depth in DEPTHS)
    yield f"| strategy | query | {header} |"
    yield "|---" * (2 + 2 * len(DEPTHS)) + "|"
    before = load_histories(folder)
    with Engine.open(":memory:", embedder=embedder, settings=SETTINGS) as engine:
        engine.add_documents(data.documents)
        for strategy in strategies:
            found = {
                variant: [
                    data.name_hits(
                        engine.search(
                            texts[id_], k=max(DEPTHS), strategy=strategy, history=before[id_] if variant == OURS else ()
                        )
                    )
                    for id_ in data.questions
                ]
                for variant, texts in load_query_texts(folder).items()
            }
            values = {
                variant: [_compute_recalls(data, ranked, depth) for depth in DEPTHS]
                for variant, ranked in found.items()
            }
            for variant, columns in values.items():
                cells = " | ".join(
                    f"{100 * fmean(column):.1f} | {bootstrap(column, other) if variant != REWRITE else ''}"
                    for column, other in zip(columns, values[REWRITE], strict=True)
                )
                yield f"| {strategy} | {variant} | {cells} |"


def make_standalone_rows(data: JudgedSet, embedder: Embedder) -> Iterator[str]:
    """The row of a set whose questions need no conversation, asked by `hybrid` alone and after others."""
    texts = list(data.questions.values())
    alone: list[float] = []
    after: list[float] = []
    expanded = 0
    with Engine.open(":memory:", embedder=embedder, settings=SETTINGS) as engine:
        engine.add_documents(data.documents)
        for at, (id_, text) in enumerate(data.questions.items()):
            before = [Message(texts[at - back]) for back in range(BEFORE, 0, -1)]
            for values, history in ((alone, ()), (after, before)):
                with record() as trace:
                    hits = engine.search(text, k=10, history=history)
                expanded += is_expanded(trace)
                values.append(ndcg10(data.name_hits(hits), data.grades[id_]))
    share, lost = 100 * expanded / len(texts), bootstrap(after, alone)
    yield f"| {data.name} | {len(texts)} | {share:.1f} | {100 * fmean(alone):.2f} | {lost} |"


def is_expanded(trace: Trace) -> bool:
    """Whether the search of a trace put words of the conversation before the question."""
    step = trace.find("expand")
    return step is not None and "query" in step.notes


def _compute_recalls(data: JudgedSet, ranked: Sequence[Sequence[str]], depth: int) -> list[float]:
    return [recall_at(depth, ranking, data.grades[id_]) for ranking, id_ in zip(ranked, data.questions, strict=True)]


@report_missing_set
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        prog="studies.history", description="A follow-up question with and without its conversation."
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds mtrag")
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    parser.add_argument("--strategies", nargs="+", default=STRATEGIES)
    parser.add_argument("--standalone", nargs="?", const=STANDALONE, default="", help="sets that need no conversation")
    given = parser.parse_args(arguments)
    embedder = drivers.make_embedder(EmbedderConfig(name=given.embedder, cache=given.cache))
    if given.standalone:
        print("| set | questions | expanded | nDCG@10 alone | lead after others |\n|---|---|---|---|---|")
        for name in given.standalone.split(","):
            for row in make_standalone_rows(SETS[name](given.data), embedder):
                print(row, flush=True)
        return
    data = clapnq(given.data)
    print(f"{len(data.questions)} turns, {len(data.names)} passages, {embedder.name}", flush=True)
    for row in make_rows(data, given.data, embedder, given.strategies):
        print(row, flush=True)


if __name__ == "__main__":
    main()
