"""What keys do on the page, in Chromium: undo after a delete, Esc, the slash, and where the focus goes."""

import re

from tests.surface.server.conftest import Running
from tests.surface.web.conftest import Browser, expect, opening


def test_a_delete_is_undone_wherever_the_focus_is(browser: Browser, served: Running) -> None:
    with opening(browser, served, "library") as page:
        row = page.locator("tbody tr", has_text="Harbour log 7")
        field = page.get_by_role("searchbox", name="Filter by title or address")
        field.press_sequentially("log 7")
        expect(page.locator("tbody tr")).to_have_count(1)
        for where in ("row", "filter", "body"):
            row.get_by_role("button", name="Delete").click()
            expect(row).to_have_count(0)
            if where == "filter":
                field.focus()
            elif where == "body":
                page.evaluate("document.activeElement.blur()")
            page.keyboard.press("Control+z")
            expect(row).to_be_visible()
            expect(field).to_have_value("log 7")
            expect(page.get_by_role("button", name="Undo")).to_have_count(0)
    assert "note-7" in served.get("/v1/documents").text


def test_what_is_typed_after_a_delete_is_taken_back_first(browser: Browser, served: Running) -> None:
    with opening(browser, served, "library") as page:
        field = page.get_by_role("searchbox", name="Filter by title or address")
        page.locator("tbody tr", has_text="Harbour log 8").get_by_role("button", name="Delete").click()
        field.press_sequentially("log 8")
        expect(page.locator("tbody tr")).to_have_count(0)
        page.keyboard.press("Control+z")
        expect(field).not_to_have_value("log 8")  # the browser's own undo
        field.fill("log 8")
        page.get_by_role("button", name="Undo").click()
        expect(page.locator("tbody tr", has_text="Harbour log 8")).to_be_visible()
    assert "note-8" in served.get("/v1/documents").text


def test_a_slash_is_a_letter_in_a_field_and_a_key_elsewhere(browser: Browser, served: Running) -> None:
    with opening(browser, served, "library") as page:
        field = page.get_by_role("searchbox")
        expect(page.locator("tbody tr").first).to_be_visible()
        page.keyboard.press("/")
        expect(field).to_be_focused()
        expect(field).to_have_value("")
        page.keyboard.type("logs/7")
        expect(field).to_have_value("logs/7")
        page.goto("/#/search")
        expect(page.get_by_role("searchbox")).to_be_focused()
        page.keyboard.type("logs/7")
        expect(page.get_by_role("searchbox")).to_have_value("logs/7")


def test_escape_closes_what_was_opened_last(browser: Browser, served: Running) -> None:
    with opening(browser, served, "search?q=vault+key&doc=keys&at=0-20") as page:
        panel = page.get_by_role("region", name="Settings of this search")
        source = page.get_by_role("complementary", name="Source")
        expect(source).to_be_visible()
        page.get_by_role("button", name="Settings").click()
        panel.get_by_label("Strategy").focus()
        page.keyboard.press("Escape")
        expect(panel).to_have_count(0)
        expect(page.get_by_role("button", name="Settings")).to_be_focused()
        expect(source).to_be_visible()
        page.get_by_role("button", name="Kind").click()
        page.keyboard.press("Escape")
        expect(page.get_by_role("group", name="Kind")).to_have_count(0)
        page.get_by_role("searchbox").focus()
        page.keyboard.press("Escape")
        expect(source).to_have_count(0)
        expect(page.get_by_role("searchbox")).to_have_value("vault key")


def test_a_question_of_another_view_waits_to_be_asked(browser: Browser, served: Running) -> None:
    with opening(browser, served, "search?q=who+rotates+the+vault+key") as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url) if "/chats/" in request.url else None)
        expect(page.locator("[data-hit]").first).to_have_text("Vault")
        page.get_by_role("link", name="Ask", exact=True).click()
        question = page.get_by_label("Question")
        expect(question).to_have_value("who rotates the vault key")
        expect(question).to_be_focused()
        page.get_by_role("link", name="Explain", exact=True).click()
        expect(page.get_by_label("Question to explain")).to_be_focused()
        expect(page.locator(".trace li").first).to_be_visible()
        assert asked == []
        page.get_by_role("link", name="Ask", exact=True).click()
        expect(question).to_have_value("who rotates the vault key")
        page.keyboard.press("Enter")
        expect(page.locator("article .sentence").first).to_contain_text("Dan rotates")
        page.goto("/#/search?q=who+rotates+the+vault+key")
        page.get_by_role("link", name="Ask instead").click()
        expect(page.locator("article .sentence").first).to_contain_text("Dan rotates")


def test_every_view_shows_as_many_results(browser: Browser, served: Running) -> None:
    with opening(browser, served, "search?q=harbour+log+of+day+7") as page:
        expect(page.locator("[data-hit]")).to_have_count(10)
        page.get_by_role("link", name="Explain this search").click()
        expect(page.locator(".scores tbody tr")).to_have_count(10)
        page.go_back()
        page.get_by_role("searchbox").fill("harbour log of day 8")
        expect(page).to_have_title(re.compile("day 8"))
        page.get_by_role("link", name="Library").click()
        page.go_back()
        expect(page.get_by_role("searchbox")).to_have_value("harbour log of day 8")
