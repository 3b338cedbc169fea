"""Answers without a model from chats in which people change their minds: the newest value stands first."""

from dataclasses import replace
from datetime import timedelta

import pytest

from clew import Document, Engine, Message
from clew.core.settings import AnswerConfig
from tests.engine.chosen import OpenEngine
from tests.engine.test_extractive import PLAIN, START, make_messages


@pytest.fixture
def engine(open_engine: OpenEngine) -> Engine:
    return open_engine(embedder="hashed", settings=PLAIN)


def say(place: int, author: str, text: str, *, days: int = 0, reply_to: int | None = None) -> Message:
    parent = None if reply_to is None else f"m{reply_to}"
    return Message(
        text, author, START + timedelta(days=days, minutes=place), id=f"m{place}", channel="trip", reply_to=parent
    )


@pytest.mark.parametrize(
    ("question", "thread", "newest", "older"),
    [
        (
            "what time is our slot for the palace?",
            [
                say(0, "nadia", "I'd buy the palace tickets online, the 10:30 slot"),
                say(1, "ines", "10:30 is sold out, I got us 11:30 instead", days=1),
            ],
            ("ines", "10:30 is sold out, I got us 11:30 instead"),
            ("nadia", "I'd buy the palace tickets online, the 10:30 slot"),
        ),
        (
            "on which day is the summer party?",
            [
                say(0, "gerda", "The summer party: I suggest Saturday 20 June."),
                say(1, "samira", "20 June is a wedding, can we do a week later?", reply_to=0),
                say(2, "gerda", "Of course, congratulations! Then 27 June.", reply_to=1),
                say(3, "piet", "I have a demo on 24 June", reply_to=2),
            ],
            ("gerda", "Of course, congratulations! Then 27 June."),
            ("gerda", "The summer party: I suggest Saturday 20 June."),
        ),
        (
            "how long do we keep application logs?",
            [
                say(0, "maya", "Proposal: keep application logs 30 days."),
                say(1, "oskar", "a bit short, can we do 45?", reply_to=0),
                say(2, "maya", "fine by me. 45 it is", reply_to=1),
            ],
            ("maya", "fine by me. 45 it is"),
            ("maya", "Proposal: keep application logs 30 days."),
        ),
        (
            "what is the limit of the billing backup?",
            [
                say(0, "oskar", "I'll raise the limit of the billing backup to 4 hours"),
                say(1, "maya", "then let's switch and put the limit back to 2 hours", days=9),
            ],
            ("maya", "then let's switch and put the limit back to 2 hours"),
            ("oskar", "I'll raise the limit of the billing backup to 4 hours"),
        ),
        (
            "when do the movers come?",
            [
                say(0, "rahel", "The movers come on Friday 27 March, at 7 in the morning."),
                say(1, "rahel", "Bad news from the movers. New date is Tuesday 31 March.", days=4),
            ],
            ("rahel", "Bad news from the movers. New date is Tuesday 31 March."),
            ("rahel", "The movers come on Friday 27 March, at 7 in the morning."),
        ),
        (
            "who leads the Saturday tour?",
            [
                say(0, "karin", "Who leads the Saturday tour?"),
                say(1, "bruno", "I will. Bring poles.", reply_to=0),
                say(2, "bruno", "Twisted my ankle. Nele takes over the lead of the Saturday tour", days=2),
            ],
            ("bruno", "Twisted my ankle. Nele takes over the lead of the Saturday tour"),
            ("bruno", "I will. Bring poles."),
        ),
    ],
)
def test_the_newest_value_stands_first(
    engine: Engine, question: str, thread: list[Message], newest: tuple[str, str], older: tuple[str, str]
) -> None:
    engine.add_messages(thread)
    answer = engine.ask(question)
    said = [(part.citation.author, part.chosen) for part in answer.parts]
    assert said[:2] == [newest, older]
    assert answer.text.split("\n\n")[1].startswith("Earlier: ")


@pytest.mark.parametrize(
    "later",
    [
        say(1, "tom", "My train is at 11:30", days=1),  # a time of something else
        say(1, "tom", "shall we take the 11:30 slot instead?", days=1),  # a question
        say(1, "tom", "the 10:30 slot, great", days=1),  # the same
    ],
)
def test_what_changes_nothing_does_not_replace(engine: Engine, later: Message) -> None:
    first = "I bought the palace tickets online, the 10:30 slot"
    engine.add_messages([say(0, "nadia", first), later])
    answer = engine.ask("what time is our slot for the palace?")
    assert answer.citations[0].quote == first
    assert "Earlier" not in answer.text


def test_what_only_follows_a_threaded_question_is_no_reply(engine: Engine) -> None:
    engine.add_messages(
        [
            *make_messages(
                ("lou", "who do I ask for access to the warehouse Grafana?"), ("henrik", "Beatriz, she owns it")
            ),
            Message("lunch was too good", "oskar", START + timedelta(hours=3), id="x", channel="general"),
        ]
    )
    assert engine.ask("who do I ask for the warehouse Grafana?").parts[0].chosen == "Beatriz, she owns it"


def test_a_row_of_the_day_that_is_asked_about(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed", settings=PLAIN)
    rows = "\n".join(f"| Widget C | 2024-01-{day:02} | {10 + day} |" for day in range(1, 20))
    page = f"# Sales\n\n| Product | Date | Sold |\n|---|---|---|\n{rows}\n"
    engine.add_documents([Document("a", page, title="Sales", uri="sales.md")])
    answer = engine.ask("How many Widget C were sold on 7 January 2024?")
    assert answer.parts[0].chosen == "| Widget C | 2024-01-07 | 17 |"


def test_a_month_written_in_figures_is_mentioned(open_engine: OpenEngine) -> None:
    settings = replace(PLAIN, answer=AnswerConfig(min_confidence=0.01))
    engine = open_engine(embedder="hashed", settings=settings)
    text = "On 2024-01-07 we sold 12 pumps. In January 2019 we sold none."
    engine.add_documents([Document("a", text, title="Sales", uri="a.md")])
    assert engine.ask("How many pumps were sold on 7 January 2024?").text.startswith("On 2024-01-07 we sold 12 pumps.")


def test_the_rest_of_a_question_is_no_answer(engine: Engine) -> None:
    engine.add_messages(
        make_messages(
            ("nadia", "where do we eat on Friday?"), ("ines", "with Karl hungry? dangerous"), ("tom", "the taberna")
        )
    )
    assert engine.ask("where do we eat on Friday?").parts[0].chosen == "the taberna"
