"""`python -m studies.contextual --data FOLDER`: do contexts made without a model improve retrieval of chunks?

On the code files of Anthropic's contextual retrieval, through the public API: each given piece is a section of its
document and becomes one chunk. Pass@k is the mean share of a question's relevant pieces among the first k, as in the
notebook of the set. The set has no file names, so documents have no titles.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import fmean

from clew import Document, Engine, Section, Settings, drivers
from clew.core.protocols import Embedder
from clew.core.settings import EmbedderConfig, IngestionConfig, SearchConfig
from studies.measures import bootstrap, recall_at
from studies.sets import PieceSet, SplitFile, load_contextual_retrieval, report_missing_set

DEPTHS = (5, 10, 20)
UNLIMITED_CHUNK = 1_000_000  # a chunk size that no text reaches: the pieces are not split again
PUBLISHED = """
Published, 248 questions (Anthropic's notebook, voyage-2, contexts by Claude Haiku):
| system | Pass@5 | Pass@10 | Pass@20 |
|---|---|---|---|
| plain embeddings | 80.92 | 87.15 | 90.06 |
| contextual embeddings | 86.37 | 92.81 | 93.78 |
| contextual embeddings + contextual BM25 | 86.43 | 93.21 | 94.99 |"""


@dataclass(frozen=True, slots=True)
class ContextualSystem:
    """A retrieval system: with or without contexts, and its strategy."""

    name: str
    contextual: bool
    strategy: str


SYSTEMS = (
    ContextualSystem("plain", contextual=False, strategy="semantic"),
    ContextualSystem("contextual", contextual=True, strategy="semantic"),
    ContextualSystem("plain + BM25", contextual=False, strategy="hybrid"),
    ContextualSystem("contextual + BM25", contextual=True, strategy="hybrid"),
    ContextualSystem("BM25 alone", contextual=False, strategy="lexical"),
    ContextualSystem("contextual BM25 alone", contextual=True, strategy="lexical"),
)


def make_document(file: SplitFile) -> Document:
    """The file as a document of code whose sections are its pieces."""
    marks = [0, *accumulate(map(len, file.pieces))]
    sections = tuple(Section(start, end) for start, end in pairwise(marks))
    return Document(file.id, "".join(file.pieces), sections, uri=file.path, meta={"format": "code"})


def measure_passes(data: PieceSet, embedder: Embedder, system: ContextualSystem) -> dict[int, list[float]]:
    """For each depth, the share of relevant pieces that each question finds."""
    ingestion = IngestionConfig(
        chunk_size=UNLIMITED_CHUNK,
        chunk_overlap=0,
        use_contextual_enrichment=system.contextual,
        language="en",
    )
    settings = Settings(ingestion=ingestion, search=SearchConfig(mode="exact", min_similarity=-1.0))
    with Engine.open(":memory:", embedder=embedder, settings=settings) as engine:
        engine.add_documents([make_document(file) for file in data.files])
        found = [
            [hit.chunk.text.strip() for hit in engine.search(each.text, k=max(DEPTHS), strategy=system.strategy)]
            for each in data.questions
        ]
    return {
        depth: [recall_at(depth, texts, each.gold) for texts, each in zip(found, data.questions, strict=True)]
        for depth in DEPTHS
    }


def make_rows(data: PieceSet, embedder: Embedder, systems: Sequence[ContextualSystem] = SYSTEMS) -> Iterator[str]:
    """The rows of the table, one per system; the lead is over the first system, paired by question."""
    header = " | ".join(f"Pass@{depth} | lead" for depth in DEPTHS)
    yield f"| system | {header} | failures at {DEPTHS[-1]} |"
    yield "|---" * (2 + 2 * len(DEPTHS)) + "|"
    first: dict[int, list[float]] = {}
    for system in systems:
        values = measure_passes(data, embedder, system)
        first = first or values
        cells = " | ".join(
            f"{100 * fmean(values[depth]):.2f} | {'' if values is first else bootstrap(values[depth], first[depth])}"
            for depth in DEPTHS
        )
        failed, before = (1 - fmean(each[DEPTHS[-1]]) for each in (values, first))
        change = f" ({failed / before - 1:+.0%})" if before and values is not first else ""
        yield f"| {system.name} | {cells} | {100 * failed:.2f}{change} |"


@report_missing_set
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="studies.contextual", description="Contexts made without a model.")
    parser.add_argument("--data", type=Path, required=True, help="the folder of contextual-retrieval")
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    given = parser.parse_args(arguments)
    data = load_contextual_retrieval(given.data)
    embedder = drivers.make_embedder(EmbedderConfig(name=given.embedder, cache=given.cache))
    pieces = sum(len(file.pieces) for file in data.files)
    print(f"{len(data.questions)} questions, {len(data.files)} files in {pieces} pieces, {embedder.name}", flush=True)
    for row in make_rows(data, embedder):
        print(row, flush=True)
    print(PUBLISHED)


if __name__ == "__main__":
    main()
