"""`python -m studies.reader.asked [--part NAME …]`: `ask` without a language model over written contexts.

The contexts of a part make one collection, and its questions and near misses are asked as by default. An answer is
right first if what it shows first holds at least half of the part that answers, or is held by it; a near miss has no
answer. The confidence is judged by how well it tells the questions from the near misses, and as a chance.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from clew import Answer, Document, Engine
from studies.answers import SHARE
from studies.reader.groups import make_document, make_settings
from studies.reader.written import DEVELOPMENT, KEPT, TEST, TRAINED, WrittenContext, load_written
from studies.support.measures import expected_calibration_error, measure_auc


@dataclass(frozen=True, slots=True)
class Asked:
    """A question or a near miss, and what came of it."""

    kind: str
    is_answerable: bool
    is_answered: bool
    is_right_first: bool
    confidence: float


def ask_written(
    contexts: Sequence[WrittenContext], *, embedder: str, cache: str = "", every: int = 1
) -> Iterator[Asked]:
    """Every so many-th question and near miss of contexts, asked over all of them."""
    with Engine.open(":memory:", settings=make_settings(embedder, cache)) as engine:
        documents = [make_document(each) for each in contexts]
        engine.add_documents(documents)
        rows = [
            (context, document, question, quote)
            for context, document in zip(contexts, documents, strict=True)
            for question, quote in (*context.questions, *((each, "") for each in context.near_misses))
        ]
        for context, document, question, quote in rows[::every]:
            answer = engine.ask(question)
            is_right = bool(quote) and answer.found and is_answered_by(answer, document, quote)
            yield Asked(context.kind, bool(quote), answer.found, is_right, answer.confidence)


def is_answered_by(answer: Answer, document: Document, quote: str) -> bool:
    """Whether the first citation holds the quote, which stands in this document."""
    cited = answer.citations[0]
    start = document.text.find(quote)
    shared = min(cited.end, start + len(quote)) - max(cited.start, start)
    return cited.document == document.id and shared >= SHARE * min(len(quote), cited.end - cited.start)


def make_row(name: str, asked: Sequence[Asked]) -> str:
    """The row of a table."""
    real = [each for each in asked if each.is_answerable]
    near = [each for each in asked if not each.is_answerable]
    labels = [each.is_answerable for each in asked]
    chances = [each.confidence for each in asked]
    right = [float(each.is_right_first) for each in asked if each.is_answered]
    given = [each.confidence for each in asked if each.is_answered]
    return (
        f"| {name} | {len(real)} | {100 * fmean(each.is_answered for each in real):.1f} "
        f"| {100 * fmean(each.is_right_first for each in real):.1f} | {len(near)} "
        f"| {100 * fmean(each.is_answered for each in near):.1f} | {measure_auc(chances, labels):.3f} "
        f"| {expected_calibration_error(chances, labels):.3f} | {100 * fmean(right or [0]):.1f} "
        f"| {100 * fmean(given or [0]):.1f} |"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="studies.reader.asked", description="Answers over written contexts.")
    parser.add_argument("--part", nargs="+", choices=(*TRAINED, *KEPT, DEVELOPMENT, TEST), default=[*KEPT])
    parser.add_argument("--every", type=int, default=1, help="ask only every so many-th question")
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    given = parser.parse_args(arguments)
    columns = (
        *("part", "questions", "answered, %", "right first, %", "near misses", "answered, %", "AUC"),
        *("calibration error", "right where answered, %", "confidence there, %"),
    )
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|", flush=True)
    every: list[Asked] = []
    for part in given.part:
        asked = list(
            ask_written(load_written(part), embedder=given.embedder, cache=given.cache, every=given.every)
        )  # fmt: skip
        every += asked
        print(make_row(part, asked), flush=True)
    for kind in ("page", "chat"):
        if some := [each for each in every if each.kind == kind]:
            print(make_row(f"all {kind}s", some), flush=True)


if __name__ == "__main__":
    main()
