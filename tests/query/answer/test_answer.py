"""Sentences of a model held against what they cite."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.answer import SupportVerdict
from clew.core.cite import MergedChunk
from clew.core.errors import DriverFailed
from clew.core.events import join_callbacks
from clew.core.types import Chunk, DocumentRecord, Hit
from clew.query.answer.check import NOT_READ, Checker, check_sentence
from clew.query.answer.passages import NumberedPassage
from clew.query.answer.write import WrittenAnswer, _split_reply_sentences, write_answer

VAULT = "Signing keys are rotated every 90 days by Dan. He never does it on a Friday.\nThe vault holds 1,200 secrets."
LUNCH = "Soup is served at noon. It isn’t served on Sundays; “no spoon, no soup” says the cook."


def shown(*texts: str) -> list[NumberedPassage]:
    found = []
    for number, text in enumerate(texts, 1):
        name = f"d{number}"
        chunk = Chunk(f"c{number}", name, 0, 1, text, 0, len(text))
        passage = MergedChunk(
            text, name, (), "", (Hit(chunk, DocumentRecord(chunk.doc_id), 1.0),), 1.0, len(text), ((0, len(text)),)
        )
        record = DocumentRecord(name, name, f"{name}.md", "page", "v", "", len(text), 1)
        found.append(NumberedPassage(number, passage, record, ((0, text),)))
    return found


PAGES = shown(VAULT, LUNCH)


def write(pieces: Sequence[str], **options: Any) -> WrittenAnswer:
    return write_answer(pieces, Checker(PAGES), **options)


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
        "Keys are rotated every ninety days by Dan [1].",
        "“Signing keys … every 90 days by Dan” [1].",
        "“Signing keys are rotated [...] by Dan” [1].",
        "Dan's signing keys are rotated every 90 days [1].",
    ],
)
def test_what_stands_there_holds(sentence: str) -> None:
    claim = check_sentence(sentence, PAGES)
    assert claim.reason == ""
    assert claim.citations
    assert not re.search(r"\[\d", claim.text)
    assert all(each.quote in VAULT + "\n" + LUNCH for each in claim.citations)


@pytest.mark.parametrize(
    ("sentence", "why"),
    [
        ('It says "Signing keys are rotated every 60 days by Dan" [1].', "is not in the cited passage"),
        ("Signing keys are rotated every 60 days by Dan [1].", "60 is not in the cited passage"),
        ("The vault is painted green and smells of tar [1].", "it is not supported by the cited passage"),
        ("Soup is not served at noon [7].", "[7], which was not shown"),
        ("Signing keys are not rotated by Dan every 90 days [3].", "[3], which was not shown"),
        ("Bread and butter are free.", "cites no passage that was shown"),
        ("Signing keys are rotated every sixty days by Dan [1].", "sixty is not in the cited passage"),
        ("Signing keys are rotated every 90 weeks by Dan [1].", "the cited passage does not clearly say so"),
        ("Signing keys are rotated every 90 percent by Dan [1].", "the cited passage does not clearly say so"),
        ("The vault holds at most 1,200 secrets [1].", "the cited passage does not clearly say so"),
        ("Signing keys are rotated every 90 days by Eve [1].", "Eve is not in the cited passage"),
        ("Zebedee rotates signing keys every 90 days [1].", "Zebedee is not in the cited passage"),
        ("“He … does it on a Friday” [1].", "is not in the cited passage"),
        ("“does it on a Friday” [1].", "leaves out a negation"),
        ("“Signing keys are … a Friday” [1].", "is not in the cited passage"),
    ],
)
def test_what_does_not_stand_there_falls(sentence: str, why: str) -> None:
    claim = check_sentence(sentence, PAGES)
    assert why in claim.reason
    assert claim.citations == ()


def test_a_true_sentence_under_a_wrong_number_gets_the_right_one() -> None:
    claim = check_sentence('"Soup is served at noon" [1].', PAGES)
    assert [each.document for each in claim.citations] == ["d2"]
    assert "it is supported by [2]" in claim.corrected


def test_a_true_sentence_without_a_number_gets_one() -> None:
    claim = check_sentence("Soup is served at noon.", PAGES)
    assert [each.quote for each in claim.citations] == ["Soup is served at noon."]


def test_numbers_of_the_question_may_be_said_again() -> None:
    assert check_sentence("After 30 years, soup is served at noon [2].", PAGES).reason
    assert not check_sentence("After 30 years, soup is served at noon [2].", PAGES, question="soup in 30 years?").reason


def test_citations_are_numbered_as_they_come_and_streams_are_heard_when_checked() -> None:
    heard: list[str] = []
    pieces = ["Soup is ser", "ved at noon. [2] Keys are rot", "ated by Dan [1]. It is gre", "en [1]."]
    told = join_callbacks(None, heard.append)
    made = write(pieces, on_event=told, unsupported="remove")
    assert made.text == "Soup is served at noon. [1] Keys are rotated by Dan. [2]"
    assert "".join(heard).strip() == made.text
    assert len(heard) == 2
    assert [each.document for each in made.citations] == ["d2", "d1"]
    assert [each.text for each in made.removed] == ["It is green [1]."]


def test_a_model_that_finds_nothing_says_nothing() -> None:
    assert write(["NOT FOUND"]).text == ""
    assert write(["not found."]).removed == ()


@given(st.text(alphabet="ab .[]1,\n"))
def test_splitting_loses_nothing(text: str) -> None:
    parts = _split_reply_sentences(text)
    assert "".join(body + after for body, after in parts) == (text if parts else "")


@given(st.lists(st.sampled_from(["Soup is served at noon [2].", " ", "Keys [1]", ". It", " is. [1][2] ", "\n"])))
@pytest.mark.slow
def test_the_pieces_of_a_stream_do_not_matter(pieces: Sequence[str]) -> None:
    if not "".join(pieces).strip():
        with pytest.raises(DriverFailed, match="empty answer"):
            write(pieces)
        return
    whole = write(["".join(pieces)])
    assert write(pieces) == whole


@pytest.mark.parametrize("mark", ["[2]", "【2】", "【2†source】", "[Passage 2]", "[1-2]", "[1 and 2]", "[ 2 ]"])
def test_models_write_marks_in_many_ways(mark: str) -> None:
    for text in (f"Soup is served at noon {mark}.", f"Soup is served at noon. {mark} Keys are rotated by Dan [1]."):
        made = write([text])
        assert made.text.startswith("Soup is served at noon. [1]")
        assert made.citations[0].document == "d2"
        assert made.removed == ()


# -- facts

LOG = (
    "Ada pays Bob 50 crowns on 3 May 2031. The pump weighs 40 kilograms, the valve 15 kilograms. "
    "Output rose by 7 percent before the harbour opened. It takes 5 to 10 days. The code of the gate is E-4417."
)


@pytest.mark.parametrize(
    ("true", "false"),
    [
        ("Bob is paid 50 crowns by Ada", "Bob is paid 60 crowns by Ada"),
        ("On May 3, 2031 Ada pays Bob 50 crowns", "On May 4, 2031 Ada pays Bob 50 crowns"),
        ("Ada pays Bob on 2031-05-03", "Ada pays Bob on 2031-05-04"),
        ("Ada pays Bob in May", "Ada pays Bob in June"),
        ("The pump weighs 40 kilograms", "The pump weighs 40 pounds"),
        ("Output rose by 7 %", "Output rose by 7 percentage points"),
        ("It takes between 5 and 10 days", "It takes between 5 and 12 days"),
        ("It takes five to ten days", "It takes five to ten weeks"),
        ("The code of the gate is E4417", "The code of the gate is E-4471"),
    ],
)
def test_one_thing_changed_makes_it_false(true: str, false: str) -> None:
    pages = shown(LOG)
    assert check_sentence(f"{true} [1].", pages).reason == ""
    assert check_sentence(f"{false} [1].", pages).reason != ""


DESK = (
    "Nobody has to leave home before 06:00 or come back after 23:00. Absences need no approval of the desk. Phone the "
    "fire brigade and say lithium. The money is returned within 14 days. Ballast, a dog, belongs to Gethin. He is not "
    "allowed in the battery store or the clean room.\n\n| Flat amount per week | £310 | £140 |\n\nYou do not return to "
    "the pager until autumn. The first four weeks may be worked at 60 % hours for full pay."
)


@pytest.mark.parametrize(
    "sentence",
    [
        "Nobody has to leave home before 6 a.m. or come back after 11 pm",
        "Don't leave home before 6 am",
        "Call the fire brigade and say lithium",
        "Short absences need no approval of the desk",
        "The money is returned within two weeks",
        "The flat amount is £310 per week",
        "Gethin's dog, called Ballast, is not allowed in the clean room",
        "The dog is allowed anywhere except the battery store and the clean room",
        "After returning, the first four weeks may be worked at 60% hours for full pay",
    ],
)
def test_ordinary_prose_is_kept(sentence: str) -> None:
    assert check_sentence(f"{sentence} [1].", shown(DESK)).reason == ""


@pytest.mark.parametrize(
    "sentence",
    [
        "Nobody has to leave home before 6 p.m. or come back after 11 pm",
        "Use the phone after 11 am",
        "The money is returned within three weeks",
        "The flat amount is £200 per week",
        "Zebedee calls the fire brigade and says lithium",
    ],
)
def test_and_what_is_like_it_and_false_is_not(sentence: str) -> None:
    assert check_sentence(f"{sentence} [1].", shown(DESK)).reason != ""


def test_a_lie_is_not_made_true_by_a_passage_that_is_like_it() -> None:
    pages = shown("Gus never opens the radar on a Monday.", "Gus never opens the buoy on a Friday. The radar is old.")
    assert check_sentence("Gus never opens the radar on a Friday [1].", pages).reason
    assert check_sentence("Gus never opens the buoy on a Friday [1].", pages).corrected


def test_only_what_says_it_is_cited() -> None:
    pages = shown("Soup is served at noon. The cook is old.", "The soup is too salty. Noon is loud.")
    claim = check_sentence("Soup is served at noon [1][2].", pages)
    assert [each.quote for each in claim.citations] == ["Soup is served at noon."]
    both = check_sentence("Soup is served at noon and the soup is too salty [1][2].", pages)
    assert {each.document for each in both.citations} == {"d1", "d2"}


def test_who_said_it_is_who_wrote_it() -> None:
    text = "The pump of the harbour is broken.\n\nThe valve leaks."
    chunks = [
        Chunk("c1", "t", 0, 2, text[:34], 0, 34, meta={"author": "Dan"}),
        Chunk("c2", "t", 1, 2, text[36:], 36, len(text), meta={"author": "Eve"}),
    ]
    passage = MergedChunk(
        text, "t", (), "", tuple(Hit(c, DocumentRecord("t"), 1.0) for c in chunks), 1.0, len(text), ((0, len(text)),)
    )
    pages = [NumberedPassage(1, passage, DocumentRecord("t", "", "", "thread", "v", "", len(text), 2), ((0, text),))]
    assert check_sentence("Dan said that the pump of the harbour is broken [1].", pages).reason == ""
    assert check_sentence("Eve said that the valve leaks [1].", pages).reason == ""


class Reader:
    """A verifier that knows what it is told, and only English."""

    name, languages = "reader", frozenset({"en"})

    def __init__(self, **chances: float) -> None:
        self._chances = chances

    def support(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return [max(value for word, value in self._chances.items() if word in passage) for passage, _ in pairs]

    def judge(self, chance: float) -> SupportVerdict:
        return "supported" if chance > 0.8 else "unsure" if chance > 0.5 else "unsupported"


def test_a_wrong_citation_is_corrected_in_whatever_words() -> None:
    pages = shown("Soup is at noon.", "The secrets are changed every quarter.", "Lunch is soup.")
    reader = Reader(Soup=0.1, secrets=0.9, Lunch=0.1)
    for cited in ("[1]", "[9]", ""):
        checked = check_sentence(f"What is secret changes four times a year {cited}.", pages, verifier=reader)
        assert checked.verdict == "unsupported"  # it shares no word with the passage
        checked = check_sentence(f"The secrets get new values each season {cited}.", pages, verifier=reader)
        assert [each.document for each in checked.citations] == ["d2"]


def test_of_a_language_that_is_not_read_a_sentence_is_at_most_unsure() -> None:
    pages = shown("Der Ofen im Keller wird am Freitag gebrannt, und die Schalen stehen auf dem unteren Brett.")
    reader = Reader(Ofen=0.99)
    said = check_sentence("Am Freitag wird im Keller auf dem oberen Brett gebrannt [1].", pages, verifier=reader)
    assert (said.verdict, said.reason, said.is_read) == ("unsure", NOT_READ, False)
    quoted = check_sentence("Der Ofen im Keller wird am Freitag gebrannt [1].", pages, verifier=reader)
    assert quoted.verdict == "supported"
    wrong = check_sentence("Der Ofen im Keller wird am Montag gebrannt [1].", pages, verifier=reader)
    assert wrong.verdict == "unsupported"


def test_two_sentences_of_one_passage_have_one_number() -> None:
    made = write(["Soup is served at noon [2]. Keys are rotated by Dan [1]. Soup isn't served on Sundays [2]."])
    assert re.findall(r"\[\d\]", made.text) == ["[1]", "[2]", "[1]"]
    assert [each.document for each in made.citations] == ["d2", "d1"]
    assert made.citations[0].quote == LUNCH
    assert [cited.quote for each in made.sentences for cited in each.citations][-1].startswith("It isn’t served")


@pytest.mark.parametrize(
    ("reply", "text", "is_answer"),
    [
        ("Soup is served at noon.", "Soup is served at noon. [1]", True),  # it cites nothing
        ("Soup is served at noon [99].", "Soup is served at noon. [1]", True),
        ("Die Suppe gibt es um elf [2].", "Die Suppe gibt es um elf. [not supported]", False),
        ("Soup is served at noon [2]. Soup is served at noon [2].", "Soup is served at noon. [1]", True),
        ("```\nsoup --serve noon\n```", "```\nsoup --serve noon\n```\n[not supported]", False),
        ("Soup is served at", "Soup is served at [1]", True),  # it stops in the middle
    ],
)
def test_whatever_a_model_replies_has_its_answer_or_reason(reply: str, text: str, is_answer: bool) -> None:
    made = write([reply])
    assert (made.text, made.is_answer) == (text, is_answer)
    assert made.is_answer or made.no_answer_reason


def test_an_empty_reply_is_a_failure_and_no_answer() -> None:
    for reply in ("", " \n"):
        with pytest.raises(DriverFailed, match="empty answer"):
            write([reply])
