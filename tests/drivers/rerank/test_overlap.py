"""The reranker that counts shared words: its formula."""

import pytest

from clew.drivers.rerank.overlap import PHRASE_WEIGHT, OverlapReranker

overlap = OverlapReranker()


def test_the_share_of_terms_and_of_pairs() -> None:
    # Terms: rotat, vault, key. Pairs: (rotate, vault), (vault, keys).
    query = "rotate vault keys"
    whole, apart, two, none = overlap.score(
        query, ["We rotate vault keys.", "Keys; a vault. It rotates.", "the vault keys", "Lunch is at noon."]
    )
    assert whole == pytest.approx(1)
    assert apart == pytest.approx(1 - PHRASE_WEIGHT)
    assert two == pytest.approx((1 - PHRASE_WEIGHT) * 2 / 3 + PHRASE_WEIGHT / 2)
    assert none == 0


def test_a_question_of_one_word() -> None:
    assert overlap.score("keys", ["a key", "a lock"]) == [pytest.approx(1), 0]


def test_two_function_words_are_no_phrase() -> None:
    one, other = overlap.score("who has the keys", ["who has lost the keys", "the keys who has"])
    assert one == other


def test_a_term_counts_once_and_all_weigh_the_same() -> None:
    once, often = overlap.score("vault keys", ["vault", "vault vault vault"])
    assert once == often == pytest.approx((1 - PHRASE_WEIGHT) / 2)


def test_a_question_without_words() -> None:
    assert overlap.score("?!", ["anything", ""]) == [0, 0]


def test_other_scripts() -> None:
    near, far = overlap.score("鍵の交換", ["鍵の交換は九十日ごとです", "昼食は正午です"])
    assert near > 0.9 > far
