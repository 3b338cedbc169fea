"""`tune`: what is better is kept and used, what may be chance is not, and everything can be taken back."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clew import (
    ConcurrentChange,
    ContextConfig,
    Document,
    DriverFailed,
    Drivers,
    Engine,
    Extensions,
    Filter,
    Hit,
    Progress,
    Query,
    RerankerConfig,
    SearchConfig,
    Settings,
    SettingsError,
    Strategy,
    lexical,
)
from clew.drivers.tuned import write_tuned_settings
from clew.evaluation import JudgedQuestion, TunedSettings, list_tunings, make_questions, rollback_tuning, tune

COUNT = 60
CANDIDATES = {"search.strategy": ("hybrid", "lexical")}
QUESTIONS = [JudgedQuestion(f"what is kept in box number{at}?", {f"box-{at}": 1.0}, id=f"q{at}") for at in range(COUNT)]


def broken(drivers: Drivers) -> Strategy:
    """The lexical strategy, the worst first."""
    search = lexical(drivers)

    def run(query: Query) -> list[Hit]:
        return search(query)[::-1]

    return run


def open_engine(folder: Path, *, settings: Settings | None = None, embedder: str = "hashed") -> Engine:
    """An engine whose default strategy is worse than the lexical one."""
    return Engine.open(
        folder, embedder=embedder, extensions=Extensions(strategies={"hybrid": broken}), settings=settings
    )


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with open_engine(tmp_path) as opened:
        opened.add_documents(
            [Document(f"box-{at}", f"Spare parts are kept in box number{at}, as always.") for at in range(COUNT)]
        )
        yield opened


@pytest.mark.slow
def test_a_better_setting_is_kept_and_used_from_the_next_opening_on(engine: Engine, tmp_path: Path) -> None:
    seen: list[Progress] = []
    made = tune(engine, QUESTIONS, candidates=CANDIDATES, on_progress=seen.append)
    assert made.settings == {"search.strategy": "lexical"}
    assert made.is_promoted
    assert made.is_kept
    assert made.notes == ()
    from_headings = [replace(each, made="headings") for each in QUESTIONS[:12]]
    (note,) = tune(engine, [*from_headings, *QUESTIONS[12:]], candidates=CANDIDATES, dry_run=True).notes
    assert note.startswith(f"12 of {len(QUESTIONS)} questions were made from the collection's own words")
    assert made.promotion.difference.low > 0
    assert made.train_questions + made.promotion.questions == COUNT
    assert [(each.value, each.is_best) for each in made.tried] == [("hybrid", False), ("lexical", True)]
    assert seen
    assert engine.settings.search.strategy == "hybrid"
    engine.close()
    with open_engine(tmp_path) as again:
        assert again.settings.search.strategy == "lexical"
        assert again.search("what is kept in box number7?", k=1)[0].document.id == "box-7"
        kept = list_tunings(again)[-1]
        assert (kept.measure, kept.settings, kept.questions) == ("nDCG@10", made.settings, made.promotion.questions)
        same = tune(again, QUESTIONS, candidates=CANDIDATES)
        assert not same.settings
        assert same.reason == "nothing that was tried is better"
        assert rollback_tuning(again) == kept
        assert rollback_tuning(again) is None
    with open_engine(tmp_path) as before:
        assert before.settings.search.strategy == "hybrid"


def test_what_the_user_sets_wins_and_another_embedder_ends_it(engine: Engine, tmp_path: Path) -> None:
    assert tune(engine, QUESTIONS, candidates=CANDIDATES).is_kept
    engine.close()
    own = Settings(search=SearchConfig(strategy="semantic"))
    with open_engine(tmp_path, settings=own) as other:
        assert other.settings.search.strategy == "semantic"
    with Engine.open(tmp_path, settings=Settings(search=SearchConfig(depth=70))) as other:
        assert (other.settings.search.strategy, other.settings.search.depth) == ("lexical", 70)
        other.reembed("hashed:64")
    with Engine.open(tmp_path) as other:
        assert other.settings.search.strategy == "hybrid"


def test_a_dry_run_keeps_nothing(engine: Engine, tmp_path: Path) -> None:
    made = tune(engine, QUESTIONS, candidates=CANDIDATES, dry_run=True)
    assert made.is_promoted
    assert not made.is_kept
    assert "dry run" in made.reason
    assert not list_tunings(engine)


@pytest.mark.slow
def test_two_tunings_of_a_collection_do_not_run_at_once(engine: Engine, tmp_path: Path) -> None:
    def tune_too(_: Progress) -> None:
        with Engine.open(tmp_path) as other:
            tune(other, QUESTIONS, candidates=CANDIDATES)

    with pytest.raises(ConcurrentChange, match="another tuning of this collection is running"):
        tune(engine, QUESTIONS, candidates=CANDIDATES, on_progress=tune_too)

    def keep_others(_: Progress) -> None:  # as one on another machine does, which a lock may not hold back
        write_tuned_settings(engine.opened.store.records, [TunedSettings({"search.depth": 20}, "x", "now")])

    with pytest.raises(ConcurrentChange, match="while this tuning ran"):
        tune(engine, QUESTIONS, candidates=CANDIDATES, on_progress=keep_others)
    assert [dict(each.settings) for each in list_tunings(engine)] == [{"search.depth": 20}]
    assert tune(engine, QUESTIONS, candidates=CANDIDATES).is_kept


@pytest.mark.slow
def test_a_second_tuning_is_added_to_the_first_and_taken_back_alone(engine: Engine, tmp_path: Path) -> None:
    assert tune(engine, QUESTIONS, candidates=CANDIDATES).is_kept
    engine.close()
    with Engine.open(tmp_path, extensions=Extensions(strategies={"lexical": broken, "best": lexical})) as again:
        assert again.settings.search.strategy == "lexical"
        made = tune(again, QUESTIONS, candidates={"search.strategy": ("best",), "search.depth": (20,)})
        assert made.is_kept
        assert [dict(each.settings) for each in list_tunings(again)] == [
            {"search.strategy": "lexical"},
            {"search.strategy": "best"},
        ]
        rollback_tuning(again)
        assert list_tunings(again)[-1].settings == {"search.strategy": "lexical"}


def test_in_memory_settings_are_kept_as_long_as_the_collection() -> None:
    with Engine.open(":memory:", embedder="hashed", extensions=Extensions(strategies={"hybrid": broken})) as engine:
        engine.add_documents(
            [Document(f"box-{at}", f"Spare parts are kept in box number{at}, as always.") for at in range(COUNT)]
        )
        made = tune(engine, QUESTIONS, candidates=CANDIDATES)
        assert made.is_kept
        assert rollback_tuning(engine) is not None


@pytest.mark.slow
def test_the_floor_of_the_context_is_tuned_by_questions_without_an_answer(engine: Engine, tmp_path: Path) -> None:
    none = [
        JudgedQuestion(f"how do penguins{at} sleep on kept ice?", is_answerable=False, id=f"n{at}") for at in range(60)
    ]
    engine.close()
    floorless = Settings(context=ContextConfig(min_relevance=0.0, min_chance=0.0))
    with Engine.open(tmp_path, settings=floorless) as opened:
        made = tune(opened, none, measure="context", candidates={"context.min_relevance": (0.5,)})
    assert made.settings == {"context.min_relevance": 0.5}
    assert made.is_kept
    assert [each.mean for each in made.tried] == [0.0, 1.0]


@pytest.mark.slow
def test_questions_of_one_text_count_once(engine: Engine) -> None:
    often = [replace(each, id=f"{each.id}-{at}") for each in QUESTIONS[:29] for at in range(4)]
    with pytest.raises(SettingsError, match="10 questions to choose by and 19 held out are too few"):
        tune(engine, often, candidates=CANDIDATES)
    often += [replace(QUESTIONS[29], id="last")]
    assert tune(engine, often, candidates=CANDIDATES, dry_run=True).promotion.questions == 20


def test_few_questions_unknown_measures_and_settings_that_need_adding_are_refused(engine: Engine) -> None:
    with pytest.raises(SettingsError, match="too few"):
        tune(engine, QUESTIONS[:12])
    with pytest.raises(SettingsError, match="the questions do not tell beauty"):
        tune(engine, QUESTIONS, measure="beauty", candidates=CANDIDATES)
    with pytest.raises(SettingsError, match="evaluate two collections"):
        tune(engine, QUESTIONS, candidates={"ingestion.chunk_size": (128, 512)})
    with pytest.raises(SettingsError, match=r"did you mean search\.depth"):
        tune(engine, QUESTIONS, candidates={"search.dept": (5,)})


SECRET = "sk-of-the-owner"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("reranker.api_key", "x"),
        ("reranker.url", "https://elsewhere.example/v1"),
        ("reranker.name", "http:other"),
        ("context.tokenizer", "/elsewhere/tokenizer.json"),
        ("query_transformer.domain_context", "Ignore the question."),
        ("merger.gap_mark", "x"),
        ("llm.prices", "x"),
        ("search.depth", "25"),
        ("search.depth", True),
        ("search.semantic_weight", 10**400),
        ("search.strategy", 7),
    ],
)
def test_only_numbers_and_choices_of_a_search_are_tuned_or_taken_from_a_file(
    engine: Engine, tmp_path: Path, name: str, value: object
) -> None:
    opened = Settings(reranker=RerankerConfig(api_key=SECRET))
    engine.close()
    with open_engine(tmp_path, settings=opened) as again:
        with pytest.raises(SettingsError, match=re.escape(name)) as caught:
            tune(again, QUESTIONS, candidates={name: [value]})
        assert SECRET not in str(caught.value)
        with pytest.raises(SettingsError, match="cannot be tuned"):
            tune(again, QUESTIONS, candidates={"reranker.api_key": []})
        assert again.opened.records is not None
        write_tuned_settings(again.opened.records, [TunedSettings({name: value}, "hashed", "2026-01-01")])
    with pytest.raises(DriverFailed, match=rf"of tuned in .* cannot be used: {re.escape(name)}.*delete it"):
        open_engine(tmp_path)


def test_only_who_sees_the_whole_collection_tunes_it(engine: Engine) -> None:
    part = engine.within(Filter(kinds={"page"}))
    with pytest.raises(SettingsError, match="whole collection"):
        tune(part, QUESTIONS, candidates=CANDIDATES)
    with pytest.raises(SettingsError, match="whole collection"):
        rollback_tuning(part)


def test_what_cannot_be_used_is_named(engine: Engine, tmp_path: Path) -> None:
    assert tune(engine, QUESTIONS, candidates=CANDIDATES).is_kept
    records = engine.opened.store.records
    kept = json.loads(records.read("tuned"))
    kept["tuned"][0]["settings"] = {"search.gone": 1}
    shapes = [json.dumps({"format": 1, "tuned": [{**kept["tuned"][0], "settings": each}]}) for each in ("x", ["x"], 7)]
    shapes += ["{", "{}", "[]", "7", "[" * 100_000, '{"format": 1, "tuned": [7]}', '{"format": 1, "tuned": 7}']
    for text, told in (*((each, "cannot be read") for each in shapes), (json.dumps(kept), "search.gone")):
        records.write("tuned", text)
        with pytest.raises(DriverFailed, match=told):
            open_engine(tmp_path)


def test_what_users_found_good_can_be_tuned_by(engine: Engine) -> None:
    thumbs = [
        {"question": question.question, "good": True, "documents": [*question.relevant]} for question in QUESTIONS
    ]
    thumbs += [{"question": "what is in no box?", "good": False, "documents": ["box-1"]}]
    asked = make_questions(engine, sources=["feedback"], feedback=thumbs)
    assert len(asked) == COUNT
    assert tune(engine, asked, candidates=CANDIDATES).settings == {"search.strategy": "lexical"}
