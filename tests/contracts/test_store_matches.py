"""How well chunks match the terms of a query, in every Store, and the text that it keeps about its collection."""

import math
from collections.abc import Mapping, Sequence
from contextlib import closing

import numpy as np
import pytest

from clew.core.analyse import make_language_term
from clew.core.types import TermMatch
from clew.drivers.store.store import Store
from tests.contracts.conftest import MakeStore
from tests.contracts.test_store import WORDS, Bundle, Other, bundle, put, random_bundle

# Three chunks of 2, 4 and 3 terms, so of 3 on average.
SHORT, LONG, ELSEWHERE = "anchor bell", "anchor anchor cable deck", "flag flag flag"
LOG = bundle("log", [SHORT, LONG, ELSEWHERE])
IDS = [chunk.id for chunk in LOG.chunks]
NORM_SHORT, NORM_LONG = 1.2 * (0.25 + 0.75 * 2 / 3), 1.2 * (0.25 + 0.75 * 4 / 3)
IN_NONE, IN_ONE, IN_TWO = (math.log(1 + (100 - n + 0.5) / (n + 0.5)) for n in range(3))


def read_matches(store: Store, terms: Mapping[str, int], ids: Sequence[str]) -> dict[str, tuple[float, float]]:
    return {each: (match.share, match.strength) for each, match in store.match_terms(terms, ids).items()}


def plain_matches(kept: Sequence[Bundle], query: Mapping[str, int]) -> dict[str, tuple[float, float]]:
    """The matches of all chunks by the definition."""
    everything = [pair for each in kept for pair in zip(each.chunks, each.terms, strict=True)]
    average = sum(sum(terms.values()) for _, terms in everything) / max(len(everything), 1)
    weights = weigh_plainly(kept, query)
    matches = {}
    for chunk, terms in everything:
        norm = 1.2 * (0.25 + 0.75 * sum(terms.values()) / average)
        share = sum(weight for word, weight in weights.items() if word in terms)
        score = sum(weight * terms[word] / (terms[word] + norm) for word, weight in weights.items() if word in terms)
        matches[chunk.id] = (share / sum(weights.values()), score / sum(weights.values()))
    return matches


def weigh_plainly(kept: Sequence[Bundle], query: Mapping[str, int]) -> dict[str, float]:
    everything = [terms for each in kept for terms in each.terms]
    have = {word: sum(1 for terms in everything if word in terms) for word in query}
    return {
        word: times * math.log(1 + (max(len(everything), 100) - have[word] + 0.5) / (have[word] + 0.5))
        for word, times in query.items()
    }


def assert_same_matches(store: Store, kept: Sequence[Bundle]) -> None:
    """Fails unless the store gives the matches of the definition, all at once and one at a time."""
    for query in ({"anchor": 1}, {"bell": 2, "cable": 1, "absent": 1}, dict.fromkeys(WORDS, 1)):
        expected = plain_matches(kept, query)
        found = read_matches(store, query, [*expected, "unknown"])
        assert set(found) == set(expected)
        for each, match in expected.items():
            assert found[each] == pytest.approx(match, abs=6e-10)
            assert read_matches(store, query, [each]) == {each: found[each]}


def skip_if_in_memory(request: pytest.FixtureRequest) -> None:
    if "memory" in request.node.callspec.params.values():
        pytest.skip("a collection in memory has one opener")


# -- matches


@pytest.mark.parametrize(
    ("terms", "short", "long"),
    [
        ({"anchor": 1}, (1, 1 / (1 + NORM_SHORT)), (1, 2 / (2 + NORM_LONG))),
        (
            {"anchor": 1, "bell": 1},
            (1, 1 / (1 + NORM_SHORT)),
            (IN_TWO / (IN_TWO + IN_ONE), IN_TWO / (IN_TWO + IN_ONE) * 2 / (2 + NORM_LONG)),
        ),
        (
            {"anchor": 3, "bell": 1},  # a term that is asked three times
            (1, 1 / (1 + NORM_SHORT)),
            (3 * IN_TWO / (3 * IN_TWO + IN_ONE), 3 * IN_TWO / (3 * IN_TWO + IN_ONE) * 2 / (2 + NORM_LONG)),
        ),
        (
            {"anchor": 1, "absent": 1},  # a term that no chunk has
            (IN_TWO / (IN_TWO + IN_NONE), IN_TWO / (IN_TWO + IN_NONE) / (1 + NORM_SHORT)),
            (IN_TWO / (IN_TWO + IN_NONE), IN_TWO / (IN_TWO + IN_NONE) * 2 / (2 + NORM_LONG)),
        ),
        ({"absent": 2}, (0, 0), (0, 0)),
        ({"anchor": 1, "bell": 0}, (1, 1 / (1 + NORM_SHORT)), (1, 2 / (2 + NORM_LONG))),
    ],
    ids=["one term", "two terms", "repeated", "absent", "only absent", "not asked"],
)
def test_matches_are_the_formula(
    make_store: MakeStore, terms: Mapping[str, int], short: tuple[float, float], long: tuple[float, float]
) -> None:
    store = make_store()
    put(store, LOG)
    found = read_matches(store, terms, IDS)
    assert found[IDS[0]] == pytest.approx(short, abs=1e-9)
    assert found[IDS[1]] == pytest.approx(long, abs=1e-9)
    assert found[IDS[2]] == (0.0, 0.0)
    assert_same_matches(store, [LOG])


def test_matches_are_of_the_chunks_that_exist(make_store: MakeStore) -> None:
    store, none = make_store(), TermMatch(0.0, 0.0)
    assert store.match_terms({"anchor": 1}, IDS) == {}
    put(store, LOG)
    assert set(store.match_terms({"anchor": 1}, [IDS[1], "unknown", IDS[0], IDS[1]])) == {IDS[0], IDS[1]}
    assert store.match_terms({"anchor": 1}, []) == store.match_terms({"anchor": 1}, ["unknown"]) == {}
    assert store.match_terms({}, [*IDS, "unknown"]) == dict.fromkeys(IDS, none)
    assert store.match_terms({"flag": 1}, IDS[:2]) == dict.fromkeys(IDS[:2], none)


@pytest.mark.parametrize("name", ["o'brien", 'say "hi"', "%", "naïve ☕ 日本語", "a\nb\tc", "\\x", "{a,b}", " "])
def test_odd_ids_match_too(make_store: MakeStore, name: str) -> None:
    store, given = make_store(), bundle(name, ["anchor", "bell"])
    put(store, given)
    assert_same_matches(store, [given])


def test_matches_follow_every_change(make_store: MakeStore) -> None:
    store, rng = make_store(), np.random.default_rng(5)
    kept = {f"d{n}": random_bundle(rng, f"d{n}") for n in range(12)}
    for each in kept.values():
        put(store, each)
    assert_same_matches(store, list(kept.values()))
    store.drop(["d1", "d2", "d3"])
    for name in ("d1", "d2", "d3"):
        del kept[name]
    assert_same_matches(store, list(kept.values()))
    for name in ("d2", "d4", "d5"):  # one that is new again, and two others of which some chunks stay
        kept[name] = random_bundle(rng, name)
        put(store, kept[name])
        assert_same_matches(store, list(kept.values()))
    store.flush()
    assert_same_matches(store, list(kept.values()))
    whole = bundle("d6", ["anchor bell", "cable", "bell bell deck"])
    put(store, whole)
    kept["d6"] = whole
    assert_same_matches(store, list(kept.values()))


def test_a_chunk_that_comes_again_with_other_terms_matches_these(make_store: MakeStore) -> None:
    store, given = make_store(), bundle("log", ["anchor bell", "cable"])
    put(store, given)
    assert store.match_terms({"deck": 1}, [given.chunks[0].id])[given.chunks[0].id].share == 0
    terms = ({"deck": 2}, {"cable": 1})
    store.put(given.document, given.chunks, given.vectors, terms)
    assert_same_matches(store, [Bundle(given.document, given.chunks, given.vectors, terms)])
    store.drop(["log"])
    assert store.match_terms({"deck": 1}, [given.chunks[0].id]) == {}
    put(store, given)
    assert_same_matches(store, [given])


def test_the_strength_is_the_score_of_a_search(make_store: MakeStore) -> None:
    store, rng = make_store(), np.random.default_rng(6)
    kept = [random_bundle(rng, f"d{n}") for n in range(20)]
    for each in kept:
        put(store, each)
    for query in ({"anchor": 1}, {"bell": 2, "cable": 1, "absent": 1}, dict.fromkeys(WORDS, 1)):
        hits, total = store.search_terms(query, 100), sum(weigh_plainly(kept, query).values())
        matches = store.match_terms(query, [hit.chunk.id for hit in hits])
        assert hits
        assert [total * matches[hit.chunk.id].strength for hit in hits] == pytest.approx(
            [hit.score for hit in hits], abs=1e-9 * total + 1e-9
        )


def test_what_another_opener_writes_is_matched_at_once(make_store: MakeStore, request: pytest.FixtureRequest) -> None:
    skip_if_in_memory(request)
    store, other = make_store(), make_store()
    put(store, LOG)
    assert_same_matches(other, [LOG])
    more = bundle("map", ["anchor cable", "bell"])
    put(other, more)
    assert_same_matches(store, [LOG, more])
    store.drop(["log"])
    assert_same_matches(other, [more])


def test_matches_never_mix_collections(make_store: MakeStore) -> None:
    one, two = make_store("one"), make_store("two")
    put(one, LOG)
    more = bundle("map", ["anchor cable", "bell"])
    put(two, more)
    assert_same_matches(one, [LOG])
    assert_same_matches(two, [more])
    assert one.match_terms({"anchor": 1}, [chunk.id for chunk in more.chunks]) == {}


# -- the text about the collection


def test_a_calibration_comes_back_as_it_was_set(make_store: MakeStore) -> None:
    store = make_store()
    assert store.calibration() == ""
    numbers = [store.change_number()]
    for text in ('{"reach": 0.25}', "naïve ☕ 'quoted' %s \\ \n" * 500, ""):
        store.set_calibration(text)
        assert store.calibration() == text
        numbers.append(store.change_number())
    assert numbers == sorted(set(numbers))


def test_a_calibration_changes_nothing_else(make_store: MakeStore) -> None:
    store = make_store()
    put(store, LOG)
    before = store.search_terms({"anchor": 1}, 9), store.match_terms({"anchor": 1}, IDS)
    store.set_calibration("measured")
    assert (store.search_terms({"anchor": 1}, 9), store.match_terms({"anchor": 1}, IDS)) == before
    put(store, bundle("map", ["anchor cable", "bell"]))
    store.drop(["log"])
    store.flush()
    assert store.calibration() == "measured"


def test_a_calibration_is_of_one_collection_and_survives(make_store: MakeStore, request: pytest.FixtureRequest) -> None:
    skip_if_in_memory(request)
    store, other = make_store("one"), make_store("two")
    store.set_calibration("of one")
    assert (make_store("one").calibration(), other.calibration()) == ("of one", "")
    store.close()
    again = make_store("one")
    assert again.calibration() == "of one"
    other.set_calibration("of two")
    assert (again.calibration(), other.calibration()) == ("of one", "of two")


def test_a_calibration_stays_when_the_model_is_switched(make_store: MakeStore) -> None:
    store = make_store()
    put(store, LOG)
    store.set_calibration("of the old model")
    store.stage_vectors(Other())
    with closing(store.switch_to_staged(Other())) as other:
        assert other.calibration() == "of the old model"
        assert_same_matches(other, [LOG])
        other.set_calibration("of the new model")
        assert other.calibration() == "of the new model"


def test_terms_are_counted_over_the_whole_collection(make_store: MakeStore) -> None:
    store = make_store()
    assert store.count_terms(["anchor"]) == [0]
    texts = {"a": ["anchor bell", "anchor cable"], "b": ["anchor", "deck"]}
    for name, parts in texts.items():
        put(store, bundle(name, parts))
    assert store.count_terms(["deck", "anchor", "flag", "bell"]) == [1, 3, 0, 1]
    assert store.count_terms(["anchor", "deck"], at_most=2) == [2, 1]
    assert store.count_terms([]) == []
    store.drop(["a"])
    assert store.count_terms(["anchor", "bell"]) == [1, 0]


def test_languages_are_counted_by_the_term_that_names_them(make_store: MakeStore) -> None:
    store, given = make_store(), bundle("log", ["anchor bell", "cable", "deck"])
    assert store.language_counts() == {}
    terms = ({"anchor": 1, make_language_term("tr"): 1}, {make_language_term("tr"): 1}, {make_language_term("und"): 1})
    store.put(given.document, given.chunks, given.vectors, terms)
    assert store.language_counts() == store.language_counts(exact=True) == {"tr": 2, "und": 1}
    store.drop(["log"])
    assert store.language_counts() == {}
