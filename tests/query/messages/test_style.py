"""How a person writes: what is counted, what a model may say, and the prompt that comes of it."""

import json

import pytest

from clew.core.errors import DriverFailed, SettingsError
from clew.drivers.llm.scripted import ScriptedLLM
from clew.query.messages.style import (
    compute_sample_confidence,
    find_repeated_phrases,
    measure_style,
    measure_writing_habits,
    parse_style_analysis,
    profile_style,
)

CHATTY = [
    "hey, on it! :tada:",
    "yeah will do, no worries",
    "lol ok, on it",
    "on it, no worries",
    "thanks!! no worries at all",
    "gonna look now",
]
STIFF = [
    "The quarterly reconciliation of outstanding receivables remains incomplete and requires additional documentation.",
    "Regarding the aforementioned discrepancy, management considers further investigation entirely appropriate.",
    "Consequently, departments should coordinate their respective expenditure projections before Thursday.",
    "Please acknowledge the revised organisational procedures concerning international procurement.",
    "Additional correspondence concerning contractual obligations follows separately.",
]
GOOD = {"tone": "dry", "vocabularyLevel": "advanced", "messageLength": "long", "commonPhrases": ["as it were"]}


def test_the_measured_profile_tells_people_apart() -> None:
    ada, bob = measure_style("ada", CHATTY), measure_style("bob", STIFF)
    assert (ada.tone, ada.vocabulary_level, ada.message_length) == ("casual, enthusiastic", "simple", "short")
    assert (bob.tone, bob.vocabulary_level) == ("formal", "advanced")
    assert "no worries" in ada.common_phrases
    assert "on it" not in ada.common_phrases  # function words alone are no phrase
    assert ada.emoji == (":tada:",)
    assert bob.emoji == ()
    assert ada.made_by == "measured"


@pytest.mark.parametrize(("words", "expected"), [(11, "short"), (12, "medium"), (39, "medium"), (40, "long")])
def test_length_is_that_of_the_middle_message(words: int, expected: str) -> None:
    assert measure_style("ada", ["word " * words] * 5).message_length == expected


@pytest.mark.parametrize(("messages", "expected"), [(5, 0.25), (10, 0.5), (20, 1.0), (80, 1.0)])
def test_confidence(messages: int, expected: float) -> None:
    assert compute_sample_confidence(messages) == expected
    assert measure_style("ada", ["fine by me"] * messages).confidence == expected


def test_habits_are_shares() -> None:
    shown = measure_writing_habits(["Why?", "well...", "stop!", "it's done", "Good."])
    assert shown["asks"] == shown["trails off"] == shown["exclaims"] == shown["contracts"] == 0.2
    assert shown["begins in lower case"] == 0.6


def test_a_phrase_that_holds_another_stands_for_it() -> None:
    lists = [["ship", "it", "on", "friday"], ["ship", "it", "on", "friday"], ["ship", "it", "now"]]
    assert find_repeated_phrases(lists)[0] == "ship it on friday"
    assert not any(phrase in "ship it on friday" for phrase in find_repeated_phrases(lists)[1:])


def test_phrases_do_not_run_into_one_another() -> None:
    sentence = ["the", "expand", "step", "for", "survey", "ids", "is", "out"]
    assert find_repeated_phrases([sentence, sentence]) == ("expand step for survey", "survey ids is out", "the expand")


def test_few_messages_are_refused() -> None:
    with pytest.raises(SettingsError, match="4 messages here; a style needs at least 5"):
        profile_style("ada", ["a", "b", "c", "d", "  "])
    assert profile_style("ada", ["a", "b", "c", "d", "e"]).messages == 5


def test_addresses_are_nobodys_style() -> None:
    texts = [f"see https://long.example/of/very/complicated/addresses{n} ok" for n in range(6)]
    assert profile_style("ada", texts).vocabulary_level == "simple"
    assert not any("https" in phrase for phrase in profile_style("ada", texts).common_phrases)


def test_a_model_judges_and_is_shown_the_messages() -> None:
    llm = ScriptedLLM([json.dumps(GOOD)])
    found = profile_style("ada", ["odd {person} braces", *CHATTY], llm=llm)
    assert (found.tone, found.vocabulary_level, found.message_length) == ("dry", "advanced", "long")
    assert found.common_phrases == ("as it were",)
    assert found.made_by == "scripted"
    assert found.confidence == 0.35
    assert "- odd {person} braces\n- hey, on it! :tada:" in llm.requests[0].prompt


def test_an_answer_in_a_fence_is_read() -> None:
    assert parse_style_analysis(f"```json\n{json.dumps(GOOD)}\n```") == GOOD


@pytest.mark.parametrize("answer", ["They sound dry.", "", "{", "{'tone': 'dry'}"])
def test_an_analysis_that_is_not_json_is_refused(answer: str) -> None:
    with pytest.raises(DriverFailed, match="is not JSON"):
        parse_style_analysis(answer)


@pytest.mark.parametrize(
    "wrong",
    [
        {"tone": ""},
        {"tone": 3},
        {"vocabularyLevel": "huge"},
        {"messageLength": None},
        {"commonPhrases": "as it were"},
        {"commonPhrases": [1]},
    ],
)
def test_an_analysis_with_other_values_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(DriverFailed, match="has invalid values"):
        parse_style_analysis(json.dumps({**GOOD, **wrong}))
    with pytest.raises(DriverFailed, match="has invalid values"):
        parse_style_analysis("[]")
