"""A word that the collection lacks is searched as the one like it that it has."""

import pytest

from clew import Document, Engine, Filter, record

PAGES = {
    "keys": "Key rotation: the platform team rotates the signing keys every quarter.",
    "lunch": "Lunch is served in the canteen at noon, and coffee all day.",
    "trains": "The ferry timetable lists the departures of every harbour station.",
}


@pytest.fixture
def engine() -> Engine:
    engine = Engine.open(":memory:", embedder="hashed")
    engine.add_documents([Document(id_, text) for id_, text in PAGES.items()])
    return engine


@pytest.mark.parametrize(
    ("asked", "meant", "found"),
    [
        ("kyes rotatoin", "keys rotation", "keys"),
        ("signng", "signing", "keys"),
        ("Cantene", "canteen", "lunch"),
        ("timmetabel", "timetable", "trains"),
        ("harborr statoin?", "harbour station?", "trains"),
        ("Signng in Signngton", "signing in Signngton", "keys"),
    ],
)
def test_misspelt_words_find_what_was_meant(engine: Engine, asked: str, meant: str, found: str) -> None:
    with record() as trace:
        hits = engine.search(asked, k=1, strategy="lexical")
    assert [hit.document.id for hit in hits] == [found]
    assert trace.find_note("did_you_mean") == meant


@pytest.mark.parametrize("asked", ["keys rotation", "the canteen", "zebra xylophone", "ky", "2031", "Schlüssel"])
def test_other_words_are_left_as_they_are(engine: Engine, asked: str) -> None:
    with record() as trace:
        engine.search(asked, k=1)
    assert trace.find_note("did_you_mean") is None


@pytest.mark.parametrize("asked", ["did they agree", "the office"])
def test_only_words_that_are_written_somewhere_are_offered(engine: Engine, asked: str) -> None:
    engine.add_documents([Document("list", "The official age of the aged boats is in the official list.")])
    with record() as trace:
        engine.search(asked, k=1)
    assert trace.find_note("did_you_mean") is None


@pytest.mark.parametrize("asked", ["is there paid leave", "draw a chart", "a laved deck"])
def test_a_short_word_is_not_cut_to_another(engine: Engine, asked: str) -> None:
    engine.add_documents([Document("first", "First aid is in the chat room, where the lava lamp stands.")])
    with record() as trace:
        engine.search(asked, k=1)
    assert trace.find_note("did_you_mean") is None


def test_two_slips_leave_the_first_letter(engine: Engine) -> None:
    engine.add_documents([Document("log", "Every action of the crew is in the log.")])
    for asked, meant in (("days of vacation", None), ("acttionn of the crew", "action of the crew")):
        with record() as trace:
            engine.search(asked, k=1)
        assert trace.find_note("did_you_mean") == meant


def test_a_corrected_word_counts_less_than_one_that_is_there(engine: Engine) -> None:
    engine.add_documents([Document("fees", "The fees of the harbour are paid on Monday.")])
    right = engine.search("harbour fees", k=1, strategy="lexical")[0]
    typed = engine.search("harbour feees", k=1, strategy="lexical")[0]
    assert right.document.id == typed.document.id == "fees"
    assert typed.relevance <= right.relevance


def test_a_word_of_hidden_pages_is_never_offered(engine: Engine) -> None:
    engine.add_documents([Document("secret", "The merger with Quillfeather is signed.", access={"board"})])
    for asked in (engine.within(Filter(access={"staff"})), engine):
        with record() as trace:
            asked.search("quillfeathr", k=1)
        assert (trace.find_note("did_you_mean") is None) == (asked is not engine)


def test_a_word_that_the_embedder_knows_is_no_slip_of_another() -> None:
    with Engine.open(":memory:", embedder="wordllama") as engine:
        engine.add_documents([Document("leak", "A water leak in the inner yard."), Document("keys", "Key rotation.")])
        for asked, meant in (("weather", None), ("watter", "water"), ("pizza dinner", None), ("innner", "inner")):
            with record() as trace:
                engine.search(asked)
            assert trace.find_note("did_you_mean") == meant, asked


def test_a_very_long_word_is_not_corrected(engine: Engine) -> None:
    with record() as trace:
        engine.search("k" * 20_000, k=1)  # its edits by two slips are more than a billion
    assert trace.find_note("did_you_mean") is None
