"""The views of the page in Chromium, on a real server: what a user does, with mouse and with keys alone."""

import re
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from tests.surface.server.conftest import Running, fill, serving
from tests.surface.web.conftest import Browser, expect, opening

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


def test_search_as_one_types_and_open_the_span(browser: Browser, served: Running) -> None:
    with opening(browser, served, "search") as page:
        page.get_by_role("searchbox").press_sequentially("rotates the vault key")
        hit = page.locator("[data-hit]").first
        expect(hit).to_have_text("Vault")
        expect(page.locator("article mark").first).to_be_visible()
        expect(page.locator("article").first).to_contain_text("Relevance")
        hit.click()
        source = page.get_by_role("complementary", name="Source")
        expect(source.locator(".found").first).to_contain_text("Keys")
        expect(source.locator(".found mark").first).to_be_visible()
        address = page.url
        page.get_by_role("button", name="Close source").click()
        expect(source).to_have_count(0)
    assert "doc=keys" in address
    with opening(browser, served, address.partition("#/")[2]) as page:  # the link, opened by somebody else
        expect(page.get_by_role("searchbox")).to_have_value("rotates the vault key")
        expect(page.get_by_role("complementary", name="Source").locator(".found").first).to_be_visible()


def test_filters_narrow_the_search(browser: Browser, served: Running) -> None:
    with opening(browser, served, "search?q=build+server") as page:
        page.get_by_role("button", name="Author").click()
        page.get_by_label("ben").check()
        expect(page.locator("[data-hit]")).to_have_text([re.compile("^ben")])
        assert "author=ben" in page.url
        page.get_by_role("button", name="Clear all").click()
        page.get_by_role("button", name="By document").click()
        expect(page.get_by_text(re.compile(r"passages in \d+ documents"))).to_be_visible()


def test_keys_alone(browser: Browser, served: Running) -> None:
    with opening(browser, served, "library") as page:
        expect(page.get_by_role("row").nth(1)).to_be_visible()
        page.keyboard.press("Control+k")
        expect(page.get_by_role("combobox", name="Command or search")).to_be_focused()
        page.keyboard.type("go to search")
        page.keyboard.press("Enter")
        page.keyboard.press("/")
        page.keyboard.type("soup at noon")
        expect(page.locator("[data-hit]").first).to_have_text("Lunch")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.get_by_role("complementary", name="Source")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("complementary", name="Source")).to_have_count(0)
        expect(page.locator("[data-hit]").first).to_be_focused()


def test_ask_streams_cites_and_goes_on(browser: Browser, served: Running) -> None:
    with opening(browser, served, "ask") as page:
        page.get_by_label("Question").fill("Who rotates the vault key?")
        page.keyboard.press("Enter")
        answer = page.locator("article").first
        expect(answer.locator(".sentence").first).to_contain_text("Dan rotates the vault key")
        expect(answer.locator(".verdict")).to_contain_text("Word for word")
        answer.get_by_role("button", name="Source 1").click()
        expect(page.get_by_role("complementary", name="Source").locator(".found")).to_contain_text("Dan rotates")
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        answer.get_by_role("button", name="Copy the answer").click()
        expect(page.get_by_text("Answer copied")).to_be_visible()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert "Dan rotates the vault key on Monday. [1]" in copied
        assert "[1] Vault, handbook/vault.md" in copied
        page.get_by_label("Question").fill("When is soup served?")
        page.keyboard.press("Enter")
        expect(page.locator("article")).to_have_count(2)
        expect(page.locator("article").nth(1).locator(".sentence").first).to_be_visible()
        page.reload()
        expect(page.locator("article")).to_have_count(2)  # the conversation is kept


def test_upload_with_progress_then_delete_and_undo(browser: Browser, served: Running, tmp_path: Path) -> None:
    good, bad = tmp_path / "Beacon.md", tmp_path / "broken.pdf"
    good.write_text("# Beacon\n\nThe beacon blinks twice a minute.")
    bad.write_bytes(b"no PDF at all")
    with opening(browser, served, "library?find=beacon") as page:
        page.locator("#files").set_input_files([good, bad])
        jobs = page.get_by_role("list", name="Jobs")
        expect(jobs).to_contain_text("1 document added")
        expect(jobs).to_contain_text("broken.pdf")
        row = page.get_by_role("row", name=re.compile("Beacon"))
        expect(row).to_be_visible()
        row.get_by_role("button", name="Delete").click()
        expect(row).to_have_count(0)
        page.get_by_role("button", name="Undo").click()
        expect(row).to_be_visible()
        assert served.get("/v1/documents").text.count("Beacon") > 0
        row.get_by_role("button", name="Delete").click()
        assert served.get("/v1/documents").text.count("Beacon") > 0  # not before the time has passed
        with page.expect_response(lambda reply: reply.request.method == "DELETE"):
            page.get_by_role("button", name="Dismiss").click()
        expect(page.get_by_text("0 shown")).to_be_visible()
    assert "Beacon" not in served.get("/v1/documents").text


@pytest.mark.parametrize("how", ["reload", "close"])
def test_a_delete_survives_leaving_the_page(browser: Browser, tmp_path: Path, how: str) -> None:
    fill(tmp_path / "store")
    with serving(tmp_path / "store") as running:
        _, token = running.server.keys.add("writer", rights="write")

        def is_stored() -> bool:
            return running.get("/v1/documents/lunch", headers={"authorization": f"Bearer {token}"}).status_code == 200

        with opening(browser, running, "library") as page:
            page.get_by_label("Key", exact=True).fill(token)
            page.keyboard.press("Enter")
            page.get_by_role("button", name="Delete Lunch").click()
            expect(page.get_by_text("“Lunch” will be deleted.")).to_be_visible()
            assert is_stored()
            if how == "reload":
                page.reload()
            else:
                page.close()
            until = monotonic() + 5  # half the time to undo
            while is_stored() and monotonic() < until:
                sleep(0.05)
            assert not is_stored()


def test_a_delete_is_of_the_collection_where_it_was_asked_for(browser: Browser, tmp_path: Path) -> None:
    for name in ("default", "other"):
        fill(tmp_path / "store", name)
    with serving(tmp_path / "store") as running:
        with opening(browser, running, "library") as page:
            page.get_by_role("button", name="Delete Lunch").click()
            page.goto("/#/library?in=other")
            expect(page.get_by_role("row", name=re.compile("Lunch"))).to_be_visible()
            with page.expect_response(lambda reply: reply.request.method == "DELETE"):
                page.get_by_role("button", name="Dismiss").click()
        assert running.get("/v1/documents/lunch?collection=other").status_code == 200
        assert running.get("/v1/documents/lunch").status_code == 404


def test_a_thread_with_its_replies_and_a_person(browser: Browser, served: Running) -> None:
    with opening(browser, served, "conversations?channel=deck") as page:
        page.get_by_role("button", name=re.compile("Who has the anchor")).click()
        reply = page.locator(".message.reply")
        expect(reply).to_contain_text("It is in the shed.")
        page.get_by_role("button", name="#ops").click()
        expect(page.get_by_role("button", name=re.compile("build server is red"))).to_be_visible()


def test_explain_and_the_button_that_tries_the_setting(browser: Browser, served: Running) -> None:
    with opening(browser, served, "explain?q=soup+at+noon&k=1") as page:
        expect(page.get_by_role("region", name="From the collection to the context")).to_contain_text("considered")
        expect(page.locator(".trace li").first).to_contain_text("search")
        page.get_by_role("combobox", name="Document that you expected").fill("Vault")
        page.get_by_role("option", name=re.compile("Vault")).click()
        expect(page.get_by_text("Lost at")).to_be_visible()
        page.get_by_role("button", name="Try it").click()
        expect(page.get_by_text("It is here, at place")).to_be_visible()


def test_sign_in_with_a_key(browser: Browser, tmp_path: Path) -> None:
    fill(tmp_path / "store")
    with serving(tmp_path / "store") as running:
        _, token = running.server.keys.add("reader")
        with opening(browser, running, "search?q=vault") as page:
            page.get_by_label("Key", exact=True).fill("clew_wrong")
            page.keyboard.press("Enter")
            expect(page.get_by_role("alert")).to_contain_text("not known")
            expect(page.get_by_role("navigation", name="Views")).to_have_count(0)  # they have nothing to show yet
            page.get_by_label("Key", exact=True).fill(token)
            page.keyboard.press("Enter")
            expect(page.locator("[data-hit]").first).to_have_text("Vault")
            page.get_by_role("link", name="Library").click()
            expect(page.get_by_role("row").nth(1)).to_be_visible()
            expect(page.get_by_role("button", name="Upload files")).to_have_count(0)  # it may only read
            page.get_by_role("button", name="Sign out").click()
            expect(page.get_by_role("heading", name="Sign in with a key")).to_be_visible()


VIEWS = {
    "search": ("search?q=vault+key&doc=keys&at=0-20", "[data-hit]"),
    "ask": ("ask?q=Who+rotates+the+vault+key&ask=1", ".sources button"),
    "library": ("library", "tbody tr"),
    "conversations": ("conversations?channel=deck", ".thread"),
    "explain": ("explain?q=vault+key", ".trace li"),
}


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_every_view_can_be_used_by_all(browser: Browser, served: Running, shots: Path, look: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    options = PHONE if look == "phone" else {"viewport": {"width": 1360, "height": 860}}
    rules: dict[str, Any] = {"resultTypes": ["violations"]}
    if look == "dark":
        rules["runOnly"] = ["color-contrast"]  # the others do not change with the colours
    with opening(browser, served, "library", color_scheme="dark" if look == "dark" else "light", **options) as page:
        for name, (hash_, ready) in VIEWS.items():
            page.goto(f"/#/{hash_}")
            page.locator(ready).first.wait_for(state="attached")
            if name == "search" and look != "phone":  # there the source lies over it
                page.get_by_role("button", name="Settings").click()
                page.get_by_role("button", name="What the numbers say").click()
            if name == "library":  # a failure, and a delete that can be undone
                page.locator("#files").set_input_files({"name": "empty.md", "mimeType": "text/plain", "buffer": b""})
                page.locator("[data-outcome=failed]").wait_for()
                page.get_by_role("button", name="Delete Vault").click()
                page.get_by_role("button", name="Undo").hover()  # which holds the time to undo
            page.screenshot(path=shots / f"{name}-{look}.png")
            found = [] if look == "phone" else axe.Axe().run(page, options=rules).response["violations"]
            serious = [each for each in found if each["impact"] in ("serious", "critical")]
            assert [(each["id"], each["nodes"][0]["html"]) for each in serious] == [], name
            width = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert width <= 0, f"{name} scrolls sideways"
            if name == "library":
                page.get_by_role("button", name="Undo").click()
