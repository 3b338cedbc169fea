"""Which questions need the conversation before them."""

import pytest

from clew.query.rewrite.ellipsis import is_elliptic


@pytest.mark.parametrize(
    "question",
    [
        "Show me another example",
        "Can you explain that technique",
        "Tell me more about this",
        "Why?",
        "any awards",
        "streaming services?",
        "What about the refresh tokens of the mobile app",
        "And how much does shipping to Norway cost",
        "When did it become Catholic?",
        "What was its religion?",
        "how many films does he appear in",
        "What happens if it does not work well?",
        "Can women play it?",  # nothing in the same clause is what it stands for
        "Is American football derived from it?",
        "who was the arch rival to this series?",
        "Which is the most popular?",
    ],
)
def test_elliptic(question: str) -> None:
    assert is_elliptic(question)


@pytest.mark.parametrize(
    "question",
    [
        "How do I configure OAuth authentication",
        "Is herpes a lethal disease and how is it transmitted?",
        "How old was Peyton Manning when he played in Super Bowl 50?",
        "How do I restart a container so that it keeps its volumes",
        "Is it possible to iterate over a dictionary?",
        "How long does it take to get to Mars?",
        "python check if two images are the same",
        "Are Arizona Cardinals and Chicago Cardinals the same team?",
        "Which band has released more albums, Sick Puppies or Third Eye Blind?",
        "Who registered the most sacks on the team this season?",
        "functions that return a function in python",
        "What did Melanie and her family see last year?",
        "How do I reach the IT department by phone",
        "Who likes Quokkas?",
        "what is GraphQL?",
        "这个产品的退款政策是什么",
    ],
)
def test_not_elliptic(question: str) -> None:
    assert not is_elliptic(question)
