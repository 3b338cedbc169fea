"""Questions made from the collection: of headings, titles and replies, by a model; none that leaks, none twice."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from clew import Document, Engine, Filter, Message, NotFound, ScriptedLLM, SettingsError
from clew.evaluation import evaluate, make_questions, read_questions, write_questions
from clew.evaluation.questions.make import find_longest_run, is_leaking, phrase_heading, says_something

PAGE = """# Key rotation

Everything about the keys that sign our parcels, who holds them and how long they live, in a few lines.

## Emergency rotation

Call Ines first. She revokes what is lost, makes a new pair in the room without windows and tells the stations.

## How

Run the tool on the signing host, wait for the second person, and read the fingerprint aloud before you confirm.

## Run the tool on the signing host

Run the tool on the signing host, wait for the second person, and read the fingerprint aloud before you confirm.

## Rotation, emergency

The same as above, only that it is told here a second time and at the same length, as people do in handbooks.
"""
NOW = datetime(2026, 4, 1, 9, tzinfo=UTC)


def add_samples(engine: Engine, folder: Path) -> None:
    (folder / "keys.md").write_text(PAGE)
    engine.add(folder / "keys.md")
    engine.add_messages(
        [
            Message("Which spare parts go to the Dunlin tomorrow?", "ines", NOW, id="1", channel="field"),
            Message("I wonder, too.", "ines", NOW.replace(minute=1), id="2", channel="field", reply_to="1"),
            Message(
                "Two lanterns and the long chain, both are packed.",
                "dan",
                NOW.replace(minute=2),
                id="3",
                channel="field",
                reply_to="1",
            ),
        ]
    )


@pytest.fixture
def samples(tmp_path: Path) -> Engine:
    engine = Engine.open(tmp_path / "store", embedder="hashed")
    add_samples(engine, tmp_path)
    return engine


def test_headings_ask_for_what_stands_below_them(samples: Engine) -> None:
    made = {each.question: each for each in make_questions(samples, sources=["headings"])}
    assert list(made) == ["What about emergency rotation in Key rotation?"]  # "How" asks for nothing
    (evidence,) = made["What about emergency rotation in Key rotation?"].evidence
    assert evidence.document.endswith("keys.md")
    assert evidence.quote.startswith("Call Ines first.")
    assert "#" not in evidence.quote
    text = samples.read("keys.md").text
    assert text[evidence.start : evidence.end] == evidence.quote


def test_a_question_that_repeats_its_evidence_is_left_out_and_so_is_one_that_asks_the_same(samples: Engine) -> None:
    asked = {each.question for each in make_questions(samples)}
    assert not any("signing host" in text for text in asked)  # the heading is the sentence below it
    assert not any("Rotation, emergency" in text for text in asked)  # the same terms as another heading


def test_titles_and_replies_ask_too(samples: Engine) -> None:
    (title,) = make_questions(samples, sources=["titles"])
    assert title.question == "What about Key rotation?"
    assert title.evidence[0].quote.startswith("Everything about the keys")
    (reply,) = make_questions(samples, sources=["replies"])
    assert reply.question == "Which spare parts go to the Dunlin tomorrow?"
    assert reply.evidence[0].quote == "Two lanterns and the long chain, both are packed."  # of somebody else
    assert {each.question for each in make_questions(samples)} >= {title.question, reply.question}


@pytest.mark.parametrize(
    ("heading", "above", "asked"),
    [
        ("Who may open the vault?", "Vault", "Who may open the vault?"),
        ("How to swap a shift of the rota", "", "How do I swap a shift of the rota?"),
        ("Swapping", "On-call rota", "How does swapping work in On-call rota?"),
        ("Restore a lost key pair", "Vault", "How do I restore a lost key pair?"),
        ("Release process of Dunlin parts", "Vault", "What about release process of Dunlin parts?"),
        ("Search the rota by name", "Vault", "How do I search the rota by name?"),
        ("Before the shift", "Rota", "What happens before the shift in rota?"),
        ("Anreise", "Bremen", "Bremen: Anreise"),
    ],
)
def test_headings_become_questions(heading: str, above: str, asked: str) -> None:
    text = (
        "The on-call rota of the vault is in the release process: restore a lost key pair, swap and search by name, "
        "swapping parts of a shift before the Dunlin sails."
    )
    if asked.startswith(above) and "?" not in asked:
        text = "Die Anreise zum Standort geht mit der Bahn bis Bremen und von dort mit dem Bus weiter bis zum Hafen."
    assert phrase_heading(heading, above, text) == asked


@pytest.mark.parametrize("heading", ["Overview", "See also", "1.2.3", "2024-05-01", "hand", "run_all()", "Notes", ""])
def test_headings_that_name_nothing_are_left_out(heading: str) -> None:
    assert not says_something(heading)


def test_what_is_made_can_be_written_read_and_evaluated(samples: Engine, tmp_path: Path) -> None:
    made = make_questions(samples)
    write_questions(tmp_path / "made.jsonl", made)
    assert read_questions(tmp_path / "made.jsonl") == made
    done = evaluate(samples, tmp_path / "made.jsonl", strategies=["lexical"])
    assert not done.notes
    assert done.scores[0].means["recall@10"] == 1.0
    assert done.scores[0].counts["evidence@10"] == len(made)


def test_a_filter_a_count_and_a_seed_choose(samples: Engine) -> None:
    pages = make_questions(samples, where=Filter(kinds={"page"}))
    assert all(each.evidence[0].document.endswith("keys.md") for each in pages)
    assert len(make_questions(samples, count=1)) == 1
    assert make_questions(samples, count=2, seed=1) == make_questions(samples, count=2, seed=1)
    assert {make_questions(samples, count=1, seed=seed)[0].question for seed in range(8)} != {pages[0].question}


def test_a_model_writes_questions_for_passages(tmp_path: Path) -> None:
    replies = {"Call Ines": "Who is told first when a pair is lost?\nIt is Ines.", "Two lanterns": "NONE"}

    def answer(prompt: str) -> str:
        return next((reply for part, reply in replies.items() if part in prompt), "I cannot say.")

    llm = ScriptedLLM(answer)
    with Engine.open(tmp_path / "store", embedder="hashed", llm=llm) as engine:
        add_samples(engine, tmp_path)
        before = len(llm.requests)
        (made,) = make_questions(engine)
        assert made.question == "Who is told first when a pair is lost?"
        assert made.evidence[0].quote.startswith("Call Ines first.")
        assert len(llm.requests) > before
        make_questions(engine, sources=["titles"])
        asked = len(llm.requests)
        make_questions(engine, count=2)
        assert len(llm.requests) == asked + 2


def test_what_cannot_be_made_is_said(samples: Engine) -> None:
    with pytest.raises(SettingsError, match="needs a language model"):
        make_questions(samples, sources=["model"])
    with pytest.raises(SettingsError, match="there is no source"):
        make_questions(samples, sources=["rumours"])  # type: ignore[list-item]
    with Engine.open(":memory:", embedder="hashed") as empty, pytest.raises(NotFound, match="no documents"):
        make_questions(empty)


def test_a_page_without_headings_gives_no_question() -> None:
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_documents([Document("plain", "Signing keys rotate every ninety days.")])
        assert make_questions(engine) == []


def test_leakage_is_most_of_the_words_in_one_piece() -> None:
    evidence = "The signing keys rotate every ninety days, and Dan does it."
    assert is_leaking("signing keys rotate every ninety days", evidence)
    assert is_leaking("Do signing keys rotate every ninety days?", evidence)
    assert not is_leaking("How often do we change what signs?", evidence)
    assert not is_leaking("ninety days", evidence)  # a name, not a sentence
    assert find_longest_run(["a", "b", "x", "c"], ["x", "a", "b"]) == 2


def test_what_was_opened_is_weaker_than_a_thumb_and_says_nothing_of_the_rest(engine: Engine) -> None:
    def open_(document: str, rank: int | None, question: str = "where is it?") -> dict[str, object]:
        return {"question": question, "kind": "opened", "good": None, "rank": rank, "documents": [document]}

    def judge(*given: dict[str, object]) -> list[dict[str, float]]:
        return [dict(each.relevant) for each in make_questions(engine, sources=["feedback"], feedback=given)]

    thumb = {"question": "where is it?", "kind": "judged", "good": True, "documents": ["page-1"]}
    assert judge(open_("page-0", 1)) == judge(open_("page-0", None)) == []  # many open the first whatever it is
    assert judge(open_("page-0", 1), open_("page-0", 1)) == judge(open_("page-0", 2)) == [{"pages/anchor.md": 0.5}]
    assert judge(open_("page-0", 5), thumb) == [
        {"pages/anchor.md": 0.5, "pages/buoy.md": 1.0}
    ]  # what was above is not judged
    assert judge(open_("page-1", 5), {**thumb, "good": False}) == []  # the thumb goes before
    assert judge(open_("page-1", 5), thumb) == [{"pages/buoy.md": 1.0}]
    assert judge(open_("gone", 5)) == []


def test_feedback_becomes_questions_with_the_documents_that_more_found_good() -> None:
    def judge(question: str, good: bool, *documents: str) -> dict[str, object]:
        return {"question": question, "good": good, "documents": list(documents), "caller": "ann"}

    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_documents([Document(name, f"All about {name}.", uri=f"{name}.md") for name in ("keys", "soup")])
        thumbs = [
            judge("Who has the keys?", True, "keys", "soup"),
            judge("who  has the KEYS?", False, "soup"),
            judge("When is soup?", False, "keys"),  # what would be right nobody said
            judge("Where is the anchor?", True, "gone"),  # no longer in the collection
            judge("Good, and nothing cited?", True),
        ]
        (made,) = make_questions(engine, sources=["feedback"], feedback=thumbs)
        assert (made.question, made.relevant) == ("who has the KEYS?", {"keys.md": 1.0, "soup.md": 0.0})
        assert make_questions(engine, sources=["feedback"], feedback=[]) == []
        with pytest.raises(SettingsError, match="judgements of users"):
            make_questions(engine, sources=["feedback"])
        with pytest.raises(SettingsError, match="question, good and documents"):
            make_questions(engine, sources=["feedback"], feedback=[{"question": "why?"}])
