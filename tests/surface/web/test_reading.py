"""Reading on the page in Chromium: what is new comes into sight, and what is named can be told apart."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from clew import Document, Engine, Message
from tests.surface.server.conftest import Running, serving
from tests.surface.web.conftest import Browser, expect, opening

WIDE: dict[str, Any] = {"viewport": {"width": 1360, "height": 700}}
CALLS = "Call __init__ and then __enter__ before snake__case__name(**opts), f(*args, **kwargs) or a_b_c."
CODE = "# the handlers of lathe\ndef run(lathe, **opts):\n    return lathe[name](*opts, `_x_`)\n"
TABLE = """# Rotation

| Key | Lives |
|---|---|
| Parcel keys | 90 days |
| Webhook secrets | 12 months |
"""
LOCK = "Barges wait at the quay. The `sluice` opens at six\n[every day](x.md). Boats pay nothing.\n\n- Bring a rope."
SKI = "Ski trip 🎿 2027"
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
        engine.add_documents(
            [
                Document("calls", f"# Dunder\n\n{CALLS} See **the page** of `lathe`, [here](x.md).", title="Calls"),
                Document("lathe", CODE, title="lathe.py", uri="/srv/data/lathe.py", meta={"format": "code"}),
                Document("sluice", f"# Sluice\n\n{LOCK}", title="Sluice"),
                Document("rotation", TABLE, title="Rotation of keys"),
            ]
        )
        engine.add_messages(
            [
                Message("# `dunder` *in* __chat__", author="eve", channel=SKI, id="s1"),
                Message("> who has the list?", author="gil", channel=SKI, id="s2", reply_to="s1"),
            ]
        )
        engine.add_messages(
            Message(text, author="gil", at=datetime(year, month, 5, tzinfo=UTC), channel="hull", id=text)
            for year, month, text in said
        )
    with serving(path) as running:
        yield running


def test_a_new_conversation_raises_nothing_and_the_newest_question_is_in_sight(
    browser: Browser, shelf: Running
) -> None:
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


def test_each_citation_has_its_own_number(browser: Browser, shelf: Running) -> None:
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


def test_the_library_shows_whole_paths(browser: Browser, shelf: Running) -> None:
    with opening(browser, shelf, "library", **WIDE) as page:
        place = page.locator("td.place .path[title*=major]")
        expect(place).to_have_text(DEEP)
        expect(place).to_have_attribute("title", "/srv/data/" + DEEP)
        expect(place.locator(".last")).to_have_text("/major-versions.md")
        assert place.locator(".folders").evaluate("each => getComputedStyle(each).textOverflow") == "ellipsis"


def test_the_strip_covers_the_channel_and_the_first_thread_is_open(browser: Browser, shelf: Running) -> None:
    with opening(browser, shelf, "conversations?channel=hull", **WIDE) as page:
        expect(page.get_by_role("region", name="Thread", exact=True)).to_contain_text("The sail is torn.")
        bars = page.get_by_role("group", name="Messages by day").get_by_role("button")
        expect(bars).to_have_count(3)
        bars.first.click()
        expect(page.get_by_text(re.compile("1 thread in"))).to_be_visible()
        expect(page.locator("button.thread")).to_contain_text("The mast is new.")


def test_an_empty_collection_has_no_filters_and_a_folder_names_its_upload(browser: Browser, tmp_path: Path) -> None:
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


SNIPPETS = {
    "handlers lathe": ("lathe.py", " ".join(CODE.split())),
    "dunder chat": ("eve", "# `dunder` *in* __chat__"),
    "dunder enter": ("Calls", f"{CALLS} See the page of lathe, here."),  # bold, code, a link
}


def test_a_snippet_says_what_its_source_says(browser: Browser, shelf: Running) -> None:
    with opening(browser, shelf, "search", **WIDE) as page:
        for asked, (name, said) in SNIPPETS.items():
            page.get_by_role("searchbox").fill(asked)
            hit = page.locator("article", has=page.locator("[data-hit]", has_text=re.compile(f"^\\s*{name}")))
            expect(hit.locator(".text")).to_have_text(said)
        page.wait_for_url("**enter")
        expect(page.locator("article .text strong")).to_have_text("the page")
        expect(page.locator("article .text code").first).to_have_text("lathe")
        page.get_by_role("button", name="Calls", exact=True).click()
        expect(page.get_by_role("complementary", name="Source")).to_contain_text(CALLS)
        page.goto("/#/explain?q=dunder+enter")
        expect(page.locator("td.passage").first).to_contain_text(f"Calls {CALLS}"[:120])


def test_a_row_of_a_table_is_marked_alone(browser: Browser, shelf: Running) -> None:
    start = TABLE.index("| Webhook")
    row = f"{start}-{len(TABLE)}"
    with opening(browser, shelf, f"search?doc=rotation&at={row}", **WIDE) as page:
        found = page.get_by_role("complementary", name="Source").locator(".found")
        expect(found).to_have_text(re.compile(r"^\s*Webhook secrets\s*12 months\s*$"))
        page.goto(f"/#/search?doc=rotation&at={TABLE.index('|')}-{len(TABLE)}")
        expect(found).to_have_text(re.compile("Key.*Parcel keys.*Webhook secrets", re.DOTALL))


def test_the_channel_is_no_part_of_a_title(browser: Browser, shelf: Running) -> None:
    with opening(browser, shelf, "library", **WIDE) as page:
        row = page.get_by_role("row", name=re.compile("dunder"))
        expect(row.locator(".title .grow > .clip")).to_have_text("# dunder in __chat__")
        expect(row.locator("td.place")).to_have_text(f"#{SKI}")
        page.goto(f"/#/conversations?channel={quote(SKI)}")
        expect(page.locator("button.thread .title")).to_have_text("# dunder in __chat__")
        page.goto("/#/search?q=who+has+the+list")
        hit = page.locator("article", has_text="> who has the list?")
        expect(hit.locator(".top p")).to_have_text(re.compile("# dunder in __chat__$"))
        expect(hit.locator("h3")).to_have_text(f"gil in #{SKI}")


def test_an_answer_shows_the_passage_and_marks_what_it_chose(browser: Browser, shelf: Running) -> None:
    with opening(browser, shelf, "ask", **WIDE) as page:
        asked = ("When does the sluice open?", "How long do the parcel keys live?", "Is the sail torn?")
        for number, question in enumerate(asked):
            page.get_by_label("Question").fill(question)
            page.keyboard.press("Enter")
            expect(page.locator("article footer")).to_have_count(number + 1)
        passages = page.locator(".passage")
        expect(passages.nth(0)).to_contain_text("Barges wait at the quay.")
        expect(passages.nth(0)).to_contain_text("Bring a rope.")
        expect(passages.nth(0).locator("mark")).to_have_text("The sluice opens at six every day.")
        expect(passages.nth(1).locator(".found")).to_have_text(re.compile(r"^\s*Parcel keys\s*90 days\s*$"))
        expect(passages.nth(1)).to_contain_text("Webhook secrets")
        expect(passages.nth(2).locator("mark")).to_have_text("The sail is torn.")
        expect(passages.nth(2)).to_contain_text("gil, 2026-03-05")
