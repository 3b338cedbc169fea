"""Patterns of ignore files and of `exclude` and `include`, through the engine."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clew import Engine, SettingsError
from clew.core.report import Report


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, which uris are relative to."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(*names: str, **ignore_files: str) -> None:
    """Writes files with text in them, and the ignore files of folders ("here" is the working directory)."""
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(f"# Page {name}")
    for folder, text in ignore_files.items():
        Path("." if folder == "here" else folder, ".gitignore").write_text(text)


def add(*sources: str | Path, **ingestion: Any) -> Report:
    with Engine.open(":memory:", embedder="hashed") as engine:
        chosen = replace(engine.settings, ingestion=replace(engine.settings.ingestion, **ingestion))
        report = engine.add(*sources, settings=chosen)
    assert not report.failed
    return report


@pytest.mark.usefixtures("here")
def test_a_folder_that_is_kept_says_nothing_of_the_files_in_it() -> None:
    write("foo/bar/secret.md", "foo/bar/open.md", here="secret.md\n", foo="!bar/\n")
    assert add(".").added == ("foo/bar/open.md",)


@pytest.mark.usefixtures("here")
def test_an_allow_list_keeps_files_of_folders_below() -> None:
    write("a.md", "b.txt", "sub/c.txt", "sub/deep/d.txt", "sub/e.md", here="*\n!*/\n!*.txt\n")
    assert set(add(".").added) == {"b.txt", "sub/c.txt", "sub/deep/d.txt"}
    write(here="sub/**/\n")
    assert set(add(".").added) == {"a.md", "b.txt", "sub/c.txt", "sub/e.md"}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("pattern", "ignored"),
    [
        ("[[:upper:]]*.md", {"Key.md"}),
        ("[[:alpha:]].md", {"k.md"}),
        ("*[[:space:]]*", {"a key.md"}),
        ("[\\]].md", {"].md"}),
        ("*[!/]", {"Key.md", "k.md", "a key.md", "].md", "xz.md"}),
        ("x[z-a].md", {"xz.md"}),
        ("[a-", set()),
    ],
)
def test_classes_are_those_of_git_and_bad_ones_stop_nothing(pattern: str, ignored: set[str]) -> None:
    names = {"Key.md", "k.md", "a key.md", "].md", "xz.md"}
    write(*names, here=f"{pattern}\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = add(".")
    assert names - set(report.added) == ignored


@pytest.mark.usefixtures("here")
def test_no_pattern_holds_up_an_add() -> None:
    pattern, name = "*a" * 30 + "*b", "a" * 200 + ".md"
    write(name, here=f"{pattern}\n")
    assert add(".", exclude=(pattern,)).added == (name,)
    assert add(".", include=(pattern, "*.md")).added == (name,)


@pytest.mark.usefixtures("here")
def test_rules_above_a_named_folder_count_unless_they_pass_over_it() -> None:
    write("work/notes/a.md", "work/notes/b.key.md", "work/notes/deep/c.md", here="*.key.md\n")
    Path(".git").mkdir()
    assert set(add("work/notes").added) == {"work/notes/a.md", "work/notes/deep/c.md"}
    write(here="*\n", work="*.key.md\n")  # the upper one would pass over the folder, the lower one would not
    assert set(add("work/notes").added) == {"work/notes/a.md", "work/notes/deep/c.md"}


@pytest.mark.parametrize(
    ("sources", "pattern"),
    [
        (["."], "./x/drafts/"),
        (["."], "x//drafts"),
        (["."], "x/./drafts/"),
        (["."], "{here}/x/drafts"),
        (["x"], "./drafts/"),
        (["x"], "./x/drafts/"),
        (["x/"], "x/drafts/"),
        (["x"], "*/drafts"),
        (["x"], "{here}/x/drafts/"),
        (["{here}/x"], "./x/drafts"),
        (["{here}/x"], "{here}/x/drafts"),
        (["{here}/x"], "/drafts"),
        (["../{name}/x"], "../{name}/x/drafts"),
        (["x/a.md", "x/drafts/b.md"], "./x/drafts/"),
        (["x/a.md", "x/drafts/b.md"], "{here}/x/drafts"),
        (["{here}/x/a.md", "{here}/x/drafts/b.md"], "x/drafts/*.md"),
    ],
)
def test_a_pattern_may_be_a_path_as_a_shell_writes_it(here: Path, sources: Sequence[str], pattern: str) -> None:
    write("x/a.md", "x/drafts/b.md")
    places = {"here": here.as_posix(), "name": here.name}
    given = [each.format(**places) for each in sources]
    report = add(*given, exclude=(pattern.format(**places),))
    assert (report.added, report.noted) == (("x/a.md",), ())
    report = add(*given, include=(pattern.format(**places),))
    assert (report.added, report.noted) == (("x/drafts/b.md",), ())


@pytest.mark.usefixtures("here")
def test_a_path_with_wildcards_in_it_and_one_that_names_the_root() -> None:
    write("[x]/a.md", "[x]/drafts/b.md")
    assert set(add("[x]", exclude=("[x]/drafts",)).added) == {"[x]/a.md"}
    report = add(".", exclude=(f"/{Path.cwd().parts[1]}",))
    assert (len(report.added), len(report.noted)) == (2, 1)  # a folder above is not meant


@pytest.mark.usefixtures("here")
def test_a_pattern_that_matches_nothing_is_said() -> None:
    write("x/a.md", "x/drafts/b.md", "x/draft.log")
    report = add("x", exclude=("drafst/", "*.log", "!keep.md"), include=("*.md", "*.txt"))
    assert len(report.added) == 2
    assert [each.source for each in report.noted] == ["drafst/", "!keep.md", "*.txt"]
    reason = "as a pattern of ingestion.exclude it matched no file or folder that was looked at"
    assert report.noted[0].reason == reason
    assert add("x", exclude=("*.md", "a.md", "*.log")).noted == ()  # the last decides, and all match


@pytest.mark.usefixtures("here")
def test_a_bad_pattern_of_the_user_says_what_is_wrong() -> None:
    write("a.md")
    with pytest.raises(SettingsError, match=r"ingestion\.exclude has '\[z-a\]', but a range in it runs from a later"):
        add(".", exclude=("[z-a]",))
