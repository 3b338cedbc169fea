"""The front door: what `clew` exports, what `Engine.open` takes, and how wrong arguments are refused."""

import pydoc
import subprocess
import sys
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event, Thread
from time import sleep
from typing import Any

import numpy as np
import pytest

import clew
import clew.evaluation
from clew import (
    Document,
    Drivers,
    Engine,
    Extensions,
    Filter,
    Matrix,
    MergedChunk,
    RenderInput,
    SettingsError,
    Strategy,
    hybrid,
    pipe,
)

TEXT = "# Keys\n\nDan rotates the vault key on Monday.\n\n# Lunch\n\nSoup is served at noon.\n"
PAGE = Document("keys", TEXT, title="Vault")


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine.open(":memory:", embedder="hashed") as opened:
        opened.add_documents([PAGE])
        yield opened


def test_every_public_name_is_listed_and_there() -> None:
    assert {"Engine", "Filter", "Answer", "Embedder", "LLM", "SearchableStore", "WhyNot", "ContextWindow"} <= set(
        dir(clew)
    )
    for name in dir(clew):
        assert getattr(clew, name) is not None
    with pytest.raises(AttributeError, match="Enigne"):
        clew.Enigne  # noqa: B018
    with pytest.raises(AttributeError, match=r"'tune'; it is in clew\.evaluation: from clew\.evaluation im"):
        clew.tune  # noqa: B018


@pytest.mark.parametrize("package", [clew, clew.evaluation])
def test_type_checkers_are_told_the_same_names(package: types.ModuleType) -> None:
    source = Path(str(package.__file__)).read_text("utf-8").partition("_HOMES = ")[0]
    told = {line.rpartition(" as ")[2].rstrip(",") for line in source.splitlines() if " as " in line}
    assert told == set(dir(package))


def test_the_functions_of_evaluation_are_imported_on_first_use() -> None:
    code = (
        "import sys, clew.evaluation as e; assert 'clew.engine' not in sys.modules; from clew.evaluation import tune\n"
        "import clew.evaluation.evaluating; assert e.tune is tune and callable(e.evaluate) and callable(e.tune)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    for name in dir(clew.evaluation):
        assert getattr(clew.evaluation, name) is not None


def verbs() -> dict[str, Callable[..., Any]]:
    members = {name: getattr(Engine, name) for name, own in vars(Engine).items() if not isinstance(own, staticmethod)}
    return {name: each for name, each in members.items() if isinstance(each, types.FunctionType) and name[0] != "_"}


@pytest.mark.parametrize("name", verbs())
def test_every_type_that_a_verb_takes_or_returns_is_public(name: str) -> None:
    verb = verbs()[name]
    named = {"Engine": Engine, "Manifest": clew.Manifest}
    found = list(typing.get_type_hints(verb, {**verb.__globals__, **named}).values())
    while found:
        hint = found.pop()
        found += typing.get_args(hint)
        if isinstance(hint, type) and hint.__module__.startswith("clew."):
            assert getattr(clew, hint.__name__, None) is hint, f"Engine.{name} has {hint} in its signature"


def test_a_search_imports_nothing_that_reads_files_or_answers() -> None:
    code = (
        "import sys; from clew import Engine\n"
        "with Engine.open(':memory:', embedder='hashed') as engine: assert engine.search('keys') == []\n"
        "needless = ('clew.index', 'clew.query.answer', 'clew.query.rewrite.r', 'fasttext')\n"
        "sys.exit(any(name.startswith(needless) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_help_is_short() -> None:
    text = pydoc.plain(pydoc.render_doc(Engine.open))
    assert len(text) < 2000
    assert "Settings(" not in text


def test_a_hit_knows_its_document(engine: Engine) -> None:
    hit = engine.search("who rotates the vault key?")[0]
    assert (hit.document.title, hit.document.kind, hit.document.id) == ("Vault", "page", "keys")
    assert hit.document == next(iter(engine.list(Filter(documents={"keys"}))))


@pytest.mark.parametrize("k", ["5", 0, -1, 2.5, True, None.__class__])
def test_a_k_that_is_no_number_is_refused(engine: Engine, k: Any) -> None:
    with pytest.raises(SettingsError, match=r"^k is .*; it must be a whole number of at least 1$"):
        engine.search("keys", k=k)


def test_a_where_that_is_no_filter_is_refused(engine: Engine) -> None:
    wrong: Any = {"kinds": {"page"}}
    for verb in (engine.search, engine.context, engine.ask, engine.explain):
        with pytest.raises(SettingsError, match="where has the type dict; give a Filter"):
            verb("keys", where=wrong)
    with pytest.raises(SettingsError, match="where has the type dict"):
        engine.list(wrong)
    with pytest.raises(SettingsError, match="where has the type dict"):
        engine.why_not("keys", "keys", where=wrong)


def test_settings_of_another_type_are_refused(engine: Engine) -> None:
    wrong: Any = clew.SearchConfig(k=3)
    for verb in (engine.search, engine.context, engine.ask, engine.explain):
        with pytest.raises(SettingsError, match=r"settings has the type SearchConfig; give a clew\.Settings"):
            verb("keys", settings=wrong)
    with pytest.raises(SettingsError, match="settings has the type dict"):
        Engine.open(":memory:", embedder="hashed", settings={})  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"Engine\.open\(path\)"):
        Engine("team.clew")  # type: ignore[arg-type]


def test_the_settings_of_a_call_can_be_derived_from_the_engines(engine: Engine) -> None:
    from dataclasses import replace

    given = replace(engine.settings, search=replace(engine.settings.search, k=1))
    assert len(engine.search("vault soup", settings=given)) == 1


def test_arguments_of_the_wrong_kind_are_refused(engine: Engine) -> None:
    with pytest.raises(SettingsError, match="queries is one text; give a list of them"):
        engine.search_many("abc")
    with pytest.raises(SettingsError, match="documents is one Document; give a list of them"):
        engine.add_documents(PAGE)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"a source has the type list; give each path as an argument of its own"):
        engine.add(["a", "b"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Filter\(since=…\) takes a datetime, not '2004-01-01'"):
        Filter(since="2004-01-01")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Filter\(meta=…\) takes a mapping"):
        Filter(meta="a=b")  # type: ignore[arg-type]
    assert engine.read(Path("keys")).id == "keys"


class Letters:
    """The smallest embedder: counts of letters."""

    name, dim, max_tokens, min_similarity = "letters", 26, 512, 0.0

    def embed(self, texts: Sequence[str], *, role: str) -> Matrix:
        rows = [[text.lower().count(chr(97 + place)) + 1e-3 for place in range(26)] for text in texts]
        matrix = np.array(rows, np.float32).reshape(len(texts), 26)
        return np.asarray(matrix / np.linalg.norm(matrix, axis=1, keepdims=True), np.float32)

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]


def test_an_embedder_may_be_an_object() -> None:
    with Engine.open(":memory:", embedder=Letters()) as engine:
        engine.add_documents([PAGE])
        assert engine.status().embedder == "letters"
        assert engine.search("vault", strategy="semantic")


class Half:
    """An embedder without `count` and `max_tokens`."""

    name, dim, min_similarity = "half", 4, 0.0

    def embed(self, texts: Sequence[str], *, role: str) -> Matrix:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"embedder": Half()}, r"Half cannot be the embedder: it lacks max_tokens, count\(\)"),
        ({"embedder": Letters}, "the embedder is the class Letters; give an instance"),
        ({"llm": Half()}, "Half cannot be the language model: it lacks"),
        ({"extensions": {"reranker": Half()}}, r"extensions has the type dict; give clew.Extensions"),
    ],
)
def test_a_half_built_model_is_refused_when_the_engine_is_opened(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Engine.open(":memory:", **{"embedder": "hashed", **given})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"reranker": Half()}, r"Half cannot be the reranker: it lacks score\(\), calibrate\(\)"),
        ({"chunker": 5}, "the chunker has the type int; give a function"),
        ({"enrichers": [5]}, "the enricher has the type int"),
        ({"readers": {".org": 5}}, "the reader '.org' has the type int"),
        ({"readers": {"org": print}}, "name the file suffix with its dot"),
        ({"renderers": {"mine": 5}}, "the renderer 'mine' has the type int"),
        ({"strategies": {"mine": 5}}, "the strategy 'mine' has the type int"),
        ({"strategies": [hybrid]}, "strategies has the type list; give a dictionary: factory"),
    ],
)
def test_a_half_built_part_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Extensions(**given)


class ShortestFirst:
    """A reranker that prefers short texts."""

    name = "shortest"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return [-float(len(text)) for text in texts]

    def calibrate(self, score: float) -> float:
        return 0.5


def test_a_reranker_may_be_an_object() -> None:
    with Engine.open(":memory:", embedder="hashed", extensions=Extensions(reranker=ShortestFirst())) as engine:
        engine.add_documents([PAGE, Document("a", "vault vault vault key key, a long one"), Document("b", "vault key")])
        hits = engine.search("vault key", strategy="rerank")
        assert [hit.scores["rerank"] for hit in hits] == sorted((hit.scores["rerank"] for hit in hits), reverse=True)
        assert hits[0].chunk.doc_id == "b"


class Miscounting(ShortestFirst):
    """A reranker that returns one score too few."""

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return super().score(query, texts)[1:]


class NotANumber(ShortestFirst):
    """A reranker that returns NaN."""

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return [float("nan") for _ in texts]


@pytest.mark.parametrize(
    ("reranker", "message"),
    [
        (Miscounting(), "reranker shortest returned 1 scores for 2 texts"),
        (NotANumber(), "reranker shortest returned nan"),
    ],
)
def test_the_scores_of_a_reranker_are_checked(reranker: ShortestFirst, message: str) -> None:
    with Engine.open(":memory:", embedder="hashed", extensions=Extensions(reranker=reranker)) as engine:
        engine.add_documents([Document("a", "vault key"), Document("b", "vault key again")])
        with pytest.raises(clew.DriverFailed, match=message):
            engine.search("vault key", strategy="rerank")


def test_a_reranker_may_be_named() -> None:
    with Engine.open(":memory:", embedder="hashed", extensions=Extensions(reranker="overlap")) as engine:
        engine.add_documents([PAGE])
        assert "rerank" in engine.search("vault key", strategy="rerank")[0].scores


def render_titles(passages: Sequence[MergedChunk], given: RenderInput) -> str:
    return " | ".join(passage.text.split()[0] for passage in passages)


def test_a_renderer_may_be_given() -> None:
    with Engine.open(
        ":memory:", embedder="hashed", extensions=Extensions(renderers={"titles": render_titles})
    ) as engine:
        engine.add_documents([PAGE])
        assert engine.context("who rotates the vault key?", render="titles", k=1).text == "#"


def test_a_strategy_may_be_given_and_is_known_to_every_verb(engine: Engine) -> None:
    def reversed_hybrid(drivers: Drivers) -> Strategy:
        return pipe(hybrid(drivers), lambda _, hits: hits[::-1])

    with Engine.open(
        ":memory:", embedder="hashed", extensions=Extensions(strategies={"reversed": reversed_hybrid})
    ) as own:
        own.add_documents([PAGE])
        plain = [hit.chunk.id for hit in own.search("vault soup", k=2)]
        assert [hit.chunk.id for hit in own.search("vault soup", k=2, strategy="reversed")] == plain[::-1]
        assert own.explain("vault soup", strategy="reversed").strategy == "reversed"


def made_of(step: Any) -> Callable[[Drivers], Strategy]:
    return lambda drivers: pipe(hybrid(drivers), step)


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (lambda _: [], "the factory of strategy 'mine' returned a list; it must return a function"),
        (lambda _: lambda _: None, "strategy 'mine' returned NoneType; it must return a list of hits"),
        (made_of(lambda _, __: None), "step 1 returned NoneType; it must return a list of hits"),
        (made_of("hybrid"), r"pipe: 'hybrid' is not a function"),
    ],
)
def test_a_strategy_that_is_none_is_named(factory: Any, message: str) -> None:
    with Engine.open(":memory:", embedder="hashed", extensions=Extensions(strategies={"mine": factory})) as own:
        own.add_documents([PAGE])
        with pytest.raises(SettingsError, match=message):
            own.search("vault", strategy="mine")


def test_ask_without_a_model_searches_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    search = engine.opened.store.search_terms

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        return search(*args, **kwargs)

    monkeypatch.setattr(engine.opened.store, "search_terms", counted)
    engine.search("who rotates the vault key?")
    once = len(calls)
    engine.ask("who is it that rotates the vault key?")
    assert len(calls) == 2 * once


def test_sentences_and_the_answer_come_as_events(engine: Engine) -> None:
    events = list(engine.ask_stream("who rotates the vault key?"))
    assert isinstance(events[-1], clew.FinalEvent)
    sentences = [event.text for event in events if isinstance(event, clew.SentenceEvent)]
    assert sentences
    assert "".join(sentences) == events[-1].answer.text


def test_a_stream_raises_what_the_call_raises(engine: Engine) -> None:
    with pytest.raises(SettingsError, match="k is 0"):
        list(engine.ask_stream("keys", k=0))


def test_a_stream_that_is_closed_ends_the_work() -> None:
    llm = clew.ScriptedLLM(lambda _: "Dan rotates the vault key on Monday [1]. " * 50)
    with Engine.open(":memory:", embedder="hashed", llm=llm) as engine:
        engine.add_documents([PAGE])
        stream = engine.ask_stream("who rotates the vault key?")
        next(stream)
        stream.close()
        assert engine.search("vault")  # the engine is free


class SlowLLM(clew.ScriptedLLM):
    """Streams one unsupported sentence after another, until nobody reads on."""

    def __init__(self) -> None:
        super().__init__(lambda _: "-")
        self.begun, self.ended = Event(), Event()

    def stream(self, prompt: str, **_: Any) -> Iterator[str]:
        try:
            while True:
                yield "Zebras live on the moon and eat cheese. "
                self.begun.set()
                sleep(0.01)
        finally:
            self.ended.set()


@pytest.mark.slow
def test_a_closed_stream_stops_a_model_that_says_nothing_usable() -> None:
    llm = SlowLLM()
    with Engine.open(":memory:", embedder="hashed", llm=llm) as engine:
        engine.add_documents([PAGE])
        stream = engine.ask_stream("who rotates the vault key?")
        waiting = Thread(target=lambda: list(stream))
        waiting.start()
        assert llm.begun.wait(60)
        stream.close()
        waiting.join(60)
        assert not waiting.is_alive()
        assert llm.ended.wait(60)


def test_numbers_of_numpy_are_numbers(engine: Engine) -> None:
    whole: Any = np.int64(1)
    assert len(engine.search("vault soup", k=whole)) == 1
    with pytest.raises(SettingsError, match="tokens is"):
        engine.why_not("vault", "keys", tokens=2.5)  # type: ignore[arg-type]


def test_an_embedder_that_cannot_be_stored_is_refused_before_the_collection_is_made(tmp_path: Path) -> None:
    wrong = Letters()
    wrong.dim = -1
    with pytest.raises(SettingsError, match="the dim of the embedder letters is -1"):
        Engine.open(tmp_path / "c.clew", embedder=wrong)
    with Engine.open(tmp_path / "c.clew", embedder=Letters()) as engine:
        assert engine.status().dim == 26


def test_a_renderer_may_ask_for_another_context() -> None:
    def nested(passages: Sequence[MergedChunk], _: RenderInput) -> str:
        return own.context("soup", session="b").text + passages[0].text

    with Engine.open(":memory:", embedder="hashed", extensions=Extensions(renderers={"nested": nested})) as own:
        own.add_documents([PAGE])
        assert "Soup" in own.context("vault", session="a", render="nested").text


def test_an_overridden_leg_is_used_by_hybrid() -> None:
    calls: list[str] = []

    def spied(drivers: Drivers) -> Strategy:
        def search(query: clew.Query) -> list[clew.Hit]:
            calls.append(query.text)
            return []

        return search

    with Engine.open(":memory:", embedder="hashed", extensions=Extensions(strategies={"lexical": spied})) as engine:
        engine.add_documents([PAGE])
        assert engine.search("vault", strategy="hybrid")
        assert set(calls) == {"vault"}
