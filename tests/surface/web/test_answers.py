"""Answers of a language model on the page, in Chromium: as they are written, and judged sentence by sentence."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from clew import Engine, LLMConfig
from clew.drivers import make_language_model
from tests.surface.server.conftest import Running, fill, serving
from tests.surface.web.conftest import Browser, expect, opening
from tests.surface.web.loopback import ModelServer, serving_model


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with serving_model() as server:
        yield server


@pytest.fixture(scope="module")
def answering(model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with a language model."""
    path = tmp_path_factory.mktemp("model") / "store"
    fill(path)
    with serving(path) as running:
        engine = running.server.engines.get("default")
        llm = make_language_model(LLMConfig("m", model.url, api_key="none"))
        running.server.engines._engines["default"] = Engine(replace(engine.opened, llm=llm))
        yield running


@pytest.mark.parametrize("is_agent", [False, True])
def test_a_model_answers_with_a_verdict_on_each_sentence(browser: Browser, answering: Running, is_agent: bool) -> None:
    with opening(browser, answering, "ask") as page:
        page.get_by_label("Agent").set_checked(is_agent)
        page.get_by_label("Question").fill("Who rotates the vault key?")
        page.keyboard.press("Enter")
        answer = page.locator("article")
        expect(answer.locator("footer")).to_be_visible()
        sentences = answer.locator(".sentence")
        expect(sentences).to_have_count(2)
        expect(sentences.nth(0)).to_have_class(re.compile("supported"))
        expect(sentences.nth(1)).to_have_class(re.compile("unsupported|unsure"))
        expect(answer.locator(".draft")).to_have_count(0)  # what was checked has taken its place
        expect(answer.locator("footer")).to_contain_text("1 of 2 sentences supported")
        expect(answer.locator("footer")).not_to_contain_text("100%")
        if is_agent:
            answer.get_by_text("1 step of the agent").click()
            expect(answer.locator(".steps")).to_contain_text("search knowledge base")
        sentences.nth(0).get_by_role("button", name="Source 1").click()
        expect(page.get_by_role("complementary", name="Source").locator(".found")).to_contain_text("Dan rotates")


@pytest.mark.parametrize("is_agent", [False, True])
def test_what_a_model_writes_is_shown_as_it_comes(
    browser: Browser, answering: Running, model: ModelServer, is_agent: bool
) -> None:
    with opening(browser, answering, "ask") as page:
        model.gate.clear()
        page.get_by_label("Agent").set_checked(is_agent)
        page.get_by_label("Question").fill("Who rotates the vault key?")
        page.keyboard.press("Enter")
        answer = page.locator("article")
        expect(answer.locator(".draft")).to_contain_text("Dan rotates the vault key on")
        expect(answer.locator(".draft")).to_contain_text("not checked yet")
        expect(answer.locator(".draft")).not_to_contain_text("Let me look")  # said before the agent searched
        expect(answer.locator(".sentence")).to_have_count(0)
        expect(answer.locator(".steps")).to_have_count(1 if is_agent else 0)
        model.gate.set()
        expect(answer.locator(".sentence")).to_have_count(2)
        expect(answer.locator(".draft")).to_have_count(0)


def test_a_checked_sentence_is_no_longer_in_the_draft(
    browser: Browser, answering: Running, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "gate_at", 11)  # in the second sentence
    with opening(browser, answering, "ask") as page:
        model.gate.clear()
        page.get_by_label("Question").fill("Who rotates the vault key?")
        page.keyboard.press("Enter")
        answer = page.locator("article")
        expect(answer.locator(".sentence")).to_contain_text("Dan rotates the vault key on Monday.")
        expect(answer.locator(".draft p").first).to_have_text("He also paints")
        model.gate.set()
        expect(answer.locator(".sentence")).to_have_count(2)


def test_a_corrected_citation_is_no_removed_sentence(
    browser: Browser, answering: Running, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "said", "Dan rotates the vault key on Monday [9]. Soup is served at noon [1].")
    with opening(browser, answering, "ask") as page:
        page.get_by_label("Question").fill("Who rotates the vault key, and when is soup served?")
        page.keyboard.press("Enter")
        footer = page.locator("article footer")
        expect(footer).to_contain_text("All 2 sentences are supported")
        expect(footer).not_to_contain_text("removed")
        footer.get_by_text("2 citations corrected").click()
        expect(footer.locator("li").first).to_contain_text("Dan rotates the vault key on Monday [9].")
        expect(footer.locator("s")).to_have_count(0)


def test_a_removed_sentence_is_told(browser: Browser, answering: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = answering.server.engines.get("default")
    answer = replace(engine.settings.answer, unsupported="remove")
    settings = replace(engine.settings, answer=answer)
    removing = Engine(replace(engine.opened, settings=settings))
    monkeypatch.setitem(answering.server.engines._engines, "default", removing)
    with opening(browser, answering, "ask") as page:
        page.get_by_label("Question").fill("Who rotates the vault key?")
        page.keyboard.press("Enter")
        footer = page.locator("article footer")
        footer.get_by_text("1 removed").click()
        expect(footer.locator("s")).to_have_text("He also paints the ferry [1].")
        expect(footer).not_to_contain_text("corrected")


def test_an_answer_can_be_stopped_and_asked_again(browser: Browser, answering: Running, model: ModelServer) -> None:
    with opening(browser, answering, "ask") as page:
        model.gate.clear()
        page.get_by_label("Question").fill("Who rotates the vault key?")
        page.keyboard.press("Enter")
        expect(page.locator("article .draft")).to_contain_text("Dan rotates")
        page.get_by_label("Question").fill("And when?")
        page.keyboard.press("Enter")
        expect(page.get_by_text("An answer is being written.")).to_be_visible()
        page.get_by_role("button", name="Stop").click()
        expect(page.locator("article").get_by_role("alert")).to_contain_text("Stopped")
        model.gate.set()
        page.get_by_role("button", name="Ask again").click()
        expect(page.locator("article .sentence")).to_have_count(2)
