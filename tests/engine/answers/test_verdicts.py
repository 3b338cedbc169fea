"""What a language model says: each sentence has a verdict, is marked, removed or an error; cut and declined replies."""

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from clew import Answer, Document, Engine, ScriptedLLM, UnsupportedAnswer
from clew.core.protocols import LLM
from clew.core.settings import AgentConfig, AnswerConfig, IngestionConfig, LLMConfig, RerankerConfig, Settings
from clew.drivers.llm.model import ModelLLM

LEASE = "The rent is £2,400 a month. The deposit is two months of rent. Pets are allowed in the garden only."
QUESTION = "what does the lease say about rent and pets?"


def make_settings(**answer: object) -> Settings:
    return Settings(
        ingestion=IngestionConfig(),
        reranker=RerankerConfig(name="overlap"),
        answer=AnswerConfig(**answer),  # type: ignore[arg-type]
    )


def open_lease(llm: LLM, **answer: object) -> Engine:
    engine = Engine.open(":memory:", embedder="hashed", llm=llm, settings=make_settings(**answer))
    engine.add_documents([Document("lease", LEASE, title="Lease", uri="lease.md")])
    return engine


def ask_about(page: str, reply: str, *, question: str = "what is said?", title: str = "", **answer: object) -> Answer:
    """The answer that is made of what a model says on one page."""
    settings = make_settings(**answer)
    with Engine.open(":memory:", embedder="hashed", llm=ScriptedLLM(reply), settings=settings) as engine:
        engine.add_documents([Document("page", page, title=title, uri="page.md")])
        return engine.ask(question)


@pytest.fixture
def lies() -> ScriptedLLM:
    return ScriptedLLM("The rent is £2,400 a month [1]. The rent is £1,900 a month [1].")


def test_what_is_not_supported_is_marked_with_what_contradicts_it(lies: ScriptedLLM) -> None:
    with open_lease(lies) as engine:
        answer = engine.ask(QUESTION)
    assert answer.text == "The rent is £2,400 a month. [1] The rent is £1,900 a month. [not supported]"
    first, second = answer.sentences
    assert (first.verdict, first.citations) == ("supported", answer.citations)
    assert (second.verdict, second.citations, second.shown) == ("unsupported", (), True)
    assert second.reason
    assert [each.quote for each in second.contradicted_by] == ["The rent is £2,400 a month."]
    assert answer.removed == ()


def test_it_may_be_removed_or_an_error(lies: ScriptedLLM) -> None:
    with open_lease(lies, unsupported="remove") as engine:
        answer = engine.ask(QUESTION)
    assert answer.text == "The rent is £2,400 a month. [1]"
    assert [each.text for each in answer.removed] == ["The rent is £1,900 a month [1]."]
    assert [each.shown for each in answer.sentences] == [True, False]
    with open_lease(lies, unsupported="raise") as engine, pytest.raises(UnsupportedAnswer, match="£1,900"):
        engine.ask(QUESTION)


def test_a_possible_paraphrase_is_unsure() -> None:
    with open_lease(ScriptedLLM("Pets may roam outdoors in the garden merely [1]."), verifier="rules") as engine:
        answer = engine.ask(QUESTION)
    assert [each.verdict for each in answer.sentences] == ["unsure"]
    assert answer.text.endswith("[not sure]")
    assert (answer.found, answer.reason, answer.citations) == (True, "", ())
    assert answer.confidence == 0.5


@pytest.mark.parametrize(
    "reply",
    [
        "NOT FOUND",
        "**NOT FOUND**",
        "Not found [1].",
        "I could not find this in the passages.",
        "NOT FOUND. The documents say nothing about parking.",
        "The passages do not mention parking.",
        "There is no information on this in the provided documents.",
    ],
)
def test_a_model_that_declines_in_its_own_words_has_no_answer(reply: str) -> None:
    with open_lease(ScriptedLLM(reply)) as engine:
        answer = engine.ask("where may I park?")
    assert (answer.found, answer.text) == (False, "No passage clearly answers this.")
    assert answer.reason == "the passages that were found do not answer the question"


def test_a_sentence_that_introduces_gets_no_citation() -> None:
    reply = (
        "Here is what the lease says: [1]\n\n- The rent is £2,400 a month [1].\nThe documents do not mention parking."
    )
    with open_lease(ScriptedLLM(reply)) as engine:
        answer = engine.ask(QUESTION)
    assert answer.text == (
        "Here is what the lease says:\n\n- The rent is £2,400 a month. [1]\nThe documents do not mention parking."
    )
    assert len(answer.citations) == 1


def test_an_agent_that_is_stopped_says_so() -> None:
    llm = ModelLLM.wrap(FunctionModel(lambda *_: ModelResponse([TextPart("x")])))
    config = Settings(
        agent=AgentConfig(max_cost=0.0),
        llm=LLMConfig(prices=(f"{llm.name} 5 5",)),
        ingestion=IngestionConfig(),
    )
    with Engine.open(":memory:", embedder="hashed", llm=llm, settings=config) as engine:
        answer = engine.agent("who pays?")
    assert answer.text.startswith("The agent was stopped before it could answer: ")
    assert "limit is 0.0000" in answer.reason


def test_an_agent_whose_tools_all_failed_says_that() -> None:
    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse([ToolCallPart("retrieve_full_document", {"title": "Atlantis"})])
        return ModelResponse([TextPart("NOT FOUND")])

    with open_lease(ModelLLM.wrap(FunctionModel(reply))) as engine:
        answer = engine.agent("what does Atlantis say?")
    assert answer.reason.startswith("every tool call of the model failed; the last: there is no document 'Atlantis'")


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("Rollback is decided by the on-call engineer [1].", "The on-call engineer decides on a rollback."),
        ("The on-call engineer decides (1).", "The on-call engineer decides on a rollback."),
        ("The offsite is from May 18 to May 21 [1].", "The offsite is 18–21 May."),
        ("It retries up to three attempts [1].", "It retries: `retry(on=Error, attempts=3)`."),
    ],
)
def test_what_is_exact_is_read_as_it_is_meant(said: str, text: str) -> None:
    assert [each.verdict for each in ask_about(text, said, verifier="rules").sentences] == ["supported"]
    assert [each.verdict for each in ask_about(text, said).sentences] in (["supported"], ["unsure"])


@pytest.mark.parametrize("verifier", ["rules", "builtin"])
def test_another_day_of_a_range_is_not_supported(verifier: str) -> None:
    said = "The offsite is from May 17 to May 21 [1]."
    answer = ask_about("The offsite is 18–21 May.", said, verifier=verifier)
    assert [each.verdict for each in answer.sentences] == ["unsupported"]


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (
            "Here's what the docs say: [1] The rent is £2,400 a month. Pets are allowed in the garden only [1].",
            "Here's what the docs say: The rent is £2,400 a month. [1] Pets are allowed in the garden only. [1]",
        ),
        (
            "According to the lease: [1]\n1. The rent is £2,400 a month.\n2. Pets are allowed in the garden only.",
            "According to the lease:\n1. The rent is £2,400 a month. [1]\n2. Pets are allowed in the garden only. [1]",
        ),
        ("Sure! Here is what I found: the rent is £2,400 a month [1].",) * 2,
    ],
)
def test_a_lead_in_has_no_citation_and_its_own_belongs_to_what_follows(said: str, text: str) -> None:
    with open_lease(ScriptedLLM(said)) as engine:
        answer = engine.ask(QUESTION)
    assert answer.text == text.replace("month [1].", "month. [1]")
    claims = [each for each in answer.sentences if each.reason != "it introduces what follows"]
    assert all(each.citations and each.verdict == "supported" for each in claims)
    assert len(answer.sentences) > len(claims)
    assert all(not each.citations for each in answer.sentences if each not in claims)


def test_sentences_keep_the_order_of_the_reply() -> None:
    reply = (
        "Here is what the lease says: [1] Pets are allowed in the garden only. The documents do not mention parking. "
        "The moon is green [1]. The rent is £2,400 a month [1]."
    )
    with open_lease(ScriptedLLM(reply)) as engine:
        answer = engine.ask(QUESTION)
    assert answer.text == (
        "Here is what the lease says: Pets are allowed in the garden only. [1] The documents do not mention parking. "
        "The moon is green. [not supported] The rent is £2,400 a month. [1]"
    )
    places = [answer.text.index(each.text) for each in answer.sentences]
    assert places == sorted(places)


def test_one_citation_for_a_paragraph_is_that_of_all_its_sentences() -> None:
    page = "If a rollback is needed, the on-call engineer decides on it within 15 minutes and pages Dana."
    true, false = "The on-call engineer makes that call.", "The moon is made of green cheese."
    for first, verdict in ((true, "supported"), (false, "unsupported")):
        reply = f"{first} Dana is paged within 15 minutes [1]."
        answer = ask_about(page, reply, question="who decides?", verifier="rules")
        assert [each.verdict for each in answer.sentences] == [verdict, "supported"]
        assert answer.removed == ()


@pytest.mark.parametrize("written", ["- **Deadline:** 15 minutes [1]", "**Deadline**: 15 minutes [1]"])
@pytest.mark.parametrize("verifier", ["builtin", "rules"])
def test_a_label_before_a_value_is_no_name_that_must_occur(written: str, verifier: str) -> None:
    text = "The engineer on call decides on a rollback. It must happen within 15 minutes, and Dana is paged."
    asked = {"question": "what is the deadline of a rollback?", "title": "Runbook", "verifier": verifier}
    (true,), (false,) = (ask_about(text, said, **asked).sentences for said in (written, written.replace("15", "20")))
    assert "Deadline" not in true.reason + false.reason
    assert true.support is not None
    assert false.support is not None
    assert true.support > false.support
    assert (true.verdict == "supported", false.verdict) == (verifier == "rules", "unsupported")


def test_what_is_unsure_names_the_nearest_sentence_and_nothing_that_contradicts_it() -> None:
    with open_lease(ScriptedLLM("Pets may roam outdoors in the garden merely [1]."), verifier="rules") as engine:
        (sentence,) = engine.ask(QUESTION).sentences
    assert (sentence.verdict, sentence.contradicted_by) == ("unsure", ())
    assert [each.quote for each in sentence.nearest] == ["Pets are allowed in the garden only."]


def test_what_shares_nothing_with_the_passage_is_not_supported() -> None:
    with open_lease(ScriptedLLM("The moon is made of green cheese [1].")) as engine:
        (sentence,) = engine.ask(QUESTION).sentences
    assert (sentence.verdict, sentence.nearest) == ("unsupported", ())
