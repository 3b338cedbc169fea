"""Patterns of names: what they match, and that none takes long."""

import random
import re

import pytest

from clew.core.patterns import Glob


@pytest.mark.parametrize(
    ("pattern", "matched", "others"),
    [
        ("a/*.md", ["a/x.md", "a/.md"], ["a/b/x.md", "x.md"]),
        ("a/**", ["a/x.md", "a/b/c", "a/"], ["a", "b/a/x"]),
        ("**/x.md", ["x.md", "a/x.md", "a/b/x.md"], ["ax.md", "a/x.md/b"]),
        ("a/**/x", ["a/x", "a/b/x", "a/b/c/x"], ["ax", "a/bx"]),
        ("M?ller", ["Müller"], ["M/ller", "Mller"]),
        ("[a-c]1", ["a1", "c1"], ["d1", "-1"]),
        ("[!a-c]1", ["d1"], ["a1", "/1"]),
        ("[z-a]", [], ["b", "z", "-"]),
        ("[", ["["], ["a"]),
        ("[!]", ["!"], ["a"]),
        ("a.c", ["a.c"], ["abc"]),
    ],
)
def test_what_a_pattern_matches(pattern: str, matched: list[str], others: list[str]) -> None:
    assert [name for name in [*matched, *others] if Glob(pattern).match(name)] == matched


def test_random_patterns_match_what_their_expressions_match() -> None:
    rng = random.Random(7)
    signs = {
        "**/": "(?:.*/)?",
        "**": ".*",
        "*": "[^/]*",
        "?": "[^/]",
        "[ab]": "[ab]",
        "[!a]": "[^a/]",
        "a": "a",
        "/": "/",
    }
    for _ in range(3000):
        chosen = [rng.choice([*signs]) for _ in range(rng.randint(1, 6))]
        if "****" in (pattern := "".join(chosen)):
            continue  # read as two, or as one
        name = "".join(rng.choice("abü/") for _ in range(rng.randint(0, 7)))
        expected = re.fullmatch(
            "".join(signs[sign] for sign in re.findall(r"\*\*/|\*\*|\*|\[!?\w+\]|.", pattern)), name
        )
        assert Glob(pattern).match(name) == bool(expected), (pattern, name)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "pattern", ["*" * 80 + "!", "*a" * 200 + "!", "**a" * 200 + "!", "**/" * 200 + "!", "a*?" * 150 + "!"]
)
def test_no_pattern_takes_long(pattern: str) -> None:
    for name in ("notes/2024/annual-report.md", "a" * 4000, "a/" * 2000):
        assert not Glob(pattern).match(name)
