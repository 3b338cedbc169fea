"""ask through the command line: with a model and without, in a conversation, as a person, by an agent."""

import json

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from clew import Engine, Message
from clew.drivers.llm.model import ModelLLM
from clew.drivers.llm.scripted import ScriptedLLM
from tests.surface.cli.conftest import Clew, UseLLM

QUESTION = "who rotates the signing keys?"
SENTENCE = "Signing keys are rotated every ninety days by Dan."

pytestmark = pytest.mark.usefixtures("no_weights")


# -- without a model


@pytest.mark.slow
def test_the_best_sentences_with_their_sources(clew: Clew) -> None:
    done = clew("ask", QUESTION)
    assert done.code == 0, done.err
    answer, _, sources = done.out.partition("\n\n")
    assert answer.splitlines()[0] == f"{SENTENCE} [1]"
    assert sources.splitlines()[0] == "[1] Vault > Keys > Rotation  pages/vault.md  line 14"
    assert done.err == ""
    assert "\x1b" not in done.out


def test_as_json_and_its_citations_check(clew: Clew) -> None:
    done = clew("ask", QUESTION, "--json")
    shape = done.json
    assert (shape["question"], shape["found"], shape["reason"]) == (QUESTION, True, "")
    assert shape["citations"][0]["number"] == 1
    part = shape["parts"][0]
    assert part["passage"][slice(*part["highlight"])] == SENTENCE
    assert part["citation"] == shape["citations"][0]
    assert part["citation"]["quote"] == part["passage"]
    assert shape["usage"]["calls"] == 0
    file = clew.folder / "answer.json"
    file.write_text(done.out, encoding="utf-8")
    assert clew("check", str(file)).out == "1 of 1 answers have valid citations\n"


@pytest.mark.slow
def test_nothing_found_is_done_and_says_why(clew: Clew) -> None:
    done = clew("ask", "zebra xylophone?")
    assert (done.code, done.out) == (0, "No passage clearly answers this.\n")
    assert done.err.startswith("No answer found: nothing relevant was found")
    filtered = clew("ask", QUESTION, "--kind", "unheard-of", "--json")
    assert (filtered.code, filtered.json["found"]) == (0, False)
    assert filtered.json["reason"]


@pytest.mark.slow
def test_the_closest_passage_is_not_called_absent(clew: Clew) -> None:
    done = clew("ask", QUESTION, CLEW_ANSWER__MIN_CONFIDENCE="1.0")
    head, passage, *_ = done.out.split("\n\n")
    assert (head, passage) == ("No passage clearly answers this. The closest:", f"{SENTENCE} [1]")
    assert done.err == ""
    named = clew("ask", "who rotates the signing keys in Brandow?", CLEW_ANSWER__MIN_CONFIDENCE="0.35")
    assert SENTENCE in named.out
    assert named.err == "No clear answer: Brandow is not mentioned\n"


def test_an_empty_collection_is_said_to_be(fresh: Clew) -> None:
    fresh("add", "pages/lunch.md")
    fresh("drop", "pages/lunch.md")
    assert fresh("ask", QUESTION).err == "No answer found: the collection is empty\n"


@pytest.mark.slow
def test_options_reach_the_search(clew: Clew) -> None:
    shape = clew("ask", QUESTION, "--strategy", "lexical", "--json").json
    assert "lexical" in str(shape["trace"])
    assert clew("ask", QUESTION, "--document", "pages/lunch.md", "--json").json["found"] is False
    only = clew("ask", QUESTION, "--document", "vault.md", "--json").json["citations"]  # the only file of that name
    assert {each["uri"] for each in only} == {"pages/vault.md"}
    assert clew("ask", QUESTION, "--tokens", "0").code == 2
    assert clew("ask", QUESTION, "-k", "0").code == 2
    assert clew("ask", " ").code == 2


# -- with one


def test_sentences_come_as_they_are_checked(clew: Clew, use_llm: UseLLM) -> None:
    llm = ScriptedLLM(
        "Signing keys are rotated by Dan [1]. The moon is green [1]. Dan rotates keys every ninety days [9]."
    )
    use_llm(llm)
    done = clew("ask", QUESTION, "--document", "pages/vault.md")
    assert done.code == 0, done.err
    assert done.out == (
        "Signing keys are rotated by Dan. [1] The moon is green. [not supported] "
        "Dan rotates keys every ninety days. [1]\n\n[1] Vault > Keys > Rotation  pages/vault.md  line 14\n"
    )
    assert done.err == (
        "citation corrected: Dan rotates keys every ninety days [9]. (it cites [9], which was not shown)\n"
        "not supported: The moon is green. (it is not supported by the cited passage)\n"
    )
    removed = clew("ask", QUESTION, "--document", "pages/vault.md", CLEW_ANSWER__UNSUPPORTED="remove")
    assert removed.out.startswith("Signing keys are rotated by Dan. [1] Dan rotates keys every ninety days. [1]\n")
    assert "removed: The moon is green [1]. (it is not supported by the cited passage)\n" in removed.err
    raised = clew("ask", QUESTION, "--document", "pages/vault.md", CLEW_ANSWER__UNSUPPORTED="raise")
    assert raised.code == 10
    assert "the model wrote “The moon is green.”" in raised.err
    assert clew("ask", QUESTION, CLEW_ANSWER__UNSUPPORTED="hide").code == 2
    sentences = clew("ask", QUESTION, "--document", "pages/vault.md", "--json").json["sentences"]
    assert [each["verdict"] for each in sentences] == ["supported", "unsupported", "supported"]
    assert clew("ask", QUESTION, "--json").json["usage"]["calls"] == 1


def test_what_could_not_be_read_is_marked_as_not_checked(fresh: Clew, use_llm: UseLLM) -> None:
    page = fresh.folder / "miete.md"
    page.write_text("Die Miete beträgt 900 Euro im Monat und ist bis zum dritten Werktag zu zahlen.", encoding="utf-8")
    assert fresh("add", "miete.md").code == 0
    use_llm(ScriptedLLM("Die Miete ist im Monat 900 Euro [1]. Die Miete ist im Monat 750 Euro [1]."))
    done = fresh("ask", "Wie hoch ist die Miete im Monat?")
    assert done.out.startswith(
        "Die Miete ist im Monat 900 Euro. [not sure] [not checked] Die Miete ist im Monat 750 Euro. [not supported]\n"
    )
    assert "not sure: Die Miete ist im Monat 900 Euro. (only its quotes, numbers, names and words" in done.err
    shown = fresh("ask", "Wie hoch ist die Miete im Monat?", "--json").json["sentences"]
    assert [each["is_read"] for each in shown] == [False, True]


def test_the_length_of_an_answer_is_set(clew: Clew, use_llm: UseLLM) -> None:
    llm = ScriptedLLM("NOT FOUND")
    use_llm(llm)
    clew("ask", QUESTION, CLEW_ANSWER__MAX_TOKENS="55")
    clew("ask", QUESTION)
    assert [ask.max_tokens for ask in llm.requests] == [55, 600]


def test_as_a_person(fresh: Clew, use_llm: UseLLM, caplog: pytest.LogCaptureFixture) -> None:
    fresh("add", "pages")
    llm = ScriptedLLM(lambda prompt: "NOT FOUND" if "Question:" in prompt else "{}")
    with Engine.open(fresh.folder / ".clew", embedder="hashed") as engine:
        engine.add_messages(
            Message(f"ahoy mates, soup number {n} is ready!", author="Ada", channel="ops", id=f"m{n}") for n in range(8)
        )
    refused = fresh("ask", QUESTION, "--as", "Ada")
    assert refused.code == 2
    assert "needs a language model" in refused.err
    style = {"tone": "casual", "vocabularyLevel": "simple", "messageLength": "short", "commonPhrases": ["ahoy mates"]}
    llm = ScriptedLLM(lambda prompt: f"{SENTENCE} [1]" if "Question:" in prompt else json.dumps(style))
    use_llm(llm)
    done = fresh("ask", QUESTION, "--as", "Ada")
    assert done.code == 0, done.err
    prompt = llm.requests[-1].prompt
    assert "Ada" in prompt
    assert "Tone" in prompt
    assert "ahoy mates" in prompt
    assert SENTENCE in prompt
    assert fresh("ask", QUESTION, "--as", "Nobody").code == 3
    assert fresh("ask", QUESTION, "--as", "Ada", "--agent").code == 2
    use_llm(ScriptedLLM(lambda prompt: f"{SENTENCE} [1]" if "Question:" in prompt else "Casual, I would say."))
    measured = fresh("ask", QUESTION, "--as", "Ada")
    assert (measured.code, measured.out.splitlines()[0]) == (0, f"{SENTENCE} [1]")
    assert "analysis of Ada's style cannot be used; the style is measured instead" in caplog.text
    assert fresh("profile", "Ada").code == 6  # where the style is what was asked for


# -- in a conversation


@pytest.mark.slow
def test_a_session_goes_on_in_another_process(fresh: Clew, use_llm: UseLLM) -> None:
    fresh("add", "pages")
    first = fresh("ask", "when is soup served?", "--session", "work", "-k", "1", "--json").json
    second = fresh("ask", QUESTION, "--session", "work", "--document", "pages/vault.md", "--json").json
    assert [each["number"] for each in first["citations"][:1]] == [1]
    assert {each["number"] for each in second["citations"]} == {2}
    assert second["text"].endswith("[2]")
    alone = fresh("ask", QUESTION, "--document", "pages/vault.md", "--json").json
    assert alone["citations"][0]["number"] == 1
    llm = ScriptedLLM("NOT FOUND")
    use_llm(llm)
    fresh("ask", "and why?", "--session", "work")
    assert "user: when is soup served?" in llm.requests[-1].prompt
    assert "assistant: " in llm.requests[-1].prompt
    assert fresh("ask", QUESTION, "--session", "../up").code == 2


# -- by an agent


@pytest.mark.slow
def test_an_agent_answers_and_shows_its_steps(clew: Clew, use_llm: UseLLM) -> None:
    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if not any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
            return ModelResponse(
                [
                    ToolCallPart("search_knowledge_base", {"query": "signing keys", "limit": 1}),
                    ToolCallPart("retrieve_full_document", {"title": "nowhere"}),
                ]
            )
        return ModelResponse([TextPart(f"{SENTENCE} [1]")])

    llm = ModelLLM.wrap(FunctionModel(model))
    use_llm(llm)
    done = clew("ask", QUESTION, "--agent")
    assert done.code == 0, done.err
    assert done.out == f"{SENTENCE} [1]\n\n[1] Vault > Keys > Rotation  pages/vault.md  line 14\n"
    assert "search_knowledge_base(query='signing keys', limit=1): 1 found" in done.err
    assert "retrieve_full_document(title='nowhere'): error: there is no document 'nowhere'" in done.err
    shape = clew("ask", QUESTION, "--agent", "--json", "--strategy", "lexical").json
    assert shape["usage"]["calls"] == 2
    assert "'strategy': 'lexical'" in str(shape["trace"])
    stopped = clew("ask", QUESTION, "--agent", CLEW_AGENT__MAX_TOKENS="10")
    assert stopped.out.startswith("The agent was stopped before it could answer: stopped at 0 tokens")
    assert "agent.max_tokens" in stopped.err
    paid = {"CLEW_LLM__PRICES": f"{llm.name} 1000 0", "CLEW_AGENT__MAX_COST": "0.001"}
    assert "the limit is 0.0010" in clew("ask", QUESTION, "--agent", **paid).err
    assert "all 1 calls are used up" in clew("ask", QUESTION, "--agent", CLEW_AGENT__MAX_CALLS="1").err


def test_an_agent_needs_a_model_and_chooses_for_itself(clew: Clew) -> None:
    done = clew("ask", QUESTION, "--agent")
    assert (done.code, done.out) == (2, "")
    assert "needs a language model" in done.err
    assert "-k" in clew("ask", QUESTION, "--agent", "-k", "3").err


def test_a_terminal_shows_that_it_is_searching_until_the_answer_comes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from clew.core.trace import Trace
    from clew.surface.cli.commands.chat import SentencePrinter

    printer = SentencePrinter()
    with printer.searching():
        pass
    assert capsys.readouterr().err == ""  # no terminal
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with printer.searching(quiet=True):
        pass
    assert capsys.readouterr().err == ""
    with printer.searching():
        assert capsys.readouterr().err == "Searching …"
        printer.print_step(Trace("search", 1.0, 3))
        shown = capsys.readouterr().err
        assert shown.startswith("\r\x1b[K")
        assert shown.endswith("Searching …")
        printer.print_sentence("Dan rotates them. [1]")
        assert capsys.readouterr() == ("Dan rotates them. [1]", "\r\x1b[K")
    assert capsys.readouterr().err == ""
