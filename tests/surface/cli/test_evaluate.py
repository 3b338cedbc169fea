"""`clew evaluate` and `clew tune`: what they print, keep and refuse."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.surface.cli.conftest import Clew

QUESTIONS: list[dict[str, Any]] = [
    {"id": "keys", "question": "who rotates the signing keys?", "relevant": ["vault.md"], "quote": "by Dan"},
    {"id": "pager", "question": "when does the pager rotation change?", "relevant": ["oncall.md"]},
    {"id": "soup", "question": "when is soup served?", "relevant": {"lunch.md": 2}, "answer": "at noon"},
]


@pytest.fixture
def judged(fresh: Clew) -> Clew:
    """The command line over the pages, with a file of judged questions."""
    assert fresh("add", "pages").code == 0
    Path("questions.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in QUESTIONS))
    return fresh


def test_a_table_and_the_differences_are_printed(judged: Clew) -> None:
    done = judged("evaluate", "questions.jsonl", "--strategy", "lexical", "--strategy", "semantic")
    assert done.code == 0, done.err
    header, first, second, *rest = done.out.splitlines()
    assert header.split("\t")[:2] == ["system", "nDCG@10"]
    assert first.split("\t")[:3] == ["lexical", "100.0", "100.0"]
    assert second.startswith("semantic\t")
    assert rest[0] == "means in percent over 3 questions; over 1: evidence@10, evidence@2000 tokens"
    assert rest[1].startswith("semantic − lexical, nDCG@10: ")
    assert "evaluating: 6 of 6 questions" in done.err


def test_settings_make_a_grid_and_options_may_come_first(judged: Clew) -> None:
    grid = ("--set", "search.depth=5,80", "--set", "search.fusion=rrf")
    done = judged("evaluate", *grid, "-k", "3", "--tokens", "0", "--no-keep", "--json", "questions.jsonl")
    assert done.code == 0, done.err
    assert [each["settings"] for each in done.json["systems"]] == [
        {},
        {"search.depth": 5, "search.fusion": "rrf"},
        {"search.depth": 80, "search.fusion": "rrf"},
    ]
    assert done.json["systems"][1]["name"] == "hybrid search.depth=5 search.fusion=rrf"
    assert done.json["systems"][0]["measures"].keys() >= {"nDCG@3", "recall@3", "precision@3", "MRR", "MAP"}
    assert done.json["file"] is None
    assert [each["measure"] for each in done.json["comparisons"]] == ["nDCG@3", "nDCG@3"]
    assert judged("evaluate", "list", "--json").json == {"runs": []}


def test_secrets_are_in_no_name_of_a_system(judged: Clew, tmp_path: Path) -> None:
    secrets = ("llm.api_key=sk-FIRST,sk-SECOND", "llm.url=https://me:sk-PASSWORD@models.example/v1")
    sets = [each for text in secrets for each in ("--set", text)]
    done = judged("evaluate", "questions.jsonl", *sets, "--runs", str(tmp_path / "runs"), "--json")
    assert done.code == 0, done.err
    assert len({each["name"] for each in done.json["systems"]}) == 3
    assert done.json["systems"][1]["name"].startswith("hybrid llm.api_key=********")
    assert done.json["systems"][1]["settings"]["llm.url"] == "https://me:********@models.example/v1"
    assert "sk-" not in done.out + done.err + Path(done.json["file"]).read_text()


@pytest.mark.slow
def test_answers_measures_and_filters_are_options(judged: Clew) -> None:
    options = ("--answers", "--measure", "recall@10", "--strategy", "lexical", "--strategy", "hybrid")
    done = judged("evaluate", "questions.jsonl", *options, "--document", "pages/lunch.md", "--json")
    assert done.code == 0, done.err
    measured = done.json["systems"][0]["measures"]
    assert measured["recall@10"] == pytest.approx(1 / 3)  # the others are outside the filter
    assert measured["answered"] > 0
    assert {each["measure"] for each in done.json["comparisons"]} == {"recall@10"}
    assert done.json["systems"][0]["risk"]


def test_runs_are_listed_shown_compared_and_exported(judged: Clew) -> None:
    first = judged("evaluate", "questions.jsonl", "--strategy", "lexical", "--json").json["id"]
    second = judged("evaluate", "questions.jsonl", "--strategy", "semantic", "--runs", "elsewhere", "--json").json["id"]
    assert [each["id"] for each in judged("evaluate", "list", "--json").json["runs"]] == [first]
    listed = judged("evaluate", "list").out
    assert first in listed
    assert "\tquestions.jsonl\t3\t" in listed
    assert judged("evaluate", "show", "--json").json["id"] == first
    assert judged("evaluate", "show", second, "--runs", "elsewhere").out.splitlines()[1].startswith("semantic")
    assert judged("evaluate", "show", second).code == 3
    other = judged("evaluate", "questions.jsonl", "--strategy", "hybrid", "--json").json["id"]
    compared = judged("evaluate", "compare", first, other)
    assert [line.split("\t")[0] for line in compared.out.splitlines()[1:3]] == ["lexical", "hybrid"]
    assert judged("evaluate", "compare", first).code == 2
    done = judged("evaluate", "export", "last", "trec")
    assert done.code == 0, done.err
    assert Path("trec/qrels.txt").read_text().splitlines()[-1].endswith(" 2")
    assert "soup Q0 " in Path("trec/1-hybrid.run").read_text()


def test_a_wrong_line_of_the_file_is_named(judged: Clew) -> None:
    with Path("questions.jsonl").open("a") as file:
        file.write('{"question": "who?"}\n')
    done = judged("evaluate", "questions.jsonl")
    assert done.code == 4
    assert "line 4: nothing is judged relevant" in done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--set", "search.dept=5"], "did you mean search.depth?"),
        (["--set", "search.depth"], "NAME=VALUE"),
        (["--set", "embedder.name=hashed:64"], "make another collection with it"),
        (["--set", "search.depth=deep"], "a whole number"),
        (["--strategy", "magic"], "there is no strategy 'magic'"),
        (["--measure", "beauty"], "no measure 'beauty'"),
    ],
)
def test_options_that_make_no_sense_are_refused(judged: Clew, words: list[str], told: str) -> None:
    done = judged("evaluate", "questions.jsonl", *words)
    assert done.code in (2, 3)
    assert told in done.err


def test_questions_are_made_and_can_be_evaluated(judged: Clew) -> None:
    Path("pages/rules.md").write_text(
        "# Rules of the harbour\n\n## Speed near the moorings\n\nNobody goes faster than three knots between the two "
        "green lights, and whoever does buys the next round of soup for all.\n"
    )
    assert judged("add", "pages").code == 0
    done = judged("evaluate", "make", "made.jsonl", "--source", "headings")
    assert done.code == 0, done.err
    assert "1 question written to made.jsonl" in done.out
    (line,) = Path("made.jsonl").read_text().splitlines()
    assert json.loads(line)["question"] == "What about Speed near the moorings?"
    assert json.loads(line)["made"] == "headings"
    assert judged("evaluate", "made.jsonl", "--json").json["systems"][0]["measures"]["evidence@10"] == 1.0
    more = judged("evaluate", "make", "more.jsonl", "--count", "1", "--seed", "2", "--json")
    assert len(more.json["questions"]) == 1
    again = judged("evaluate", "make", "questions.jsonl", "--source", "headings")
    assert (again.code, "--force replaces it" in again.err) == (2, True)
    assert len(Path("questions.jsonl").read_text().splitlines()) == len(QUESTIONS)
    assert judged("evaluate", "make", "more.jsonl", "--source", "headings", "--force").code == 0
    assert judged("evaluate", "make", "none.jsonl", "--source", "replies").code == 3
    assert judged("evaluate", "make", "none.jsonl", "--source", "model").code == 2


def test_help_names_the_parts(judged: Clew) -> None:
    done = judged("evaluate", "--help")
    assert done.code == 0
    assert all(part in done.out for part in ("make", "list", "show", "compare", "export", "run"))


def test_the_worst_questions_are_shown(judged: Clew) -> None:
    Path("questions.jsonl").write_text(
        "".join(f"{json.dumps(each)}\n" for each in [*QUESTIONS[1:], {**QUESTIONS[0], "quote": "by Nobody"}])
        + json.dumps({"question": "who feeds the goldfish?", "relevant": ["oncall.md"]})
    )
    done = judged("evaluate", "questions.jsonl", "--strategy", "lexical", "--strategy", "semantic", "--worst", "1")
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1].split("\t")[::2] == ["0.0", "who feeds the goldfish?"]
    assert "the questions are “who rotates the signing keys?”" in done.err.replace("\n", " ")
    shown = judged("evaluate", "show", "--worst", "2", "--measure", "MRR", "--questions", "questions.jsonl", "--json")
    assert shown.json["worst"][0]["text"] == "who feeds the goldfish?"
    assert shown.json["worst"][0]["values"]["lexical"] == 0.0
    assert judged("evaluate", "show", "--worst", "1").out.splitlines()[-1].split("\t")[-1] != "who feeds the goldfish?"


def write_boxes() -> None:
    Path("boxes").mkdir()
    for at in range(60):
        Path(f"boxes/{at}.md").write_text(f"Spare parts are kept in box number{at}, as always.\n")
    lines = [
        {"question": f"what is kept in box number{at}?", "relevant": [f"boxes/{at}.md"], "id": str(at)}
        for at in range(60)
    ]
    Path("boxes.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


@pytest.mark.slow
def test_a_setting_is_tuned_used_and_rolled_back(fresh: Clew) -> None:
    write_boxes()
    assert fresh("add", "boxes").code == 0
    floor = {"CLEW_SEARCH__MIN_RELEVANCE": "1"}  # nothing reaches it, so anything is better
    tries = ("--try", "search.min_relevance=0")
    dry = fresh("tune", "boxes.jsonl", *tries, "--dry-run", **floor)
    assert dry.code == 0, dry.err
    assert "not kept: a dry run keeps nothing" in dry.out
    done = fresh("tune", "boxes.jsonl", *tries, "--json", **floor)
    assert done.code == 0, done.err
    assert done.json["is_kept"]
    assert done.json["settings"] == {"search.min_relevance": 0.0}
    assert "in use: search.min_relevance = 0.0 (nDCG@10 +" in fresh("tune", "--show").out
    back = fresh("tune", "--rollback")
    assert "taken back: search.min_relevance = 0.0" in back.out
    assert "no tuned settings are in use" in back.out
    assert fresh("tune", "--rollback", "--json").json == {"tuned": [], "taken_back": None}
    none = fresh("tune", "boxes.jsonl", "--try", "search.depth=60")
    assert "not kept: nothing that was tried is better" in none.out
    assert fresh("tune").code == 2
    assert fresh("tune", "boxes.jsonl", "--try", "ingestion.chunk_size=99").code == 2
