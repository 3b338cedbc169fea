"""One question in several ways: by a model; and the words that feedback adds."""

import numpy as np
import pytest

from clew.core.errors import DriverFailed, SettingsError
from clew.core.trace import record
from clew.core.types import Message, Query
from clew.drivers.llm.scripted import ScriptedLLM
from clew.query.rewrite.keywords import select_expansion_terms
from clew.query.rewrite.rewrites import rewrite_with_variations
from clew.query.rewrite.transformer import expand_query_variations, parse_query_lines

PIGS = [
    "Guinea pigs eat grass. Hay keeps the teeth of guinea pigs short.",
    "What guinea pigs eat: hay, grass and pellets with vitamin C.",
    "Cars need petrol.",
]


def test_a_model_gives_three_variations_after_the_original() -> None:
    model = ScriptedLLM("1. Python language\n2. python snake\n3. Monty Python\n4. one too many")
    assert expand_query_variations("Tell me about Python", model) == [
        "Tell me about Python",
        "Python language",
        "python snake",
        "Monty Python",
    ]
    assert model.calls == 1
    assert "Tell me about Python" in model.requests[0].prompt
    assert "Write 3 other" in model.requests[0].prompt


def test_duplicates_go_and_n_is_kept() -> None:
    answer = "- tell me about  PYTHON!\n- python snake\n- Python Snake\n- Monty Python"
    assert expand_query_variations("Tell me about Python", ScriptedLLM(answer), n=2) == [
        "Tell me about Python",
        "python snake",
        "Monty Python",
    ]


def test_thinking_and_long_variations() -> None:
    long = "what should a beginner who has never written a program know about the language called Python"
    answer = f"<think>hm\nwell now</think>\n{long}"
    assert expand_query_variations("Python", ScriptedLLM(answer)) == ["Python", long]


@pytest.mark.parametrize(
    "model", [ScriptedLLM([DriverFailed("down")]), ScriptedLLM(""), ScriptedLLM("ok"), ScriptedLLM("Python")]
)
def test_failure_or_nothing_usable_is_the_original(model: ScriptedLLM) -> None:
    with record() as trace:
        assert expand_query_variations("Python?", model) == ["Python?"]
    step = trace.find("variations")
    assert step is not None
    assert step.out == 1


def test_a_failure_is_noted() -> None:
    with record() as trace:
        expand_query_variations("Python", ScriptedLLM([DriverFailed("down")]))
    step = trace.find("variations")
    assert step is not None
    assert step.notes == {"failed": "down"}


def test_n() -> None:
    model = ScriptedLLM(["OAuth login\nhow OAuth works"])
    assert expand_query_variations("what is OAuth?", model, n=0) == ["what is OAuth?"]
    assert len(expand_query_variations("what is OAuth?", model, n=1)) == 2
    assert expand_query_variations("what is OAuth?") == ["what is OAuth?"]
    with pytest.raises(SettingsError, match="n is -1"):
        expand_query_variations("q", n=-1)


def test_feedback_adds_its_telling_words() -> None:
    assert select_expansion_terms("what do guinea pigs eat", PIGS) == ["grass", "Hay"]
    assert select_expansion_terms("what do guinea pigs eat", PIGS[:1]) == []  # two must agree
    assert select_expansion_terms("trains", PIGS) == []  # no text is believed
    assert select_expansion_terms("", []) == []


def test_the_relevance_model_is_the_sum_of_belief_times_frequency() -> None:
    texts = ["fox fox owl hen", "owl hen fox fox fox fox", "hen hen owl"]  # the query's term is fox: beliefs 1, 1/2, 0
    # owl: 1/4 + 1/12; hen: the same, and then by name
    assert select_expansion_terms("fox", texts) == ["hen", "owl"]
    assert select_expansion_terms("fox", ["fox owl hen owl", "fox owl hen owl"], max_terms=1) == ["owl"]


def test_variations_is_a_rewrite() -> None:
    query = Query("Python", k=7, history=(Message("hello"),), vector=np.ones(2, np.float32))
    first, *others = rewrite_with_variations(ScriptedLLM("python snake\nMonty Python"), n=2)(query)
    assert first is query
    assert [each.text for each in others] == ["python snake", "Monty Python"]
    assert all(each.vector is None and each.k == 7 and each.history == query.history for each in others)


def test_a_json_list_is_read_as_queries() -> None:
    assert parse_query_lines('```json\n["key rotation", "who rotates keys"]\n```') == [
        "key rotation",
        "who rotates keys",
    ]
    assert parse_query_lines('{"queries": ["key rotation", "old keys"]}') == ["key rotation", "old keys"]
