"""What is embedded of a message: where, who and when, and the message; its words are indexed with those before it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from clew import Engine, Hit, Message, Settings
from clew.core.settings import FlowConfig, SearchConfig, ThreadConfig
from clew.core.thread import Thread
from clew.core.types import QUOTE

SAID = tuple(
    Message(text, author, datetime(2026, *at, tzinfo=UTC), id_, "yard", reply_to)
    for text, author, at, id_, reply_to in (
        ("The winch squeaks.", "Ann", (3, 2, 9), "a", None),
        ("Greased   it with tallow before lunch today?", "Bo", (3, 2, 10), "b", None),
        ("Twice, with fresh tallow from the store.", "Ann", (4, 1, 9), "c", "a"),
    )
)
UNSMOOTHED = Settings(flow=FlowConfig(reach=0), search=SearchConfig(cache=0))


def find(message: str, settings: Settings) -> Hit:
    with Engine.open(":memory:", embedder="hashed", settings=settings) as engine:
        engine.add_documents([Thread("a", "yard", SAID).document()])
        hits = engine.search("winch greased twice", k=3)
        return next(hit for hit in hits if hit.chunk.meta["message"] == message)


def test_the_date_is_said_in_words_and_those_before_without_their_names() -> None:
    chunk = find("c", Settings()).chunk
    assert chunk.embed_text == "#yard, Ann, 1 April 2026\n\nTwice, with fresh tallow from the store."
    before = "The winch squeaks.\nGreased it with tallow before lunch today?"
    assert chunk.index_text == f"#yard, Ann, 1 April 2026\n{before}\n\nTwice, with fresh tallow from the store."


@pytest.mark.parametrize("text", ["ok", "+1", "👍", "Twice.", "thank you!"])
def test_a_message_without_content_of_its_own_quotes_nothing(text: str) -> None:
    said = (*SAID[:2], replace(SAID[2], text=text))
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_documents([Thread("a", "yard", said).document()])
        assert all(hit.chunk.meta["message"] != "c" for hit in engine.search("winch greased", strategy="lexical"))


def test_what_a_message_answers_comes_before_what_merely_stands_there() -> None:
    few = Settings(threads=ThreadConfig(before=1))
    assert (
        find("c", few).chunk.index_text
        == "#yard, Ann, 1 April 2026\nThe winch squeaks.\n\nTwice, with fresh tallow from the store."
    )
    assert (
        find("b", few).chunk.index_text
        == "#yard, Bo, 2 March 2026\nThe winch squeaks.\n\nGreased   it with tallow before lunch today?"
    )


def test_of_a_long_message_its_beginning_is_quoted() -> None:
    said = (replace(SAID[0], text="The winch squeaks. " + "It is loud. " * 40), SAID[2])
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_documents([Thread("a", "yard", said).document()])
        hits = engine.search("fresh tallow", k=2)
        (context,) = (hit.chunk.context for hit in hits if hit.chunk.meta["message"] == "c")
    quote = context.splitlines()[-1]
    assert quote.removeprefix(QUOTE).startswith("The winch squeaks. It is loud.")
    assert (len(quote.removeprefix(QUOTE)), quote[-1]) == (300, "…")


def test_a_message_that_begins_with_a_quote_is_embedded_with_it() -> None:
    said = (Message("> it squeaks\nThen grease it.", id="q", channel="yard"),)
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_documents([Thread("q", "yard", said).document()])
        chunk = engine.search("squeaks", k=1)[0].chunk
    assert "> it squeaks" in chunk.embed_text
    assert "> it squeaks" in chunk.index_text


# -- which message comes first


ASKED = "Which rope did Cy order for the barge?"
TALK = (
    "Morning.",
    "I ordered the long hemp rope for the barge, two coils of it, and paid the chandler in the harbour.",
    "Fine, tell me when the wagon with it comes home tonight.",
    "The wagon comes home at seven, says the driver.",
)


@pytest.fixture(params=["documents", "messages"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """A talk, added as a whole or message by message."""
    said = [Message(text, author="Ann", id=f"m{at}", channel="yard") for at, text in enumerate(TALK)]
    with Engine.open(":memory:", embedder="hashed", settings=UNSMOOTHED) as opened:
        if request.param == "documents":
            opened.add_documents([Thread("m0", "yard", tuple(said)).document()])
        else:
            for at, message in enumerate(said):
                opened.add_messages([replace(message, reply_to=f"m{at - 1}" if at else None)])
        yield opened


def test_the_message_that_says_it_comes_before_the_short_ones_after_it(engine: Engine) -> None:
    for strategy in ("lexical", "semantic", "hybrid"):
        hits = engine.search(ASKED, strategy=strategy)
        assert hits[0].chunk.meta["message"] == "m1", strategy


def test_its_own_words_count_double(engine: Engine) -> None:
    scores = {str(hit.chunk.meta["message"]): hit.score for hit in engine.search("hemp", strategy="lexical")}
    assert scores["m1"] > 1.2 * scores["m2"] > 0  # by words a reply is found too
    assert scores["m2"] == pytest.approx(scores["m3"], rel=0.1)


def test_by_meaning_a_message_is_what_it_says_itself(engine: Engine) -> None:
    similarity = {str(h.chunk.meta["message"]): h.similarity for h in engine.search(ASKED, strategy="semantic")}
    with Engine.open(":memory:", embedder="hashed", settings=UNSMOOTHED) as other:
        other.add_documents([Thread("x", "yard", (Message(TALK[2], "Ann", id="x", channel="yard"),)).document()])
        alone = other.search(ASKED, strategy="semantic")[0].similarity
    assert similarity["m2"] == pytest.approx(alone, abs=1e-6)
