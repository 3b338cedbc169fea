"""Which links a text has, and which document each of them means."""

import pytest

from clew.core.links import EXTENSIONS, Link, extract_links, is_link_to, parse_link
from clew.index.read import READERS
from clew.index.read.office.recordings import AUDIO_SUFFIXES
from clew.index.read.pdf.ocr import IMAGE_SUFFIXES
from clew.index.read.text.code import LANGUAGES

# Formats that messages hardly name by file, or whose suffix is taken for something else.
NOT_CITED = {
    *(".org", ".wiki", ".mediawiki", ".textile", ".text", ".log", ".conf", ".properties", ".graphql", ".tf", ".vue"),
    *(".svelte", ".xml", ".nxml", ".latex", ".ltx", ".docm", ".dotx", ".pptm", ".ppsx", ".xlsm"),
    *(".eml", ".msg", ".srt", ".vtt"),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see https://h.example/eng/x.md.", [Link("h.example", ("eng", "x"), "md")]),
        ("(https://h.example/eng/x), ok", [Link("h.example", ("eng", "x"))]),
        ("<https://h.example/eng/X%20Y.md|label>", [Link("h.example", ("eng", "x y"), "md")]),
        ("https://h.example/eng/x.md#part?", [Link("h.example", ("eng", "x"), "md")]),
        ("in eng/x.md and `y.txt`", [Link("", ("eng", "x"), "md"), Link("", ("y",), "txt")]),
        ("[text](../eng/x.md)", [Link("", ("eng", "x"), "md")]),
        ("x.md and x.md again", [Link("", ("x",), "md")]),
        ("plan.odt, plan.docx", [Link("", ("plan",), "odt"), Link("", ("plan",), "docx")]),
        ("python.org says so", []),
        ("https://h.example and 3.14, e.g. this, ada@h.example, v1.2.md5", []),
        ("eng/x is no link without an ending or a scheme", []),
    ],
)
def test_links_in(text: str, expected: list[Link]) -> None:
    assert extract_links(text) == expected


@pytest.mark.parametrize(
    ("link", "uri", "expected"),
    [
        ("https://h.example/eng/x.md", "handbook/eng/x.md", True),
        ("https://h.example/eng/x", "handbook/eng/x.md", True),
        ("x.md", "handbook/eng/x.md", True),
        ("X.MD", "handbook/eng/x.md", True),
        ("eng/x.md", "x.md", True),
        ("x.txt", "handbook/eng/x.md", False),
        ("ops/x.md", "handbook/eng/x.md", False),
        ("ing/x.md", "handbook/eng/x.md", False),
        ("https://h.example/eng/x", "https://h.example/eng/x", True),
        ("https://h.example/eng/x", "https://other.example/eng/x", False),
    ],
)
def test_means(link: str, uri: str, expected: bool) -> None:
    found = parse_link(link)
    assert found is not None
    assert is_link_to(found, uri) is expected


def test_a_host_alone_means_nothing() -> None:
    assert parse_link("https://h.example/") is None
    assert not is_link_to(Link("", ("x",)), "")


def test_the_extensions_are_those_of_the_readers() -> None:
    """A new reader's suffix belongs into EXTENSIONS, or into NOT_CITED above."""
    pages = set(READERS) - set(LANGUAGES) - set(IMAGE_SUFFIXES) - set(AUDIO_SUFFIXES)
    assert {f".{each}" for each in EXTENSIONS} == pages - NOT_CITED
