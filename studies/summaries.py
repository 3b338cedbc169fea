"""`python -m studies.summaries --data FOLDER`: where do extractive summaries improve retrieval, and where not?

Each set is added through the public API with extractive summaries and searched by meaning, by the default hybrid, and
by `document_boost` over either. The weight of the summaries is chosen on every second question; all numbers are of the
others, with leads over the same search without summaries, paired by question.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from clew import Engine, Hit, Settings, drivers
from clew.core.protocols import Embedder
from clew.core.settings import EmbedderConfig, IngestionConfig, SearchConfig
from studies.contextual import make_document as make_code_document
from studies.judged import JudgedSet, Measure, clapnq, make_recall, ndcg10, scifact
from studies.measures import Interval, bootstrap
from studies.sets import load_contextual_retrieval, report_missing_set
from studies.strategies import sample_questions

UNLIMITED_CHUNK = 1_000_000  # a chunk size that no text reaches: a section is one chunk
SMALL_CHUNK = 64  # tokens: an abstract becomes four or five chunks
RETRIEVED = 20
WEIGHTS = (0.1, 0.2, 0.3, 0.5)
BASES = ("semantic", "hybrid")

NameHits = Callable[[Iterable[Hit]], list[str]]


@dataclass(frozen=True, slots=True)
class SummarySet:
    """A judged set, the chunk size it is added with, how its hits are named, and its measure."""

    data: JudgedSet
    chunk_size: int
    name_hits: NameHits
    measure_name: str
    measure: Measure


def name_documents(hits: Iterable[Hit]) -> list[str]:
    """The documents of the hits, each once, in order."""
    return list(dict.fromkeys(hit.chunk.doc_id for hit in hits))


def load_code(folder: Path) -> SummarySet:
    """The code files of Anthropic's contextual retrieval, in given pieces, which are judged by their text."""
    data = load_contextual_retrieval(folder / "contextual-retrieval")
    questions = {each.id: each.text for each in data.questions}
    grades = {each.id: dict.fromkeys(each.gold, 1.0) for each in data.questions}
    documents = [make_code_document(file) for file in data.files]
    judged = JudgedSet("contextual-retrieval, pieces of code files", documents, {}, questions, grades, {})
    return SummarySet(judged, UNLIMITED_CHUNK, name_texts, "Recall@10", make_recall(10))


def name_texts(hits: Iterable[Hit]) -> list[str]:
    """The stripped texts of the hits."""
    return [hit.chunk.text.strip() for hit in hits]


def load_passages(folder: Path) -> SummarySet:
    """Passages of Wikipedia articles."""
    data = replace(clapnq(folder), name="clapnq, passages of articles")
    return SummarySet(data, UNLIMITED_CHUNK, data.name_hits, "nDCG@10", ndcg10)


def load_abstracts(folder: Path) -> SummarySet:
    """Abstracts of papers, each one chunk."""
    data = replace(scifact(folder), name="scifact, whole abstracts")
    return SummarySet(data, UNLIMITED_CHUNK, name_documents, "nDCG@10", ndcg10)


def load_cut_abstracts(folder: Path) -> SummarySet:
    """Abstracts of papers cut into small chunks; a document ranks as its best chunk."""
    data = replace(scifact(folder), name=f"scifact, abstracts in chunks of {SMALL_CHUNK} tokens")
    return SummarySet(data, SMALL_CHUNK, name_documents, "nDCG@10", ndcg10)


def sample(given: SummarySet, count: int | None) -> SummarySet:
    """The set with at most so many questions, spread evenly."""
    kept = {id_: given.data.questions[id_] for id_ in sample_questions(given.data, count)}
    return replace(given, data=replace(given.data, questions=kept))


SETS: Mapping[str, Callable[[Path], SummarySet]] = {
    "code": load_code,
    "passages": load_passages,
    "abstracts": load_abstracts,
    "cut-abstracts": load_cut_abstracts,
}


@dataclass(frozen=True, slots=True)
class Row:
    """One system on the reported half of a set; the lead is over its base without summaries."""

    system: str
    value: float
    lead: Interval | None = None


def search_settings(base: str, weight: float | None, chunk_size: int) -> tuple[str, Settings]:
    """The strategy and settings of a search over a base, with summaries of a weight or without."""
    search = SearchConfig(mode="exact", cache=0)
    if weight is not None:
        search = replace(search, document_strategy=base, document_weight=weight)
    ingestion = IngestionConfig(chunk_size=chunk_size, chunk_overlap=0)
    return ("document_boost" if weight is not None else base), Settings(ingestion=ingestion, search=search)


def measure_search(engine: Engine, given: SummarySet, base: str, weight: float | None) -> list[float]:
    """The measure of every question."""
    strategy, settings = search_settings(base, weight, given.chunk_size)
    data = given.data
    return [
        given.measure(
            given.name_hits(engine.search(text, k=RETRIEVED, strategy=strategy, settings=settings)), data.grades[id_]
        )
        for id_, text in data.questions.items()
    ]


def measure_set(given: SummarySet, embedder: Embedder, weights: Sequence[float] = WEIGHTS) -> list[Row]:
    """The rows of a set: each base, and `document_boost` over it with the weight that the first half chose."""
    _, settings = search_settings("semantic", None, given.chunk_size)
    rows = []
    with Engine.open(":memory:", embedder=embedder, settings=settings) as engine:
        engine.add_documents(given.data.documents)
        for base in BASES:
            plain = measure_search(engine, given, base, None)
            boosted = {weight: measure_search(engine, given, base, weight) for weight in weights}
            chosen = max(weights, key=lambda weight: fmean(boosted[weight][::2]))
            held, values = plain[1::2], boosted[chosen][1::2]
            rows.append(Row(base, fmean(held)))
            rows.append(Row(f"document_boost over {base}, {chosen}", fmean(values), bootstrap(values, held)))
    return rows


def make_rows(given: SummarySet, rows: Iterable[Row]) -> Iterator[str]:
    """The table of a set."""
    yield f"| {given.data.name} | {given.measure_name} | lead over the base |"
    yield "|---|---|---|"
    for row in rows:
        yield f"| {row.system} | {100 * row.value:.1f} | {row.lead or ''} |"


@report_missing_set
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints one table per set."""
    parser = argparse.ArgumentParser(prog="studies.summaries", description="Where extractive summaries help.")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds the sets")
    parser.add_argument("--sets", default=",".join(SETS), help=f"of {', '.join(SETS)}")
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--questions", type=int, default=None, help="at most so many per set (default all)")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    chosen = parser.parse_args(arguments)
    names = chosen.sets.split(",")
    for name in names:
        if name not in SETS:
            parser.error(f"there is no set {name!r}; there are {', '.join(SETS)}")
    embedder = drivers.make_embedder(EmbedderConfig(name=chosen.embedder, cache=chosen.cache))
    for name in names:
        given = sample(SETS[name](chosen.data), chosen.questions)
        questions = len(given.data.questions)
        print(f"\n{len(given.data.documents)} documents, {questions // 2} of {questions} questions, {embedder.name}")
        for row in make_rows(given, measure_set(given, embedder)):
            print(row, flush=True)


if __name__ == "__main__":
    main()
