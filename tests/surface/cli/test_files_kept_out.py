"""What keeps files out, and why a file is not there, through the command line."""

import json

import pytest

from tests.surface.cli.conftest import Clew


@pytest.mark.parametrize("name", [".clewignore", ".gitignore"])
def test_a_linked_ignore_file_is_followed(fresh: Clew, name: str) -> None:
    (fresh.folder / "rules").write_text("lunch.md\n")
    (fresh.folder / "pages" / name).symlink_to(fresh.folder / "rules")
    done = fresh("add", "pages", "--json")
    assert (done.code, len(done.json["added"])) == (0, 3)
    assert done.json["passed_over_counts"][f"in {name}"] == 1


@pytest.mark.parametrize("is_above", [False, True])
@pytest.mark.parametrize("target", ["nowhere", "."])
def test_an_ignore_file_that_links_to_no_file_keeps_the_folder_out(fresh: Clew, target: str, is_above: bool) -> None:
    below = fresh.folder / "pages" / "below"
    below.mkdir()
    (below / "deep.md").write_text("# Deep\n\nWords.")
    (fresh.folder / "pages" / ".clewignore").symlink_to(target)
    done = fresh("add", "pages/below" if is_above else "pages", "--json")
    assert (done.code, done.json["added"]) == (4, [])
    assert "is a link that leads to no file" in done.json["failed"][0]["reason"]


def test_why_not_says_why_a_file_would_be_passed_over(fresh: Clew) -> None:
    pages = fresh.folder / "pages"
    (pages / ".git").mkdir()
    (pages / ".gitignore").write_text("drafts/\n")
    (pages / ".env").write_text("KEY=hunter2")
    (pages / "drafts").mkdir()
    (pages / "drafts" / "new.md").write_text("# New\n\nWords.")
    assert fresh("add", "pages").code == 0
    for name, reason in (("pages/.env", "hidden"), ("pages/drafts/new.md", "in .gitignore")):
        told = fresh("why-not", "secret", name).out
        assert f"passes it over ({reason}); to add it all the same, run `clew add {name}`" in " ".join(told.split())
        assert fresh("add", name).code == 0
    (pages / "plain.md").write_text("# Plain\n\nWords.")
    assert "was never added; run" in " ".join(fresh("why-not", "secret", "pages/plain.md").out.split())


def test_a_channel_in_json_lines_is_stored_without_its_sign(fresh: Clew) -> None:
    rows = [{"text": "The crane lifts.", "author": "ann", "channel": name} for name in ("#random", "random")]
    (fresh.folder / "chat.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert fresh("add", "chat.jsonl").code == 0
    hits = fresh("search", "crane", "--channel", "random", "--json").json["hits"]
    assert {hit["chunk"]["meta"]["channel"] for hit in hits} == {"random"}


def test_a_message_that_is_not_there_is_hinted_at_in_words_of_the_command_line(clew: Clew) -> None:
    done = clew("drop", "--messages", "m9999")
    assert done.code != 0
    assert "`clew search --json` shows" in done.err
    assert "chunk.meta" not in done.err
