"""The flow of a conversation: the formula, and what it changes through Engine.search."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from clew import Document, Engine, Message, Settings, SettingsError
from clew.core.candidates import ThreadPlace
from clew.core.settings import FlowConfig, SearchConfig, ThreadConfig
from clew.core.thread import Thread
from clew.query.rank.thread_smoothing import add_neighbours, smooth_in_range

SAID = "the winch bearing squeaks badly"
BARE = Settings(threads=ThreadConfig(untangle=False, before=0), search=SearchConfig(cache=0))


class Said(NamedTuple):
    """A message that was found, and its score."""

    place: ThreadPlace
    score: float


def say(number: int, score: float, *, reply_to: str = "", thread: int = 0, text: str = SAID) -> Said:
    return Said(ThreadPlace(thread, number, f"t{number}", reply_to, text), score)


def gains(thread: Sequence[Said], reach: int, giving: Sequence[Said] | None = None) -> dict[int, float]:
    """The scores by number, with what each gains from the others, or from those that are giving."""
    given = thread if giving is None else giving
    (scores, places), (others, around) = (
        (np.array([each.score for each in said]), [each.place for each in said]) for said in (thread, given)
    )
    found = add_neighbours(scores, places, reach, *((others, around) if giving is not None else ()))
    return {place.number: round(score, 6) for place, score in zip(places, found.tolist(), strict=True)}


def test_shares_fall_evenly_over_the_reach_and_differ_before_and_after() -> None:
    reach = 2
    found = gains([say(0, 0.4), say(1, 1.0), say(2, 0.6), say(9, 0.8)], reach)
    assert found[0] == round(1 - 0.6 * (1 - 0.5 * 1.0) * (1 - 0.25 * 0.6), 6)
    assert found[1] == 1.0  # the best lacks nothing
    assert found[2] == round(1 - 0.4 * (1 - 0.3 * 1.0) * (1 - 0.15 * 0.4), 6)
    assert found[9] == 0.8


def test_a_distant_reply_is_one_step_away_and_of_several_the_best_counts() -> None:
    reach = 2
    thread = [say(0, 0.4), say(20, 0.6, reply_to="t0"), say(30, 1.0, reply_to="t0")]
    assert gains(thread, reach) == pytest.approx({0: 1 - 0.6 * 0.5, 20: 1 - 0.4 * (1 - 0.3 * 0.4), 30: 1.0})


def smooth(said: Sequence[Said], reach: int) -> list[float]:
    found: list[float] = smooth_in_range(
        np.array([each.score for each in said]), [each.place for each in said], reach
    ).tolist()
    return found


def test_many_neighbours_that_match_a_little_never_overtake_the_one_that_matches_best() -> None:
    crowd = [say(at, 0.7 + at / 100) for at in range(8)]
    found = smooth([*crowd, say(0, 0.9, thread=1)], 5)
    assert max(found[:-1]) <= found[-1] == 0.9


def test_messages_keep_the_range_of_their_scores() -> None:
    said = [say(3, 0.8), say(7, 0.71, thread=1), say(4, 0.7), say(9, 0.2)]
    first, alone, beside, last = smooth(said, 3)
    assert (first, last) == (0.8, 0.2)
    assert beside > alone  # it has a neighbour, the other has none


def test_a_message_without_content_gains_nothing() -> None:
    reach = 2
    for text in ("ok", "+1", "👍", "thanks!", "sounds good"):
        found = gains([say(0, 1.0), say(1, 0.4, text=text, reply_to="t0"), say(2, 0.4, reply_to="t0")], reach)
        assert (found[1], found[2] > 0.4) == (0.4, True)


def test_of_the_parts_of_a_message_the_best_gives_and_none_gains_from_another() -> None:
    reach = 2
    parts = [say(0, 0.4), say(1, 0.2), say(1, 1.0)]
    places, scores = [each.place for each in parts], np.array([each.score for each in parts])
    found = add_neighbours(scores, places, reach)
    assert found.tolist() == pytest.approx([1 - 0.6 * 0.5, 1 - 0.8 * (1 - 0.3 * 0.4), 1.0])


def test_threads_are_apart_and_a_reply_may_be_to_one_of_its_own_only() -> None:
    reach = 2
    found = gains([say(0, 0.4), say(1, 1.0, thread=1), say(9, 0.8, thread=1, reply_to="t0")], reach)
    assert found == {0: 0.4, 1: 1.0, 9: 0.8}


def test_the_number_of_a_thread_may_be_any() -> None:
    reach = 2
    for number in (2**63 - 1, -(2**63)):
        thread = [say(0, 0.4, thread=number), say(1, 1.0, thread=number), say(20, 0.5, thread=number, reply_to="t0")]
        same = [Said(each.place._replace(thread=0), each.score) for each in thread]
        assert gains(thread, reach) == gains(same, reach)


def test_they_gain_from_those_that_are_given() -> None:
    """Those that are shown gain from all that were found, shown or not, and the others give nothing."""
    reach = 2
    thread = [say(0, 0.4), say(1, 1.0), say(2, 0.6)]
    assert gains(thread[:1], reach, thread) == {0: gains(thread, reach)[0]}
    assert gains(thread, reach, [thread[0], thread[2]])[0] == round(1 - 0.6 * (1 - 0.25 * 0.6), 6)
    assert gains(thread, reach, []) == {0: 0.4, 1: 1.0, 2: 0.6}
    asked, reply = say(0, 0.4), say(20, 0.5, reply_to="t0")
    assert gains([asked, reply], reach, [asked]) == {0: 0.4, 20: round(1 - 0.5 * (1 - 0.3 * 0.4), 6)}
    assert gains([asked, reply], reach, [reply]) == {0: round(1 - 0.6 * (1 - 0.5 * 0.5), 6), 20: 0.5}
    assert gains([asked], reach, [reply]) == {0: round(1 - 0.6 * (1 - 0.5 * 0.5), 6)}
    assert gains([reply], reach, [asked]) == {20: round(1 - 0.5 * (1 - 0.3 * 0.4), 6)}


def test_the_order_in_which_messages_are_given_changes_nothing() -> None:
    reach = 2
    thread = [say(0, 0.4), say(1, 1.0), say(2, 0.6), say(20, 0.5, reply_to="t0"), say(30, 0.7, reply_to="t0")]
    assert gains(thread, reach) == gains(thread[::-1], reach)


# -- through the engine


def make_thread(name: str, *texts: str) -> Document:
    said = tuple(Message(text, author="Ann", id=f"{name}{at}", channel="yard") for at, text in enumerate(texts))
    return Thread(f"{name}0", "yard", said).document()


ASKED = "who mends the winch bearing of crane four"
TALKS = (
    make_thread(
        "a",
        "Crane four squeaks again this morning?",
        "Who mends the winch bearing today?",
        "Who mends a bearing before lunch today?",
        "Mends, who?",
        "Soup.",
    ),
    make_thread("b", "Crane four.", "Nothing else.", "Bread and soup.", "Who had coffee?"),
)


@pytest.fixture
def engine() -> Any:
    with Engine.open(":memory:", embedder="hashed", settings=BARE) as opened:
        opened.add_documents(TALKS)
        yield opened


def find_ids(engine: Engine, strategy: str, **changed: Any) -> list[str]:
    settings = replace(BARE, flow=FlowConfig(**changed))
    return [str(each.chunk.meta["message"]) for each in engine.search(ASKED, strategy=strategy, settings=settings)]


def find_scores(engine: Engine, strategy: str, **changed: Any) -> dict[str, float]:
    settings = replace(BARE, flow=FlowConfig(**changed))
    hits = engine.search(ASKED, strategy=strategy, settings=settings)
    return {str(each.chunk.meta["message"]): each.score for each in hits}


@pytest.mark.parametrize("strategy", ["lexical", "hybrid"])
def test_a_message_whose_neighbours_are_found_overtakes_one_that_stands_alone(engine: Engine, strategy: str) -> None:
    alone = find_ids(engine, strategy, reach=0)
    assert alone.index("b0") < alone.index("a0")
    flowed = find_ids(engine, strategy)
    assert flowed.index("a0") < flowed.index("b0")


def test_relevance_flows_as_chances_do() -> None:
    """Each chance grows by what its neighbours have of their own, whatever the range of all."""
    with Engine.open(":memory:", embedder="hashed", settings=BARE) as engine:
        engine.add_documents(
            [
                make_thread(
                    "a", "The winch bearing squeaks.", "Grease the winch bearing.", "Rain is expected at noon today."
                )
            ]
        )
        alone, flowed = (
            {
                str(each.chunk.meta["message"]): each
                for each in engine.search("winch bearing", settings=replace(BARE, flow=flow))
            }
            for flow in (FlowConfig(reach=0), FlowConfig(reach=1))
        )
    first, second, third = (alone[id_].relevance for id_ in ("a0", "a1", "a2"))
    assert [flowed[id_].relevance for id_ in ("a0", "a1", "a2")] == pytest.approx(
        [
            1 - (1 - first) * (1 - 0.5 * second),
            1 - (1 - second) * (1 - 0.3 * first) * (1 - 0.5 * third),
            1 - (1 - third) * (1 - 0.3 * second),
        ]
    )
    assert [each.scores["hybrid"] for each in flowed.values()] == [alone[id_].relevance for id_ in flowed]
    assert all(each.score == each.scores["flow"] == each.relevance for each in flowed.values())


def test_by_meaning_too(engine: Engine) -> None:
    assert find_scores(engine, "semantic") != find_scores(engine, "semantic", reach=0)


def test_the_reach_says_how_far(engine: Engine) -> None:
    near, far = find_scores(engine, "lexical", reach=1), find_scores(engine, "lexical", reach=2)
    assert near["a0"] / near["a1"] < far["a0"] / far["a1"]  # of a2 it gains only from afar


def test_a_share_that_cannot_be_is_refused() -> None:
    for wrong in ({"semantic_weight": 2.0}, {"reach": -1}):
        with pytest.raises(SettingsError, match=f"flow.{next(iter(wrong))} is"):
            FlowConfig(**wrong)
