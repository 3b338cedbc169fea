"""`python -m studies.chunking --data FOLDER`: does structural chunking retrieve better than chunking by length?

On Chroma's chunking evaluation, through the public API: semantic search for five chunks per question in the joint index
of the corpora, with one embedder. Our chunkers are set to a size; the peers are then tuned so that their chunks have
the same mean length in tokens, because a smaller chunk alone raises IoU and lowers recall.
"""

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import fmean, pstdev

from clew import Document, Engine, Section, Settings, drivers
from clew.core.protocols import Embedder
from clew.core.settings import EmbedderConfig, IngestionConfig, SearchConfig
from studies.measures import Span, bootstrap, precision_omega, score_spans
from studies.sets import SpanSet, load_chunking_eval, report_missing_set

CountTokens = Callable[[Sequence[str]], list[int]]
Splitter = Callable[[str, int, int, CountTokens], list[Span]]  # of a text; size and overlap are in tokens

RETRIEVED = 5
MAX_TRIES = 5  # sizes tried for a peer until its mean chunk length is ours
STEP = 5  # tokens between such sizes
UNLIMITED_CHUNK = 1_000_000  # a chunk size that no text reaches: the chunks of the peers are not split again
BLANKS = ("\n\n", "\n", " ", "")
STOPS = ("\n\n", "\n", ".", "?", "!", " ", "")
_TOKEN = re.compile(r"\s*(?:\w+|[^\w\s])|\s+")
MEASURES = ("recall", "precision", "omega", "iou")
PUBLISHED = """
Published, all five corpora and 472 questions, sizes in cl100k tokens (Chroma, 2024); mean size in brackets:
| embedder, chunker, size (mean), overlap | Recall | Precision | PrecΩ | IoU |
|---|---|---|---|---|
| text-embedding-3-large, recursive 400 (276), 0 | 89.5 | 3.6 | 17.7 | 3.6 |
| text-embedding-3-large, recursive 200 (137), 0 | 88.1 | 7.0 | 29.9 | 6.9 |
| text-embedding-3-large, fixed 400, 0 | 89.2 | 2.7 | 12.5 | 2.7 |
| text-embedding-3-large, fixed 200, 0 | 87.0 | 5.2 | 21.0 | 5.1 |
| text-embedding-3-large, cluster 200 (103), 0 | 87.3 | 8.0 | 34.0 | 8.0 |
| text-embedding-3-large, GPT-4o (240), 0 | 91.9 | 3.9 | 19.9 | 3.9 |
| all-MiniLM-L6-v2, recursive 250 (162), 0 | 78.5 | 5.4 | 26.7 | 5.4 |
| all-MiniLM-L6-v2, recursive 200 (128), 0 | 75.7 | 6.5 | 31.2 | 6.5 |
| all-MiniLM-L6-v2, fixed 250, 0 | 77.1 | 3.3 | 16.4 | 3.3 |"""


@dataclass(frozen=True, slots=True)
class ChunkerResult:
    """One chunker at one size: chunk count, mean and deviation of their tokens, and each measure by question."""

    name: str
    chunks: int
    mean: float
    spread: float
    values: Mapping[str, list[float]]


# -- the peers


def split_fixed(text: str, size: int, overlap: int, count: CountTokens) -> list[Span]:
    """Windows of a fixed number of tokens, cut between words or punctuation."""
    marks = [match.start() for match in _TOKEN.finditer(text)] + [len(text)]
    costs = count([text[start:end] for start, end in pairwise(marks)])
    sums = [0, *accumulate(costs)]
    spans: list[Span] = []
    low = 0
    while low < len(costs):
        high = low + 1
        while high < len(costs) and sums[high + 1] - sums[low] <= size:
            high += 1
        spans.append((marks[low], marks[high]))
        if high == len(costs):
            break
        low, last = high, low
        while low - 1 > last and sums[high] - sums[low - 1] <= overlap:
            low -= 1
    return strip_spans(text, spans)


def split_recursively(text: str, size: int, overlap: int, count: CountTokens) -> list[Span]:
    """As LangChain's RecursiveCharacterTextSplitter by default: at blank lines, then lines, spaces, characters."""
    return strip_spans(text, _split_recursively(text, (0, len(text)), BLANKS, size, overlap, count))


def split_at_stops(text: str, size: int, overlap: int, count: CountTokens) -> list[Span]:
    """The same with full stops before spaces, as in Chroma's own evaluation."""
    return strip_spans(text, _split_recursively(text, (0, len(text)), STOPS, size, overlap, count))


def _split_recursively(
    text: str, span: Span, separators: Sequence[str], size: int, overlap: int, count: CountTokens
) -> Iterator[Span]:
    """Splits at the first separator that occurs, packs small pieces together, and splits large ones at the next."""
    start, end = span
    place = next(i for i, each in enumerate(separators) if text.find(each, start, end) >= 0)
    separator, finer = separators[place], separators[place + 1 :]
    cuts = [match.start() for match in re.finditer(re.escape(separator), text[start:end])] if separator else []
    marks = sorted({start, end, *(start + cut for cut in cuts)} if separator else {*range(start, end + 1)})
    pieces = list(pairwise(marks))
    lengths = count([text[low:high] for low, high in pieces])
    small: list[tuple[Span, int]] = []
    for piece, tokens in zip(pieces, lengths, strict=True):
        if tokens < size:
            small.append((piece, tokens))
            continue
        yield from _pack_pieces(small, size, overlap)
        small = []
        if finer:
            yield from _split_recursively(text, piece, finer, size, overlap, count)
        else:
            yield piece
    yield from _pack_pieces(small, size, overlap)


def _pack_pieces(pieces: Sequence[tuple[Span, int]], size: int, overlap: int) -> Iterator[Span]:
    held: list[tuple[Span, int]] = []
    total = 0
    for piece, tokens in pieces:
        if held and total + tokens > size:
            yield held[0][0][0], held[-1][0][1]
            while held and (total > overlap or total + tokens > size):
                total -= held.pop(0)[1]
        held.append((piece, tokens))
        total += tokens
    if held:
        yield held[0][0][0], held[-1][0][1]


def strip_spans(text: str, spans: Sequence[Span] | Iterator[Span]) -> list[Span]:
    """The spans without white space at their ends; empty ones are dropped."""
    found = []
    for start, end in spans:
        inside = text[start:end]
        if inside.strip():
            found.append((start + len(inside) - len(inside.lstrip()), start + len(inside.rstrip())))
    return found


def find_size(splitter: Splitter, texts: Sequence[str], mean: float, overlap: int, count: CountTokens) -> int:
    """The size at which the mean length of the splitter's chunks is nearest to `mean`."""

    def measure_mean(size: int) -> float:
        pieces = [text[start:end] for text in texts for start, end in splitter(text, size, overlap, count)]
        return fmean(count(pieces))

    tried: dict[int, float] = {}
    size = STEP * round(mean / STEP)
    while size not in tried and len(tried) < MAX_TRIES:
        tried[size] = measure_mean(size)
        size = STEP * max(overlap // STEP + 1, round(size * mean / tried[size] / STEP))
    return min(tried, key=lambda size: abs(tried[size] - mean))


PEERS: Mapping[str, Splitter] = {
    "recursive": split_recursively,
    "recursive_stops": split_at_stops,
    "fixed": split_fixed,
}


# -- the study


def measure_clew(data: SpanSet, embedder: Embedder, *, size: int, overlap: int, structure: bool) -> ChunkerResult:
    """The result of one of our own chunkers."""
    config = IngestionConfig(chunk_size=size, chunk_overlap=overlap, use_semantic_chunking=structure, language="en")
    documents = [Document(name, text) for name, text in data.corpora.items()]
    name = f"clew {'structure' if structure else 'paragraphs'} {size}/{overlap}"
    return _measure(name, data, embedder, config, documents, {})


def measure_peer(data: SpanSet, embedder: Embedder, peer: str, *, mean: float, overlap: int) -> ChunkerResult:
    """The result of a peer tuned to this mean length; each of its chunks is added as a document of its own."""
    splitter = PEERS[peer]
    size = find_size(splitter, list(data.corpora.values()), mean, overlap, embedder.count)
    offsets: dict[str, tuple[str, int]] = {}
    documents = []
    for name, text in data.corpora.items():
        for start, end in splitter(text, size, overlap, embedder.count):
            id_ = f"{name}#{start}-{end}"
            offsets[id_] = (name, start)
            documents.append(Document(id_, text[start:end], (Section(0, end - start),), meta={"format": "text"}))
    config = IngestionConfig(chunk_size=UNLIMITED_CHUNK, chunk_overlap=0, language="en")
    return _measure(f"{peer} {size}/{overlap}", data, embedder, config, documents, offsets)


def _measure(
    name: str,
    data: SpanSet,
    embedder: Embedder,
    config: IngestionConfig,
    documents: Sequence[Document],
    offsets: Mapping[str, tuple[str, int]],
) -> ChunkerResult:
    settings = Settings(ingestion=config, search=SearchConfig(mode="exact", min_similarity=-1.0))
    with Engine.open(":memory:", embedder=embedder, settings=settings) as engine:
        engine.add_documents(documents)
        spans: dict[str, list[Span]] = {corpus: [] for corpus in data.corpora}
        tokens: list[int] = []
        for document in documents:
            corpus, offset = offsets.get(document.id, (document.id, 0))
            chunks = engine.opened.store.chunks(document.id)
            spans[corpus] += [(chunk.start + offset, chunk.end + offset) for chunk in chunks]
            tokens += embedder.count([chunk.text for chunk in chunks])
        values: dict[str, list[float]] = {measure: [] for measure in MEASURES}
        for question in data.questions:
            inside: list[Span] = []
            elsewhere = 0
            for hit in engine.search(question.text, k=RETRIEVED, strategy="semantic"):
                corpus, offset = offsets.get(hit.chunk.doc_id, (hit.chunk.doc_id, 0))
                if corpus == question.corpus:
                    inside.append((hit.chunk.start + offset, hit.chunk.end + offset))
                else:
                    elsewhere += hit.chunk.end - hit.chunk.start
            found = score_spans(inside, elsewhere, question.gold)
            omega = precision_omega(spans[question.corpus], question.gold)
            for measure, value in zip(MEASURES, (found.recall, found.precision, omega, found.iou), strict=True):
                values[measure].append(value)
    return ChunkerResult(name, len(tokens), fmean(tokens), pstdev(tokens), values)


def make_rows(data: SpanSet, embedder: Embedder, sizes: Sequence[tuple[int, int]]) -> Iterator[str]:
    """The rows of the table, one per chunker, with the lead of our structure chunker over that row."""
    yield "| chunker, size/overlap | chunks | mean ± sd | Recall | Precision | PrecΩ | IoU | our lead: Recall | IoU |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for size, overlap in sizes:
        first = measure_clew(data, embedder, size=size, overlap=overlap, structure=True)
        yield _make_row(first, None)
        plain = measure_clew(data, embedder, size=size, overlap=overlap, structure=False)
        for other in (plain, *_measure_peers(data, embedder, first.mean, overlap)):
            yield _make_row(other, first)


def _measure_peers(data: SpanSet, embedder: Embedder, mean: float, overlap: int) -> Iterator[ChunkerResult]:
    for peer in PEERS:
        yield measure_peer(data, embedder, peer, mean=mean, overlap=overlap)


def _make_row(outcome: ChunkerResult, against: ChunkerResult | None) -> str:
    shown = " | ".join(f"{100 * fmean(outcome.values[measure]):.1f}" for measure in MEASURES)
    leads = "| | |"
    if against is not None:
        leads = " ".join(f"| {bootstrap(against.values[m], outcome.values[m])}" for m in ("recall", "iou")) + " |"
    return f"| {outcome.name} | {outcome.chunks} | {outcome.mean:.0f} ± {outcome.spread:.0f} | {shown} {leads}"


@report_missing_set
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="studies.chunking", description="Chunkers at an equal mean size.")
    parser.add_argument("--data", type=Path, required=True, help="the folder of chunking-eval")
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    parser.add_argument(
        "--sizes", nargs="+", default=["128/0", "256/0", "256/48"], metavar="SIZE/OVERLAP", help="in tokens"
    )
    given = parser.parse_args(arguments)
    data = load_chunking_eval(given.data)
    embedder = drivers.make_embedder(EmbedderConfig(name=given.embedder, cache=given.cache))
    sizes = [(int(size), int(overlap or 0)) for size, _, overlap in (each.partition("/") for each in given.sizes)]
    names = ", ".join(data.corpora)
    print(f"{len(data.questions)} questions on {names}; n={RETRIEVED}, {embedder.name}, semantic", flush=True)
    for row in make_rows(data, embedder, sizes):
        print(row, flush=True)
    print(PUBLISHED)


if __name__ == "__main__":
    main()
