"""One question in several ways: by a model, and by rule."""

import numpy as np
import pytest

from clew.core.errors import DriverFailed, SettingsError
from clew.core.trace import record
from clew.core.types import Chunk, DocumentRecord, Hit, Message, Query
from clew.drivers.llm.scripted import ScriptedLLM
from clew.query.rewrite.keywords import select_expansion_terms
from clew.query.rewrite.parse_queries import normalise_query, parse_query_lines
from clew.query.rewrite.rewrites import rewrite_with_variations
from clew.query.rewrite.variations import expand_query_variations, split_question

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
    assert expand_query_variations("what is OAuth and how do I use it?", n=0) == ["what is OAuth and how do I use it?"]
    assert len(expand_query_variations("what is OAuth and how do I use it?", n=1)) == 2
    with pytest.raises(SettingsError, match="n is -1"):
        expand_query_variations("q", n=-1)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("what is OAuth and how do I enable SSO there?", ["what is OAuth", "how do I enable SSO there"]),
        ("what is OAuth and how do I configure it?", ["what is OAuth", "OAuth how do I configure it"]),
        ("How do I pay, and can I get a refund?", ["How do I pay", "can I get a refund"]),
        ("Who rotates the keys? Where is the vault kept?", ["Who rotates the keys", "Where is the vault kept"]),
        ("Hi there. What is the refund policy?", ["What is the refund policy"]),
        ("PostgreSQL vs MySQL", ["PostgreSQL", "MySQL"]),
        ("PostgreSQL versus MySQL for analytics", ["PostgreSQL analytics", "MySQL analytics"]),
        ("Explain the difference between REST and GraphQL", ["REST", "GraphQL"]),
        ("Compare Redis with Memcached", ["Redis", "Memcached"]),
        ("Which is faster, SQLite or PostgreSQL?", ["SQLite", "PostgreSQL"]),
        (
            "How do I install docker, podman and kubernetes on arm?",
            ["install docker arm", "install podman arm", "install kubernetes arm"],
        ),
        ("causes, symptoms, and treatments of flu", ["causes flu", "symptoms flu", "treatments flu"]),
    ],
)
def test_a_compound_question_is_taken_apart(query: str, expected: list[str]) -> None:
    assert split_question(query) == expected


def test_only_questions_that_stand_alone_are_variations() -> None:
    assert expand_query_variations("Who rotates the keys? Where is the vault kept?")[1:3] == [
        "Who rotates the keys",
        "Where is the vault kept",
    ]
    assert expand_query_variations("Who wrote Hamlet? What is the capital of Peru?")[1:3] == [
        "Who wrote Hamlet",
        "What is the capital of Peru",
    ]
    assert expand_query_variations("Which is faster, SQLite or PostgreSQL?")[1:] == ["faster SQLite PostgreSQL"]
    shared = "where was the cotton gin invented and where is it used today"
    assert expand_query_variations(shared)[1:] == ["cotton gin invented used today"]


@pytest.mark.parametrize(
    "questions",
    [
        ("Qui a écrit la pièce Hamlet", "Quelle est la capitale de la Bolivie"),
        ("Wer schrieb Hamlet", "Was ist die Hauptstadt von Peru"),
        ("Wer hat den Faust geschrieben", "Wo liegt der Hafen von Lima"),
        ("¿Quién escribió el Quijote", "¿Cuál es la capital de el Salvador"),
        ("Vem skrev boken om Hamlet", "Vilken är den största staden i Peru"),
        ("Кто написал Гамлета", "Какая столица у Перу"),
    ],
)
def test_questions_of_other_languages_share_no_function_words(questions: tuple[str, str]) -> None:
    found = expand_query_variations(" ".join(f"{each}?" for each in questions))
    assert found[1:3] == [*questions]


def test_a_foreign_character_leaves_the_variations() -> None:
    query = "Who wrote the poem 静夜思? What is the capital of Peru?"
    assert expand_query_variations(query)[1:3] == ["Who wrote the poem 静夜思", "What is the capital of Peru"]


def test_nothing_is_varied_in_a_script_without_spaces_or_about_code() -> None:
    assert expand_query_variations("谁被视为第一位现代地质学家？", feedback=["地球理论, 地球理论, 他们同意"] * 2) == [
        "谁被视为第一位现代地质学家？"
    ]
    code = "def is_iterable(value):\n    return hasattr(value, '__iter__') and not isinstance(value, (str, bytes))"
    query = "how do I check that a value is iterable"
    assert expand_query_variations(query, feedback=[code, code]) == [query]
    assert len(expand_query_variations(query, feedback=["An iterable value has a method that returns its items."])) > 1


@pytest.mark.parametrize(
    "query",
    [
        "terms and conditions",
        "What happened between 1914 and 1918",
        "Who was born in 1920 and was president",
        "However, in the end, who won",
        "refund policy",
    ],
)
def test_a_simple_question_is_one_part(query: str) -> None:
    assert split_question(query) == [query]


def test_content_words_alone_come_last() -> None:
    assert expand_query_variations("Can you tell me about the refund policy?") == [
        "Can you tell me about the refund policy?",
        "refund policy",
    ]
    assert expand_query_variations("flights that do not go through Paris?")[-1] == "flights not through Paris"
    assert expand_query_variations("refund policy") == ["refund policy"]
    assert expand_query_variations("???") == ["???"]
    assert expand_query_variations("") == [""]


def test_feedback_adds_its_telling_words() -> None:
    assert select_expansion_terms("what do guinea pigs eat", PIGS) == ["grass", "Hay"]
    assert expand_query_variations("what do guinea pigs eat", feedback=PIGS) == [
        "what do guinea pigs eat",
        "what do guinea pigs eat grass Hay",
        "guinea pigs eat",
    ]
    assert select_expansion_terms("what do guinea pigs eat", PIGS[:1]) == []  # two must agree
    assert select_expansion_terms("trains", PIGS) == []  # no text is believed
    assert select_expansion_terms("", []) == []


def test_the_relevance_model_is_the_sum_of_belief_times_frequency() -> None:
    texts = ["fox fox owl hen", "owl hen fox fox fox fox", "hen hen owl"]  # the query's term is fox: beliefs 1, 1/2, 0
    # owl: 1/4 + 1/12; hen: the same, and then by name
    assert select_expansion_terms("fox", texts) == ["hen", "owl"]
    assert select_expansion_terms("fox", ["fox owl hen owl", "fox owl hen owl"], max_terms=1) == ["owl"]


def test_many_parts_leave_room_for_the_feedback() -> None:
    query = "Which fruit prevents scurvy? Who sells fresh hay? Where do guinea pigs sleep at night?"
    found = expand_query_variations(query, feedback=[f"{text} scurvy" for text in PIGS])
    assert len(found) == 4
    assert found[3].startswith(f"{query} ")


@pytest.mark.parametrize("feedback", [[], PIGS])
def test_all_variations_differ(feedback: list[str]) -> None:
    for query in ("eat, hay and grass", "pigs vs PIGS", "hay? hay! hay", "what is hay and what is hay"):
        found = expand_query_variations(query, n=9, feedback=feedback)
        assert found[0] == query
        assert len({normalise_query(each) for each in found}) == len(found)


def test_variations_is_a_rewrite() -> None:
    query = Query("Python", k=7, history=(Message("hello"),), vector=np.ones(2, np.float32))
    first, *others = rewrite_with_variations(ScriptedLLM("python snake\nMonty Python"), n=2)(query)
    assert first is query
    assert [each.text for each in others] == ["python snake", "Monty Python"]
    assert all(each.vector is None and each.k == 7 and each.history == query.history for each in others)


def test_variations_search_for_feedback_only_without_a_model() -> None:
    asked: list[Query] = []

    def search(query: Query) -> list[Hit]:
        asked.append(query)
        return [Hit(Chunk(text, "d", 0, 1, text, 0, len(text)), DocumentRecord("d"), 1.0) for text in PIGS]

    query = Query("what do guinea pigs eat", k=1)
    assert [each.text for each in rewrite_with_variations(feedback=search)(query)][
        1
    ] == "what do guinea pigs eat grass Hay"
    assert [(each.text, each.k) for each in asked] == [(query.text, 10)]
    rewrite_with_variations(ScriptedLLM("other words"), feedback=search)(query)
    rewrite_with_variations(feedback=search, n=0)(query)
    assert len(asked) == 1


def test_a_json_list_is_read_as_queries() -> None:
    assert parse_query_lines('```json\n["key rotation", "who rotates keys"]\n```') == [
        "key rotation",
        "who rotates keys",
    ]
    assert parse_query_lines('{"queries": ["key rotation", "old keys"]}') == ["key rotation", "old keys"]


def test_a_long_gap_is_passed_over_at_once() -> None:  # in time that grows with its square it would not end
    gap = " \t" * 100_000
    assert split_question(f"who rotates the keys{gap}and how do I ask for one?") == [
        "who rotates the keys",
        "how do I ask for one",
    ]
