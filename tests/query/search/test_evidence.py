"""The evidence of hits, read from a store that is made up, and the steps that score and assess by it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan, sqrt
from typing import Any

import numpy as np
import pytest

from clew.core.calibration import Calibration
from clew.core.text import Terms
from clew.core.types import Chunk, DocumentRecord, Hit, Query, TermMatch, Vector
from clew.query.search.analyse import QueryAnalyser
from clew.query.search.evidence import EvidenceSource, assess, fuse_by_evidence, measure_prominence

ASKED = Query("where is the harbour?", vector=np.array([1, 0], np.float32))
CALIBRATION = Calibration("made up", reach=0.5, spread=0.1, mean=0.2)


@dataclass
class MadeUp:
    """A store of cosines to the query and term matches; it notes which chunks it was asked for."""

    cosines: Mapping[str, float]
    matches: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    asked: list[list[str]] = field(default_factory=list)

    def vectors(self, chunk_ids: Sequence[str]) -> dict[str, Vector]:
        self.asked.append(list(chunk_ids))
        known = {name: self.cosines[name] for name in chunk_ids if name in self.cosines}
        return {name: np.array([cosine, sqrt(1 - cosine**2)], np.float32) for name, cosine in known.items()}

    def match_terms(self, terms: Terms, chunk_ids: Sequence[str]) -> dict[str, TermMatch]:
        return {name: TermMatch(*self.matches[name]) for name in chunk_ids if name in self.matches}

    def search_vectors(self, *_: object) -> list[Hit]:
        return []  # no rivals

    search_terms = search_vectors

    def source(self) -> EvidenceSource:
        store: Any = self
        return EvidenceSource(store, None, CALIBRATION, QueryAnalyser(store, language="en"))  # type: ignore[arg-type]


def hit(name: str, *, message: bool = False, text: str = "", **numbers: Any) -> Hit:
    meta = {"message": name} if message else {}
    chunk = Chunk(name, name, 0, 1, text or name, 0, len(text or name), meta=meta)
    return Hit(chunk, DocumentRecord(name), 0.0, **numbers)


def hits(*names: str, **options: Any) -> list[Hit]:
    return [hit(name, **options) for name in names]


def ids(found: Sequence[Hit]) -> str:
    return " ".join(each.chunk.id for each in found)


# -- evidence


def test_evidence_is_the_scaled_cosine_and_the_mean_of_share_and_strength() -> None:
    store = MadeUp({"a": 0.7, "b": 0.2}, {"a": (0.8, 0.4)})
    cosines, evidence = store.source().gather(ASKED, [hit("a", text=" same \n"), hit("b", text="same")])
    assert cosines == pytest.approx([0.7, 0.2])
    assert evidence.meaning == pytest.approx([1.0, 0.0], abs=1e-6)
    assert evidence.words == pytest.approx([0.3, 0.0])  # one term: half as certain
    assert evidence.share == pytest.approx([0.4, 0.0])
    assert evidence.texts[0] == evidence.texts[1]  # copies, but for the space around


def test_a_similarity_that_is_known_is_not_read_again() -> None:
    store = MadeUp({"a": 0.7, "b": 0.3})
    cosines, _ = store.source().gather(ASKED, [hit("a"), hit("b", similarity=0.9)])
    assert cosines == pytest.approx([0.7, 0.9])
    assert store.asked == [["a"]]


def test_a_chunk_that_is_gone_counts_as_unrelated() -> None:
    cosines, evidence = MadeUp({}).source().gather(ASKED, [hit("gone")])
    assert np.isnan(cosines).all()
    assert (evidence.meaning[0], evidence.words[0]) == (0.0, 0.0)


# -- assess


def test_every_hit_gets_both_numbers() -> None:
    found = assess(MadeUp({"a": 0.7, "b": 0.1}).source())(ASKED, hits("b", "a"))
    assert ids(found) == "b a"  # the order is kept
    assert [each.similarity for each in found] == pytest.approx([0.1, 0.7])
    assert 0 <= found[0].relevance < found[1].relevance <= 1


def test_numbers_that_are_known_stay_unless_they_are_wanted_again() -> None:
    store = MadeUp({"a": 0.7})
    known = [hit("a", similarity=0.5, relevance=0.4)]
    assert assess(store.source())(ASKED, known) == known
    assert store.asked == []
    (again,) = assess(store.source(), again=True)(ASKED, known)
    assert again.similarity == pytest.approx(0.7)
    assert again.relevance != 0.4
    assert known[0].similarity == 0.5


@pytest.mark.parametrize(("k", "every", "known"), [(5, False, 20), (30, False, 30), (5, True, 40)])
def test_only_those_that_may_be_among_the_best_are_looked_at(k: int, every: bool, known: int) -> None:
    names = [f"h{place:02}" for place in range(40)]
    query = Query("where is the harbour?", k=k, vector=ASKED.vector)
    found = assess(MadeUp(dict.fromkeys(names, 0.5)).source(), every=every)(query, hits(*names))
    assert ids(found) == " ".join(names)
    assert sum(not isnan(each.relevance) for each in found) == known


def test_small_talk_is_hardly_ever_answered() -> None:
    store = MadeUp({"a": 0.9})
    asked, thanks = (
        assess(store.source())(Query(text, vector=ASKED.vector), hits("a"))[0].relevance
        for text in ("where is the harbour?", "thanks!")
    )
    assert thanks < asked / 10


# -- the score of a hybrid search


def score(store: MadeUp, found: list[Hit], page_weight: float = 0.5, message_weight: float = 0.5) -> list[Hit]:
    weights = {"page_weight": page_weight, "message_weight": message_weight}
    return fuse_by_evidence(lambda _: found, source=store.source(), **weights, name="hybrid")(ASKED)


STORE = MadeUp({"a": 0.7, "b": 0.45, "c": 0.2}, {"b": (0.5, 0.3), "c": (0.9, 0.7), "a": (0.1, 0.1)})


def test_the_score_is_between_its_two_legs() -> None:
    assert ids(score(STORE, hits("c", "a", "b"), page_weight=1.0)) == "a b c"
    assert ids(score(STORE, hits("c", "a", "b"), page_weight=0.0)) == "c b a"
    for each in score(STORE, hits("c", "a", "b")):
        assert 0 <= each.score <= 1
        assert each.scores["hybrid"] == each.score
        assert each.similarity == pytest.approx(STORE.cosines[each.chunk.id])
        assert 0 <= each.relevance <= 1
    assert score(STORE, []) == []


def test_pages_and_messages_have_a_weight_each() -> None:
    found = [hit("a"), hit("c", message=True)]
    by_meaning = {each.chunk.id: each.score for each in score(STORE, found, 1.0, 0.0)}
    assert by_meaning == pytest.approx({"a": 1.0, "c": 1.0})
    swapped = {each.chunk.id: each.score for each in score(STORE, found, 0.0, 1.0)}
    assert swapped == pytest.approx({"a": 0.1 / 0.8, "c": 0.0})


def test_the_surer_leg_counts_more() -> None:
    """Meaning where it is near, words where one hit stands out."""
    stands_out = {"d": (0.9, 0.9), "a": (0.1, 0.1), "b": (0.12, 0.12), "c": (0.11, 0.11)}
    alike = {"d": (0.9, 0.9), "a": (0.80, 0.80), "b": (0.82, 0.82), "c": (0.81, 0.81)}
    far, near = {"a": 0.30, "b": 0.29, "c": 0.28, "d": 0.25}, {"a": 0.90, "b": 0.89, "c": 0.88, "d": 0.5}
    names = ("a", "b", "c", "d")
    assert ids(score(MadeUp(far, stands_out), hits(*names)))[0] == "d"
    assert ids(score(MadeUp(near, alike), hits(*names)))[0] == "a"


def test_the_score_does_not_depend_on_the_order_in_which_hits_were_found() -> None:
    assert score(STORE, hits("c", "a", "b")) == score(STORE, hits("b", "c", "a"))


def test_without_words_meaning_alone_orders() -> None:
    assert ids(score(MadeUp({"a": 0.2, "b": 0.9, "c": -0.4}), hits("a", "b", "c"))) == "b a c"


def test_prominence_is_how_far_the_best_stands_out() -> None:
    assert measure_prominence(np.array([8.0, 2.0, 4.0])) == pytest.approx(1 - 3 / 8)
    assert (measure_prominence(np.array([8.0])), measure_prominence(np.array([2.0, 2.0]))) == (1, 0)
    assert (measure_prominence(np.array([])), measure_prominence(np.array([0.0, -1.0]))) == (0, 0)
    deep = 10 / (1 + np.arange(200))
    assert measure_prominence(deep) == measure_prominence(deep[:50]) != measure_prominence(deep[:20])


def test_numbers_are_unknown_until_they_are_computed() -> None:
    assert isnan(hit("a").similarity)
    assert isnan(hit("a").relevance)
    assert hit("a", similarity=nan).with_score(0.5, "x").scores == {"x": 0.5}
