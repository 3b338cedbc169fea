"""What is added through the page, in Chromium: many files, folders, what cannot be read, and errors in plain words."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import pytest

from tests.surface.server.conftest import Running
from tests.surface.web.conftest import Browser, Page, expect, opening


@pytest.fixture
def sent(served: Running, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The names that each upload arrived with."""
    names: list[list[str]] = []
    save = served.server.uploads.save

    def note(collection: str, files: Iterable[tuple[str, IO[bytes]]]) -> Any:
        listed = list(files)
        names.append([name for name, _ in listed])
        return save(collection, listed)

    monkeypatch.setattr(served.server.uploads, "save", note)
    return names


def test_many_files_are_sent_in_parts(browser: Browser, served: Running, sent: list[list[str]], tmp_path: Path) -> None:
    files = [tmp_path / f"barge-{number}.md" for number in range(103)]
    for number, file in enumerate(files):
        file.write_text(f"# Barge {number}\n\nBarge {number} carries coal.")
    with opening(browser, served, "library?find=barge-") as page:
        page.locator("#files").set_input_files(files)
        jobs = page.get_by_role("list", name="Jobs")
        expect(jobs).to_contain_text("103 documents added")
        expect(jobs.locator("[data-outcome]")).to_have_attribute("data-outcome", "done")
        expect(page.get_by_text("103 shown")).to_be_visible()
        assert [len(names) for names in sent] == [100, 3]


@pytest.mark.parametrize("how", ["chosen", "dropped"])
def test_a_folder_is_sent_with_the_paths_in_it(
    browser: Browser, served: Running, sent: list[list[str]], tmp_path: Path, how: str
) -> None:
    folder = tmp_path / f"wharf-{how}"
    for part in ("north", "south", ".git"):
        (folder / part).mkdir(parents=True)
        (folder / part / f"{how}.md").write_text(f"# Wharf {how} {part}\n\nCranes of the {part} wharf, {how}.")
    with opening(browser, served, f"library?find=wharf+{how}") as page:
        expect(page.get_by_text("0 shown")).to_be_visible()
        if how == "chosen":
            page.locator("#folder").set_input_files(folder)
        else:
            drop(page, folder)
        expect(page.get_by_role("list", name="Jobs")).to_contain_text("2 documents added")
        expect(page.locator("tbody tr")).to_have_count(2)
        assert sorted(sent[0]) == [f"wharf-{how}/{part}/{how}.md" for part in ("north", "south")]
        expect(page.get_by_role("list", name="Jobs")).to_contain_text("1 hidden file left out")


def drop(page: Page, path: Path) -> None:
    """Drops a file or a folder on the page as the system does."""
    devtools = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(path)], "dragOperationsMask": 19}
    for kind in ("dragEnter", "dragOver", "dragOver", "drop"):
        devtools.send("Input.dispatchDragEvent", {"type": kind, "x": 300, "y": 300, "data": data})


def test_what_could_not_be_added_is_no_success(browser: Browser, served: Running, tmp_path: Path) -> None:
    empty, odd, good = tmp_path / "empty.md", tmp_path / "odd.xyz", tmp_path / "Gangway.md"
    empty.write_bytes(b"")
    odd.write_bytes(bytes(range(256)))
    good.write_text("# Gangway\n\nThe gangway is raised at nine.")
    with opening(browser, served, "library?find=gangway") as page:
        job = page.locator("[data-outcome]")
        page.locator("#files").set_input_files([empty])
        expect(job).to_have_attribute("data-outcome", "failed")
        expect(job).to_contain_text("Nothing was added")
        expect(job).to_contain_text("empty.md Empty: there is nothing to read.")
        job.get_by_role("button", name="Hide").click()
        page.locator("#files").set_input_files([odd])
        expect(job).to_have_attribute("data-outcome", "failed")
        expect(job).to_contain_text("odd.xyz Files of this kind cannot be read.")
        expect(job).not_to_contain_text(".adoc")
        job.get_by_role("button", name="Hide").click()
        page.locator("#files").set_input_files([good, odd, empty])
        expect(job).to_have_attribute("data-outcome", "partial")
        expect(job).to_contain_text("1 document added, 1 passage, 2 files not added")
        expect(page.get_by_role("row", name=re.compile("Gangway"))).to_be_visible()


def test_a_file_dropped_on_another_view_is_added(browser: Browser, served: Running, tmp_path: Path) -> None:
    file = tmp_path / "Capstan.md"
    file.write_text("# Capstan\n\nThe capstan turns by hand.")
    with opening(browser, served, "search?q=vault") as page:
        expect(page.locator("[data-hit]").first).to_be_visible()
        drop(page, file)
        expect(page.get_by_role("heading", name="Library")).to_be_visible()
        expect(page.get_by_role("list", name="Jobs")).to_contain_text("1 document added")


ERRORS = {
    "search?q=vault&min_relevance=3": "Change or clear the filters and settings",
    "search?q=vault&in=nowhere": "There is no collection “nowhere” here. Choose another",
    "library?doc=gone": "This document is not in the collection.",
}


def test_errors_are_told_in_plain_words(browser: Browser, served: Running) -> None:
    with opening(browser, served, "search", allowed=("status of 404", "status of 422")) as page:
        for place, said in ERRORS.items():
            page.goto(f"/#/{place}")
            expect(page.get_by_role("alert").filter(has_text=said)).to_be_visible()
            for raw in ("body.", "clew add", "/docs", "store"):
                expect(page.get_by_role("alert")).not_to_contain_text(raw)


def test_a_server_that_is_gone_is_told(browser: Browser, served: Running) -> None:
    with opening(browser, served, "search?q=vault", allowed=("ERR_INTERNET_DISCONNECTED",)) as page:
        expect(page.locator("[data-hit]").first).to_be_visible()
        page.context.set_offline(True)
        page.get_by_role("searchbox").fill("soup")
        expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached. Check that it is running")
        page.context.set_offline(False)
        page.get_by_role("button", name="Try again").click()
        expect(page.locator("[data-hit]").first).to_have_text("Lunch")
