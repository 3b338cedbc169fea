"""Sentences of a model held against what they cite."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.types import Chunk, DocumentRecord, Hit, MergedChunk
from clew.query.answer.shown import Shown
from clew.query.answer.verify import verified
from clew.query.answer.write import _split, written

VAULT = "Signing keys are rotated every 90 days by Dan. He never does it on a Friday.\nThe vault holds 1,200 secrets."
LUNCH = "Soup is served at noon. It isn’t served on Sundays; “no spoon, no soup” says the cook."


def shown(*texts: str) -> list[Shown]:
    found = []
    for number, text in enumerate(texts, 1):
        name = f"d{number}"
        chunk = Chunk(f"c{number}", name, 0, 1, text, 0, len(text))
        passage = MergedChunk(text, name, (), "", (Hit(chunk, 1.0),), 1.0, len(text), ((0, len(text)),))
        record = DocumentRecord(name, name, f"{name}.md", "page", "v", "", len(text), 1)
        found.append(Shown(number, passage, record, ((0, text),)))
    return found


PAGES = shown(VAULT, LUNCH)


@pytest.mark.parametrize(
    "sentence",
    [
        "Signing keys are rotated every 90 days by Dan [1].",
        "Keys are rotated by Dan every 90 days [1].",
        'As it says, "Signing keys are rotated every 90 days" [1].',
        "“rotated every  90\ndays by Dan” [1]",  # white space aside
        "The vault holds 1200 secrets [1].",
        "Dan never rotates keys on a Friday [1].",
        "“no spoon, no soup” says the cook [2].",
        "Soup is served at noon, and keys are rotated by Dan [1][2].",
        "Soup isn't served on Sundays [2].",
    ],
)
def test_what_stands_there_holds(sentence: str) -> None:
    claim = verified(sentence, PAGES)
    assert claim.reason == ""
    assert claim.citations
    assert "[" not in claim.text
    assert all(each.quote in VAULT + "\n" + LUNCH for each in claim.citations)


@pytest.mark.parametrize(
    ("sentence", "why"),
    [
        ('It says "Signing keys are rotated every 60 days by Dan" [1].', "does not stand"),
        ("Signing keys are rotated every 60 days by Dan [1].", "60 does not stand"),
        ("The vault is painted green and smells of tar [1].", "does not say so"),
        ("Soup is not served at noon [7].", "[7], which was not shown"),
        ("Signing keys are not rotated by Dan every 90 days [3].", "[3], which was not shown"),
        ("Bread and butter are free.", "cites nothing"),
    ],
)
def test_what_does_not_stand_there_falls(sentence: str, why: str) -> None:
    claim = verified(sentence, PAGES)
    assert why in claim.reason
    assert claim.citations == ()


def test_a_denial_of_what_is_affirmed_falls() -> None:
    pages = shown("Signing keys are rotated every 90 days by Dan.")
    assert verified("Signing keys are not rotated every 90 days by Dan [1].", pages).reason == "it denies what it cites"


def test_a_true_sentence_under_a_wrong_number_gets_the_right_one() -> None:
    claim = verified('"Soup is served at noon" [1].', PAGES)
    assert [each.document for each in claim.citations] == ["d2"]
    assert "it holds by [2]" in claim.corrected


def test_a_true_sentence_without_a_number_gets_one() -> None:
    claim = verified("Soup is served at noon.", PAGES)
    assert [each.quote for each in claim.citations] == ["Soup is served at noon."]


def test_numbers_of_the_question_may_be_said_again() -> None:
    assert verified("After 30 years, soup is served at noon [2].", PAGES).reason
    assert not verified("After 30 years, soup is served at noon [2].", PAGES, question="soup in 30 years?").reason


def test_citations_are_numbered_as_they_come_and_streams_are_heard_when_checked() -> None:
    heard: list[str] = []
    pieces = ["Soup is ser", "ved at noon. [2] Keys are rot", "ated by Dan [1]. It is gre", "en [1]."]
    made = written(pieces, PAGES, question="", hear=heard.append)
    assert made.text == "Soup is served at noon. [1] Keys are rotated by Dan. [2]"
    assert "".join(heard).strip() == made.text
    assert len(heard) == 2
    assert [each.document for each in made.citations] == ["d2", "d1"]
    assert [each.text for each in made.removed] == ["It is green [1]."]


def test_a_model_that_finds_nothing_says_nothing() -> None:
    assert written(["NOT FOUND"], PAGES, question="").text == ""
    assert written(["not found."], PAGES, question="").removed == ()


@given(st.text(alphabet="ab .[]1,\n"))
def test_splitting_loses_nothing(text: str) -> None:
    parts = _split(text)
    assert "".join(body + after for body, after in parts) == (text if parts else "")


@given(st.lists(st.sampled_from(["Soup is served at noon [2].", " ", "Keys [1]", ". It", " is. [1][2] ", "\n"])))
def test_the_pieces_of_a_stream_do_not_matter(pieces: Sequence[str]) -> None:
    whole = written(["".join(pieces)], PAGES, question="")
    assert written(pieces, PAGES, question="") == whole
