"""What the page does beyond looking: settings and their preview, fixes, collections, a model, files dropped."""

import re
from pathlib import Path

from clew import Document, Engine
from tests.surface.server.conftest import Running, fill, serving
from tests.surface.web.conftest import Browser, expect, opening

DROP = """([name, text]) => {
  const transfer = new DataTransfer();
  transfer.items.add(new File([text], name, { type: "text/markdown" }));
  for (const kind of ["dragover", "drop"])
    window.dispatchEvent(new DragEvent(kind, { dataTransfer: transfer, bubbles: true, cancelable: true }));
}"""
SLIDE = "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input', { bubbles: true })); }"


def test_settings_show_what_they_change_before_they_do(browser: Browser, served: Running) -> None:
    with opening(browser, served, "search?q=harbour+log+of+day+7") as page:
        expect(page.locator("[data-hit]")).to_have_count(10)
        page.get_by_role("button", name="Settings").click()
        panel = page.get_by_role("region", name="Settings of this search")
        expect(panel.get_by_role("button", name="Apply")).to_be_disabled()
        panel.get_by_label("Results").evaluate(SLIDE, "3")
        expect(panel.locator("li.gone")).to_have_count(7)
        expect(panel.locator(".preview")).to_contain_text("7 gone")
        expect(page.locator("[data-hit]")).to_have_count(10)  # a preview changes nothing
        panel.get_by_role("button", name="Apply").click()
        expect(page.locator("[data-hit]")).to_have_count(3)
        assert "k=3" in page.url
        page.get_by_role("button", name="Remove 3 results").click()
        expect(page.locator("[data-hit]")).to_have_count(10)
        panel.get_by_label("Words or meaning").evaluate(SLIDE, "1")
        expect(panel.locator(".preview li").first).to_be_visible()
        panel.get_by_role("button", name="Apply").click()
        expect(page.get_by_role("button", name=re.compile("Remove meaning 100%"))).to_be_visible()
        panel.get_by_label("Rerank the best").check()
        expect(panel.get_by_label("Strategy")).to_have_value("rerank")


def test_a_fix_that_only_the_context_needs_can_be_tried(browser: Browser, served: Running) -> None:
    with opening(browser, served, "explain?q=harbour+log+of+day+7&tokens=12&why=note-7") as page:
        why = page.get_by_role("region", name="Why is it not here?")
        expect(why).to_contain_text("It is here, at place")
        target = why.locator(".fix code")
        for _ in range(4):  # one setting after another, until it is in the context
            expect(target.or_(why.get_by_text("in the context for a prompt too"))).to_be_visible()
            if not target.count():
                break
            said = target.inner_text()
            why.get_by_role("button", name="Try it").click()
            expect(why.get_by_text(said)).to_have_count(0)
        expect(why).to_contain_text("It is in the context for a prompt too")
        assert "tokens=12&" not in page.url


def test_a_collection_is_chosen_and_named_in_links(browser: Browser, tmp_path: Path) -> None:
    fill(tmp_path / "store")
    with Engine.open(tmp_path / "store", collection="boats", embedder="hashed") as engine:
        engine.add_documents([Document("b1", "# Dinghy\n\nThe dinghy leaks at the bow.", title="Dinghy")])
    with serving(tmp_path / "store") as running:
        with opening(browser, running, "library") as page:
            expect(page.get_by_role("row", name=re.compile("Vault"))).to_be_visible()
            page.get_by_role("button", name="Collection: default").click()
            page.get_by_role("checkbox", name="boats").click()
            expect(page.get_by_role("row", name=re.compile("Dinghy"))).to_be_visible()
            expect(page.get_by_role("row", name=re.compile("Vault"))).to_have_count(0)
            page.get_by_role("link", name="Search", exact=True).click()
            page.get_by_role("searchbox").fill("dinghy")
            expect(page.locator("[data-hit]").first).to_have_text("Dinghy")
            address = page.url
        with opening(browser, running, address.partition("#/")[2]) as page:
            expect(page.locator("[data-hit]").first).to_have_text("Dinghy")


def test_what_was_found_is_marked_in_its_conversation(browser: Browser, served: Running) -> None:
    with opening(browser, served, "search?q=who+has+the+anchor") as page:
        page.locator("[data-hit]", has_text="gil").click()
        page.get_by_role("link", name="Open in Conversations").click()
        expect(page.locator(".message.found").first).to_contain_text("Who has the anchor?")
        expect(page.locator(".message.found mark", has_text="anchor")).to_be_visible()
        expect(page.get_by_role("button", name=re.compile("Who has the anchor.*found"))).to_be_visible()
        page.get_by_role("button", name="Stop marking").click()
        expect(page.locator(".message.found")).to_have_count(0)
        page.goto("/#/conversations?q=who+has+the+anchor")  # opens the channel that says most about it
        expect(page.get_by_role("button", name=re.compile(r"#deck"), pressed=True)).to_contain_text(re.compile(r"\d"))


def test_a_document_is_deleted_and_brought_back_by_keys_alone(browser: Browser, served: Running) -> None:
    with opening(browser, served, "library?find=harbour&sort=title.up") as page:
        rows = page.locator("tbody tr")
        expect(rows).to_have_count(30)
        rows.nth(0).get_by_role("button").first.focus()
        page.keyboard.press("Delete")
        expect(rows).to_have_count(29)
        expect(page.locator(":focus")).to_have_attribute("data-row", "note-1")  # the next row
        page.keyboard.press("Control+z")
        expect(rows).to_have_count(30)
        expect(page.locator(":focus")).to_have_attribute("data-row", "note-0")
    assert "note-0" in served.get("/v1/documents").text


def test_files_that_are_dropped_are_added(browser: Browser, served: Running) -> None:
    with opening(browser, served, "library?find=foghorn") as page:
        expect(page.get_by_text("0 shown")).to_be_visible()
        page.evaluate(DROP, ["Foghorn.md", "# Foghorn\n\nIt sounds in fog."])
        expect(page.get_by_role("list", name="Jobs")).to_contain_text("1 document added")
        expect(page.get_by_role("row", name=re.compile("Foghorn"))).to_be_visible()


def test_no_request_is_broken_off_while_one_types_and_asks(browser: Browser, served: Running) -> None:
    failed: list[str] = []
    icons: list[str] = []
    reloaded: list[str] = []
    with opening(browser, served, "search") as page:
        page.on("requestfailed", lambda request: failed.append(f"{request.url} {request.failure}"))
        page.on("request", lambda request: icons.append(request.url) if request.url.endswith(".svg") else None)
        expect(page.get_by_text("Try a search")).to_be_visible()
        page.on("request", lambda request: reloaded.append(request.url) if "/v1/page/info" in request.url else None)
        page.get_by_role("searchbox").press_sequentially("who rotates the vault key", delay=30)
        expect(page.locator("[data-hit]").first).to_have_text("Vault")
        expect(page).to_have_title(re.compile("who rotates the vault key"))
        page.get_by_role("link", name="Ask instead").click()
        expect(page.locator("article .sentence").first).to_contain_text("Dan rotates")
        expect(page.locator("article footer")).to_be_visible()
    assert failed == []
    assert reloaded == []  # what the server told of itself is asked for once
    assert icons == []  # an icon with an address would be asked for at each key
