"""The view Quality in Chromium, on a real server: health, questions, a run with its plots, and who may see it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from clew import Client, Engine
from tests.surface.server.conftest import Running, fill, serving
from tests.surface.web.conftest import Browser, Page, expect, opening
from tests.surface.web.test_tools import DROP
from tests.surface.web.test_views import PHONE

QUESTIONS = "\n".join(
    json.dumps({"question": f"which boat came in on day {day}?", "relevant": [f"logs/{day}.md"]}) for day in range(3)
)


def find_serious(page: Page) -> list[tuple[str, str]]:
    """What axe calls serious in what is shown."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    found: list[Any] = axe.Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [(each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")]


def test_questions_are_dropped_measured_and_shown(browser: Browser, served: Running, shots: Path) -> None:
    with opening(browser, served, "quality", viewport={"width": 1360, "height": 1700}) as page:
        health = page.get_by_role("region", name="Health")
        expect(health.get_by_role("status")).to_contain_text("looked at")
        expect(page.get_by_role("heading", name="Nothing measured yet")).to_be_visible()
        measure = page.get_by_role("button", name="Measure", exact=True)
        expect(measure).to_be_disabled()
        assert find_serious(page) == []
        questions = page.get_by_label("Judged questions")
        questions.fill('{"question": "why?"\n')
        measure.click()
        expect(page.get_by_role("alert")).to_contain_text("Line 1 is not JSON")
        page.evaluate(DROP, ["asked.jsonl", QUESTIONS])  # no document of the library
        expect(page.get_by_text("asked.jsonl")).to_be_visible()
        expect(questions).to_have_value(QUESTIONS)
        page.get_by_role("checkbox", name="Also answer each question").check()
        page.get_by_role("checkbox", name="semantic").uncheck()
        measure.focus()
        page.keyboard.press("Enter")
        table = page.get_by_role("group", name="Measures of each system")
        expect(table.get_by_role("rowheader")).to_have_text(["hybrid", "lexical"], timeout=30_000)
        expect(table.get_by_role("columnheader", name="nDCG@10")).to_be_visible()
        expect(page.get_by_text("lexical against hybrid, nDCG@10")).to_be_visible()
        for plot in ("Quality against cost", "Recall by position", "Relevance of results", "Risk against coverage"):
            expect(page.get_by_role("img", name=plot)).to_be_visible()
        assert "run=" in page.url
        address = page.url.partition("#/")[2]
        page.screenshot(path=shots / "quality-light.png")
        assert find_serious(page) == []
        assert "asked.jsonl" not in served.get("/v1/documents").text
    looks: dict[str, dict[str, Any]] = {"dark": {"color_scheme": "dark"}, "phone": PHONE}
    for look, options in looks.items():
        with opening(browser, served, address, **options) as page:
            expect(page.get_by_role("img", name="Recall by position")).to_be_visible()
            page.screenshot(path=shots / f"quality-{look}.png", full_page=True)
            width = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert width <= 0, f"{look} scrolls sideways"
            if look == "dark":
                assert find_serious(page) == []


def test_thumbs_become_questions_on_the_page(browser: Browser, served: Running) -> None:
    with opening(browser, served, "quality") as page:
        make = page.get_by_role("button", name="Make from feedback")
        make.click()
        expect(page.get_by_role("alert")).to_contain_text("Nobody has called an answer good yet")
        with Client(served.address) as client:
            client.feedback("who rotates the vault key?", good=True, documents=["keys"])
        make.click()
        expect(page.get_by_label("Judged questions")).to_have_value(re.compile("who rotates the vault key"))


def test_health_says_what_to_do_next_to_who_may_write(browser: Browser, tmp_path: Path) -> None:
    fill(tmp_path / "store")
    source = tmp_path / "Buoy.md"
    source.write_text("# Buoy\n\nThe buoy is red.")
    with Engine.open(tmp_path / "store", embedder="hashed") as engine:
        engine.add(source)
    source.unlink()
    with serving(tmp_path / "store") as running:
        with opening(browser, running, "quality") as page:
            health = page.get_by_role("region", name="Health")
            expect(health.get_by_role("status")).to_contain_text("1 piece of advice")
            expect(health.get_by_role("listitem")).to_contain_text("Next:")
        _, token = running.server.keys.add("reader")
        with opening(browser, running, "quality") as page:
            page.get_by_label("Key", exact=True).fill(token)
            page.keyboard.press("Enter")
            expect(page.get_by_role("heading", name="For who may write")).to_be_visible()
            expect(page.get_by_role("link", name="Quality")).to_have_count(0)
            expect(page.get_by_role("button", name="Measure")).to_have_count(0)


def test_what_is_opened_is_told_once_with_its_rank(browser: Browser, served: Running) -> None:
    question = "who rotates the vault key"
    with opening(browser, served, f"search?q={question}") as page, Client(served.address) as client:
        hits = client.search(question, k=10)["hits"]
        second = page.locator("[data-hit]").nth(1)
        expect(second).to_be_visible()
        with page.expect_response("**/v1/feedback*") as told:
            second.click()
        assert told.value.status == 201
        page.keyboard.press("Escape")
        second.click()
        (kept,) = [each for each in client.list_feedback() if each["kind"] == "opened"]
        assert (kept["kind"], kept["good"], kept["question"], kept["rank"]) == ("opened", None, question, 2)
        assert kept["documents"] == [hits[1]["document"]["id"]]
