"""A browser on a real server, which fails a test that logs an error or asks another host for anything."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clew import Document, Engine, Message
from tests.surface.server.conftest import Running, fill, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page, expect
else:
    Browser = Locator = Page = Any

    def expect(*given: Any) -> Any:
        """What is expected of a page or a part of it; playwright is imported where a browser is."""
        from playwright.sync_api import expect

        return expect(*given)


__all__ = ["Browser", "Locator", "Page", "expect"]

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)
PAGES = [
    Document(
        f"note-{number}",
        f"# Note {number}\n\nThe harbour log of day {number} says that boat {number} came in at dawn.",
        title=f"Harbour log {number}",
        uri=f"logs/{number}.md",
    )
    for number in range(30)
]
TALK = [
    Message("Who has the anchor?", author="gil", at=datetime(2026, 4, 1, 8, tzinfo=UTC), channel="deck", id="d1"),
    Message(
        "It is in the shed.",
        author="ann",
        at=datetime(2026, 4, 1, 8, 2, tzinfo=UTC),
        channel="deck",
        id="d2",
        reply_to="d1",
    ),
]

Open = Callable[..., Page]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("page") / "store"
    fill(path)
    with Engine.open(path, embedder="hashed") as engine:
        engine.add_documents(PAGES)
        engine.add_messages(TALK)
    with serving(path) as running:
        yield running


@pytest.fixture(scope="module")  # no longer: its event loop would be that of other modules too
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed (pip install playwright)"
    )
    if not CHROMIUM:
        pytest.skip("Chromium is not installed (apt-get install chromium)")
    playwright.expect.set_options(timeout=20_000)  # beside other tests a page is slow
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@contextmanager
def opening(
    browser: Browser, running: Running, hash_: str, *, allowed: tuple[str, ...] = (), **options: Any
) -> Iterator[Page]:
    """A page at a place of the server; errors of its console and requests elsewhere fail the test.

    `allowed` are parts of errors that a browser logs by itself when a request fails, where the test makes it fail.
    """
    faults: list[str] = []
    with browser.new_context(base_url=running.address, reduced_motion="reduce", **options) as context:
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda entry: faults.append(entry.text) if entry.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: faults.append(request.url) if not is_own(request.url, running) else None)
        page.goto(f"/#/{hash_}")
        yield page
    expected = ("status of 401", *allowed)  # a browser logs that a key is asked for
    assert [fault for fault in faults if not any(each in fault for each in expected)] == []


def is_own(url: str, running: Running) -> bool:
    """Whether an address is of the server, or made within the page."""
    return url.startswith((running.address, "data:", "blob:"))


@pytest.fixture
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the screenshots; pytest keeps the last three."""
    return tmp_path_factory.getbasetemp() / "page-shots"
