"""`clew doctor`: what it prints, and the code that it exits with."""

from pathlib import Path

import pytest

from tests.engine.upkeep.changes import change_folder
from tests.surface.cli.conftest import Clew


def test_a_sound_collection_is_said_to_be_sound(clew: Clew) -> None:
    done = clew("doctor")
    assert done.code == 0
    assert "sound" in done.out
    assert clew("doctor", "--json").json["is_sound"]


def test_defects_are_named_and_repaired(fresh: Clew) -> None:
    assert fresh("add", "pages").code == 0
    change_folder(
        fresh.folder / ".clew" / "default",
        "UPDATE chunks SET text = 'forged' WHERE row = (SELECT min(row) FROM chunks)",
    )
    done = fresh("doctor")
    assert done.code == 6
    assert "truth: the chunk" in done.out
    assert "of the document 'pages/lunch.md'" in done.out
    assert "with --repair: its chunks are made again" in done.out
    done = fresh("doctor", "--repair", "--json")
    assert done.code == 0
    assert [defect["is_repaired"] for defect in done.json["defects"]] == [True]
    assert fresh("doctor").code == 0


def test_a_document_that_is_removed_is_named_and_counted_apart(fresh: Clew) -> None:
    assert fresh("add", "pages").code == 0
    Path("pages/lunch.md").unlink()  # a warning beside it, which is told once
    page = "(SELECT row FROM documents WHERE uri LIKE '%oncall.md')"
    for table in ("pieces", "chunks"):  # of the text nothing is left
        change_folder(fresh.folder / ".clew" / "default", f"UPDATE {table} SET text = 'forged' WHERE doc = {page}")
    done = fresh("doctor", "--repair")
    assert "the document 'pages/oncall.md'" in done.out
    assert done.out.count("sources:") == 1
    assert "1 document removed" in done.out


def test_a_file_that_cannot_be_opened_is_a_report_too(fresh: Clew) -> None:
    assert fresh("add", "pages").code == 0
    (file,) = fresh.folder.rglob("clew.db")
    file.write_bytes(b"garbage" * 4000)
    for log in fresh.folder.rglob("clew.db-*"):
        log.unlink()
    done = fresh("doctor", "--json")
    assert done.code == 6
    assert [defect["area"] for defect in done.json["defects"]] == ["truth"]
    assert "restore" in done.json["defects"][0]["advice"]
    done = fresh("doctor", "--repair")
    assert "`clew doctor" not in done.out
    assert "1 defect\n" in done.out


def test_a_collection_without_its_record_is_an_error_with_advice(fresh: Clew) -> None:
    assert fresh("add", "pages").code == 0
    change_folder(fresh.folder / ".clew" / "default", "DELETE FROM meta")
    for command in (("search", "vault"), ("list",), ("status",), ("doctor",), ("doctor", "--repair")):
        done = fresh(*command)
        assert done.code == 6
        assert "the record of the collection is gone; restore a backup" in f"{done.out}{done.err}".replace("\n", " ")
    (listed,) = fresh("collections", "--json").json["collections"]
    assert "the record of the collection is gone" in listed["problem"]


FLIPS = {
    "embedder": ["'hashee'", "CAST(x'68FF' AS TEXT)"],
    "dim": ["dim + 1"],
    "change": ["0", "'many'"],
    "chunks": ["99"],
    "last": ["1"],
    "birth": ["'x' || substr(birth, 2)"],
    "created": ["'when?'"],
    "sum": ["sum + 1"],
}


@pytest.mark.parametrize(("column", "value"), [(name, value) for name, values in FLIPS.items() for value in values])
def test_a_damaged_record_of_the_collection_is_made_again(fresh: Clew, column: str, value: str) -> None:
    assert fresh("add", "pages").code == 0
    found, listed = fresh.hits("vault keys"), fresh("status", "--json").json
    change_folder(fresh.folder / ".clew" / "default", f"UPDATE meta SET {column} = {value}")
    for command in (("search", "vault"), ("doctor",)):
        done = fresh(*command)
        assert done.code == 6
        assert "the record of the collection is damaged" in done.out + done.err
        assert "`clew doctor --repair" in done.out + done.err
    done = fresh("doctor", "--repair", "--json")
    assert (done.code, [each["remedy"] for each in done.json["defects"]]) == (0, ["rebuild"]), done.out
    assert fresh.hits("vault keys") == found
    now = fresh("status", "--json").json
    assert [now[name] for name in ("documents", "chunks", "embedder")] == [
        listed[name] for name in ("documents", "chunks", "embedder")
    ]
    assert fresh("collections", "--json").json["collections"][0]["problem"] == ""
    assert fresh("add", "pages").code == 0
    assert fresh("doctor", "--full").code == 0


def test_an_embedder_that_nothing_names_is_asked_for(fresh: Clew) -> None:
    named, unnamed = {"CLEW_EMBEDDER__NAME": "hashed:32"}, {"CLEW_EMBEDDER__NAME": ""}
    assert fresh("add", "pages", **named).code == 0
    found = fresh.hits("vault keys", **unnamed)
    change_folder(fresh.folder / ".clew" / "default", "UPDATE meta SET embedder = 'hashed:33'")
    done = fresh("doctor", "--repair", "--json", **unnamed)
    assert done.code == 6
    assert "`clew --embedder NAME doctor --repair`" in done.json["defects"][0]["advice"]
    assert fresh("--embedder", "hashed:32", "doctor", "--repair", **unnamed).code == 0
    assert fresh.hits("vault keys", **unnamed) == found
