"""Raw floor of Lance: the calls of the library that the same hits need, by hand.

They are the index or the terms, the rows of the hits, those of their documents.
"""

from collections.abc import Sequence
from typing import Any

import lance
import numpy as np

from benchmarks.postgres import K
from clew.core.text import Terms
from clew.core.types import Vector
from clew.drivers.store import bm25
from clew.drivers.store import rows as shown
from clew.drivers.store.backend import CHUNK, DOCUMENT
from clew.drivers.store.rows import pack_terms

CANDIDATES, PROBES = 200, 50  # as the store asks for


class LanceFloor:
    """Searches in the dataset of a collection by hand."""

    def __init__(self, uri: str, chunks: int, average: float) -> None:
        self._dataset = lance.dataset(uri)
        self._chunks, self._average = chunks, average  # known, as the store's head has them

    def search_vectors(self, vector: Vector) -> list[dict[str, Any]]:
        """The ten nearest of the candidates, with their rows and those of their documents."""
        table = self._ask_index(vector, ["row", "vector", "_distance"], CANDIDATES)
        vectors = table["vector"].combine_chunks().flatten().to_numpy().reshape(-1, len(vector))
        best = np.argsort(-(vectors @ vector), kind="stable")[:K]
        return self._read_rows(table["row"].to_numpy()[best].tolist())

    def _ask_index(self, vector: Vector, columns: list[str], k: int) -> Any:
        nearest = {"column": "vector", "q": vector, "k": k, "nprobes": PROBES, "refine_factor": 2}
        return self._dataset.to_table(columns=columns, filter=f"kind = {CHUNK}", prefilter=True, nearest=nearest)

    def search_terms(self, terms: Terms) -> list[dict[str, Any]]:
        """The ten of greatest BM25 score of all chunks that have any of the terms."""
        query = pack_terms(terms)
        listed = ", ".join(map(str, query.hashes.tolist()))
        sql = f"kind = {CHUNK} AND array_has_any(terms, [{listed}])"
        table = self._dataset.to_table(columns=["row", "length", "terms", "counts"], filter=sql).combine_chunks()
        owned = table["terms"].combine_chunks()
        owners = np.repeat(np.arange(table.num_rows), owned.value_lengths().to_numpy())
        hashes, counts = owned.flatten().to_numpy(), table["counts"].combine_chunks().flatten().to_numpy()
        norms = bm25.length_norm(table["length"].to_numpy().astype(np.float64), self._average)
        scores = np.zeros(table.num_rows)
        for each, times in zip(query.hashes, query.counts.tolist(), strict=True):
            at = np.flatnonzero(hashes == each)
            places = owners[at]
            scores[places] += times * bm25.idf(self._chunks, len(at)) * bm25.saturate(counts[at], norms[places])
        return self._read_rows(table["row"].to_numpy()[np.argsort(-scores, kind="stable")[:K]].tolist())

    def _read_rows(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._find(CHUNK, numbers, shown.CHUNK_COLUMNS)
        self._find(DOCUMENT, sorted({row["doc"] for row in found}), shown.RECORD)
        return found

    def _find(self, kind: int, numbers: Sequence[int], columns: Sequence[str]) -> list[dict[str, Any]]:
        sql = f"kind = {kind} AND row IN ({', '.join(map(str, numbers))})"
        names = list(dict.fromkeys(["row", *columns]))
        found: list[dict[str, Any]] = self._dataset.to_table(columns=names, filter=sql).to_pylist()
        return found
