"""Reading on the page in Chromium: what is new comes into sight, and what is named can be told apart."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clew import Document, Engine, Message
from tests.surface.server.conftest import Running, serving
from tests.surface.web.conftest import opening

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WIDE: dict[str, Any] = {"viewport": {"width": 1360, "height": 700}}
DEEP = "handbook/engineering/infrastructure/production/databases/upgrades/major-versions.md"


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server without keys over pages whose titles repeat, deep paths, and a channel of two years."""
    path = tmp_path_factory.mktemp("shelf") / "store"
    said = [(2024, 1, "The mast is new."), (2024, 2, "The keel is old."), (2026, 3, "The sail is torn.")]
    with Engine.open(path, embedder="hashed") as engine:
        engine.add_documents(
            Document(
                f"d{number}", f"# Overview\n\nLamp {number} burns oil of kind {number}.", title="Overview", uri=uri
            )
            for number, uri in enumerate(
                ["/srv/data/" + DEEP, "/srv/data/lamp.md", "/srv/data/handbook/a.md", "/srv/data/handbook/b.md"]
            )
        )
        engine.add_documents(
            [
                Document(
                    "tide",
                    "# Tide\n\n## Spring\n\nThe spring tide of the harbour comes at dawn in the harbour."
                    "\n\n## Neap\n\nThe neap tide of the harbour comes at dusk in the harbour.",
                    title="Tide",
                )
            ]
        )
        engine.add_messages(
            Message(text, author="gil", at=datetime(year, month, 5, tzinfo=UTC), channel="hull", id=text)
            for year, month, text in said
        )
    with serving(path) as running:
        yield running


def test_a_new_conversation_raises_nothing_and_the_newest_question_is_in_sight(
    browser: "Browser", shelf: Running
) -> None:
    from playwright.sync_api import expect

    with opening(browser, shelf, "ask", **WIDE) as page:
        expect(page.get_by_role("list", name="Examples").get_by_role("button").first).to_be_visible()
        for number in range(4):
            page.get_by_label("Question").fill(f"What does lamp {number} burn?")
            page.keyboard.press("Enter")
            expect(page.locator("article footer")).to_have_count(number + 1)
            expect(page.locator("article h2").last).to_be_in_viewport(ratio=1)
        expect(page.get_by_role("navigation", name="Conversations with").locator("li time")).to_have_text(
            re.compile("now|sec")
        )
        page.mouse.move(700, 300)
        page.mouse.wheel(0, -5000)
        expect(page.locator("article h2").first).to_be_in_viewport()
        page.get_by_role("link", name="New conversation").click()
        page.get_by_label("Question").fill("When does the tide come?")
        page.keyboard.press("Enter")
        expect(page.locator("article footer")).to_have_count(1)


def test_each_citation_has_its_own_number(browser: "Browser", shelf: Running) -> None:
    from playwright.sync_api import expect

    with opening(browser, shelf, "ask", **WIDE) as page:
        page.get_by_label("Question").fill("When do the spring tide and the neap tide of the harbour come?")
        page.keyboard.press("Enter")
        expect(page.locator("article footer")).to_be_visible()
        numbers = page.locator(".source .number").all_inner_texts()
        assert numbers
        assert numbers == [str(each + 1) for each in range(len(numbers))]
        for sentence in page.locator(".sentence", has=page.locator(".mark")).all():
            words = sentence.locator("p").first.inner_text()
            season = "spring" if "spring" in words else "neap"
            sentence.locator(".mark").first.click()
            expect(page.get_by_role("complementary", name="Source").locator(".found").last).to_contain_text(season)


def test_the_library_shows_whole_paths(browser: "Browser", shelf: Running) -> None:
    from playwright.sync_api import expect

    with opening(browser, shelf, "library", **WIDE) as page:
        place = page.locator("td.place .path[title*=major]")
        expect(place).to_have_text(DEEP)
        expect(place).to_have_attribute("title", "/srv/data/" + DEEP)
        expect(place.locator(".last")).to_have_text("/major-versions.md")
        assert place.locator(".folders").evaluate("each => getComputedStyle(each).textOverflow") == "ellipsis"


def test_the_strip_covers_the_channel_and_the_first_thread_is_open(browser: "Browser", shelf: Running) -> None:
    from playwright.sync_api import expect

    with opening(browser, shelf, "conversations?channel=hull", **WIDE) as page:
        expect(page.get_by_role("region", name="Thread", exact=True)).to_contain_text("The sail is torn.")
        bars = page.get_by_role("group", name="Messages by day").get_by_role("button")
        expect(bars).to_have_count(3)
        bars.first.click()
        expect(page.get_by_text(re.compile("1 thread in"))).to_be_visible()
        expect(page.locator("button.thread")).to_contain_text("The mast is new.")


def test_an_empty_collection_has_no_filters_and_a_folder_names_its_upload(browser: "Browser", tmp_path: Path) -> None:
    from playwright.sync_api import expect

    folder = tmp_path / "handbook"
    for name in ("one", "two"):
        (folder / name).mkdir(parents=True)
        (folder / name / f"{name}.md").write_text(f"# {name}\n\nPage {name} is here.")
    with serving(tmp_path / "store") as running, opening(browser, running, "search", allowed=("404",)) as page:
        expect(page.get_by_text("Nothing to search yet")).to_be_visible()
        expect(page.get_by_role("group", name="Filters")).to_have_count(0)
        page.goto("/#/library")
        page.locator("#folder").set_input_files(folder)
        expect(page.get_by_role("list", name="Jobs")).to_contain_text("handbook, 2 files")
        expect(page.get_by_role("list", name="Jobs")).to_contain_text("2 documents added")
        page.goto("/#/search")
        expect(page.get_by_role("group", name="Filters")).to_be_visible()
