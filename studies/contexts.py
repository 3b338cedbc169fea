"""`python -m studies.contexts --data FOLDER`: which context shows most of the answer at an equal token budget?

FOLDER holds `chunking-eval` and `qmsum`. Gold is what the sets mark as the answer: spans of Chroma's chunking
evaluation, and turns of QMSum's meetings (each question is asked within its meeting). The measure is the share of the
gold characters that a context shows. "raw" is a list of hits, each an entry of its own, best first, as many as fit. All
others merge hits; some also add their neighbours: in the budget that is left, before hits that score less than 0.8 of
theirs, or before any other hit. The 0.8 was chosen on every third question; those are left out here.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from pathlib import Path
from statistics import fmean
from unittest.mock import patch

from clew import Document, Engine, Filter, Settings, drivers
from clew.core.cite import MergedChunk
from clew.core.filter import EVERYTHING
from clew.core.settings import ContextConfig, EmbedderConfig, IngestionConfig, SearchConfig
from clew.core.text import estimate_tokens
from clew.core.types import Hit, Query
from clew.query.context import assemble
from clew.query.context.format.formatter import ContextFormatter
from clew.query.context.format.renderers import RENDERERS
from clew.query.context.merge import as_merged_chunk
from studies.conversations import load_meetings
from studies.measures import Span, bootstrap, count_characters, intersect_spans, merge_spans
from studies.sets import load_chunking_eval, report_missing_set

BUDGETS = (500, 1000, 2000)
RETRIEVED = 50
CHOSEN_ON = 1  # the remainder, of every three questions, used for choosing


@dataclass(frozen=True, slots=True)
class ContextQuestion:
    """A question, where it may search, and the spans of a document that answer it."""

    text: str
    where: Filter
    document: str
    gold: tuple[Span, ...]


SYSTEMS: Mapping[str, ContextConfig] = {
    "merged": ContextConfig(grow="none"),
    "neighbours in the room left": ContextConfig(grow="neighbours"),
    "neighbours worth 0.8": ContextConfig(grow="neighbours"),
    "neighbours first": ContextConfig(grow="neighbours"),
    "sections in the room left": ContextConfig(grow="section"),
    "the default: neighbours in conversations": ContextConfig(),
}
WORTHS = {"neighbours in the room left": 1e-9, "neighbours first": 1.0}  # of their hit's score, in place of 0.8
ContextBuilder = Callable[[Engine, Sequence[Hit], int], dict[str, list[Span]]]  # the spans shown, by document


def list_hits(_engine: Engine, hits: Sequence[Hit], tokens: int) -> dict[str, list[Span]]:
    """Hits unmerged, each an entry with its headings and source, as many as fit."""
    shown: dict[str, list[Span]] = {}
    taken: list[MergedChunk] = []
    for hit in hits:
        record = hit.document
        entry = as_merged_chunk(hit, record.uri or record.title or record.id)
        if estimate_tokens(ContextFormatter().format_merged([*taken, entry])) <= tokens:
            taken.append(entry)
            shown.setdefault(record.id, []).extend(entry.spans)
    return shown


def make_builder(config: ContextConfig, worth: float = assemble.NEIGHBOUR_WORTH) -> ContextBuilder:
    """A builder that assembles contexts as the engine does, at that worth of neighbours."""
    settings = Settings(context=config)

    def build(engine: Engine, hits: Sequence[Hit], tokens: int) -> dict[str, list[Span]]:
        store = engine.opened.store
        with patch.object(assemble, "NEIGHBOUR_WORTH", worth):
            context = assemble.build_context(
                Query("-"),
                hits,
                {hit.document.id: hit.document for hit in hits},
                read=store.document,
                chunks=store.chunks,
                tokens=tokens,
                render=RENDERERS["numbered"],
                settings=settings,
            )
        shown: dict[str, list[Span]] = {}
        for passage in context.passages:
            shown.setdefault(passage.chunks[0].chunk.doc_id, []).extend(passage.spans)
        return shown

    return build


# -- the questions


def load_span_questions(folder: Path) -> tuple[list[Document], list[ContextQuestion]]:
    """The texts and questions of Chroma's chunking evaluation, in one collection."""
    data = load_chunking_eval(folder / "chunking-eval")
    questions = [ContextQuestion(each.text, EVERYTHING, each.corpus, each.gold) for each in data.questions]
    return [Document(name, text) for name, text in data.corpora.items()], questions


def load_turn_questions(folder: Path) -> tuple[list[Document], list[ContextQuestion]]:
    """The meetings of QMSum's val with the questions on each, and the turns that answer them."""
    documents, questions = [], []
    for meeting in load_meetings(folder, "val"):
        turn_texts = [f"{turn['speaker']}: {turn['content']}\n\n" for turn in meeting["meeting_transcripts"]]
        marks = list(pairwise([0, *accumulate(map(len, turn_texts))]))
        id_ = meeting["meeting_id"]
        documents.append(Document(id_, "".join(turn_texts), kind="thread"))
        for each in meeting["specific_query_list"]:
            gold = chain.from_iterable(marks[int(low) : int(high) + 1] for low, high in each["relevant_text_span"])
            questions.append(ContextQuestion(each["query"], Filter(documents=frozenset({id_})), id_, tuple(gold)))
    return documents, questions


def measure_coverage(
    engine: Engine, questions: Sequence[ContextQuestion], strategy: str
) -> dict[tuple[str, int], list[float]]:
    """The share of its gold that the context of each question shows, by system and budget."""
    builders: Mapping[str, ContextBuilder] = {
        "raw": list_hits,
        **{name: make_builder(config, WORTHS.get(name, assemble.NEIGHBOUR_WORTH)) for name, config in SYSTEMS.items()},
    }
    values: dict[tuple[str, int], list[float]] = {(name, tokens): [] for name in builders for tokens in BUDGETS}
    for each in questions:
        hits = engine.search(each.text, k=RETRIEVED, strategy=strategy, where=each.where)
        for (name, tokens), kept in values.items():
            shown = builders[name](engine, hits, tokens).get(each.document, [])
            kept.append(
                count_characters(merge_spans(intersect_spans(shown, each.gold)))
                / count_characters(merge_spans(each.gold))
            )
    return values


def make_rows(values: Mapping[tuple[str, int], list[float]]) -> Iterator[str]:
    """The rows of the table, one per system; the lead is over raw, paired by question."""
    yield "| context | " + " | ".join(f"{tokens} tokens | lead" for tokens in BUDGETS) + " |"
    yield "|---" * (1 + 2 * len(BUDGETS)) + "|"
    for name in dict.fromkeys(name for name, _ in values):
        cells = []
        for tokens in BUDGETS:
            lead = "" if name == "raw" else str(bootstrap(values[name, tokens], values["raw", tokens]))
            cells.append(f"{100 * fmean(values[name, tokens]):.1f} | {lead}")
        yield f"| {name} | {' | '.join(cells)} |"


@report_missing_set
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints one table per set."""
    parser = argparse.ArgumentParser(prog="studies.contexts", description="Contexts at an equal token budget.")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds chunking-eval and qmsum")
    parser.add_argument("--embedder", default="bge-small", help="for the spans; turns are searched with wordllama")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    parser.add_argument("--strategy", default="hybrid")
    given = parser.parse_args(arguments)
    for name, read, model in (
        ("chunking-eval", load_span_questions, given.embedder),
        ("qmsum", load_turn_questions, ""),
    ):
        documents, questions = read(given.data)
        questions = [each for place, each in enumerate(questions) if place % 3 != CHOSEN_ON]
        model = model or ("wordllama" if given.embedder == "bge-small" else given.embedder)
        embedder = drivers.make_embedder(EmbedderConfig(name=model, cache=given.cache))
        settings = Settings(
            ingestion=IngestionConfig(language="en"),
            search=SearchConfig(mode="exact", cache=0),
        )
        with Engine.open(":memory:", embedder=embedder, settings=settings) as engine:
            engine.add_documents(documents)
            chunks = engine.status().chunks
            print(
                f"\n{name}: {len(questions)} questions, {chunks} chunks, {given.strategy}, {embedder.name}", flush=True
            )
            for row in make_rows(measure_coverage(engine, questions, given.strategy)):
                print(row, flush=True)


if __name__ == "__main__":
    main()
