"""Decisions that a chat corrected later: the newer message is quoted beside the older one."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from clew import Answer, Engine, Filter, Message
from clew.core.settings import AnswerConfig, Settings

START = datetime(2026, 9, 4, 9, tzinfo=UTC)
DECIDED = "deploys: we stick with Thursday 14:00 for prod, no Fridays, freeze in the last week of the quarter"
MOVED = "heads up deploys move to Tuesday 10:00 from next week, the customers' payroll runs on thursdays"
NOISE = "the deploy on Thursday was noisy today, anyone else?"
QUESTION = "on which day do we deploy to prod?"


def ask(later: str, *, channel: str = "platform", where: Filter | None = None, reader: str = "builtin") -> Answer:
    said = [
        ("omar", 0, "platform", DECIDED),
        ("tuomas", 1, "platform", "fine by me"),
        ("omar", 28800, channel, later),
        ("kit", 28801, channel, "ok"),
    ]
    settings = Settings(answer=AnswerConfig(reader=reader))
    with Engine.open(":memory:", embedder="wordllama", settings=settings) as engine:
        engine.add_messages(
            [
                Message(text, author, START + timedelta(minutes=minutes), id=str(place), channel=name)
                for place, (author, minutes, name, text) in enumerate(said)
            ]
        )
        return engine.ask(QUESTION, where=where or Filter())


@pytest.mark.slow
def test_a_decision_is_quoted_with_its_correction() -> None:
    answer = ask(MOVED)
    assert [part.chosen for part in answer.parts[:2]] == [DECIDED, MOVED]
    assert "omar, 2026-09-24 09:00: heads up" in answer.text
    assert answer.reason == "a newer message may speak of it: omar, 2026-09-24 09:00"
    assert answer.found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("later", "channel", "where", "reader"),
    [
        (NOISE, "platform", Filter(), "builtin"),  # the same words, and nothing is corrected
        (MOVED, "random", Filter(), "builtin"),  # of another channel
        (MOVED, "platform", Filter(until=START + timedelta(days=1)), "builtin"),  # that may not be seen
        (MOVED, "platform", Filter(), "reranker"),  # which cannot tell
    ],
)
def test_without_a_correction_the_decision_stands_alone(later: str, channel: str, where: Filter, reader: str) -> None:
    answer = ask(later, channel=channel, where=where, reader=reader)
    assert [part.chosen for part in answer.parts][:1] == [DECIDED]
    assert answer.reason == ""


@pytest.mark.slow
def test_a_correction_that_is_found_anyway_is_quoted_once() -> None:
    said = ["Offsite is fixed: 12 and 13 November in Lüneburg", "Offsite moves by one week: 19 and 20 November"]
    with Engine.open(":memory:", embedder="wordllama") as engine:
        engine.add_messages(
            [
                Message(text, "priya", START + timedelta(days=9 * place), str(place), "general")
                for place, text in enumerate(said)
            ]
        )
        answer = engine.ask("when is the offsite?")
    assert sorted(part.chosen for part in answer.parts) == sorted(said)


@pytest.mark.slow
def test_a_long_message_that_is_found_anyway_is_quoted_once() -> None:
    with Engine.open(":memory:", embedder="wordllama") as engine:
        engine.add(Path(__file__).parents[3] / "examples/chat")
        answer = engine.ask("How many stations have 2023 swivels?")
    cited = [(each.document, each.message) for each in answer.citations]
    assert len(set(cited)) == len(cited) > 1


@pytest.mark.slow
def test_a_correction_beside_the_decision_in_one_passage_is_told_of() -> None:
    said = ["why does the gateway block?", "we set total_tokens = 100 in the gateway, works"]
    moved = (
        "update: 100 broke the file uploads in the gateway. We are back to total_tokens = 60. Please do not use 100."
    )
    with Engine.open(":memory:", embedder="wordllama") as engine:
        engine.add_messages(
            [
                Message(said[0], "sam", START, "1", "web"),
                Message(said[1], "yuki", START + timedelta(hours=1), "2", "web", reply_to="1"),
                Message(moved, "yuki", START + timedelta(days=21), "3", "web", reply_to="1"),
            ]
        )
        answer = engine.ask("which value of total_tokens do we use in the gateway?")
    assert moved in answer.text
    note = "a newer message may speak of it: yuki, 2026-09-25 09:00"
    assert answer.parts[0].chosen == moved or answer.reason == note


@pytest.mark.slow
def test_in_a_session_the_newer_message_has_the_number_of_its_conversation() -> None:
    with Engine.open(":memory:", embedder="wordllama") as engine:
        engine.add_messages(
            [
                Message(DECIDED, "omar", START, "1", "platform"),
                Message(MOVED, "omar", START + timedelta(days=20), "2", "platform"),
            ]
        )
        chat = engine.chat()
        answer = chat.ask(QUESTION)
        assert [answer.numbers[each.document] for each in answer.citations[:2]] == [1, 2]
        assert {each.document for each in answer.citations} <= set(chat.numbers)
