"""An embedder of chosen cosines, and what tests with it have in common."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import sqrt
from threading import Lock

import numpy as np

from clew import Chunk, Document, Engine, Message
from clew.core.protocols import Role
from clew.core.types import Hit, Matrix

OpenEngine = Callable[..., Engine]


@dataclass
class ChosenEmbedder:
    """An embedder of planned vectors: a text has the given shares of named directions, and a direction of its own.

    `{"tides": {"q": 0.4}}` makes the cosine of "tides" with a text `{"q": 1.0}` 0.4. A text without a plan is
    orthogonal to all others. Of a text with a context before it the last paragraph counts.
    """

    plan: dict[str, Mapping[str, float]] = field(default_factory=dict)
    name: str = "chosen"
    dim: int = 512
    max_tokens: int = 512
    min_similarity: float = 0.0
    languages: Set[str] = frozenset()
    _axes: dict[str, int] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        rows = np.zeros((len(texts), self.dim), np.float32)
        for row, text in zip(rows, texts, strict=True):
            known = text if text in self.plan else text.rsplit("\n\n", 1)[-1]
            shares = self.plan.get(known, {})
            for axis, share in shares.items():
                row[self._find_axis(f"direction {axis}")] = share
            rest = 1 - sum(share**2 for share in shares.values())
            assert rest > -1e-6, f"the plan of {known!r} is longer than a unit vector"
            if rest > 1e-9:
                row[self._find_axis(f"text {known}")] = sqrt(rest)
        return rows

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def _find_axis(self, name: str) -> int:
        with self._lock:
            axis = self._axes.setdefault(name, len(self._axes))
        assert axis < self.dim, "more directions than dimensions"
        return axis


def split_paragraphs(document: Document) -> list[Chunk]:
    """A chunker: each paragraph is a chunk."""
    paragraphs = document.text.split("\n\n")
    chunks, start = [], 0
    for index, text in enumerate(paragraphs):
        id_ = f"{document.id}-{index}"
        chunks.append(Chunk(id_, document.id, index, len(paragraphs), text, start, start + len(text)))
        start += len(text) + 2
    return chunks


def conversation(*texts: str) -> list[Message]:
    """Messages in the order in which they are given."""
    return [Message(text, author="ada", id=f"m{place}") for place, text in enumerate(texts)]


def documents(hits: Sequence[Hit]) -> list[str]:
    return [hit.chunk.doc_id for hit in hits]
