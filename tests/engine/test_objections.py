"""What keeps an answer without a model back: a word, a price, a number or a version that the passage does not have.

And how much of the passage is shown: one sentence, or those beside it where it is not clear which of them answers.
"""

from dataclasses import replace

import pytest

from clew import Document, Engine
from clew.core.answer import Answer
from clew.core.settings import AnswerConfig, IngestionConfig, RerankerConfig, Settings

READS = Settings(ingestion=IngestionConfig())
OVERLAP = replace(READS, reranker=RerankerConfig(name="overlap"))
BACKUPS = "Backups of the mail server are kept for five weeks."
TUBES = "The stilling tubes for the harbour gauges are on shelf E4. We keep twelve of them. New ones take two weeks."


def ask(question: str, *pages: str, settings: Settings = READS) -> Answer:
    with Engine.open(":memory:", embedder="hashed", settings=settings) as engine:
        engine.add_documents([Document(f"page{at}", text, uri=f"{at}.md") for at, text in enumerate(pages)])
        return engine.ask(question)


@pytest.mark.parametrize(
    ("near_miss", "word"),
    [("How long are backups of the laptops kept?", "laptops"), ("How long are backups in Norway kept?", "Norway")],
)
@pytest.mark.slow
def test_a_word_that_the_passage_does_not_answer_to_keeps_it_from_being_an_answer(near_miss: str, word: str) -> None:
    assert ask("How long are backups of the mail server kept?", BACKUPS).found
    refused = ask(near_miss, BACKUPS)
    assert not refused.found
    assert word in refused.reason
    shown = "No passage clearly answers this. The closest one:"
    assert refused.text == f"{shown}\n\n{BACKUPS} [1]"  # what was found is still shown
    assert ask(near_miss, BACKUPS, settings=replace(READS, answer=AnswerConfig(min_confidence=0.0))).found


def test_a_reranker_that_compares_words_raises_no_objection_to_a_word() -> None:
    assert ask("How long are backups of the laptops kept?", BACKUPS, settings=OVERLAP).found


@pytest.mark.parametrize(
    ("page", "question", "reason"),
    [
        (TUBES, "What do the stilling tubes for the harbour gauges cost?", "an amount of money is asked for"),
        (
            "1. The seal number of the laptop is compared.",
            "What is the seal number of the laptop?",
            "a number is asked for",
        ),
        (
            "Firmware 7.4.1 corrects the clock bug.",
            "Which bug does firmware 7.4.2 correct?",
            "7.4.2 is not mentioned; 7.4.1 is",
        ),
    ],
)
def test_a_price_a_number_or_a_version_that_is_not_there_is_named(page: str, question: str, reason: str) -> None:
    refused = ask(question, page, settings=OVERLAP)
    assert not refused.found
    assert reason in refused.reason


LIMIT = "La limite est de cent vingt euros par nuit, sauf à Paris où la limite est de cent soixante euros."


@pytest.mark.parametrize(
    "asked", ["Quelle est la limite par nuit à Paris ?", "What is the limit for a hotel night in Paris?"]
)
def test_a_name_is_known_in_any_language_by_how_it_is_written(asked: str) -> None:
    assert ask(asked, LIMIT, settings=OVERLAP).found
    assert ask("Quelle est la limite par nuit à Calais ?", LIMIT, settings=OVERLAP).reason == "Calais is not mentioned"


def test_what_states_the_price_number_or_version_answers() -> None:
    assert ask("What does a stilling tube cost?", "A stilling tube costs £40.", settings=OVERLAP).found
    assert ask(
        "What is the seal number of the laptop?", "The seal number of the laptop is 4711.", settings=OVERLAP
    ).found
    page = "Firmware 7.4.1 corrects the clock bug."
    assert ask("Which bug does firmware 7.4.1 correct?", page, settings=OVERLAP).found


@pytest.mark.slow
def test_sentences_beside_it_are_chosen_where_it_is_not_clear_which_answers() -> None:
    page = "Staging is wiped every Sunday. It is rebuilt from a fresh snapshot. The canteen opens at noon."
    asked = "why is everything that I had put on the test machine gone?"
    one = ask(asked, page, settings=replace(READS, answer=AnswerConfig(min_confidence=0.0, sentences=1)))
    more = ask(asked, page, settings=replace(READS, answer=AnswerConfig(min_confidence=0.0)))
    assert len(one.citations) == len(more.citations) == 1
    assert one.parts[0].chosen in more.parts[0].chosen
    assert len(more.parts[0].chosen) > len(one.parts[0].chosen)
    clear = ask("when is staging wiped?", page, settings=replace(READS, answer=AnswerConfig(min_confidence=0.0)))
    assert clear.parts[0].chosen == "Staging is wiped every Sunday."


def test_what_is_about_another_number_is_not_chosen_with_it() -> None:
    page = "Widget 5 has a torque of 15 Nm. Widget 7 has a torque of 17 Nm. Widget 14 has a torque of 24 Nm."
    assert ask("what is the torque of widget 7?", page).parts[0].chosen == "Widget 7 has a torque of 17 Nm."


def test_a_passage_without_a_sentence_speaks_for_no_other() -> None:
    fields = ":title: Return codes of the command\n:description: Which exit code the command has if interrupted"
    other = "To restart the worker, call the shed."
    asked = ask("which exit code has the command if interrupted?", fields, other)
    assert not asked.found
    assert asked.confidence < 0.2
