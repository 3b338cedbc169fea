"""`python -m studies.handbook`: do contexts help or hurt on an ordinary handbook?

On the judged questions of `examples/`: Recall@5 with and without contexts, semantic and hybrid. A question counts as
found if one of the first five chunks has at least half of the characters of its quote.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from clew import Engine, Settings, drivers
from clew.core.protocols import Embedder
from clew.core.settings import EmbedderConfig, IngestionConfig, SearchConfig
from studies.measures import bootstrap, count_characters, intersect_spans
from studies.sets import QuoteQuestion, load_quote_questions

EXAMPLES = Path(__file__).parents[1] / "examples"
DEPTH = 5
STRATEGIES = ("semantic", "hybrid")


def find_quotes(
    examples: Path, questions: Sequence[QuoteQuestion], embedder: Embedder, *, contextual: bool
) -> dict[str, list[float]]:
    """For each strategy and question, 1 if its quote was found, else 0."""
    settings = Settings(
        ingestion=IngestionConfig(use_contextual_enrichment=contextual),
        search=SearchConfig(mode="exact"),
    )
    with Engine.open(":memory:", embedder=embedder, settings=settings) as engine:
        engine.add(examples / "handbook")
        ids = {record.uri: record.id for record in engine.list()}
        values: dict[str, list[float]] = {strategy: [] for strategy in STRATEGIES}
        for question in questions:
            id_ = next(each for uri, each in ids.items() if uri.endswith(question.document))
            start = engine.read(id_).text.index(question.quote)
            gold = (start, start + len(question.quote))
            for strategy in STRATEGIES:
                hits = engine.search(question.text, k=DEPTH, strategy=strategy)
                spans = [(hit.chunk.start, hit.chunk.end) for hit in hits if hit.chunk.doc_id == id_]
                held = max((count_characters(intersect_spans([span], [gold])) for span in spans), default=0)
                values[strategy].append(float(2 * held >= len(question.quote)))
    return values


def make_rows(examples: Path, questions: Sequence[QuoteQuestion], embedder: Embedder) -> Iterator[str]:
    """The rows of the table, one per strategy."""
    plain = find_quotes(examples, questions, embedder, contextual=False)
    contextual = find_quotes(examples, questions, embedder, contextual=True)
    yield f"| strategy | plain Recall@{DEPTH} | contextual | lead |"
    yield "|---|---|---|---|"
    for strategy in STRATEGIES:
        old, new = plain[strategy], contextual[strategy]
        yield f"| {strategy} | {100 * fmean(old):.1f} | {100 * fmean(new):.1f} | {bootstrap(new, old)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="studies.handbook", description="Contexts on the sample handbook.")
    parser.add_argument("--examples", type=Path, default=EXAMPLES, help="the folder of the handbook and its questions")
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    given = parser.parse_args(arguments)
    questions = load_quote_questions(given.examples / "questions.jsonl")
    embedder = drivers.make_embedder(EmbedderConfig(name=given.embedder, cache=given.cache))
    print(f"{len(questions)} questions, {embedder.name}", flush=True)
    for row in make_rows(given.examples, questions, embedder):
        print(row, flush=True)


if __name__ == "__main__":
    main()
