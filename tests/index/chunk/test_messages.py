"""What is embedded of a message: where, who and when, what was said before, and then the message."""

from datetime import UTC, datetime

from clew import Engine, Message, Settings
from clew.core.settings import ThreadConfig
from clew.core.thread import Thread

SAID = (
    Message("The winch squeaks.", author="Ann", at=datetime(2026, 3, 2, 9, tzinfo=UTC), id="a", channel="yard"),
    Message("Greased   it?", author="Bo", at=datetime(2026, 3, 2, 10, tzinfo=UTC), id="b", channel="yard"),
    Message("Twice.", author="Ann", at=datetime(2026, 4, 1, 9, tzinfo=UTC), id="c", channel="yard", reply_to="a"),
)


def embedded(message: str, settings: Settings) -> str:
    with Engine.open(":memory:", embedder="hashed", settings=settings) as engine:
        engine.add_documents([Thread("a", "yard", SAID).document()])
        hits = engine.search("winch greased twice", k=3)
        return next(hit.chunk.embed_text for hit in hits if hit.chunk.meta["message"] == message)


def test_the_date_is_said_in_words_and_those_before_without_their_names() -> None:
    assert embedded("c", Settings()) == "#yard, Ann, 1 April 2026\nThe winch squeaks.\nGreased it?\n\nTwice."


def test_what_a_message_answers_comes_before_what_merely_stands_there() -> None:
    few = Settings(threads=ThreadConfig(before=1))
    assert embedded("c", few) == "#yard, Ann, 1 April 2026\nThe winch squeaks.\n\nTwice."
    assert embedded("b", few) == "#yard, Bo, 2 March 2026\nThe winch squeaks.\n\nGreased   it?"
