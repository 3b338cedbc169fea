"""Answers without a model: what follows a question, whole code and rows, no padding, the newest first."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from clew import Document, Engine, Extensions, Message
from clew.core.settings import AnswerConfig, ContextConfig, IngestionConfig, RerankerConfig, Settings
from tests.engine.chosen import OpenEngine

PLAIN = Settings(
    ingestion=IngestionConfig(),
    reranker=RerankerConfig(name="overlap"),
    answer=AnswerConfig(min_confidence=0.0),
)
START = datetime(2026, 3, 2, 9, tzinfo=UTC)


def make_messages(*said: tuple[str, str], channel: str = "general", start: datetime = START) -> list[Message]:
    """A thread: the first message, and replies to it."""
    return [
        Message(
            text,
            author,
            start + timedelta(minutes=place),
            id=f"{channel}-{start:%d}-{place}",
            channel=channel,
            reply_to=f"{channel}-{start:%d}-0" if place else None,
        )
        for place, (author, text) in enumerate(said)
    ]


@pytest.fixture
def engine(open_engine: OpenEngine) -> Engine:
    return open_engine(embedder="hashed", settings=PLAIN)


@pytest.mark.parametrize(
    ("question", "thread", "answer"),
    [
        (
            "where is the HDMI adapter?",
            [("eva", "Does anybody know where the spare HDMI adapter is?"), ("ben", "second drawer under the printer")],
            ("ben", "second drawer under the printer"),
        ),
        (
            "who has a car with winter tyres?",
            [("ana", "Who has a car with winter tyres?"), ("Jonas", "me, 5 seats"), ("ana", "thanks!")],
            ("Jonas", "me, 5 seats"),
        ),
        (
            "how much is the deposit for the chalet?",
            [
                ("ana", "Chalet is booked."),
                ("ben", "nice! how much is the deposit for the chalet"),
                ("ana", "150 EUR each"),
            ],
            ("ana", "150 EUR each"),
        ),
    ],
)
def test_what_follows_a_question_is_the_answer(
    engine: Engine, question: str, thread: list[tuple[str, str]], answer: tuple[str, str]
) -> None:
    engine.add_messages([*make_messages(*thread), *make_messages(("lee", "lunch at noon is soup"), channel="food")])
    found = engine.ask(question)
    cited = found.citations[0]
    assert (cited.author, found.parts[0].chosen, cited.quote) == (*answer, answer[1])
    assert engine.read(cited.document).text[cited.start : cited.end] == cited.quote


def test_messages_are_shown_with_those_around_them_and_who_wrote_each_when(engine: Engine) -> None:
    asked, reply = "Does anybody know where the spare HDMI adapter is?", "second drawer under the printer"
    engine.add_messages(make_messages(("eva", asked), ("ben", reply), ("eva", "thanks!")))
    answer = engine.ask("where is the HDMI adapter?")
    assert answer.text == (
        f"eva, 2026-03-02 09:00: {asked}\n↪ ben, 2026-03-02 09:01: {reply}\n↪ eva, 2026-03-02 09:02: thanks! [1]"
    )
    assert answer.parts[0].chosen == reply


def test_what_replies_to_somebody_else_is_no_answer(engine: Engine) -> None:
    said = [
        ("ana", "which package i have to install to get the kernel headers", None),
        ("joe", "is the new release of the printer daemon out?", None),
        ("trey", "joe, right now it is very similar to 2.8", "m1"),
        ("lee", "ana: apt install linux-headers-`uname -r`", "m0"),
    ]
    engine.add_messages(
        Message(text, author, START + timedelta(minutes=place), id=f"m{place}", channel="ubuntu", reply_to=parent)
        for place, (author, text, parent) in enumerate(said)
    )
    found = engine.ask("how do I install the kernel headers?")
    assert (found.citations[0].author, found.parts[0].chosen) == ("lee", "ana: apt install linux-headers-`uname -r`")


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("A duckling has downy plumage[1] or baby feathers,[2][3] sold young.[22]", None),
        (
            "The duckling is kept in ducks[0] and `ducks[1]` of the list.",
            "The duckling is kept in ducks and `ducks[1]` of",
        ),
        ("The duckling is DUCK[1] in the ducks_of[2] table.", "The duckling is DUCK[1] in the ducks_of[2] table."),
    ],
)
def test_the_footnotes_of_a_source_do_not_pass_for_citations(engine: Engine, written: str, shown: str | None) -> None:
    engine.add_documents([Document("d", written, title="Duck", uri="duck.md")])
    answer = engine.ask("what is a duckling?")
    expected = shown or "A duckling has downy plumage or baby feathers, sold young."
    assert answer.text.startswith(expected)
    assert answer.text.endswith(" [1]")
    assert answer.citations[0].quote == written


def test_html_of_a_source_is_not_shown_but_in_code(engine: Engine) -> None:
    said = "If you run Kiln as a service,[2] put its files into <path> or `<div>`."
    page = (
        f'The kiln heats.\n\n<aside class="tip">\n\n{said}\n\n</aside>\n\n<img src="a.png">\n'
        "```html\n<aside>\n```\n\n<pre><code>kiln run</code></pre>\n"
    )
    engine.add_documents([Document("k", page, title="Kiln", uri="kiln.md")])
    part = engine.ask("where to put the files of a service?").parts[0]
    assert part.chosen == said.replace("[2]", "")
    assert part.passage == f"The kiln heats.\n\n{part.chosen}\n\n```html\n<aside>\n```\n\nkiln run"
    assert part.citation.quote in page


def test_the_passage_is_shown_and_the_chosen_sentence_marked_in_it(engine: Engine) -> None:
    text = "Ovens are cleaned weekly.\n\nThe kiln is fired on Friday. Pots go on the lower shelf by noon."
    engine.add_documents([Document("k", f"# Kiln\n\n{text}\n", title="Kiln", uri="kiln.md")])
    answer = engine.ask("when is the kiln fired?")
    part = answer.parts[0]
    assert (answer.text, part.passage, part.citation.quote) == (f"{text} [1]", text, text)
    assert part.chosen == "The kiln is fired on Friday."
    assert answer.citations == (part.citation,)
    assert engine.read("k").text[part.citation.start : part.citation.end] == text


def test_a_long_passage_is_trimmed_to_whole_sentences_around_the_chosen_one(engine: Engine) -> None:
    before = [f"Pallet {n} was moved by the night shift, then counted again and put back." for n in range(8)]
    after = [f"Crate {n} was weighed in the hall, then sealed again and put away." for n in range(8)]
    page = " ".join([*before, "The kiln is fired on Friday.", *after])
    engine.add_documents([Document("k", page, title="Kiln", uri="kiln.md")])
    part = engine.ask("when is the kiln fired?").parts[0]
    assert part.chosen == "The kiln is fired on Friday."
    assert 120 < len(part.passage.split()) <= 150
    sentences = part.passage.split(". ")
    assert sentences[0].startswith("Pallet")
    assert part.passage.endswith("put away.")
    assert page[part.citation.start : part.citation.end] == part.citation.quote == part.passage


def test_a_question_alone_is_no_answer(engine: Engine) -> None:
    engine.add_messages(make_messages(("eva", "Does anybody know where the spare HDMI adapter is?")))
    found = engine.ask("where is the spare HDMI adapter?")
    assert not found.found
    assert not found.citations


def test_a_reply_that_may_not_be_seen_is_no_answer(engine: Engine) -> None:
    asked, replied = make_messages(("eva", "Where is the spare HDMI adapter?"), ("ben", "in the safe of the office"))
    engine.add_messages([asked, Message(replied.text, "ben", replied.at, id="r", channel="general", reply_to=asked.id)])
    from clew import Filter

    assert "safe" in engine.ask("where is the spare HDMI adapter?").text
    assert "safe" not in engine.ask("where is the spare HDMI adapter?", where=Filter(authors={"eva"})).text


def test_code_comes_with_the_sentence_that_introduces_it(engine: Engine) -> None:
    page = (
        "# Worker\n\nThe worker handles jobs.\n\nTo restart the worker run:\n\n"
        "```\nsystemctl stop worker\nsystemctl start worker\n```\n"
    )
    engine.add_documents([Document("w", page, title="Worker", uri="worker.md")])
    answer = engine.ask("how do I restart the worker?")
    assert answer.parts[0].chosen.startswith("To restart the worker run:")
    assert answer.parts[0].chosen.endswith("systemctl start worker\n```")
    assert answer.text == f"{page.removeprefix('# Worker').strip()}\n[1]"  # the source names the heading
    cited = answer.citations[0]
    assert engine.read("w").text[cited.start : cited.end] == cited.quote


def test_a_list_comes_with_the_sentence_that_introduces_it(engine: Engine) -> None:
    page = (
        "Before a deploy to production you need:\n\n- two approvals\n- a green canary\n\nOther things are optional.\n"
    )
    engine.add_documents([Document("d", page, title="Deploy", uri="deploy.md")])
    chosen = engine.ask("what do you need before a deploy to production?").parts[0].chosen
    assert chosen.endswith("- two approvals\n- a green canary")


def test_a_row_is_shown_in_its_table_under_the_names_of_its_columns(engine: Engine) -> None:
    rows = "\n".join(f"| widget {n} | {20 + n} Nm | S{n} |" for n in range(1, 60))
    engine.add_documents([Document("t", f"| Part | Torque | Shelf |\n|---|---|---|\n{rows}\n", uri="parts.md")])
    answer = engine.ask("what is the torque of widget 37?")
    assert answer.parts[0].chosen == "| widget 37 | 57 Nm | S37 |"
    assert answer.text.startswith("| Part | Torque | Shelf |\n|---|---|---|\n| widget ")
    assert "| widget 36 | 56 Nm | S36 |\n| widget 37 | 57 Nm | S37 |\n| widget 38 | 58 Nm | S38 |\n" in answer.text
    assert len(answer.citations) == 1


def test_a_passage_that_begins_within_a_table_has_its_header(open_engine: OpenEngine) -> None:
    settings = Settings(
        ingestion=IngestionConfig(chunk_size=64, chunk_overlap=0),
        context=ContextConfig(k=1, grow="none"),
    )
    engine = open_engine(embedder="hashed", settings=settings)
    rows = "\n".join(f"| bolt{n} | S{n} | {100 + n} |" for n in range(60))
    engine.add_documents([Document("t", f"| Part | Shelf | Count |\n|---|---|---|\n{rows}\n", uri="parts.md")])
    context = engine.context("which shelf holds bolt40")
    assert "bolt40" in context.text
    assert "| Part | Shelf | Count |\n|---|---|---|\n| bolt" in context.text
    assert context.passages[0].table_header == "| Part | Shelf | Count |\n|---|---|---|"
    assert not context.passages[0].text.startswith("| Part")


def test_field_lists_are_no_answer(engine: Engine) -> None:
    page = (
        ":title: AWS CLI Return Codes\n:description: Return codes when interrupted\n\nThe code 130 means interrupted.\n"
    )
    engine.add_documents([Document("a", page, title="Return codes", uri="codes.txt")])
    assert engine.ask("what return code when interrupted?").parts[0].chosen == "The code 130 means interrupted."


def test_more_is_shown_where_it_adds_what_is_asked(engine: Engine) -> None:
    engine.add_documents(
        [
            Document("a", "The pager goes to two people.", title="Pager", uri="a.md"),
            Document("b", "The allowance is £310 a week.", title="Pay", uri="b.md"),
        ]
    )
    assert len(engine.ask("Who has the pager, and what is the allowance?").citations) == 2
    assert len(engine.ask("Who has the pager?").citations) == 1


def test_what_is_not_mentioned_is_named_with_its_like(open_engine: OpenEngine) -> None:
    settings = Settings(
        ingestion=IngestionConfig(),
        reranker=RerankerConfig(name="overlap"),
        answer=AnswerConfig(min_confidence=0.01),
    )
    engine = open_engine(embedder="hashed", settings=settings)
    engine.add_documents([Document("a", "The Aqua 5 pump is 52 dB loud.", title="Pumps", uri="a.md")])
    absent = engine.ask("How loud is the Aqua 7 pump?")
    assert (absent.found, absent.reason) == (False, "Aqua 7 is not mentioned; Aqua 5 is")
    assert engine.ask("How loud is the Aqua 5 pump?").text == "The Aqua 5 pump is 52 dB loud. [1]"
    engine.add_documents([Document("b", "The cellar is damp and dark.", title="Cellar", uri="b.md")])
    assert engine.ask("Which pump is loud, the Aqua 5 pump?").found


def test_an_amount_that_is_not_stated_is_not_answered(open_engine: OpenEngine) -> None:
    settings = Settings(
        ingestion=IngestionConfig(),
        reranker=RerankerConfig(name="overlap"),
        answer=AnswerConfig(min_confidence=0.01),
    )
    engine = open_engine(embedder="hashed", settings=settings)
    engine.add_documents([Document("a", "The ferry to Kessel is slow and cheap.", title="Ferry", uri="a.md")])
    absent = engine.ask("How much does the ferry to Kessel cost?")
    assert (absent.found, absent.reason) == (False, "an amount is asked for, and the passages found state none")
    engine.add_messages([Message("the ferry to Kessel? let's say 5, cash", "ada", channel="crew")])
    stated = engine.ask("How much does the ferry to Kessel cost?")  # people leave out the currency
    assert stated.found
    assert "5, cash" in stated.text


def test_a_list_of_questions_is_no_answer(engine: Engine) -> None:
    page = "Before we use a service:\n\n1. What data will the service see?\n2. Where is the service hosted?\n"
    engine.add_documents([Document("a", page, title="Services", uri="a.md")])
    assert not engine.ask("What data will the service see?").citations


def test_below_the_minimum_the_nearest_passage_is_shown_as_such(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed", settings=PLAIN)
    engine.add_documents([Document("a", "The pager goes to two people.", title="Pager", uri="a.md")])
    unsure = replace(PLAIN, answer=AnswerConfig(min_confidence=1.0, min_nearest=0.0))
    answer = engine.ask("Who has the pager?", settings=unsure)
    assert answer.text == "No passage clearly answers this. The closest:\n\nThe pager goes to two people. [1]"
    assert (answer.found, [cited.quote for cited in answer.citations]) == (False, ["The pager goes to two people."])
    assert answer.reason == "No passage clearly answers this."
    heard = [event.text for event in engine.ask_stream("Who has the pager?", settings=unsure) if hasattr(event, "text")]
    assert "".join(heard) == answer.text
    never = replace(PLAIN, answer=AnswerConfig(min_confidence=1.0, min_nearest=1.0))
    refused = engine.ask("Who has the pager?", settings=never)
    assert (refused.text, refused.citations) == ("No passage clearly answers this.", ())


def test_a_name_that_is_not_mentioned_is_named(open_engine: OpenEngine) -> None:
    sure = replace(PLAIN, answer=AnswerConfig(min_confidence=0.5))
    engine = open_engine(embedder="hashed", settings=sure)
    engine.add_documents([Document("a", "The ferry to Kessel was opened by the mayor.", title="Ferry", uri="a.md")])
    assert engine.ask("Who opened the ferry to Kessel?").found
    answer = engine.ask("Who opened the ferry to Brandow?")
    assert (answer.found, answer.reason) == (False, "Brandow is not mentioned")


class Slightly:
    """A reranker that slightly prefers texts with a word."""

    name = "slightly"

    def __init__(self, word: str, *, chance: float) -> None:
        self._word, self._chance = word, chance

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return [float(self._word in text) for text in texts]

    def calibrate(self, score: float) -> float:
        return self._chance if score else 0.5


@pytest.mark.parametrize(("chance", "first"), [(0.7, "lock.md"), (0.999, "settings.md")])
def test_what_search_has_first_stays_first_unless_a_reader_is_surer(chance: float, first: str) -> None:
    extensions = Extensions(reranker=Slightly("steel", chance=chance))
    with Engine.open(":memory:", embedder="hashed", settings=PLAIN, extensions=extensions) as engine:
        engine.add_documents(
            [
                Document("a", "To lock the shed door, turn the key twice.", title="Locking", uri="lock.md"),
                Document("b", "The shed has a lock of steel.", title="Settings", uri="settings.md"),
            ]
        )
        question = "how do I lock the shed door?"
        assert engine.search(question)[0].document.uri == "lock.md"
        assert engine.ask(question).citations[0].uri == first


def test_of_a_long_section_the_part_that_was_found_is_shown(open_engine: OpenEngine) -> None:
    """A passage may join many hits: what surrounds the best one is no better answer than the hit."""
    settings = replace(PLAIN, ingestion=IngestionConfig(chunk_size=64, chunk_overlap=0))
    engine = open_engine(embedder="hashed", settings=settings)
    around = [f"Pallet {n} was moved by the night shift, then counted again and put back." for n in range(12)]
    kiln = "The kiln is fired on Friday. Pots go on the lower shelf by noon. The lid stays shut until it is cold."
    engine.add_documents([Document("k", "\n\n".join([*around, kiln, *around]), title="Hall", uri="hall.md")])
    part = engine.ask("when is the kiln fired?").parts[0]
    assert kiln in part.passage
    assert part.chosen == "The kiln is fired on Friday."
