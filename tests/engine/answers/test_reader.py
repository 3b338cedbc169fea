"""The reader: which part answers, without a language model, and that what is merely close is no answer."""

from pathlib import Path

import pytest

from clew import Answer, Document, DriverMissing, Engine, Message, NotFound, Settings, SettingsError, drivers
from clew.core.settings import AnswerConfig
from clew.engine.opened import open_reader

KILN = (
    "The kiln in the cellar is fired on Fridays. Pots go on the lower shelf by noon. A firing costs four euros a "
    "shelf, paid into the tin. Only Jonas may open the lid before it is cold."
)
VAN = (
    "The blue van has eight seats and a roof rack. Ask Marta for the key two days ahead. On Sundays it belongs to the "
    "choir. It was washed in March."
)
OFEN = "Der Ofen im Keller wird freitags gebrannt. Die Schalen müssen bis Mittag auf dem unteren Brett stehen."


def ask(question: str, *, reader: str = "builtin") -> Answer:
    settings = Settings(answer=AnswerConfig(reader=reader))
    with Engine.open(":memory:", embedder="hashed", settings=settings) as engine:
        engine.add_documents(
            [
                Document("kiln", KILN, title="Kiln", uri="kiln.md"),
                Document("van", VAN, title="Van", uri="van.md"),
                Document("ofen", OFEN, title="Ofen", uri="ofen.md"),
            ]
        )
        return engine.ask(question)


@pytest.mark.parametrize(
    ("question", "quote"),
    [
        ("By what time must my pottery be there?", "Pots go on the lower shelf by noon."),
        ("Who is allowed to look into the kiln while it is hot?", "Only Jonas may open the lid before it is cold."),
    ],
)
@pytest.mark.slow
def test_an_answer_in_other_words_is_found(question: str, quote: str) -> None:
    answer = ask(question)
    assert answer.found
    assert answer.parts[0].chosen == quote
    assert answer.confidence > 2 * ask(question, reader="reranker").confidence  # sure only where the words are alike


@pytest.mark.slow
def test_a_follow_up_is_not_answered_with_the_last_answer_again() -> None:
    page = (
        "# Kiln\n\n## Opening the kiln\n\nThe kiln is opened on Mondays by Jonas. The kiln must be cold before the lid "
        "is lifted, so nobody opens it earlier.\n\n## Price\n\nA shelf costs four euros, to be paid into the tin.\n\n"
        "## Glazes\n\nAsk Marta for the glazes. They stand in the blue cupboard.\n"
    )
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_documents([Document("kiln", page, title="Kiln", uri="kiln.md")])
        chat = engine.chat()
        assert "Mondays by Jonas" in chat.ask("Who opens the kiln?").text
        answer = chat.ask("and the glazes?")
    assert answer.searched.endswith(": and the glazes?")
    assert answer.found
    assert answer.parts[0].passage.startswith("Ask Marta")


@pytest.mark.parametrize(
    ("before", "page"),
    [("", "club"), ("How do I make the kiln stop after the first shelf that breaks?", "kiln"), ("x" * 30_000, "club")],
)
@pytest.mark.slow
def test_a_follow_up_is_read_after_the_question_before_it(before: str, page: str) -> None:
    pages = {
        "kiln": "The kiln stops after the first shelf that breaks if you turn the red knob to S. Shelves that have "
        "begun to heat are finished; only the next ones stay cold.",
        "club": "Those who pay by the year become members. The others that are already members elsewhere pay half.",
        "shop": "The shop opens at nine. Goods that are already paid for stay on the shelf for a week.",
    }
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_documents([Document(name, text, title=name, uri=name) for name, text in pages.items()])
        history = [Message(before)] if before else []
        answer = engine.ask("And what becomes of the others that are already going?", history=history, k=2)
    assert answer.citations[0].uri == page
    assert sum(len(passage.chunks) for passage in answer.context.passages) <= 2


@pytest.mark.parametrize("question", ["How hot does the kiln get?", "How much is a repair of the kiln?"])
@pytest.mark.slow
def test_what_is_close_is_no_answer(question: str) -> None:
    answer = ask(question)
    assert not answer.found
    assert answer.confidence < ask("By what time must my pottery be there?").confidence


@pytest.mark.slow
def test_in_another_language_the_reranker_reads() -> None:
    question = "Bis wann müssen die Schalen auf dem Brett stehen?"
    assert ask(question) == ask(question, reader="reranker")
    assert ask(question).citations[0].uri == "ofen.md"


@pytest.mark.slow
def test_a_statement_is_read_by_the_reranker() -> None:
    claim = "Pots go on the upper shelf by noon."
    assert ask(claim) == ask(claim, reader="reranker")
    assert ask("Tell me by what time my pottery must be there.").found


@pytest.mark.parametrize("text", ["yes", "hello", "email", "When?", "123", "🏺🔥❓"])
def test_what_asks_nothing_has_no_answer(text: str) -> None:
    answer = ask(text)
    assert not answer.found
    assert answer.text == "No passage clearly answers this."


def test_an_empty_collection_has_no_answer() -> None:
    with Engine.open(":memory:", embedder="hashed") as engine:
        answer = engine.ask("By what time must my pottery be there?")
        assert (answer.found, answer.parts, answer.reason) == (False, (), "the collection is empty")


def test_a_question_of_a_thousand_words_has_its_answer_or_reason() -> None:
    rambling = "We talked about it at length, and nobody could remember what the sign in the hall said. " * 60
    answer = ask(f"{rambling}By what time must my pots be on the lower shelf of the kiln?")
    assert answer.found or answer.reason
    assert all(part.passage and part.citation.quote in f"{KILN}{VAN}{OFEN}" for part in answer.parts)


def test_a_short_question_about_pages_of_another_language_is_read_by_the_reranker() -> None:
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_documents([Document("ofen", f"{OFEN} Nur Jonas darf den Deckel öffnen.", uri="ofen.md")])
        assert not engine.ask("Wo wohnt Jonas?").found


@pytest.mark.slow
def test_a_missing_reader_is_told_and_the_reranker_reads(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: AnswerConfig) -> None:
        raise DriverMissing("builtin: there is no model")

    question = "By what time must my pottery be there?"
    expected = ask(question, reader="reranker")
    monkeypatch.setattr(drivers, "make_reader", fail)
    open_reader.cache_clear()
    assert ask(question) == expected
    assert "builtin: there is no model; the reranker reads instead" in caplog.text
    open_reader.cache_clear()


def test_a_reader_must_be_known() -> None:
    with pytest.raises(SettingsError, match=r"answer\.reader is empty"):
        AnswerConfig(reader="")
    with pytest.raises(NotFound, match="builtin"):
        ask("By what time must my pottery be there?", reader="none")


def test_sentences_without_spaces_are_quoted_and_what_is_not_there_is_not_answered(tmp_path: Path) -> None:
    pages = {
        "gym": "# 健身房\n\n公司健身房位于地下一层，早上六点开放，晚上十点关闭。\n",
        "room": "# 会議室\n\n大会議室は三時間まで予約できます。予約は受付で行います。\n",
    }
    with Engine.open(tmp_path / "team.clew", embedder="hashed") as engine:
        engine.add_documents([Document(name, text, uri=f"{name}.md") for name, text in pages.items()])
        assert (
            engine.ask("健身房几点开门？").citations[0].quote == "公司健身房位于地下一层，早上六点开放，晚上十点关闭。"
        )
        assert engine.ask("大会議室は何時間まで予約できますか？").citations[0].quote.startswith("大会議室は三時間まで")
        assert [engine.ask(asked).found for asked in ("审计日志保留多久？", "ワールドカップの優勝国は？")] == [
            False,
            False,
        ]
