"""The page of the interface (/docs): it says of every operation what it takes and what it replies."""

from typing import Any

from tests.surface.server.conftest import Running
from tests.surface.web.conftest import Browser, Locator, opening

PLAIN = {"text", "title", "author", "channel", "kind", "question", "good", "comment", "person", "citations", "queries"}

BODIES = {"SearchBody", "ContextBody", "AskBody", "FilterBody", "RowBody", "SentMessageBody", "DocumentBody", "AddBody"}


def test_the_schema_describes_parameters_and_fields(served: Running) -> None:
    spec = served.get("/openapi.json").json()
    for path, methods in spec["paths"].items():
        for operation in methods.values():
            for each in operation.get("parameters", ()):
                assert each.get("description"), (path, each["name"])
    schemas: dict[str, Any] = spec["components"]["schemas"]
    lacking = {
        (body, name)
        for body in BODIES
        for name, field in schemas[body]["properties"].items()
        if name not in PLAIN and not field.get("description")
    }
    assert not lacking
    search = schemas["SearchBody"]
    assert search["required"] == ["query"]
    assert "hybrid" in search["properties"]["strategy"]["description"]


def test_the_page_shows_enums_required_fields_and_those_of_where(browser: Browser, served: Running) -> None:
    with opening(browser, served, "") as page:
        page.goto("/docs")
        box = page.locator("details", has=page.locator("summary code", has_text="/v1/search")).first
        box.locator("summary").first.click()

        def row(name: str) -> Locator:
            return box.locator("tr", has=page.locator(f"td:first-child > code:text-is('{name}')")).first

        assert "required" in row("query").inner_text()
        assert '"ann" or "exact"' in row("mode").inner_text()
        assert '"document"' in row("group_by").inner_text()
        assert "integer (1 to 10000)" in row("depth").inner_text()
        box.get_by_text("fields of where").click()
        assert "Only this channel" in row("channels").inner_text()
        box.locator("textarea").fill('{"query": "who rotates the vault key?", "k": 1}')
        box.get_by_role("button", name="Send").click()
        box.locator("pre", has_text="200 OK").wait_for()
        upload = page.locator("details", has=page.locator("summary code:text-is('/v1/documents')")).first
        upload.locator("summary").first.click()
        assert "at most 100" in upload.inner_text()
