"""Where a conversation turns: made-up conversations whose turns nobody would miss."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import SettingsError
from clew.core.text import estimate_tokens
from clew.core.types import Message
from clew.query.search.topics import find_topic_starts, split_messages_by_topic

PARIS = ("The Paris hotel is near the Louvre", "Is the Louvre open in Paris on Monday", "The Paris hotel has breakfast")
CODE = (
    "The parser crashes on an empty file",
    "Which line of the parser crashes",
    "An empty file breaks the parser loop",
)
FOOD = ("The soup needs more salt and thyme", "Thyme and lemon go well in that soup", "Salt the soup at the end")


def make_messages(*texts: str, author: str = "ada") -> list[Message]:
    return [Message(text, author=author, id=str(place)) for place, text in enumerate(texts)]


def test_topics_begin_where_the_words_change() -> None:
    messages = make_messages(*PARIS * 3, *CODE * 3, *FOOD * 3)
    assert find_topic_starts(messages) == [9, 18]
    assert [len(topic) for topic in split_messages_by_topic(messages)] == [9, 9, 9]


def test_one_topic_is_not_cut() -> None:
    assert find_topic_starts(make_messages(*["The parser crashes on an empty file"] * 30)) == []


def test_questions_of_one_request_are_topics() -> None:
    messages = make_messages(
        "What did the team say about the budget?", "Summarize the discussion about the LCD screen."
    )
    assert find_topic_starts(messages) == [1]


def test_an_answer_stays_with_its_question() -> None:
    apart = [Message("Who has the budget?", author="ada"), Message("Bob keeps it in the drawer", author="bob")]
    assert find_topic_starts(apart, granularity=0.3) == []
    together = [Message(each.text, author="ada") for each in apart]
    assert find_topic_starts(together, granularity=0.3) == [1]


def test_a_long_pause_makes_a_cut_cheaper() -> None:
    start = datetime(2025, 1, 15, 10, tzinfo=UTC)
    texts = ["red paint", "red brush", "blue paint", "blue brush"]
    even = [Message(text, author="ada", at=start + timedelta(minutes=place)) for place, text in enumerate(texts)]
    late = [
        Message(each.text, "ada", start + timedelta(days=place // 2, minutes=place)) for place, each in enumerate(even)
    ]
    price = 0.45
    assert 2 not in find_topic_starts(even, granularity=price)
    assert 2 in find_topic_starts(late, granularity=price)


@pytest.mark.parametrize("messages", [[], make_messages("alone"), make_messages("", " ", "\n"), make_messages("", "")])
def test_nothing_to_cut(messages: list[Message]) -> None:
    assert find_topic_starts(messages) == []
    assert [each for topic in split_messages_by_topic(messages) for each in topic] == messages


@given(st.lists(st.sampled_from([*PARIS, *CODE, *FOOD, "", "ok"]), max_size=60), st.integers(1, 60))
def test_segments_keep_every_message_and_the_limit(texts: list[str], limit: int) -> None:
    messages = make_messages(*texts)
    topics = split_messages_by_topic(messages, max_tokens=limit)
    assert [each for topic in topics for each in topic] == messages
    for topic in topics:
        assert (
            len(topic) == 1
            or sum(estimate_tokens(each.text) for each in topic) <= limit
            or not any(each.text.strip() for each in messages)
        )


def test_a_greater_price_cuts_less() -> None:
    messages = make_messages(*PARIS, *CODE, *FOOD)
    counts = [len(find_topic_starts(messages, granularity=price)) for price in (0.0, 0.1, 0.3, 10.0)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1] == 0


def test_wrong_values_are_named() -> None:
    two = make_messages("a", "b")
    with pytest.raises(SettingsError, match="granularity is -1"):
        find_topic_starts(two, granularity=-1)
    with pytest.raises(SettingsError, match="max_tokens is 0"):
        find_topic_starts(two, max_tokens=0)
