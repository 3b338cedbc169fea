"""Ignore files against Git itself: over random trees and patterns, what is passed over is what Git ignores."""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from clew.core.errors import SettingsError
from clew.core.report import PassedOver
from clew.index.walk.files import find_files
from clew.index.walk.ignore import BY_GIT, ChosenPatterns, PatternList, Wildcards
from tests.soak import choose_runs

CASES_AT_ONCE = 40  # trees in one repository, since starting Git is slow
NAMES = (
    *("a", "b", "ab", "ba", "abc", "a.md", "b.md", "A.md", "é.md", "a b", "a ", "#a", "!a", "[a]", "a]", "-", "a-b"),
    *("a*b", "a?b", "a\\b", "\\", "^a", "z", "xz.md", "1", "a1", "a:b", "foo", "foobar", "bar", "a\tb", "{a,b}"),
)
PATTERNS = (
    *(
        "*",
        "!*/",
        "!*.md",
        "/*",
        "!/a",
        "a/",
        "!a/",
        "*/",
        "**",
        "***",
        "**/",
        "/**",
        "a/**",
        "a/**/",
        "**/a",
        "/a",
        "//",
    ),
    *(
        "a/**/b",
        "!a/**",
        "foo**",
        "/foo**",
        "foo**/bar",
        "a/b**",
        "**foo",
        "a**b",
        "*/a",
        "!*/a",
        "a/*",
        "!a/b",
        "b",
        "!b",
    ),
    *(
        "[[:upper:]]*.md",
        "[[:alpha:]].md",
        "*[[:space:]]*",
        "[[:punct:]]*",
        "[[:nope:]]",
        "[[:alpha:]",
        "[[:digit:][:lower:]]",
    ),
    *(
        "[\\]]*",
        "a[]]",
        "[]-a]*",
        "[z-a]*",
        "x[z-a].md",
        "[!a]",
        "[^a]*",
        "[a-",
        "[",
        "[]",
        "[!]",
        "*[!/]",
        "a[/]b",
        "[a-b]?",
    ),
    *(
        "\\#a",
        "#a",
        "\\!a",
        "!!a",
        "a\\ ",
        "a ",
        "a\\b",
        "a\\\\b",
        "\\",
        "a\\",
        "\\*",
        "a\\*b",
        "a\\?b",
        "?",
        "??",
        "?.md",
    ),
    *(
        "é.md",
        "[é].md",
        "*.MD",
        "a.md\r",
        "\ta",
        "a\t*",
        "!",
        "/",
        "",
        " ",
        "a/../b",
        "./a",
        "a//b",
        "{a,b}",
        "a\\/b",
        "**\\/b",
    ),
)
PIECES = (
    *("a", "b", "c", "foo", ".md", "z", "1", "-", "]", "!", "^", ":", " ", "é"),
    *(
        "*",
        "*",
        "**",
        "?",
        "/",
        "/",
        "/**/",
        "**/",
        "/**",
        "*/",
        "[ab]",
        "[!ab]",
        "[a-c]",
        "[^/]",
        "[",
        "\\",
        "\\*",
        "\\[",
    ),
    *(
        "[[:alnum:]]",
        "[[:graph:]]",
        "[a\\-z]",
        "[\\a-\\c]",
        "[--a]",
        "[]a]",
        "[!]a]",
        "[a-]",
        "[[:x:]]",
        "[[:]",
        "[:a]",
    ),
)


def choose_pattern(rng: random.Random) -> str:
    if rng.random() < 0.4:
        return rng.choice(PATTERNS)
    return rng.choice(("", "", "", "!", "/")) + "".join(rng.choices(PIECES, k=rng.randint(1, 6)))


def grow_tree(rng: random.Random, folder: Path, depth: int = 0) -> None:
    """A folder of random files and folders, some with an ignore file of random patterns."""
    folder.mkdir()
    if depth == 0 or rng.random() < 0.3:
        lines = [choose_pattern(rng) for _ in range(rng.randint(1, 4))]
        text = ("\ufeff" if rng.random() < 0.05 else "") + "\n".join(lines) + rng.choice(("", "\n"))
        (folder / ".gitignore").write_bytes(text.encode())
    for number, name in enumerate(rng.sample(NAMES, 9 - 2 * depth)):
        if number < 3 - depth:
            grow_tree(rng, folder / name, depth + 1)
        else:
            (folder / name).write_text("x")


def list_kept_by_git(repository: Path) -> set[str]:
    """The files that Git does not ignore; nobody's own settings count."""
    command = ["git", "-c", "core.ignoreCase=false", "ls-files", "--others", "--exclude-standard", "-z"]
    apart = {**os.environ, "HOME": str(repository), "XDG_CONFIG_HOME": str(repository), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(command, cwd=repository, env=apart, capture_output=True, check=True)
    return {os.fsdecode(each) for each in done.stdout.split(b"\0") if each}


def list_kept(folder: Path) -> set[str]:
    """The files that no ignore file passes over, with the ignore files themselves."""
    kept = {each.relative_to(folder).as_posix() for each in folder.rglob(".gitignore")}
    passed = {Path(each.source): each.reason for each in find_files([folder]) if isinstance(each, PassedOver)}
    ignored = {path for path, reason in passed.items() if reason == BY_GIT}
    for path in folder.rglob("*"):
        if path.is_file() and ".git" not in path.parts and ignored.isdisjoint((path, *path.parents)):
            kept.add(path.relative_to(folder).as_posix())
    return {path for path in kept if Path(path).name != ".gitignore"}


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("git") is None, reason="Git is not installed")
@pytest.mark.parametrize("seed", range(choose_runs(2, 150)))
def test_random_ignore_files_keep_what_git_keeps(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    everywhere = rng.choice(("abc", "*/foo/", "z\n!case1/z", "/case2/**/bar"))  # few files, which the trees may keep
    (tmp_path / ".git" / "info" / "exclude").write_text(f"{everywhere}\n")
    for number in range(CASES_AT_ONCE):
        grow_tree(rng, tmp_path / f"case{number}")
    ours, theirs = list_kept(tmp_path), {each for each in list_kept_by_git(tmp_path) if not each.endswith(".gitignore")}
    differing = {path: _read_patterns(tmp_path, path) for path in sorted(ours ^ theirs)[:3]}
    assert not differing, f"{len(ours - theirs)} added that Git ignores, {len(theirs - ours)} lost"
    assert 500 < len(ours) < 2400  # of 2520: some are ignored, and some are not


@pytest.mark.skipif(shutil.which("git") is None, reason="Git is not installed")
def test_named_classes_hold_what_they_hold_in_git(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for name in (
        "alnum",
        "alpha",
        "blank",
        "cntrl",
        "digit",
        "graph",
        "lower",
        "print",
        "punct",
        "space",
        "upper",
        "xdigit",
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / ".gitignore").write_text(f"[[:{name}:]]\n")
        for byte in (*range(1, 0x2E), *range(0x30, 0x80)):  # all but the dot and the slash
            (folder / chr(byte)).touch()
    ours, theirs = list_kept(tmp_path), {each for each in list_kept_by_git(tmp_path) if not each.endswith(".gitignore")}
    assert ours == theirs
    assert len(ours) > 900


def _read_patterns(repository: Path, path: str) -> dict[str, bytes]:
    """The ignore files above a path, with what is in them."""
    files = (above / ".gitignore" for above in Path(path).parents)
    return {str(each): (repository / each).read_bytes() for each in files if (repository / each).is_file()}


@pytest.mark.parametrize(
    ("pattern", "path", "is_matched"),
    [
        ("*.md", "a.md", True),
        ("a*b*c", "a-b-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/*/b", "a/x/y/b", False),
        ("a/**", "a", False),
        ("foo**/bar", "foobar", True),  # Git: after a plain beginning, `**` stands for folders
        ("*o**/bar", "foo/x/bar", False),
        ("[[:upper:]]x", "Ax", True),
        ("[[:upper:]]x", "ax", False),
        ("[\\]]", "]", True),
        ("[z-a]", "z", True),  # the range is empty, and its first character counts by itself
        ("[z-a]", "b", False),
        ("[!z-a]", "b", True),
        ("?", "é", False),  # two bytes
        ("a\\", "a\\", False),
        ("[[:nope:]]", "n", False),
    ],
)
def test_wildcards(pattern: str, path: str, *, is_matched: bool) -> None:
    assert Wildcards(pattern.encode()).match(path.encode()) is is_matched


@pytest.mark.parametrize(
    "pattern",
    ["*a" * 60 + "*b", "a*" * 80 + "b", "**/*a" * 40 + "/b", "[a]*" * 60 + "b", "a**" * 60 + "b", "*?" * 90 + "b"],
)
def test_no_pattern_takes_long_over_a_name(pattern: str) -> None:
    for name in ("a" * 250 + ".md", "/".join("a" * 40 for _ in range(60))):
        assert not Wildcards(pattern.encode()).match(name.encode())
        assert PatternList.parse(pattern.encode()).check(name.encode(), is_folder=False) is None


def test_a_pattern_longer_than_any_path_matches_none() -> None:
    assert not Wildcards(b"*a" * 50_000).match(b"a" * 250)


@pytest.mark.parametrize(
    "pattern", ["[z-a]", "x[z-a].md", "[a", "[[:nope:]]", "a\\", "", "!", "/", "./", "a\0b", "\ud800"]
)
def test_a_malformed_pattern_of_the_user_is_refused(pattern: str) -> None:
    with pytest.raises(SettingsError, match=r"ingestion\.exclude has"):
        ChosenPatterns.parse("ingestion.exclude", [pattern])
