"""The documentation as a site: it builds without a warning, its links lead somewhere, and it asks no other host."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]
LOADING = {
    ("script", "src"),
    ("link", "href"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("object", "data"),
}


class Page(HTMLParser):
    """The links, ids and loaded addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            if (tag, name) == ("a", "href") and value:
                self.links.append(value)
            if (tag, name) in LOADING and value:
                self.loaded.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs/site"]
    done = subprocess.run(
        [*command, "-d", str(folder / "cache"), ".", str(folder / "html")], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


def test_the_site_has_every_page_and_no_dead_link(site: Path) -> None:
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    for source in (ROOT / "docs").rglob("*.md"):
        assert (site / source.relative_to(ROOT)).with_suffix(".html").resolve() in pages, source
    checked = 0
    for path, page in pages.items():
        for link in page.links:
            target = urlsplit(link)
            if target.scheme or target.netloc:
                continue
            file = (path.parent / unquote(target.path)).resolve() if target.path else path
            assert file.is_file(), f"{path.name}: {link}"
            if target.fragment and file in pages:
                assert unquote(target.fragment) in pages[file].ids | {""}, f"{path.name}: {link}"
            checked += 1
    assert checked > 1000


def test_the_site_loads_nothing_from_another_host(site: Path) -> None:
    for path in site.rglob("*.html"):
        for address in Page(path.read_text(encoding="utf-8")).loaded:
            assert not urlsplit(address).netloc, f"{path.name}: {address}"
    for path in site.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"""(?:@import|url\()\s*["']?(?:https?:)?//""", text), path.name
