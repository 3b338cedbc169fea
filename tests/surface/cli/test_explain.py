"""why-not and check through the command line."""

import json
from pathlib import Path

import pytest

from tests.surface.cli.conftest import Clew

QUERY = "who rotates the keys?"


def test_why_not_names_the_stage_and_the_setting(clew: Clew) -> None:
    done = clew("why-not", QUERY, "pages/vault.md", "-k", "1")
    assert done.code == 0
    assert done.out.startswith("pages/vault.md: ")
    assert "it would be found with search.k = " in done.out
    shape = clew("why-not", QUERY, "pages/vault.md", "-k", "1", "--json").json
    assert shape["stage"] in ("depth", "fusion")
    value = shape["fix"]["value"]
    assert clew("why-not", QUERY, "pages/vault.md", "-k", str(value), "--json").json["stage"] == "found"
    assert clew("why-not", QUERY, "pages/vault.md", "-k", str(value - 1), "--json").json["stage"] != "found"


def test_a_command_may_be_written_with_an_underscore(clew: Clew) -> None:
    hyphen = clew("why-not", QUERY, "pages/vault.md", "-k", "1")
    assert clew("why_not", QUERY, "pages/vault.md", "-k", "1") == hyphen
    assert "Usage: clew why-not " in clew("why_not", "--help").out
    assert "why_not" not in clew("--help").out


@pytest.mark.parametrize(
    ("words", "stage", "setting"),
    [
        (("pages/vault.md", "--tokens", "30"), "budget", "context.tokens"),
        (("pages/vault.md", "--kind", "thread"), "filter", "where.kinds"),
        (("nowhere.md",), "not ingested", None),
    ],
)
def test_why_not_of_a_context_a_filter_and_what_was_never_added(
    clew: Clew, words: tuple[str, ...], stage: str, setting: str | None
) -> None:
    shape = clew("why-not", QUERY, *words, "--json").json
    assert (shape["stage"], shape["fix"] and shape["fix"]["setting"]) == (stage, setting)


def test_citations_of_past_answers_are_checked(fresh: Clew, tmp_path: Path) -> None:
    clew = fresh
    clew("add", "pages")
    shapes = [clew("context", QUERY, "-k", "1", "--json").json, clew("context", "soup", "-k", "1", "--json").json]
    kept = tmp_path / "answers.jsonl"
    kept.write_text("\n".join(json.dumps(shape) for shape in shapes))
    whole = clew("check", str(kept))
    assert (whole.code, whole.out) == (0, "2 of 2 answers have valid citations\n")
    clew("drop", "pages/lunch.md")
    done = clew("check", str(kept))
    assert done.code == 8
    assert clew("check", str(kept), "--json").code == 8
    kept_alone = tmp_path / "one.json"
    kept_alone.write_text(json.dumps(shapes[0]))
    assert clew("check", str(kept_alone)).code == 0
    assert clew("check", "-", stdin=kept_alone.read_text()).code == 0
    assert done.out.splitlines()[0].startswith("gone: soup  pages/lunch.md  ")
    assert done.out.splitlines()[-1] == "1 of 2 answers have valid citations"
    checked = clew("check", str(kept), "--json").json["answers"]
    assert [(one["question"], one["stands"]) for one in checked] == [(QUERY, True), ("soup", False)]
    assert checked[1]["citations"][0]["standing"] == "gone"


def test_a_file_without_citations_is_refused(clew: Clew, tmp_path: Path) -> None:
    cases = {
        "no JSON": "is not JSON",
        '{"a": 1}': "object 1 has no list of citations",
        '{"citations": [{"document": "x"}]}': "has no version, start, end, hash",
        '{"citations": [3]}': "is not an object",
        '{"citations": [{"document": "x", "version": "", "start": "0", "end": 1, "hash": "h"}]}': "not a whole number",
        '{"citations": [{"document": 1, "version": "", "start": 0, "end": 1, "hash": "h"}]}': "not text",
        '{"citations": [{"document": "x", "version": "", "start": 0, "end": 1, "hash": "h", "at": "x"}]}': "not a time",
    }
    for text, words in cases.items():
        (tmp_path / "bad.json").write_text(text)
        done = clew("check", str(tmp_path / "bad.json"))
        assert done.code == 4, text
        assert words in done.err
    assert clew("check", str(tmp_path / "none.json")).code == 4


def test_how_a_context_is_written(clew: Clew) -> None:
    assert clew("context", QUERY, "--render", "knowledge_base").out.startswith("## Knowledge Base\n\n### [1] ")
    assert clew("context", QUERY, "--render", "psychic").code == 3
