"""What the peers are given: the documents and judged questions of SciFact, and their vectors, computed once."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import Setup
from benchmarks.corpus import load_scifact
from benchmarks.peers.lookup import Lookup, save_lookup
from benchmarks.peers.sides.with_clew import LookupEmbedder
from benchmarks.peers.worker import Text
from clew import Document, Engine, drivers
from clew.core.protocols import Embedder
from clew.core.settings import EmbedderConfig
from clew.core.types import Matrix

QUERIES, CHANGED = 100, 10
BATCH = 64


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the grade of each relevant document."""

    text: str
    grades: dict[str, float]


@dataclass(frozen=True, slots=True)
class Inputs:
    """Documents, questions, and the documents that are deleted and added late."""

    documents: list[Text]
    questions: list[Question]
    deleted: list[Text]
    late: list[Text]

    def list_queries(self) -> list[str]:
        """Every text that is searched for."""
        changed = [make_title_query(text) for _, text in (*self.deleted, *self.late)]
        return [*(each.text for each in self.questions), *changed]


def make_title_query(text: str) -> str:
    """The title of a document: the question that must find it."""
    return text.partition("\n")[0]


def load_inputs(setup: Setup) -> Inputs:
    """The 5,183 documents and the first questions; every five-hundredth document is deleted or comes late."""
    corpus, queries = load_scifact(setup)
    assert setup.data is not None
    grades: dict[str, dict[str, float]] = {}
    with (setup.data / "scifact" / "qrels.train.tsv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            grades.setdefault(row["query-id"], {})[row["corpus-id"]] = float(row["score"])
    documents = [(each.id, each.text.strip()) for each in corpus]
    questions = [Question(each.text, grades[each.id]) for each in queries if each.id in grades][:QUERIES]
    step = len(documents) // CHANGED
    return Inputs(documents, questions, documents[::step][:CHANGED], documents[step // 2 :: step][:CHANGED])


def prepare_lookup(inputs: Inputs, folder: Path, work: Path, *, model: str = "bge-small") -> Path:
    """The folder of the lookup, filled by the model if it is not yet."""
    target = folder / model
    if not (target / "texts.json").is_file():
        target.mkdir(parents=True, exist_ok=True)
        embedder = drivers.make_embedder(EmbedderConfig(name=model))
        passages = _embed_passages(embedder, [text for _, text in inputs.documents], target / "passages.npy")
        queries = list(dict.fromkeys(inputs.list_queries()))
        first = work / "first"
        save_lookup(
            first,
            named := [*inputs.documents, *(("", each) for each in queries)],
            np.concatenate([passages, made := embedder.embed(queries, role="query")]),
        )
        # Clew also embeds some sentences as questions, to know how alike unrelated texts are.
        lookup = Lookup(first)
        with Engine.open(work / "rehearsal.clew", embedder=LookupEmbedder(lookup)) as engine:
            engine.add_documents(Document(id_, text) for id_, text in inputs.documents)
        sentences = list(dict.fromkeys(lookup.parts))
        if sentences:
            made = np.concatenate([made, embedder.embed(sentences, role="query")])
        save_lookup(target, [*named, *(("", each) for each in sentences)], np.concatenate([passages, made]))
    return target


def _embed_passages(embedder: Embedder, texts: Sequence[str], file: Path) -> Matrix:
    if not file.is_file():
        batches = range(0, len(texts), BATCH)
        np.save(file, np.concatenate([embedder.embed(texts[at : at + BATCH], role="passage") for at in batches]))
    return np.asarray(np.load(file), np.float32)
