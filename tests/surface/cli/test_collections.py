"""`clew collections`, and the times in `clew list`."""

from pathlib import Path

import pytest

from tests.engine.conftest import STORES
from tests.surface.cli.conftest import Clew


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, fresh: Clew, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path that the command line is given by the environment: a folder, or the address of a database."""
    path = ".clew" if request.param == "folder" else str(request.getfixturevalue("postgres"))
    monkeypatch.setenv("CLEW_PATH", path)
    return path


@pytest.mark.usefixtures("place")
def test_collections_are_listed_and_dropped(fresh: Clew) -> None:
    assert fresh("add", "pages", "--collection", "sales").code == 0
    assert fresh("add", "pages/vault.md", "--collection", "ops").code == 0
    listed = fresh("collections", "--json").json["collections"]
    assert [(each["name"], each["documents"], each["embedder"]) for each in listed] == [
        ("ops", 1, "hashed"),
        ("sales", 4, "hashed"),
    ]
    assert list(listed[0]) == ["name", "documents", "chunks", "embedder", "created", "updated", "bytes", "problem"]
    assert listed[0]["created"] <= listed[0]["updated"]
    assert fresh("collections", "list", "--json").json["collections"] == listed
    lines = [line.split("\t") for line in fresh("collections").out.splitlines()[1:]]
    assert [(line[0], line[1], line[3]) for line in lines] == [("ops", "1", "hashed"), ("sales", "4", "hashed")]
    dropped = fresh("collections", "drop", "sales", "--yes", "--json")
    assert (dropped.code, dropped.json["dropped"]["documents"], dropped.json["left"]) == (0, 4, [])
    assert [each["name"] for each in fresh("collections", "--json").json["collections"]] == ["ops"]
    assert fresh("collections", "drop", "ops", "--yes").out == "ops dropped, with 1 document\n"


@pytest.mark.usefixtures("place")
def test_a_drop_is_confirmed(fresh: Clew) -> None:
    fresh("add", "pages")
    refused = fresh("collections", "drop", "default")
    assert refused.code == 2
    assert refused.err == "clew: dropping 'default' deletes its 4 documents for good; add --yes\n"
    missing = fresh("collections", "drop", "defualt")
    assert (missing.code, missing.err) == (3, "clew: there is no collection 'defualt'; did you mean default?\n")
    assert fresh("collections", "drop", "defualt", "--yes").code == 3
    assert fresh("status", "--json").json["documents"] == 4


def test_what_is_not_clews_is_named(fresh: Clew) -> None:
    fresh("add", "pages")
    Path(".clew/default/notes.txt").write_text("mine")
    dropped = fresh("collections", "drop", "default", "--yes")
    assert dropped.err == "its folder stays: notes.txt is not Clew's\n"
    assert Path(".clew/default/notes.txt").exists()


def test_a_lost_database_is_named_and_dropped(fresh: Clew) -> None:
    fresh("add", "pages")
    Path(".clew/default/clew.db").unlink()
    for command in (["add", "pages"], ["search", "keys"], ["status"], ["plan", "pages"], ["jobs"]):
        done = fresh(*command)
        assert done.code == 6
        assert "clew.db is gone, but this was a collection" in done.err
        assert "collections drop default`" in done.err
    listed = fresh("collections")
    assert listed.code == 0
    assert listed.err.startswith("problem: default: ")
    assert fresh("collections", "drop", "default", "--yes").code == 0
    assert fresh("add", "pages").code == 0


def test_a_place_without_collections_says_how_to_make_one(fresh: Clew) -> None:
    done = fresh("collections")
    assert (done.code, done.err) == (3, "clew: there is no folder .clew, so no collections; `clew add` makes one\n")


@pytest.mark.usefixtures("place")
def test_the_list_shows_when_a_document_was_added_and_changed(fresh: Clew) -> None:
    fresh("add", "pages/lunch.md")
    (before,) = fresh("list", "--json").json["documents"]
    assert before["created"] == before["updated"]
    Path("pages/lunch.md").write_text("# Lunch\n\nSoup is served at one.\n")
    fresh("add", "pages/lunch.md")
    (after,) = fresh("list", "--json").json["documents"]
    assert after["created"] == before["created"]
    assert after["updated"] > before["updated"]
    *_, created, updated, language = fresh("list").out.rstrip("\n").split("\t")
    assert created == after["created"][:19].replace("T", " ")
    assert updated == after["updated"][:19].replace("T", " ")
    assert language == after["language"] == "en"
