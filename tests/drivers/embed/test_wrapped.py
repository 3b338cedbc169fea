"""The embedder that keeps vectors in a file."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from clew.core.errors import DriverFailed
from clew.core.protocols import Role
from clew.core.settings import EmbedderConfig
from clew.core.types import Matrix
from clew.drivers import make_embedder
from clew.drivers.embed.hashed import HashedEmbedder
from clew.drivers.embed.wrapped import CachedEmbedder


class Counting(HashedEmbedder):
    """Keeps what it was asked to embed."""

    def __init__(self, dim: int = 256) -> None:
        super().__init__(dim)
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        self.asked += texts
        return super().embed(texts, role=role)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a folder" / "vectors.db"


def test_only_what_is_missing_is_embedded_and_each_text_once(path: Path) -> None:
    inner = Counting()
    cached = CachedEmbedder(inner, path)
    texts = ["one", "two", "one", "three"]
    first = cached.embed(texts, role="passage")
    assert inner.asked == ["one", "two", "three"]
    assert (cached.hits, cached.misses) == (1, 3)
    again = cached.embed(["four", *texts], role="passage")
    assert inner.asked == ["one", "two", "three", "four"]
    assert (cached.hits, cached.misses) == (5, 4)
    np.testing.assert_array_equal(first, HashedEmbedder().embed(texts, role="passage"))
    np.testing.assert_array_equal(again[1:], first)
    again[0, 0] = 2  # the rows are the caller's own


def test_the_file_outlives_the_embedder(path: Path) -> None:
    CachedEmbedder(HashedEmbedder(), path).embed(["one"], role="passage")
    inner = Counting()
    CachedEmbedder(inner, path).embed(["one"], role="passage")
    assert inner.asked == []


def test_roles_and_models_are_kept_apart(path: Path) -> None:
    wide, narrow = Counting(), Counting(64)
    CachedEmbedder(wide, path).embed(["one"], role="passage")
    CachedEmbedder(wide, path).embed(["one"], role="query")
    rows = CachedEmbedder(narrow, path).embed(["one"], role="query")
    assert wide.asked == ["one", "one"]
    assert narrow.asked == ["one"]
    assert rows.shape == (1, 64)


def test_a_model_that_changed_under_its_name_is_asked_again(path: Path) -> None:
    CachedEmbedder(HashedEmbedder(), path).embed(["one"], role="passage")
    changed = Counting(64)
    changed.name = "hashed"
    assert CachedEmbedder(changed, path).embed(["one"], role="passage").shape == (1, 64)


def test_more_texts_than_one_statement_holds(path: Path) -> None:
    inner = Counting(8)
    cached = CachedEmbedder(inner, path)
    texts = [f"text {n}" for n in range(1201)]
    first = cached.embed(texts, role="passage")
    np.testing.assert_array_equal(cached.embed(texts[::-1], role="passage"), first[::-1])
    assert len(inner.asked) == 1201


def test_threads_share_it(path: Path) -> None:
    cached = CachedEmbedder(HashedEmbedder(), path)
    texts = [[f"text {n % 7}" for n in range(start, start + 5)] for start in range(40)]
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda some: cached.embed(some, role="passage"), texts))
    for some, found in zip(texts, rows, strict=True):
        np.testing.assert_array_equal(found, HashedEmbedder().embed(some, role="passage"))
    assert cached.hits + cached.misses == 200


def test_a_failure_keeps_nothing_and_passes_through(path: Path) -> None:
    class Broken(HashedEmbedder):
        def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
            raise DriverFailed("the model is out; try again")

    cached = CachedEmbedder(Broken(), path)
    with pytest.raises(DriverFailed, match="the model is out"):
        cached.embed(["one"], role="passage")
    assert (cached.hits, cached.misses) == (0, 0)


def test_the_setting_puts_it_around_an_embedder(path: Path) -> None:
    made = make_embedder(EmbedderConfig(name="hashed:64", cache=str(path)))
    assert isinstance(made, CachedEmbedder)
    assert (made.name, made.dim, made.min_similarity) == ("hashed:64", 64, 0.05)
    assert made.max_tokens == HashedEmbedder.max_tokens
    assert made.count(["two words"]) == [2]
    made.embed(["one"], role="query")
    assert path.is_file()
