"""`evaluate`: every measure through an Engine, runs that are kept, continued, compared and exported."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from clew import Drivers, Engine, Hit, NotFound, Progress, Query, SettingsError, Strategy, lexical
from clew.core.settings.override import override_settings
from clew.evaluation import (
    Evaluation,
    Evidence,
    JudgedQuestion,
    evaluate,
    export_trec,
    find_grade_factor,
    list_runs,
    merge_runs,
    read_run,
    score_run,
)
from tests.evaluation.conftest import PLACES, QUESTIONS, THINGS, make_page


class Interrupt(Exception):
    """What ends a run in these tests."""


def get_score(made: Evaluation, system: str) -> dict[str, float]:
    return dict(next(each for each in made.scores if each.system.name == system).means)


def reverse(drivers: Drivers) -> Strategy:
    """The hits of the lexical strategy, the worst first."""
    search = lexical(drivers)

    def run(query: Query) -> list[Hit]:
        return search(query)[::-1]

    return run


@pytest.fixture
def worse(engine: Engine) -> Engine:
    """The engine with one more strategy, which is worse."""
    finder = engine.opened.finder
    extensions = replace(engine.opened.extensions, strategies={"reverse": reverse})
    finder.strategies["reverse"] = reverse
    return Engine(replace(engine.opened, extensions=extensions))


def test_each_strategy_is_measured_and_compared_with_the_first(worse: Engine) -> None:
    seen: list[Progress] = []
    made = evaluate(worse, QUESTIONS, strategies=["lexical", "reverse"], on_progress=seen.append)
    better, bad = get_score(made, "lexical"), get_score(made, "reverse")
    assert better["nDCG@10"] == better["MRR"] == better["MAP"] == better["recall@10"] == 1.0
    assert better["precision@10"] == pytest.approx(0.1)
    assert better["evidence@10"] == better["evidence@2000 tokens"] == 1.0
    assert bad["MRR"] < 0.2
    difference = made.comparisons[0]
    assert (difference.measure, difference.system, difference.baseline) == ("nDCG@10", "reverse", "lexical")
    assert difference.difference.high < 0
    assert difference.is_significant
    assert difference.questions == len(QUESTIONS)
    assert made.comparisons[0].corrected_p >= made.comparisons[0].p
    assert seen[-1].done == seen[-1].total == 2 * len(QUESTIONS)
    assert "reverse − lexical, nDCG@10" in str(made)
    assert made.scores[0].latency["p99"] >= made.scores[0].latency["p50"] > 0
    assert made.scores[0].tokens


def test_settings_make_systems_of_their_own(engine: Engine) -> None:
    none = override_settings(engine.settings, {"search.min_relevance": 1.0})
    made = evaluate(
        engine, QUESTIONS, settings={"": engine.settings, "floor": none}, measures=["recall@10"], keep=False
    )
    assert [(each.system.name, dict(each.system.settings)) for each in made.scores] == [
        ("hybrid", {}),
        ("hybrid floor", {"search.min_relevance": 1.0}),
    ]
    assert get_score(made, "hybrid floor")["recall@10"] < get_score(made, "hybrid")["recall@10"]
    assert [each.measure for each in made.comparisons] == ["recall@10"]


def test_the_cut_offs_and_the_budget_are_those_given(engine: Engine) -> None:
    made = evaluate(engine, QUESTIONS, strategies=["lexical"], k=1, tokens=12, keep=False)
    assert {"nDCG@1", "evidence@1", "evidence@12 tokens"} <= made.scores[0].means.keys()
    assert get_score(made, "lexical")["evidence@12 tokens"] == 0.0  # no passage fits
    none = evaluate(engine, QUESTIONS, strategies=["lexical"], tokens=0, keep=False)
    assert not any("tokens" in name for name in none.scores[0].means)


def test_grades_topics_and_history_count(engine: Engine) -> None:
    graded = JudgedQuestion(
        "spare anchor buoy",
        {"pages/anchor.md": 1.0, "pages/buoy.md": 3.0},
        topics={"anchors": ("pages/anchor.md",), "lamps": ("pages/lantern.md",)},
        id="graded",
    )
    made = evaluate(engine, [graded], strategies=["lexical"], k=2, keep=False)
    assert get_score(made, "lexical")["topics@2"] == 0.5
    assert 0.5 < get_score(made, "lexical")["nDCG@2"] <= 1.0
    assert made.run.grades["graded"] == {"page-0": 1.0, "page-1": 3.0}


def test_a_question_without_an_answer_asks_for_an_empty_context(engine: Engine) -> None:
    none = JudgedQuestion("how do penguins sleep on ice?", is_answerable=False, id="none")
    made = evaluate(engine, [*QUESTIONS, none], strategies=["lexical"], keep=False)
    assert get_score(made, "lexical")["left empty"] == 1.0
    assert get_score(made, "lexical")["context"] == 1.0
    assert made.scores[0].counts["nDCG@10"] == len(QUESTIONS)


@pytest.mark.slow
def test_answers_are_measured_by_what_they_cite(engine: Engine) -> None:
    right = replace(QUESTIONS[0], answer=f"in the {PLACES[0]}")
    wrong = JudgedQuestion(
        f"where is the spare {THINGS[1]}?",
        evidence=(Evidence("pages/keel.md", "The spare keel is kept in the dock."),),
        id="wrong",
    )
    wrong = replace(wrong, evidence=(Evidence("pages/keel.md", "Ask the crew before you take it from there."),))
    none = JudgedQuestion("how do penguins sleep on ice?", is_answerable=False, id="none")
    made = evaluate(engine, [right, wrong, none], strategies=["hybrid"], answers=True, keep=False)
    by_id = {result.question: result.values for result in made.run.results}
    assert by_id[right.id]["answered"] == by_id[right.id]["right"] == 1.0
    assert by_id[right.id]["answer F1"] > 0
    assert by_id["wrong"]["right"] == by_id["wrong"]["citation precision"] == 0.0
    assert by_id["none"] == {"left empty": 1.0, "answered": 0.0}
    score = made.scores[0]
    assert score.means["answer precision"] == 0.5
    assert score.risk[-1] == pytest.approx((2 / 3, 0.5))


def test_a_run_is_kept_without_texts_and_read_again(engine: Engine) -> None:
    made = evaluate(engine, QUESTIONS, strategies=["lexical"])
    assert made.run.file is None
    assert read_run(engine, made.run.id) == made.run
    assert read_run(engine, "last").id == made.run.id
    assert [run.id for run in list_runs(engine)] == [made.run.id]
    assert "spare" not in engine.opened.store.records.read("evaluations", made.run.id)
    assert score_run(read_run(engine, "last")).scores == made.scores
    with pytest.raises(NotFound, match=made.run.id):
        read_run(engine, "gone")


def test_an_interrupted_run_is_continued(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "runs"

    def interrupt(progress: Progress) -> None:
        if progress.done == 5:
            raise Interrupt

    with pytest.raises(Interrupt):
        evaluate(engine, QUESTIONS, folder=folder, strategies=["lexical"], on_progress=interrupt)
    (broken,) = list_runs(engine, folder=folder)
    assert not broken.is_finished
    assert score_run(broken).notes == ("the run broke off after 5 of 16 questions; the same command finishes it",)
    assert broken.file is not None
    with broken.file.open("a") as stream:
        stream.write('{"system": "lexical", "quest')  # the line that was being written
    seen: list[Progress] = []
    made = evaluate(engine, QUESTIONS, folder=folder, strategies=["lexical"], on_progress=seen.append)
    assert made.run.id == broken.id
    assert [progress.done for progress in seen] == list(range(6, len(QUESTIONS) + 1))
    assert read_run(engine, "last", folder=folder).is_finished
    assert get_score(made, "lexical")["MRR"] == 1.0
    again = evaluate(engine, QUESTIONS, folder=folder, strategies=["lexical"])
    assert again.run.id != broken.id  # a finished one is not continued


def test_systems_that_were_not_asked_yet_are_not_compared(engine: Engine) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.done == len(QUESTIONS):
            raise Interrupt

    with pytest.raises(Interrupt):
        evaluate(engine, QUESTIONS, strategies=["lexical", "semantic"], on_progress=interrupt)
    made = score_run(read_run(engine, "last"))
    assert made.comparisons == ()
    assert (made.scores[1].means, made.scores[1].latency, made.scores[1].tokens) == ({}, {}, None)
    assert "semantic" in str(made)


def test_tokens_are_those_of_the_questions_that_got_a_context(engine: Engine) -> None:
    bare = [replace(each, evidence=()) for each in QUESTIONS[1:]]
    one = evaluate(engine, QUESTIONS[:1], strategies=["lexical"], keep=False).scores[0].tokens
    assert one
    made = evaluate(engine, [*QUESTIONS[:1], *bare], strategies=["lexical"], keep=False)
    assert made.scores[0].tokens == one
    assert evaluate(engine, bare, strategies=["lexical"], keep=False).scores[0].tokens is None
    assert "means in percent over 16 questions; over 1: evidence@10, evidence@2000 tokens" in str(made)


def test_a_run_is_begun_anew_where_something_has_changed(engine: Engine) -> None:
    def interrupt(progress: Progress) -> None:
        raise Interrupt

    with pytest.raises(Interrupt):
        evaluate(engine, QUESTIONS, strategies=["lexical"], on_progress=interrupt)
    engine.drop("page-15")
    made = evaluate(engine, QUESTIONS[:-1], strategies=["lexical"])
    assert len(made.run.results) == len(QUESTIONS) - 1


def test_runs_are_compared_on_the_questions_they_share(worse: Engine) -> None:
    one = evaluate(worse, QUESTIONS[:12], strategies=["lexical"]).run
    other = evaluate(worse, QUESTIONS[4:], strategies=["lexical", "reverse"]).run
    made = score_run(merge_runs([one, other]))
    assert [score.system.name for score in made.scores] == ["lexical #1", "lexical #2", "reverse"]
    assert {score.counts["MRR"] for score in made.scores} == {8}
    assert made.notes == (f"#1 is {one.id}, #2 is {other.id}", "8 questions not in all runs, so left out")
    with pytest.raises(SettingsError, match="no question in common"):
        merge_runs([evaluate(worse, QUESTIONS[:2], keep=False).run, evaluate(worse, QUESTIONS[3:5], keep=False).run])


def test_runs_of_other_judgements_or_budgets_are_not_mixed(worse: Engine) -> None:
    one = evaluate(worse, QUESTIONS[:6], tokens=500, keep=False).run
    anew = [replace(each, relevant={"page-9": 1.0}, evidence=()) for each in QUESTIONS[:2]]
    other = evaluate(worse, [*anew, *QUESTIONS[2:6]], tokens=900, keep=False).run
    made = score_run(merge_runs([one, other]))
    assert made.run.questions == one.questions[2:]
    assert made.notes[-2:] == (
        "2 questions judged differently in the runs, so left out",
        "the runs have different budgets (--tokens 500, 900), so what depends on the context is left out",
    )
    assert all("token" not in name for score in made.scores for name in score.means)
    assert {score.tokens for score in made.scores} == {None}
    assert "evidence@500 tokens" in score_run(merge_runs([one, one])).scores[0].means
    with pytest.raises(SettingsError, match="judge each of their common questions differently"):
        merge_runs([one, evaluate(worse, anew, keep=False).run])


def test_a_run_is_exported_as_trec_files_that_give_the_same_measures(worse: Engine, tmp_path: Path) -> None:
    odd = replace(QUESTIONS[1], id="half 50%", relevant={"page-1": 1.0, "page-2": 0.5}, evidence=())
    asked = [QUESTIONS[0], odd, *QUESTIONS[2:]]
    made = evaluate(worse, asked, strategies=["lexical", "reverse"], keep=False)
    files = export_trec(made.run, tmp_path / "trec")
    assert find_grade_factor(made.run) == 2
    rows = [line.split() for line in files[0].read_text().splitlines()]
    assert [row for row in rows if row[0] == "half%2050%25"] == [
        ["half%2050%25", "0", "page-1", "2"],
        ["half%2050%25", "0", "page-2", "1"],
    ]
    assert [file.name for file in files] == ["qrels.txt", "1-lexical.run", "2-reverse.run"]
    assert files[1].read_text().splitlines()[0].split()[:4] == ["anchor", "Q0", "page-0", "1"]
    ir = pytest.importorskip("ir_measures", reason="it has no wheel for this machine")
    found = ir.calc_aggregate([ir.nDCG @ 10, ir.AP], ir.read_trec_qrels(str(files[0])), ir.read_trec_run(str(files[2])))
    assert found[ir.nDCG @ 10] == pytest.approx(get_score(made, "reverse")["nDCG@10"])
    assert found[ir.AP] == pytest.approx(get_score(made, "reverse")["MAP"])


@pytest.mark.parametrize(
    ("strategies", "measures", "told"), [(["nothing"], [], "there is no strategy"), ([], ["beauty"], "no measure")]
)
def test_names_that_do_not_exist_are_refused(
    engine: Engine, strategies: Sequence[str], measures: Sequence[str], told: str
) -> None:
    with pytest.raises((NotFound, SettingsError), match=told):
        evaluate(engine, QUESTIONS, strategies=strategies, measures=measures, keep=False)


def test_a_dropped_collection_takes_its_runs_along(engine: Engine, tmp_path: Path) -> None:
    evaluate(engine, QUESTIONS, strategies=["lexical"])
    engine.close()
    assert Engine.drop_collection(tmp_path / "store", "default").left == ()
    assert not (tmp_path / "store" / "default").exists()


def test_a_collection_on_a_server_keeps_runs_where_it_is_told_to(postgres: str, tmp_path: Path) -> None:
    with Engine.open(postgres, embedder="hashed") as engine:
        engine.add_documents([make_page(at) for at in range(len(THINGS))])
        assert evaluate(engine, QUESTIONS, strategies=["lexical"]).run.file is None
        (tmp_path / "questions.jsonl").write_text("{}")  # not a run
        made = evaluate(engine, QUESTIONS, strategies=["lexical", "hybrid"], folder=tmp_path)
        assert get_score(made, "lexical")["evidence@2000 tokens"] == 1.0
        assert [run.id for run in list_runs(engine, folder=tmp_path)] == [made.run.id]


def test_a_secret_is_not_written_into_a_run(engine: Engine) -> None:
    secret = override_settings(engine.settings, {"llm.api_key": "hush-hush"})
    made = evaluate(engine, QUESTIONS[:2], settings={"key": secret})
    assert made.run.systems[0].settings.keys() == {"llm.api_key"}
    assert "hush" not in engine.opened.store.records.read("evaluations", made.run.id)
