"""Messages that ask the question, or only react to an answer, do not take the place of what answers it."""

from pathlib import Path

import pytest

from clew import Engine, Message

HANDBOOK = Path(__file__).parents[3] / "examples" / "handbook"
QUESTION = "What does rotate_signing_key take as arguments?"
WORDINGS = (
    "{}",
    "Hi all, quick question: {}",
    "Morning! I was reading about the stations before the stand-up and could not find it, so: {} Thanks a lot.",
)


def find_pages(engine: Engine) -> list[str]:
    passages = engine.context(QUESTION, tokens=600).passages
    return [hit.document.uri.rsplit("/", 1)[-1] for passage in passages for hit in passage.chunks]


@pytest.mark.parametrize("wording", WORDINGS)
def test_a_restated_question_leaves_the_page_that_answers_in_the_context(wording: str) -> None:
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add(HANDBOOK / "security", HANDBOOK / "people")
        before = {hit.chunk.id: hit.relevance for hit in engine.search(QUESTION, k=3)}
        assert find_pages(engine)[0] == "key-rotation.md"
        said = wording.format(QUESTION)
        engine.add_messages([Message(said, author="newbie", id=f"q{each}", channel="help") for each in range(2)])
        assert "key-rotation.md" in find_pages(engine)
        after = {hit.chunk.id: hit.relevance for hit in engine.search(QUESTION, k=10)}
        first = next(iter(before))
        assert after[first] > 0.8 * before[first]


@pytest.mark.parametrize("replies", [3, 8])
@pytest.mark.parametrize("question", ["when is the book club meeting?", "6 June"])
def test_replies_without_content_do_not_outrank_what_they_answer(question: str, replies: int) -> None:
    reactions = ("ok", "👍", "thanks", "great", "+1", "noted", "😍", "will do")
    opening = "Next book: The Dispossessed by Ursula K. Le Guin, meeting on 6 June at 19:00"
    said = [Message(opening, author="ana", id="a", channel="Book club")]
    for number in range(replies):
        text = reactions[number % len(reactions)]
        said.append(Message(text, author="ben", id=f"r{number}", channel="Book club", reply_to="a"))
    with Engine.open(":memory:", embedder="bge-small") as engine:
        engine.add_messages(said)
        assert engine.search(question, k=9)[0].chunk.text == opening


def test_a_list_is_in_the_order_of_the_number_it_shows() -> None:
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add(HANDBOOK, HANDBOOK.parent / "chat")
        for question in ("who rotates the keys?", "expense limits for meals", "lost laptop", "storm watch", "crane 4"):
            shown = [hit.relevance for hit in engine.search(question, k=10)]
            assert shown == sorted(shown, reverse=True)
