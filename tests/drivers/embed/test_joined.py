"""Two embedders as one: their vectors, questions in a language that only one knows, and collections with both."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from clew import Document, Engine, Settings
from clew.core.errors import SettingsError, StoreMismatch
from clew.core.protocols import Role
from clew.core.settings import EmbedderConfig
from clew.core.types import Matrix
from clew.drivers import make_embedder
from clew.drivers.embed.joined import JoinedEmbedder
from clew.engine.languages import find_foreign_languages

BOTH = "hashed+hashed:64"
NOTES = [
    Document("keys", "Keys are rotated every ninety days.", uri="keys.md"),
    Document("soup", "Soup is served at noon.", uri="soup.md"),
]


class Fixed:
    """An embedder with one vector for all texts, and languages that it knows."""

    max_tokens = 100

    def __init__(self, name: str, vector: Sequence[float], languages: str, min_similarity: float = 0.5) -> None:
        self.name, self.dim, self.min_similarity = name, len(vector), min_similarity
        self.languages = frozenset(languages.split())
        self._vector = vector

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        return np.array([self._vector] * len(texts), np.float32)

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]


def test_the_cosine_is_the_weighted_sum_of_both() -> None:
    parts = [make_embedder(EmbedderConfig(name=name)) for name in ("hashed", "hashed:64")]
    joined = make_embedder(EmbedderConfig(name=BOTH))
    assert (joined.name, joined.dim) == (BOTH, 320)
    texts = ["Keys are rotated", "keys and locks"]
    rows = joined.embed(texts, role="passage")
    cosines = [float(each[0] @ each[1]) for each in (part.embed(texts, role="passage") for part in parts)]
    assert float(rows[0] @ rows[1]) == pytest.approx(sum(cosines) / 2, abs=1e-5)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert joined.embed([], role="query").shape == (0, 320)


def test_the_model_whose_cosines_differ_less_weighs_more() -> None:
    joined = JoinedEmbedder(Fixed("a", [1, 0], "en", 0.75), Fixed("b", [1, 0], "en", 0.25))
    row = joined.embed(["text"], role="passage")[0]
    np.testing.assert_allclose(row**2, [0.75, 0, 0.25, 0], atol=1e-6)
    assert joined.min_similarity == pytest.approx(0.75 * 0.75 + 0.25 * 0.25)


def test_a_question_that_only_one_model_understands_is_asked_of_that_one() -> None:
    joined = JoinedEmbedder(Fixed("a", [1, 0], "en"), Fixed("b", [0, 1], "en de"))
    texts = ["Wie oft werden die Schlüssel gewechselt, und von wem?", "How often are the keys of the vault rotated?"]
    german, english = joined.embed(texts, role="query")
    np.testing.assert_allclose(german, [0, 0, 0, 1], atol=1e-6)
    np.testing.assert_allclose(english**2, [0.5, 0, 0, 0.5], atol=1e-6)
    assert joined.embed(texts[:1], role="passage")[0][0] > 0  # what is stored has both
    assert joined.languages == {"en", "de"}
    assert find_foreign_languages(joined, {"de": 15, "en": 15, "zh": 15}) == {"zh": 15}


@pytest.mark.parametrize("kind", ["folder", "postgres"])
def test_a_collection_with_two_embedders(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = str(tmp_path / "a.clew") if kind == "folder" else request.getfixturevalue("postgres")
    with Engine.open(path, embedder=BOTH) as engine:
        engine.add_documents(NOTES)
    with Engine.open(path) as engine:  # the collection's own
        assert engine.status().embedder == BOTH
        for strategy in ("semantic", "hybrid"):
            assert engine.search("how often are keys rotated?", strategy=strategy)[0].document.uri == "keys.md"
        engine.reembed(to="hashed")
        assert engine.status().embedder == "hashed"
    with pytest.raises(StoreMismatch, match="hashed"):
        Engine.open(path, embedder=BOTH)


def test_names_that_are_no_two_embedders() -> None:
    with pytest.raises(SettingsError, match="joined with itself"):
        make_embedder(EmbedderConfig(name="hashed+hashed"))
    with pytest.raises(SettingsError, match="the lengths of both"):
        Engine.open(":memory:", settings=Settings(embedder=EmbedderConfig(name=BOTH, dim=32)))
    cut = make_embedder(EmbedderConfig(name="hashed#32+hashed:64#16"))
    assert (cut.name, cut.dim) == ("hashed#32+hashed:64#16", 48)
