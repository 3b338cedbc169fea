"""Which links a text has, and which document each of them means."""

import pytest

from clew.core.links import Link, extract_links, is_link_to, parse_link


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
