from tests.surface.cli.conftest import Clew

"""Sources that are added in sections, through the command line."""


BOOK = "# Book\n\n## Keys\n\nThe blue key is for the shed.\n\n## Boats\n\nThe red boat leaks.\n"


def test_a_file_is_added_listed_searched_read_and_dropped_in_sections(fresh: Clew) -> None:
    (fresh.folder / "book.md").write_text(BOOK)
    assert fresh("plan", "book.md", "--sections", "--json").json["added"] == [
        "book.md#section-1",
        "book.md#section-2",
    ]
    assert fresh("add", "book.md", "pages/vault.md", "--sections").code == 0
    listed = {each["uri"]: each for each in fresh("list", "--json").json["documents"]}
    parts = [listed[f"book.md#section-{number}"]["meta"] for number in (1, 2)]
    assert [(meta["section_number"], meta["sections"]) for meta in parts] == [(1, 2), (2, 2)]
    assert "\tBook > Boats (2 of 2)\tbook.md#section-2" in fresh("list").out
    parent = parts[0]["parent"]
    assert set(fresh.hits("boat", "--meta", f"parent={parent}")) == {"book.md#section-1", "book.md#section-2"}
    assert set(fresh.hits("boat", "--document", "book.md")) == {"book.md#section-1", "book.md#section-2"}
    assert fresh.hits("boat", "--document", "book.md#section-1") == ["book.md#section-1"]
    assert fresh("read", "book.md").out == BOOK
    assert fresh("read", "book.md#section-2").out.startswith("## Boats")
    assert fresh("drop", "book.md", "--json").json == {"dropped": 2}
    assert fresh("read", "book.md").code != 0


def test_titles_of_sections_are_not_doubled(fresh: Clew) -> None:
    rollback = "## Rollback\n\nRoll back with the lever.\n"
    (fresh.folder / "deploy.md").write_text(f"# Deploy\n\nOn Mondays.\n\n{rollback}\n## Freeze\n\nNo deploys.\n")
    (fresh.folder / "leave.md").write_text("# Leave\n\n## Parental leave\n\nParents stay at home for a year.\n")
    assert fresh("add", "deploy.md", "leave.md", "--sections").code == 0
    titles = {line.split("\t")[3] for line in fresh("list").out.splitlines()[1:]}
    assert titles == {"Deploy (1 of 3)", "Deploy > Rollback (2 of 3)", "Deploy > Freeze (3 of 3)", "Leave"}
    found = fresh("search", "roll back with the lever").out
    assert "Deploy > Rollback" in found
    assert "Rollback > Rollback" not in found
    assert "Leave > Parental leave" in fresh("search", "parents at home").out
