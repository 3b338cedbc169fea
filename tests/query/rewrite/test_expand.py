"""A question in a conversation: whether it is ambiguous, and its expansion by keywords of the history."""

from dataclasses import replace

import numpy as np
import pytest

from clew.core.errors import SettingsError
from clew.core.types import Message, Query
from clew.query.rewrite.expand import ContextualExpander, HistoryItem, is_ambiguous_query
from clew.query.rewrite.rewrites import expand_if_elliptic

PROMPTING = [Message("Tell me about chain-of-thought prompting"), Message("How does it compare to few-shot?")]
TURNS: list[HistoryItem] = [
    {"role": "user", "content": "First message about alpine flowers"},
    {"role": "assistant", "content": "Edelweiss grows on limestone."},
    {"role": "user", "content": "Second message about desert cacti"},
    {"role": "assistant", "content": "A saguaro stores water, as desert cacti do."},
]


@pytest.mark.parametrize(
    "query",
    [
        "Show me",
        "Example",
        "More",
        "more?",
        "",
        "Tell me more about this",
        "Can you explain that technique",
        "Show me another example",
        "Show me some examples please",
        "Tell me about THIS",
        "ANOTHER example please",
        "Can you write a summary of it?",
        "What's the price of it?",
        "Why is it's limit so low",
        "How were these two measured",
        "Is there a similar one in Berlin",
        "Does the same hold in winter",
        "When did they move to Paris",
        "What about the refresh tokens",
        "And how much does shipping cost",
    ],
)
def test_ambiguous(query: str) -> None:
    assert is_ambiguous_query(query)


@pytest.mark.parametrize(
    "query",
    [
        "How do I configure OAuth authentication",
        "Explain the difference between REST and GraphQL",
        "How do I write a unit test suite?",
        "What is the credit limit policy here",
        "Which items are moreish and sameness-free",  # only whole words count
        "Who runs theme parks with thistles",
        "How do I reach the IT department",
        "这个产品的退款政策是什么",  # no spaces, yet more than three words
    ],
)
def test_not_ambiguous(query: str) -> None:
    assert not is_ambiguous_query(query)


def test_keywords_of_the_user_come_before_the_question() -> None:
    expanded = "chain-of-thought prompting compare few-shot Show me an example"
    assert ContextualExpander().expand("Show me an example", PROMPTING) == expanded
    as_dicts = [{"role": message.role, "content": message.text} for message in PROMPTING]
    assert ContextualExpander().expand("Show me an example", as_dicts) == expanded


def test_nothing_to_add_leaves_the_question_as_it_is() -> None:
    expander = ContextualExpander()
    assert expander.expand("Show me  an example", []) == "Show me  an example"
    assert expander.expand("More", [Message("Who are you? Tell me more.")]) == "More"
    assert expander.expand("More", [{"role": "system", "content": "secret instructions"}]) == "More"
    assert ContextualExpander(max_context_turns=0).expand("More", PROMPTING) == "More"


def test_the_assistant_is_ignored_unless_included() -> None:
    only = [Message("unique_keyword_xyz", role="assistant")]
    assert ContextualExpander().expand("More", only) == "More"
    assert ContextualExpander(include_assistant=True).expand("More", only) == "unique_keyword_xyz More"
    users = [turn for turn in TURNS if isinstance(turn, dict) and turn["role"] == "user"]
    assert ContextualExpander().expand("More", TURNS) == ContextualExpander().expand("More", users)


def test_what_the_answers_take_up_weighs_more() -> None:
    history = [
        Message("Yesterday somebody asked whether guinea pigs sleep outside"),
        Message("Guinea pigs sleep in burrows.", role="assistant"),
    ]
    three = ContextualExpander(max_keywords=3)
    assert three.expand("More", history) == "Yesterday somebody asked More"
    assert replace(three, include_assistant=True).expand("More", history) == "guinea pigs sleep More"


def test_max_context_turns_counts_turns_of_the_user() -> None:
    assert ContextualExpander(max_context_turns=1).expand("More", TURNS) == "Second message desert cacti More"
    with_answers = ContextualExpander(max_context_turns=1, include_assistant=True).expand("More", TURNS)
    assert "saguaro" in with_answers or "desert cacti" in with_answers
    assert "Edelweiss" not in with_answers
    assert "alpine" not in with_answers


def test_keyword_weight_is_how_much_newer_words_count() -> None:
    history = [
        Message("Compare copper wiring with copper pipes"),
        Message("copper wiring in old houses"),
        Message("Which permits are needed in Oslo"),
    ]
    alike = ContextualExpander(keyword_weight=1, max_keywords=2)
    assert alike.expand("More", history) == "copper wiring More"  # said in two turns
    newer = ContextualExpander(keyword_weight=2, max_keywords=2)
    assert newer.expand("More", history) == "permits needed More"


def test_at_most_five_keywords_each_once_and_none_of_the_question() -> None:
    history = [Message("alpha beta, gamma delta; Beta's epsilon zeta eta")]
    assert ContextualExpander().expand("More", history) == "alpha beta gamma delta epsilon More"
    assert ContextualExpander().expand("gammas or Deltas", history) == "alpha beta epsilon zeta eta gammas or Deltas"
    assert ContextualExpander(max_keywords=1).expand("More", history) == "alpha More"


def test_the_question_at_the_end_of_its_own_history_is_no_turn() -> None:
    history = [*PROMPTING, Message("Show me an example")]
    assert ContextualExpander(max_context_turns=1).expand("Show me an example", history) == (
        "compare few-shot Show me an example"
    )


def test_names_stay_and_contractions_go() -> None:
    history = [Message("I couldn't find the US office's AI policy, don't you know vitamin C")]
    assert ContextualExpander(max_keywords=9).expand("More", history) == "US office AI policy vitamin C More"


def test_function_words_of_other_languages_go() -> None:
    history = [Message("Wie funktioniert die Anmeldung mit dem neuen Server?")]
    assert ContextualExpander().expand("Mehr", history) == "funktioniert Anmeldung neuen Server Mehr"
    assert "war" in ContextualExpander().expand("More", [Message("When did the war end?")])


@pytest.mark.parametrize("place", ["raw_content", "metadata"])
def test_raw_content_is_preferred(place: str) -> None:
    raw = "Tell me about neural networks"
    extra: object = raw if place == "raw_content" else {"raw_content": raw}
    history = [{"role": "user", "content": f"## Knowledge base\n\nchunks\n\n{raw}", place: extra}]
    assert ContextualExpander().expand("More details", history) == "neural networks More details"


def test_topics_of_an_extractor() -> None:
    def topics(text: str) -> list[str]:
        return ["ML", "algorithms", "ml"] if "machine learning" in text else []

    history = [Message("Tell me about machine learning")]
    expander = ContextualExpander()
    assert expander.expand_with_topics("Show examples", history, topics) == "ML algorithms Show examples"
    assert expander.expand_with_topics("Show algorithms", history, topic_extractor=topics) == "ML Show algorithms"
    assert expander.expand_with_topics("Show", history) == expander.expand("Show", history) == "machine learning Show"
    assert expander.expand_with_topics("Show", [], topics) == "Show"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"max_context_turns": -1}, "max_context_turns is -1"),
        ({"keyword_weight": 0}, "keyword_weight is 0"),
        ({"max_keywords": 0}, "max_keywords is 0"),
    ],
)
def test_settings_that_cannot_be(change: dict[str, int], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        replace(ContextualExpander(), **change)  # type: ignore[arg-type]


def test_a_history_of_something_else_is_refused() -> None:
    with pytest.raises(SettingsError, match="history holds str"):
        ContextualExpander().expand("More", ["text"])  # type: ignore[list-item]


def test_only_an_elliptic_query_is_expanded() -> None:
    expander = ContextualExpander()
    query = Query("Show me an example", k=7, history=tuple(PROMPTING), vector=np.ones(2, np.float32))
    changed = expand_if_elliptic(query, expander, lambda *_: True)
    assert changed.text == "chain-of-thought prompting compare few-shot: Show me an example"
    assert changed.vector is None
    assert changed.k == 7
    assert changed.history == query.history
    clear = replace(query, text="How do I configure OAuth authentication")
    assert expand_if_elliptic(clear, expander, lambda *_: False) is clear
    alone = replace(query, history=())
    assert expand_if_elliptic(alone, expander, lambda *_: False) is alone
    fragment = replace(query, text="visitor badge")
    assert expand_if_elliptic(fragment, expander, lambda *_: True) is fragment
    assert expand_if_elliptic(fragment, expander, lambda *_: False).text.endswith("few-shot: visitor badge")
