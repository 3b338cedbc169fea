"""`python -m studies.chatter`: are the questions in a chat answered, and is small talk left alone?

On the sample of `examples/`, pages and chat in one collection:

1. Conversations of five questions about the handbook among ten lines of small talk, in random order: the share of the
   questions whose page is among five hits for the whole conversation, beside each question alone with one hit.
2. Every line of small talk as a message of its own: how many get any context. And the questions: how many keep all the
   evidence that they have without the floor.
"""

import argparse
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from clew import Context, Engine, Filter, Message, Settings, drivers
from clew.compat import message_with_context
from clew.core.settings import EmbedderConfig
from studies.handbook import EXAMPLES
from studies.measures import bootstrap
from studies.sets import read_jsonl

TRIALS, QUESTIONS, LINES, DEPTH = 25, 5, 10, 5
Row = Mapping[str, Any]


def measure_coverage(
    engine: Engine, rows: Sequence[Row], talk: Sequence[str], uris: Mapping[str, str], *, trials: int = TRIALS
) -> tuple[list[float], list[float]]:
    """Of each conversation the share of questions with their page among the hits, and that of each question alone."""
    together, alone = [], []
    pages = Filter(kinds={"page"})
    for trial in range(trials):
        chance = random.Random(trial)
        asked = chance.sample(list(rows), QUESTIONS)
        texts = [*(str(row["question"]) for row in asked), *chance.sample(list(talk), LINES)]
        chance.shuffle(texts)
        hits = engine.search(
            [Message(text, author=f"u{at % 3}") for at, text in enumerate(texts)], k=DEPTH, where=pages
        )
        found = {uris[hit.chunk.doc_id] for hit in hits}
        together.append(fmean(row["documents"][0] in found for row in asked))
        first = [engine.search(row["question"], k=1, where=pages) for row in asked]
        alone.append(
            fmean(
                bool(hit) and uris[hit[0].chunk.doc_id] in row["documents"]
                for hit, row in zip(first, asked, strict=True)
            )
        )
    return together, alone


def find_evidence(context: Context, row: Row, uris: Mapping[str, str]) -> set[str]:
    """The pages and messages of a context that hold the answer."""
    names = {
        str(hit.chunk.meta.get("message") or uris[hit.chunk.doc_id])
        for passage in context.passages
        for hit in passage.chunks
    }
    return names & {*row["documents"], *row.get("messages", ())}


def count_kept_evidence(engine: Engine, rows: Sequence[Row], uris: Mapping[str, str]) -> tuple[int, int]:
    """How many questions have evidence without the floor, and how many of them keep all of it."""
    settings = Settings()
    unbounded = replace(settings, context=replace(settings.context, min_relevance=0.0, min_chance=0.0))
    have = kept = 0
    for row in rows:
        evidence = find_evidence(engine.context(row["question"], settings=unbounded), row, uris)
        have += bool(evidence)
        kept += bool(evidence) and evidence <= find_evidence(engine.context(row["question"]), row, uris)
    return have, kept


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the numbers."""
    parser = argparse.ArgumentParser(prog="studies.chatter", description="Questions among small talk.")
    parser.add_argument("--examples", type=Path, default=EXAMPLES, help="the folder of handbook, chat and questions")
    parser.add_argument("--questions", nargs="+", default=["questions.jsonl", "chat-questions.jsonl"])
    parser.add_argument("--every", type=int, default=1, help="use only every so many-th question, line and trial")
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    parser.add_argument("--verbose", action="store_true", help="list the small talk that gets a context")
    given = parser.parse_args(arguments)
    talk = (given.examples / "small-talk.txt").read_text("utf-8").splitlines()[:: given.every]
    rows = [row for name in given.questions for row in read_jsonl(given.examples / name)][:: given.every]
    embedder = drivers.make_embedder(EmbedderConfig(name=given.embedder, cache=given.cache))
    with Engine.open(":memory:", embedder=embedder) as engine:
        engine.add(given.examples / "handbook", given.examples / "chat")
        uris = {record.id: record.uri[record.uri.find("handbook/") :] for record in engine.list()}
        about_pages = [row for row in rows if row["documents"] and not row.get("messages")]
        together, alone = measure_coverage(engine, about_pages, talk, uris, trials=TRIALS // given.every)
        print(
            f"{embedder.name}: {len(together)} conversations, covered {100 * fmean(together):.1f}; each alone "
            f"{100 * fmean(alone):.1f}; {bootstrap(together, alone)}",
            flush=True,
        )
        answered = [line for line in talk if message_with_context(engine, line) != line]
        print(f"small talk with a context: {len(answered)} of {len(talk)}", flush=True)
        if given.verbose:
            print(*answered, sep="\n")
        have, kept = count_kept_evidence(engine, rows, uris)
        print(f"questions with evidence: {have}, that keep it: {kept} ({100 * kept / have:.1f} %)", flush=True)


if __name__ == "__main__":
    main()
