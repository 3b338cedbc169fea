"""A bounded memory, and an embedder that has one."""

from collections.abc import Sequence

import numpy as np

from clew.core.lru import LRUCache, LRUEmbedder
from clew.core.protocols import Role
from clew.core.types import Matrix
from clew.drivers.embed.hashed import HashedEmbedder


def test_the_one_not_asked_for_longest_is_forgotten_first() -> None:
    recent: LRUCache[int] = LRUCache(2)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1
    recent.put("c", 3)
    assert (recent.get("a"), recent.get("b"), recent.get("c")) == (1, None, 3)


def test_nothing_is_kept_where_nothing_may_be() -> None:
    recent: LRUCache[int] = LRUCache(0)
    recent.put("a", 1)
    assert recent.get("a") is None


def test_a_query_is_embedded_once_and_a_passage_each_time() -> None:
    calls: list[tuple[Role, list[str]]] = []

    class Counting(HashedEmbedder):
        def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
            calls.append((role, list(texts)))
            return super().embed(texts, role=role)

    embedder = LRUEmbedder(Counting())
    first = embedder.embed(["a", "b", "a"], role="query")
    again = embedder.embed(["b", "c"], role="query")
    assert calls == [("query", ["a", "b"]), ("query", ["c"])]
    np.testing.assert_array_equal(first[0], first[2])
    np.testing.assert_array_equal(first[1], again[0])
    embedder.embed(["a"], role="passage")
    embedder.embed(["a"], role="passage")
    assert calls[2:] == [("passage", ["a"]), ("passage", ["a"])]
    assert embedder.embed([], role="query").shape == (0, embedder.dim)
