"""How chunks are judged by what a made-up store finds, and the steps that rank and assess by it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan, nan
from typing import Any

import numpy as np
import pytest

from clew.core.calibration import Calibration
from clew.core.candidates import Candidates, Ranking, ThreadPlace
from clew.core.filter import EVERYTHING, Filter
from clew.core.settings import FlowConfig, SearchConfig, Settings
from clew.core.text import Terms
from clew.core.types import Chunk, DocumentRecord, Hit, Matrix, Query, TermMatch
from clew.drivers.embed.hashed import HashedEmbedder
from clew.query.rank.calibrate import MATCH
from clew.query.search import rank
from clew.query.search.analyse import QueryAnalyser
from clew.query.search.evidence import FIELD_DEPTH, EvidenceSource, assess, order_by_relevance

ASKED = Query("where is the harbour?", vector=np.array([1, 0], np.float32))
CALIBRATION = Calibration("made up", reach=0.5, spread=0.1, mean=0.2)
NO_MATCH = 0.0, 0.0


@dataclass
class MadeUp:
    """A store of cosines to the query and term matches; it notes which chunks it was asked for, and how deep.

    messages: The numbers of messages in their thread; all else are pages.
    """

    cosines: Mapping[str, float]
    matches: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    messages: Mapping[str, int] = field(default_factory=dict)
    asked: list[list[str]] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)

    def count_terms(self, terms: Sequence[str], *, at_most: int | None = None) -> list[int]:
        return [1 for _ in terms]

    def find_candidates(
        self, vectors: Matrix, terms: Sequence[Terms], rankings: Sequence[Ranking], chunk_ids: Sequence[str], **_: Any
    ) -> list[Candidates]:
        self.asked.append(list(chunk_ids))
        self.depths += [ranking.near for ranking in rankings]
        near = sorted(self.cosines, key=lambda name: -self.cosines[name])
        matching = sorted(self.matches, key=lambda name: -self.matches[name][1])

        def admit(names: list[str], ranking: Ranking, depth: int) -> list[str]:
            documents = ranking.where.documents
            return [name for name in names if documents is None or name in documents][:depth]

        chosen = [(admit(near, each, each.near), admit(matching, each, each.matching)) for each in rankings]
        given = [name for name in chunk_ids if name in self.cosines]
        ids = list(dict.fromkeys([*(name for legs in chosen for leg in legs for name in leg), *given]))
        shares, strengths = np.array([self.matches.get(name, NO_MATCH) for name in ids]).reshape(-1, 2).T

        def read_hits(places: Sequence[int]) -> list[Hit]:
            return [hit(ids[place]) for place in places]

        def read_threads(places: Sequence[int]) -> list[ThreadPlace]:
            return [ThreadPlace(0, self.messages[ids[place]], ids[place], "", "the pier is closed") for place in places]

        return [
            Candidates(
                ids,
                np.array([name in self.messages for name in ids], bool),
                [[ids.index(name) for name in leg] for leg, _ in chosen],
                [[ids.index(name) for name in leg] for _, leg in chosen],
                {ids.index(name): self.matches[name][1] for _, leg in chosen for name in leg},
                np.array([self.cosines.get(name, nan) for name in ids]),
                shares,
                strengths,
                read_hits,
                read_threads,
            )
        ] * len(vectors)

    def match_terms(self, terms: Terms, chunk_ids: Sequence[str]) -> dict[str, TermMatch]:
        return {}  # no chunk is in another language

    def source(self, settings: Settings | None = None, *, shown: Filter = EVERYTHING) -> EvidenceSource:
        store: Any = self
        analyser = QueryAnalyser(store, language="en")
        used, embedder = settings or Settings(), HashedEmbedder(8)
        return EvidenceSource(store, shown, embedder, CALIBRATION, analyser, used, lambda: False)


def hit(name: str, **numbers: Any) -> Hit:
    return Hit(Chunk(name, name, 0, 1, name, 0, len(name)), DocumentRecord(name), 0.0, **numbers)


def hits(*names: str) -> list[Hit]:
    return [hit(name) for name in names]


def ids(found: Sequence[Hit]) -> str:
    return " ".join(each.chunk.id for each in found)


def weigh(page: float = 0.4, message: float = 0.4, **flow: Any) -> Settings:
    """Settings with these weights of meaning."""
    return Settings(
        search=SearchConfig(semantic_weight=page), flow=FlowConfig(semantic_weight=message, **{"reach": 0, **flow})
    )


def search(store: MadeUp, name: str = rank.HYBRID, settings: Settings | None = None) -> list[Hit]:
    used = settings or Settings()
    return rank.search(name, store.source(used), [replace(ASKED, k=9)], used)[0]


STORE = MadeUp({"a": 0.7, "b": 0.45, "c": 0.2}, {"b": (0.5, 0.3), "c": (0.9, 0.7), "a": (0.1, 0.1)})


# -- evidence


def test_evidence_is_the_scaled_cosine_and_the_mean_of_share_and_strength() -> None:
    found = MadeUp({"a": 0.7, "b": 0.2}, {"a": (0.8, 0.4)}).source().judge(ASKED)
    assert (found.candidates.ids, found.near, found.matching) == (["a", "b"], [[0, 1]], [[0]])
    assert found.evidence.meaning == pytest.approx([1.0, 0.0], abs=1e-6)
    assert found.evidence.words == pytest.approx([0.3, 0.0])  # one term: half as certain
    assert found.evidence.share == pytest.approx([0.4, 0.0])


def test_a_chunk_without_a_vector_has_the_meaning_to_expect_of_its_words() -> None:
    found = MadeUp({"a": 0.7, "b": nan}, {"b": (0.8, 0.4)}).source().judge(ASKED)
    evidence = found.evidence
    assert evidence.meaning[list(found.candidates.ids).index("b")] == pytest.approx(0.4)
    assert not np.isnan(found.relevance).any()


def test_chunks_that_are_asked_for_are_judged_however_far_they_are() -> None:
    names = [f"h{place:02}" for place in range(90)]
    store = MadeUp({name: 0.9 - place / 100 for place, name in enumerate(names)})
    found = store.source().judge(Query(ASKED.text, depth=3, vector=ASKED.vector), ["h88", "nowhere"])
    assert found.candidates.ids[-1] == "h88"
    assert found.list_places() == [0, 1, 2]  # what is ranked is no deeper
    assert store.asked == [["h88", "nowhere"]]


@pytest.mark.parametrize(("depth", "settled", "expected"), [(3, 3, FIELD_DEPTH), (3, 50, 50), (70, 3, 70)])
def test_the_field_is_as_deep_whatever_is_asked_for(depth: int, settled: int, expected: int) -> None:
    store = MadeUp({"a": 0.7})
    store.source(Settings(search=SearchConfig(depth=settled))).judge(Query("?", depth=depth, vector=ASKED.vector))
    assert store.depths == [expected]


def test_relevance_is_compared_with_all_that_may_be_seen() -> None:
    names = [f"h{place:02}" for place in range(30)]
    whole = MadeUp({name: 0.6 - place / 200 for place, name in enumerate(names)}, {"h01": (1.0, 0.6)})
    part = MadeUp({name: whole.cosines[name] for name in ("h01", "h20")}, {"h01": (1.0, 0.6)})
    among_all = dict(zip(names, whole.source().judge(ASKED).relevance.tolist(), strict=True))
    shown = whole.source(shown=Filter(documents={"h01", "h20"})).judge(ASKED)
    relevance = {shown.candidates.ids[place]: shown.relevance[place] for place in shown.list_places()}
    assert relevance == {name: among_all[name] for name in ("h01", "h20")}
    assert part.source().judge(ASKED).relevance[0] > among_all["h01"]


def test_a_message_gains_from_those_that_are_seen() -> None:
    numbers = {"a": 0, "b": 1}
    whole = MadeUp({"a": 0.4, "b": 0.7}, {"b": (1.0, 0.9)}, numbers)
    settings = weigh(reach=1)
    found = whole.source(settings).judge(ASKED)
    own, relevance = (
        dict(zip(found.candidates.ids, each.tolist(), strict=True)) for each in (found.own, found.relevance)
    )
    assert relevance == pytest.approx(
        {"b": 1 - (1 - own["b"]) * (1 - 0.3 * own["a"]), "a": 1 - (1 - own["a"]) * (1 - 0.5 * own["b"])}
    )
    shown = whole.source(settings, shown=Filter(documents={"a"})).judge(ASKED)
    places = shown.list_places()
    assert [(shown.candidates.ids[each], shown.relevance[each]) for each in places] == [("a", relevance["a"])]


# -- assess


def test_every_hit_gets_both_numbers() -> None:
    found = assess(MadeUp({"a": 0.7, "b": 0.1}).source())(ASKED, hits("b", "a"))
    assert ids(found) == "b a"  # the order is kept
    assert [each.similarity for each in found] == pytest.approx([0.1, 0.7])
    assert 0 <= found[0].relevance < found[1].relevance <= 1
    assert all(0 < each.scores[MATCH] <= 1 for each in found)


def test_numbers_that_are_known_stay_unless_they_are_wanted_again() -> None:
    store = MadeUp({"a": 0.7})
    known = [hit("a", similarity=0.5, relevance=0.4)]
    assert assess(store.source())(ASKED, known) == known
    assert store.asked == []
    (again,) = assess(store.source(), again=True)(ASKED, known)
    assert again.similarity == pytest.approx(0.7)
    assert again.relevance != 0.4
    assert known[0].similarity == 0.5


def test_all_are_looked_at_however_few_are_wanted() -> None:
    names = [f"h{place:02}" for place in range(140)]
    query = Query("where is the harbour?", k=5, depth=5, vector=ASKED.vector)
    found = assess(MadeUp(dict.fromkeys(names, 0.5)).source())(query, hits(*names))
    assert ids(found) == " ".join(names)
    assert not any(isnan(each.relevance) for each in found)


def test_a_chunk_that_is_gone_has_no_relevance() -> None:
    found = assess(MadeUp({"a": 0.7}).source())(ASKED, hits("gone", "a"))
    assert ids(found) == "gone a"
    assert found[0].relevance == 0 < found[1].relevance
    assert isnan(found[0].similarity)


def test_nothing_is_asked_where_there_is_nothing_to_assess() -> None:
    store = MadeUp({"a": 0.7})
    assert assess(store.source(), again=True)(ASKED, []) == []
    assert store.asked == []


def test_small_talk_is_hardly_ever_answered() -> None:
    store = MadeUp({"a": 0.9})
    asked, thanks = (
        assess(store.source())(Query(text, vector=ASKED.vector), hits("a"))[0].relevance
        for text in ("where is the harbour?", "thanks!")
    )
    assert thanks < asked / 10


def test_hits_are_ordered_by_relevance_which_becomes_their_score() -> None:
    found = order_by_relevance(ASKED, [hit("a", relevance=0.2), hit("b", relevance=0.7)])
    assert [(each.chunk.id, each.score) for each in found] == [("b", 0.7), ("a", 0.2)]


# -- the order of a search


def test_a_hybrid_search_is_in_the_order_of_relevance_between_its_two_legs() -> None:
    assert ids(search(STORE, settings=weigh(1.0))) == ids(search(STORE, rank.SEMANTIC)) == "a b c"
    assert ids(search(STORE, settings=weigh(0.0))) == ids(search(STORE, rank.LEXICAL)) == "c b a"
    for each in search(STORE):
        assert 0 <= each.score == each.relevance == each.scores["hybrid"] <= 1
        assert each.similarity == pytest.approx(STORE.cosines[each.chunk.id])
        assert each.scores["semantic"] == each.similarity
        assert each.scores["lexical"] == STORE.matches[each.chunk.id][1]
    assert search(MadeUp({})) == []


@pytest.mark.parametrize(("name", "other"), [(rank.SEMANTIC, "lexical"), (rank.LEXICAL, "semantic")])
def test_a_leg_has_its_own_score_and_the_relevance_of_any_strategy(name: str, other: str) -> None:
    relevance = {each.chunk.id: each.relevance for each in search(STORE)}
    for each in search(STORE, name):
        assert each.score == each.scores[name]
        assert each.relevance == relevance[each.chunk.id]
        assert not {other, "hybrid"} & each.scores.keys()


def test_pages_and_messages_have_a_weight_each() -> None:
    store = replace(STORE, messages={"c": 0})

    def relate(page: float, message: float) -> dict[str, float]:
        return {each.chunk.id: each.relevance for each in search(store, settings=weigh(page, message))}

    first, page, message = relate(0.4, 0.4), relate(0.9, 0.4), relate(0.4, 0.9)
    assert {name for name in first if page[name] != first[name]} == {"a", "b"}
    assert {name for name in first if message[name] != first[name]} == {"c"}
    assert page["a"] > first["a"]  # it is near
    assert message["c"] < first["c"]  # it has the words


def test_the_surer_leg_counts_more() -> None:
    """Meaning where it is near, words where one hit stands out."""
    stands_out = {"d": (0.9, 0.9), "a": (0.1, 0.1), "b": (0.12, 0.12), "c": (0.11, 0.11)}
    alike = {"d": (0.9, 0.9), "a": (0.80, 0.80), "b": (0.82, 0.82), "c": (0.81, 0.81)}
    far, near = {"a": 0.30, "b": 0.29, "c": 0.28, "d": 0.25}, {"a": 0.90, "b": 0.89, "c": 0.88, "d": 0.5}
    assert ids(search(MadeUp(far, stands_out)))[0] == "d"
    assert ids(search(MadeUp(near, alike)))[-1] == "d"  # it has more words than any, and is far


def test_it_does_not_depend_on_the_order_in_which_hits_were_found() -> None:
    turned = MadeUp(dict(list(STORE.cosines.items())[::-1]), dict(list(STORE.matches.items())[::-1]))
    assert search(STORE) == search(turned)


def test_without_words_meaning_alone_orders() -> None:
    assert ids(search(MadeUp({"a": 0.2, "b": 0.9, "c": -0.4}))) == "b a c"


def test_equally_relevant_ones_are_in_the_order_of_similarity_and_id() -> None:
    assert ids(search(MadeUp(dict.fromkeys("cab", 0.5)))) == "a b c"
    assert ids(search(MadeUp({"a": -0.9, "b": -0.5, "c": 0.9}), settings=weigh(0.0))) == "c b a"


def test_numbers_are_unknown_until_they_are_computed() -> None:
    assert isnan(hit("a").similarity)
    assert isnan(hit("a").relevance)
    assert hit("a", similarity=nan).with_score(0.5, "x").scores == {"x": 0.5}
