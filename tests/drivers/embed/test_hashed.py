"""The embedder that needs no model."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.drivers.embed.hashed import HashedEmbedder


def test_the_vectors_are_these_on_every_platform() -> None:
    row = HashedEmbedder(8).embed(["Keys are rotated every ninety days, keys."], role="passage")[0]
    expected = [0.3429956, 0.308565, 0.0, -0.632423, -0.3366164, -0.3021858, -0.3927191, 0.1683082]
    np.testing.assert_allclose(row, expected, atol=1e-6)


def test_case_and_width_of_letters_do_not_count() -> None:
    rows = HashedEmbedder().embed(["Straße Ｋｅｙ", "STRASSE key"], role="passage")
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-6)


def test_parts_of_words_count() -> None:
    asked, inflected, other = HashedEmbedder().embed(["rotation", "rotations", "lunch"], role="passage")
    assert asked @ inflected > 0.5 > asked @ other


def test_a_word_said_ten_times_does_not_drown_the_rest() -> None:
    once, often = HashedEmbedder().embed(["vault keys", "vault " * 10 + "keys"], role="passage")
    assert once @ often > 0.8


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("two words", 2), ("Stop, now!", 4), ("日本語 text", 4), ("a" * 40, 3), ("max_skew_ms=5", 3)],
)
def test_tokens(text: str, count: int) -> None:
    assert HashedEmbedder().count([text]) == [count]


@given(st.lists(st.text(max_size=40), max_size=5))
def test_tokens_of_joined_texts_are_the_sum(texts: list[str]) -> None:
    assert HashedEmbedder().count(["\n".join(texts)])[0] == sum(HashedEmbedder().count(texts))


@given(st.text(max_size=60), st.sampled_from([8, 64, 256]))
def test_any_text_has_a_unit_vector(text: str, dim: int) -> None:
    assert np.linalg.norm(HashedEmbedder(dim).embed([text], role="passage")[0]) == pytest.approx(1, abs=1e-5)
