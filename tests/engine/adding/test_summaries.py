"""Summaries through Engine on both stores: their vectors and makers, one payment each, refreshed, never out of date."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from threading import Barrier, Lock, Thread
from typing import Any

import pytest

from clew import Document, DriverFailed, Engine, Message, Settings, SettingsError
from clew.core.settings import IngestionConfig, LLMConfig, SearchConfig
from clew.drivers.llm.scripted import ScriptedLLM
from tests.engine.chosen import ChosenEmbedder, OpenEngine

WRITTEN = Settings(ingestion=IngestionConfig(summaries="llm"))
NONE = Settings(ingestion=IngestionConfig())
EXTRACTED = Settings(ingestion=IngestionConfig(summaries="extractive"))
PAGES = [Document(f"d{n}", f"Page {n} tells of harbour {n}, its pilots and its tides.") for n in range(8)]
WHEN = datetime(2026, 5, 1, tzinfo=UTC)


def makers(engine: Engine) -> dict[str, str]:
    return {record.id: record.summary_by for record in engine.list()}


def summaries(engine: Engine) -> dict[str, str]:
    return {record.id: record.summary for record in engine.list()}


def make_counter(answer: str = "About a harbour.") -> tuple[ScriptedLLM, list[str]]:
    """A model, and the prompts that it got."""
    prompts: list[str] = []

    def note(prompt: str) -> str:
        prompts.append(prompt)
        return answer

    return ScriptedLLM(note, name="small"), prompts


# -- vectors and makers


def score_by_add(open_engine: OpenEngine, embedder: ChosenEmbedder) -> Engine:
    engine = open_engine(embedder=embedder, llm=ScriptedLLM("gist of it"))
    engine.add_documents([Document("d", "the only part")], settings=WRITTEN)
    return engine


def score_by_backfill(open_engine: OpenEngine, embedder: ChosenEmbedder) -> Engine:
    engine = open_engine(embedder=embedder, llm=ScriptedLLM("gist of it"))
    engine.add_documents([Document("d", "the only part")], settings=NONE)
    assert engine.backfill().changed == ("d",)
    return engine


def score_by_caller(open_engine: OpenEngine, embedder: ChosenEmbedder) -> Engine:
    engine = open_engine(embedder=embedder)
    engine.add_documents([Document("d", "the only part", summary="gist of it")])
    return engine


@pytest.mark.parametrize("fill", [score_by_add, score_by_backfill, score_by_caller])
def test_the_summary_of_a_single_chunk_has_a_vector_of_its_own(
    open_engine: OpenEngine, fill: Callable[..., Engine]
) -> None:
    plan = {"the only part": {"q": 0.5}, "gist of it": {"q": 0.95}, "quozzle": {"q": 1.0}}
    engine = fill(open_engine, ChosenEmbedder(dict(plan)))
    (hit,) = engine.search("quozzle", strategy="document_boost")
    assert hit.scores["document"] == pytest.approx(0.95, abs=1e-6)
    assert hit.score == pytest.approx(0.7 * 0.5 + 0.3 * 0.95, abs=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        "# 门禁卡\n\n门禁卡丢失后请立即报告前台。新卡两天内发放。\n",
        "# 入館証\n\n入館証をなくしたら受付に届けてください。再発行は二日です。\n",
    ],
)
def test_the_summary_of_a_page_without_spaces_holds_its_sentences(open_engine: OpenEngine, text: str) -> None:
    engine = open_engine(embedder="hashed:32", settings=EXTRACTED)
    engine.add_documents([Document("card", text, title="card")])
    first = text.split("\n\n")[1].partition("。")[0]
    assert summaries(engine)["card"].startswith(f"card: {first}。")


def test_who_made_a_summary_is_recorded(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed", llm=ScriptedLLM("About it.", name="small"))
    engine.add_documents([Document("given", "Of tides.", summary="By hand.")])
    engine.add_documents([Document("plain", "Of the harbour.")], settings=EXTRACTED)
    engine.add_documents([Document("asked", "Of pilots.")], settings=WRITTEN)
    engine.add_documents([Document("none", "Of ropes.")], settings=NONE)
    assert makers(engine) == {"given": "caller", "plain": "extract", "asked": "small", "none": ""}
    assert summaries(engine)["given"] == "By hand."
    assert engine.read("asked").summary_by == "small"


def test_add_asks_a_model_only_where_that_is_wanted(open_engine: OpenEngine) -> None:
    model, prompts = make_counter()
    engine = open_engine(embedder="hashed", llm=model)
    engine.add_documents(PAGES)
    assert prompts == []
    assert not any(summaries(engine).values())
    assert engine.plan(settings=WRITTEN).calls == 0
    engine.add_documents([Document("new", "A new page.")], settings=WRITTEN)
    assert len(prompts) == 1
    without = open_engine(embedder="hashed")
    with pytest.raises(SettingsError, match="there is no language model"):
        without.add_documents(PAGES, settings=WRITTEN)


# -- several at a time, one payment each


def fill_by_add(engine: Engine, settings: Settings) -> None:
    engine.add_documents(PAGES[:6], settings=settings)


def fill_by_backfill(engine: Engine, settings: Settings) -> None:
    engine.add_documents(PAGES[:6], settings=NONE)
    engine.backfill()


@pytest.mark.parametrize("fill", [fill_by_add, fill_by_backfill])
def test_so_many_calls_run_at_a_time_and_each_answer_finds_its_document(
    open_engine: OpenEngine, fill: Callable[[Engine, Settings], None]
) -> None:
    together = Barrier(3, timeout=30)

    def answer(prompt: str) -> str:
        together.wait()  # breaks unless three are here
        return next(f"On harbour {n}." for n in range(8) if f"harbour {n}," in prompt)

    model = ScriptedLLM(answer)
    settings = Settings(ingestion=IngestionConfig(summaries="llm", max_concurrent=3))
    engine = open_engine(embedder="hashed", llm=model, settings=settings)
    fill(engine, settings)
    assert summaries(engine) == {f"d{n}": f"On harbour {n}." for n in range(6)}
    assert model.max_active == 3


def test_two_backfills_at_once_pay_once(open_engine: OpenEngine) -> None:
    prompts: list[str] = []
    lock, both, turns = Lock(), Barrier(2, timeout=30), count()

    def answer(prompt: str) -> str:
        with lock:
            prompts.append(prompt)
            turn = next(turns)
        if turn < 2:
            both.wait()  # breaks unless both runs are at work
        return "About a harbour."

    one_at_a_time = Settings(ingestion=IngestionConfig(max_concurrent=1))
    engines = [
        open_engine(embedder="hashed", llm=ScriptedLLM(answer), settings=one_at_a_time, collection="shared")
        for _ in range(2)
    ]
    engines[0].add_documents(PAGES, settings=NONE)
    reports: list[Any] = []
    threads = [Thread(target=lambda engine=engine: reports.append(engine.backfill())) for engine in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(prompts) == len(set(prompts)) == 8
    assert sorted(name for report in reports for name in report.changed) == sorted(page.id for page in PAGES)
    assert all(summaries(engines[0]).values())


def test_a_document_of_another_run_is_left_to_it_until_its_claim_ends(open_engine: OpenEngine) -> None:
    model, prompts = make_counter()
    engine = open_engine(embedder="hashed", llm=model)
    engine.add_documents(PAGES[:2], settings=NONE)
    engine.opened.store.claim(["d0"], owner="a run that crashed", seconds=600)
    report = engine.backfill()
    assert report.changed == ("d1",)
    assert [(note.source, note.reason) for note in report.noted] == [("d0", "another run is summarising it")]
    engine.opened.store.claim(["d0"], owner="a run that crashed", seconds=0)  # as when its time is over
    assert engine.backfill().changed == ("d0",)
    assert len(prompts) == 2


def test_an_interrupt_keeps_what_was_done(open_engine: OpenEngine) -> None:
    asked = count(1)

    def answer(_: str) -> str:
        if next(asked) == 4:
            raise KeyboardInterrupt
        return "About a harbour."

    one_at_a_time = Settings(ingestion=IngestionConfig(max_concurrent=1))
    model = ScriptedLLM(answer)
    engine = open_engine(embedder="hashed", llm=model, settings=one_at_a_time)
    engine.add_documents(PAGES, settings=NONE)
    with pytest.raises(KeyboardInterrupt):
        engine.backfill()
    assert sum(map(bool, summaries(engine).values())) == 3
    assert len(engine.backfill().changed) == 5  # the claims of the first run were given back
    assert model.calls == 9


@pytest.mark.parametrize("fill", ["add", "backfill"])
def test_a_ceiling_of_cost_keeps_what_was_done_and_is_as_far_as_one_call_at_a_time_gets(
    open_engine: OpenEngine, fill: str
) -> None:
    done = []
    for at_once in (1, 4):
        settings = Settings(
            ingestion=IngestionConfig(summaries="llm", max_concurrent=at_once),
            llm=LLMConfig(prices=("scripted 1000 1000",)),
        )
        engine = open_engine(embedder="hashed", llm=ScriptedLLM("About a harbour."), settings=settings)
        if fill == "add":
            report = engine.add_documents(PAGES, max_cost=0.8)
        else:
            engine.add_documents(PAGES, settings=NONE)
            report = engine.backfill(max_cost=0.8)
        assert "stopped at" in report.stopped
        assert 0 < report.cost <= 0.8
        done.append(sum(map(bool, summaries(engine).values())))
        assert done[-1] == len(report.added or report.changed)
    assert 0 < done[0] == done[1] < len(PAGES)


# -- a better maker


def test_refresh_replaces_the_summaries_of_lesser_makers_once(open_engine: OpenEngine) -> None:
    small, asked_small = make_counter("By the small one.")
    engine = open_engine(embedder="hashed", llm=small, collection="one")
    given = Document("given", "Of tides.", summary="By hand.")
    engine.add_documents([*PAGES[:2], given], settings=EXTRACTED)
    assert engine.backfill().changed == ()
    assert set(engine.backfill(refresh=True).changed) == {"d0", "d1"}
    assert makers(engine) == {"d0": "small", "d1": "small", "given": "caller"}
    assert engine.backfill(refresh=True).changed == ()
    assert len(asked_small) == 2
    large = open_engine(embedder="hashed", llm=ScriptedLLM("By the large one.", name="large"), collection="one")
    assert large.backfill().changed == ()
    assert set(large.backfill(refresh=True).changed) == {"d0", "d1"}
    assert summaries(large) == {"d0": "By the large one.", "d1": "By the large one.", "given": "By hand."}
    without = open_engine(embedder="hashed", collection="one")
    assert without.backfill(refresh=True).changed == ()  # an extract is no better maker


def test_a_model_is_not_asked_again_where_only_the_chunks_change(open_engine: OpenEngine) -> None:
    model, prompts = make_counter()
    engine = open_engine(embedder="hashed", llm=model)
    engine.add_documents(PAGES[:1], settings=WRITTEN)
    smaller = IngestionConfig(chunk_size=8, chunk_overlap=0)
    for ingestion in (smaller, replace(smaller, chunk_size=12, summaries="llm")):
        assert engine.add_documents(PAGES[:1], settings=Settings(ingestion=ingestion)).changed == ("d0",)
        assert (summaries(engine), makers(engine)) == ({"d0": "About a harbour."}, {"d0": "small"})
        vector = engine.opened.embedder.embed(["About a harbour."], role="passage")[0]
        assert dict(engine.opened.store.search_documents(vector, 5)) == pytest.approx({"d0": 1.0}, abs=1e-5)
    assert len(prompts) == 1


# -- what failed, and what is out of date


def test_a_failed_summary_is_seen_and_repaired_by_the_next_run(open_engine: OpenEngine) -> None:
    away = {"d0", "d1"}

    def answer(prompt: str) -> str:
        if any(f"harbour {name[1]}," in prompt for name in away):
            raise DriverFailed("the model is away")
        return "About a harbour."

    engine = open_engine(embedder="hashed", llm=ScriptedLLM(answer, name="small"), settings=WRITTEN)
    report = engine.add_documents(PAGES[:3])
    assert (len(report.added), sorted(report.incomplete)) == (3, ["d0", "d1"])
    assert engine.status().without_summary == 2
    assert makers(engine) == {"d0": "", "d1": "", "d2": "small"}
    away.remove("d0")
    assert engine.add_documents(PAGES[:3]).incomplete == ("d1",)
    assert [failure.reason for failure in engine.backfill().failed] == ["the model is away"]
    away.clear()
    assert engine.backfill().changed == ("d1",)
    assert (engine.status().without_summary, set(makers(engine).values())) == (0, {"small"})


PARTS = Document("d", "\n\n".join(f"## Part {n}\n\nThe story of subject {n} goes on here.\n" for n in range(6)))
CONTEXTUAL = IngestionConfig(use_contextual_enrichment=True, chunk_size=24, chunk_overlap=0, summaries="extractive")


@pytest.mark.parametrize("repair", ["add", "backfill"])
def test_a_failed_context_is_seen_and_repaired_by_the_next_run(open_engine: OpenEngine, repair: str) -> None:
    away, prompts = {"subject 3"}, list[str]()

    def answer(prompt: str) -> str:
        prompts.append(prompt)
        if any(name in prompt.split("<chunk>")[-1] for name in away):
            raise DriverFailed("the model is away")
        return "It stands in the chronicle."

    settings = Settings(ingestion=CONTEXTUAL)
    engine = open_engine(embedder="hashed", llm=ScriptedLLM(answer), settings=settings)
    report = engine.add_documents([PARTS])
    assert report.incomplete == ("d",)
    assert (engine.status().without_contexts, next(engine.list()).lacks) == (1, ("contexts",))
    asked = len(prompts)
    again = engine.add_documents([PARTS]) if repair == "add" else engine.backfill()
    assert (again.incomplete, len(prompts)) == (("d",), asked + 1)  # only what is missing is asked again
    away.clear()
    assert (engine.add_documents([PARTS]) if repair == "add" else engine.backfill()).changed == ("d",)
    assert (engine.status().without_contexts, next(engine.list()).lacks) == (0, ())
    assert {chunk.context for chunk in engine.opened.store.chunks("d")} == {"It stands in the chronicle."}
    assert engine.add_documents([PARTS]).skipped == 1
    assert len(prompts) == asked + 2


def test_backfill_leaves_contexts_of_other_options_alone_and_says_so(open_engine: OpenEngine) -> None:
    def fail(_: str) -> str:
        raise DriverFailed("the model is away")

    engine = open_engine(embedder="hashed", llm=ScriptedLLM(fail))
    engine.add_documents([PARTS], settings=Settings(ingestion=CONTEXTUAL))
    assert "added with other options" in engine.backfill().noted[0].reason
    assert engine.status().without_contexts == 1


def test_a_summary_of_a_text_that_has_changed_is_not_kept(open_engine: OpenEngine) -> None:
    engines: list[Engine] = []

    def answer(_: str) -> str:
        engines[0].add_documents([Document("d0", "Quite another text.")], settings=NONE)
        return "About a harbour."

    engines.append(open_engine(embedder="hashed", llm=ScriptedLLM(answer)))
    engines[0].add_documents(PAGES[:1], settings=NONE)
    (failure,) = engines[0].backfill().failed
    assert "changed while it was summarised" in failure.reason
    assert summaries(engines[0]) == {"d0": ""}


def test_a_thread_loses_its_summary_when_it_grows_or_changes(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed", llm=ScriptedLLM("They talk of pilots.", name="small"))

    def say(name: str, text: str, reply_to: str | None = None) -> None:
        message = Message(text, author="ada", at=WHEN, id=name, channel="ops", reply_to=reply_to)
        engine.add_messages([message])
        assert next(engine.list()).summary == ""
        assert len(engine.backfill().changed) == 1
        assert (next(engine.list()).summary, next(engine.list()).summary_by) == ("They talk of pilots.", "small")

    say("m1", "The pilots wait.")
    say("m2", "For the tide.", "m1")
    say("m2", "For the ebb tide.", "m1")
    engine.drop_messages("m2")
    assert (next(engine.list()).summary, next(engine.list()).summary_by) == ("", "")
    vector = engine.opened.embedder.embed(["They talk of pilots."], role="passage")[0]
    assert engine.opened.store.search_documents(vector, 5) == []


# -- document_boost over another strategy


def boost(engine: Engine, weight: float, base: str = "hybrid") -> list[Any]:
    search = SearchConfig(document_strategy=base, document_weight=weight)
    return engine.search("E-4417 soup", k=10, strategy="document_boost", settings=Settings(search=search))


def test_document_boost_over_hybrid_finds_words_and_mixes_relevances(open_engine: OpenEngine) -> None:
    embedder = ChosenEmbedder({"E-4417 soup": {"q": 1.0}, "meant": {"q": 0.6}, "gist of far": {"q": 0.9}})
    engine = open_engine(embedder=embedder)
    engine.add_documents(
        [
            Document("word", "The error E-4417 means no soup.", summary="gist of word"),
            Document("near", "meant", summary="gist of near"),
            Document("far", "something else", summary="gist of far"),
        ]
    )
    by_chunk, mixed, by_summary = (boost(engine, weight) for weight in (0.0, 0.3, 1.0))
    assert by_chunk[0].document.id == "word"  # no cosine, all of the words
    assert by_summary[0].document.id == "far"  # reached by its summary alone
    assert [hit.score for hit in by_chunk] == [hit.relevance for hit in by_chunk]
    for hit in mixed:
        assert hit.score == pytest.approx(0.7 * hit.relevance + 0.3 * hit.scores["document"], abs=1e-9)
    words = {hit.document.id: hit.similarity for hit in mixed}
    assert words == pytest.approx({"word": 0.0, "near": 0.6, "far": 0.0}, abs=1e-6)
    assert boost(engine, 0.0, base="semantic")[0].document.id == "near"


def test_the_strategy_under_document_boost_must_find_chunks(open_engine: OpenEngine) -> None:
    with pytest.raises(SettingsError, match=r"search\.document_strategy is 'auto'"):
        SearchConfig(document_strategy="auto")
    engine = open_engine(embedder="hashed")
    engine.add_documents(PAGES[:1])
    with pytest.raises(Exception, match="there is no strategy 'hybird'"):
        boost(engine, 0.3, base="hybird")
