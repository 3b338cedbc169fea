"""`clew erase`: it asks before it erases, prints the receipt, and its exit code says whether anything is left."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import asdict

import pytest

from clew.core.jobs import Job
from clew.drivers.store.sqlite import schema
from tests.surface.cli.conftest import Clew


@pytest.fixture
def clew(fresh: Clew) -> Clew:
    """The command line with a collection of its own."""
    done = fresh("add", "pages")
    assert done.code == 0, done.err
    return fresh


def test_a_dry_run_prints_counts_and_erases_nothing(clew: Clew) -> None:
    done = clew("erase", "pages/vault.md", "--dry-run")
    assert done.code == 0, done.err
    assert "would erase 1 document," in done.out
    assert "  pages/vault.md  Vault" in done.out
    assert clew("read", "pages/vault.md").code == 0


def test_many_documents_are_listed_in_part(clew: Clew) -> None:
    (clew.folder / "logs").mkdir()
    for number in range(23):
        (clew.folder / "logs" / f"{number:02}.md").write_text(f"# Log {number}\n\nAll quiet.\n", encoding="utf-8")
    assert clew("add", "logs").code == 0
    done = clew("erase", *(f"logs/{number:02}.md" for number in range(23)), "--dry-run")
    assert done.code == 0, done.err
    assert len([line for line in done.out.splitlines() if line.startswith("  logs/")]) == 20
    assert "  and 3 more" in done.out


def test_it_needs_yes_where_nobody_can_be_asked(clew: Clew) -> None:
    done = clew("erase", "pages/vault.md")
    assert done.code == 2
    assert "--yes" in done.err
    assert clew("read", "pages/vault.md").code == 0


@pytest.mark.parametrize("answer", ["y", "n"])
@pytest.mark.slow
def test_it_asks_at_a_terminal(clew: Clew, answer: str) -> None:
    script = "import sys; sys.stdin.isatty = lambda: True; from clew.surface.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "erase", "pages/vault.md"],
        input=f"{answer}\n",
        capture_output=True,
        text=True,
        check=False,
        cwd=clew.folder,
    )
    assert "Erase this for good?" in done.stdout + done.stderr
    assert "  pages/vault.md  Vault" in done.stdout
    assert (done.returncode == 0) is (answer == "y"), done.stderr
    assert clew("read", "pages/vault.md").code == (3 if answer == "y" else 0)


def test_an_erased_document_is_gone_and_the_receipt_says_so(clew: Clew) -> None:
    done = clew("erase", "pages/vault.md", "--yes")
    assert done.code == 0, done.err
    assert "erased 1 document," in done.out
    assert "overwritten: clew.db: rewritten (secure_delete, VACUUM)" in done.out
    assert "source file remains" in done.err
    assert "vault.md" not in clew.hits("signing keys rotated ninety")


def test_an_author_is_erased_with_a_receipt_in_json(clew: Clew) -> None:
    done = clew("erase", "--author", "dan", "--yes", "--json")
    assert done.code == 0, done.err
    receipt = done.json
    assert receipt["selector"] == "author dan"
    assert len(receipt["selector_hash"]) == 64
    assert len(receipt["documents"]) == 1
    assert (receipt["undone"], receipt["complete"], receipt["dry_run"]) == ([], True, False)
    assert clew("erase", "--author", "dan", "--yes").code == 3


def test_a_channel_is_erased(clew: Clew) -> None:
    assert clew("erase", "--channel", "ops", "--yes").code == 0
    assert "oncall.md" not in clew("list").out


def test_what_could_not_be_done_is_printed_and_the_exit_code_says_so(clew: Clew) -> None:
    with closing(sqlite3.connect(clew.folder / ".clew" / "default" / "clew.db")) as db, db:
        schema.register_functions(db)
        job = Job("j", "add", {"text": "Signing keys are rotated every ninety days"}, "running", worker="x", attempts=1)
        value = json.dumps({**asdict(job), "created": None, "updated": None})
        db.execute(
            "INSERT INTO named(kind, name, value, sum) VALUES('jobs', 'j', ?1, row_sum('jobs', 'j', ?1))", (value,)
        )
    done = clew("erase", "pages/vault.md", "--yes")
    assert done.code == 4
    assert "not done: the job j tells of it and has not ended" in done.err
    with closing(sqlite3.connect(clew.folder / ".clew" / "default" / "clew.db")) as db, db:
        db.execute("DELETE FROM named WHERE kind = 'jobs'")
    again = clew("erase", "--yes")
    assert again.code == 0, again.err
    assert "finished and erased" in again.out
