"""The study of answers without a language model."""

import pytest

from clew import Engine
from clew.core.settings import AnswerConfig, IngestionConfig, RerankerConfig, Settings
from studies import answers
from studies.answers import JudgedQuestion, judge_answer, load_questions, make_rows, states_evidence
from studies.handbook import EXAMPLES


def test_half_of_the_questions_is_held_out() -> None:
    questions = load_questions(EXAMPLES)
    halves = [each.half for each in questions]
    assert abs(halves.count("tuned") - halves.count("held out")) <= 1
    assert {each.slice for each in questions} == {"handbook", "page", "chat", "both"}
    contradicted = next(each for each in questions if each.id == "m136")
    assert contradicted.page_quote == ""
    assert contradicted.message_quote


@pytest.mark.parametrize(("quote", "is_right"), [("opens at nine", True), ("closes at six", False)])
def test_an_answer_is_right_that_holds_the_marked_quote(quote: str, is_right: bool) -> None:
    from clew import Document

    settings = Settings(
        ingestion=IngestionConfig(),
        reranker=RerankerConfig(name="overlap"),
        answer=AnswerConfig(min_confidence=0.0),
    )
    with Engine.open(":memory:", embedder="hashed", settings=settings) as engine:
        text = "The harbour office opens at nine. It closes at six."
        engine.add_documents([Document("h", text, uri="handbook/harbour.md")])
        answer = engine.ask("When does the harbour office open?")
    question = JudgedQuestion("q", "", "handbook", "tuned", "handbook/harbour.md", quote, frozenset(), "")
    judged = judge_answer(question, answer, {"h": text})
    assert (judged.is_right_first, judged.is_chosen_right) == (True, is_right)  # the passage holds both
    assert (judged.shows_question, judged.sentences) == (False, 1)
    assert any("| tuned | all | 1 |" in row for row in make_rows([judged]))


def test_another_place_that_states_the_same_is_told_by_its_facts() -> None:
    question = JudgedQuestion(
        "q", "", "handbook", "tuned", "a.md", "A sabbatical is announced 9 months ahead.", frozenset(), ""
    )
    assert states_evidence(question, "Please announce your sabbatical nine months ahead")
    assert not states_evidence(question, "Please announce your sabbatical six months ahead")
    assert not states_evidence(question, "It took nine months")
    plain = JudgedQuestion("q", "", "handbook", "tuned", "a.md", "Billie keeps the keys", frozenset(), "")
    assert states_evidence(plain, "It is Billie who keeps the keys")
    assert not states_evidence(plain, "Billie keeps bees")


def test_the_command_names_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        answers.main(["--help"])
    assert "--every" in capsys.readouterr().out
