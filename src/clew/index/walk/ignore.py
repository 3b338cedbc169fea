"""Ignore rules of file discovery: which entries of a folder are passed over, and for which reason.

In this order: `ingestion.exclude`, `.clewignore`, hidden entries and those of tools (dependencies, build output),
`.gitignore`. A `!pattern` in a `.clewignore` overrules the later rules.
"""

import os
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from clew.core.errors import SourceError
from clew.core.report import SourceFailure
from clew.core.settings import IngestionConfig
from clew.index.read.load import describe_os_error
from clew.index.read.process.limits import DEFAULT_LIMITS, ReadLimits
from clew.index.walk.patterns import ChosenPatterns, PatternList

GIT_FILE, CLEW_FILE = ".gitignore", ".clewignore"
HIDDEN, VERSION_CONTROL, DEPENDENCIES, BUILD = "hidden", "version control", "dependencies", "build output"
EXCLUDED, NOT_INCLUDED, BROKEN_EXPORT = "excluded", "not included", "in a chat export that cannot be read"
BY_GIT, BY_CLEW = f"in {GIT_FILE}", f"in {CLEW_FILE}"
BY_DEFAULT = frozenset((HIDDEN, VERSION_CONTROL, DEPENDENCIES, BUILD))
_KEPT: Final = ""  # what a rule answers where it keeps an entry in spite of the others
MAX_IGNORE_BYTES = 1_000_000

_BY_NAME = {
    **dict.fromkeys((".git", ".hg", ".svn", ".bzr", ".jj"), VERSION_CONTROL),
    **dict.fromkeys(("node_modules", "bower_components", "jspm_packages", "site-packages"), DEPENDENCIES),
    **dict.fromkeys(("__pypackages__", "elm-stuff", ".venv", ".tox", ".nox", ".yarn", ".pnpm-store"), DEPENDENCIES),
    **dict.fromkeys(("__pycache__", "htmlcov", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".cache"), BUILD),
    **dict.fromkeys((".gradle", ".next", ".nuxt", ".svelte-kit", ".terraform", ".ipynb_checkpoints"), BUILD),
}
_BY_SUFFIX = {".egg-info": BUILD, ".dist-info": DEPENDENCIES}
# These names are common words, so they count only beside a file that makes the folder a software project.
_IN_PROJECT = {
    **dict.fromkeys(("vendor", "venv", "env", "virtualenv", "Pods", "Carthage", "deps"), DEPENDENCIES),
    **dict.fromkeys(("build", "dist", "target", "out", "_build", "coverage", "DerivedData"), BUILD),
}
_PROJECT_FILES = frozenset(
    (
        *(".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "conf.py"),
        *("package.json", "tsconfig.json", "Cargo.toml", "go.mod", "composer.json", "Gemfile", "mix.exs"),
        *("pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "build.sbt", "build.xml", "stack.yaml"),
        *("CMakeLists.txt", "Makefile", "meson.build", "WORKSPACE", "BUILD.bazel"),
        *("Package.swift", "Podfile", "pubspec.yaml"),
    )
)
_ENVIRONMENT_FILE = "pyvenv.cfg"  # in the folder of a Python environment, whatever its name


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The patterns of one ignore file, and how a path below the walked folder becomes one relative to that file."""

    patterns: PatternList
    above: bytes = b""  # goes before the path: the file is in a folder above the walked one
    skip: int = 0  # bytes cut from the path: the file is in a folder below it

    def check(self, path: bytes, *, is_folder: bool) -> bool | None:
        """Return whether the entry at a path is ignored; None if no pattern matches it."""
        return self.patterns.check(self.above + path[self.skip :], is_folder=is_folder)


@dataclass(frozen=True, slots=True)
class WalkRules:
    """The rules in force in one folder of a walk; `enter` gives those of a folder below it."""

    exclude: ChosenPatterns | None = None
    include: ChosenPatterns | None = None
    is_ignoring: bool = True  # whether ignore files and the default rules count
    git: tuple[IgnoreFile, ...] = ()
    clew: tuple[IgnoreFile, ...] = ()
    is_project: bool = field(default=False, compare=False)
    limits: ReadLimits = DEFAULT_LIMITS  # of looking into a chat export
    is_broken_export: bool = False  # a chat export whose tables cannot be read: its messages are no pages

    def find_reason(self, name: str, path: str, *, is_folder: bool) -> str:
        """Explain why an entry is passed over, by its name and its path below the walked folder; empty if it is not."""
        if self.exclude is not None and self.exclude.exclude(path, is_folder=is_folder):
            return EXCLUDED
        if self.is_ignoring and (reason := self._find_ignoring_rule(name, path, is_folder=is_folder)):
            return reason
        if name.startswith(".") and not self.is_ignoring:
            return _BY_NAME.get(name, HIDDEN)
        if self.include is not None and not is_folder and not self.include.include(path):
            return NOT_INCLUDED
        return BROKEN_EXPORT if self.is_broken_export and name.endswith(".json") else ""

    def find_named_reason(self, file: Path) -> str:
        """Explain why a file named by itself is passed over.

        Only `exclude` and `include` can do that, by its path or name.
        """
        if self.exclude is not None and self.exclude.match_named(file):
            return EXCLUDED
        return NOT_INCLUDED if self.include is not None and not self.include.match_named(file) else ""

    def note_unmatched(self) -> list[SourceFailure]:
        """Name the patterns of `exclude` and `include` that have matched nothing."""
        return [
            SourceFailure(text, f"as a pattern of {chosen.setting} it matched no file or folder that was looked at")
            for chosen in filter(None, (self.exclude, self.include))
            for text in chosen.unmatched
        ]

    def _find_ignoring_rule(self, name: str, path: str, *, is_folder: bool) -> str:
        if (found := _check_files(self.clew, os.fsencode(path), is_folder=is_folder)) is not None:
            return BY_CLEW if found else _KEPT
        if is_folder:
            if reason := _BY_NAME.get(name) or _BY_SUFFIX.get(os.path.splitext(name)[1]):  # noqa: PTH122 (a name)
                return reason
            if self.is_project and name in _IN_PROJECT:
                return _IN_PROJECT[name]
        if name.startswith("."):
            return HIDDEN
        return BY_GIT if _check_files(self.git, os.fsencode(path), is_folder=is_folder) else ""

    def enter(self, entries: Sequence["os.DirEntry[str]"], path: str) -> "WalkRules":
        """Return the rules inside a folder with these entries; `path` is its path below the walked folder."""
        if not self.is_ignoring:
            return self
        added: dict[str, tuple[IgnoreFile, ...]] = {GIT_FILE: (), CLEW_FILE: ()}
        is_project = False
        for entry in entries:
            is_project = is_project or entry.name in _PROJECT_FILES
            if entry.name in added and (entry.is_file(follow_symlinks=False) or entry.is_symlink()):
                added[entry.name] = (IgnoreFile(_load_patterns(Path(entry.path)), skip=len(os.fsencode(path))),)
        return replace(self, git=self.git + added[GIT_FILE], clew=self.clew + added[CLEW_FILE], is_project=is_project)


def is_python_environment(names: Set[str]) -> bool:
    """Return whether a folder with files of these names is a Python environment."""
    return _ENVIRONMENT_FILE in names


def make_walk_rules(config: IngestionConfig) -> WalkRules:
    """Make the rules of the settings, before any folder is entered."""
    return WalkRules(
        exclude=ChosenPatterns.parse("ingestion.exclude", config.exclude),
        include=ChosenPatterns.parse("ingestion.include", config.include),
        is_ignoring=config.ignore,
        limits=ReadLimits.of(config),
    )


def begin_walk(rules: WalkRules, folder: Path, *, given: Path, root: Path | None) -> WalkRules:
    """Return the rules for a walk of a folder, with the ignore files above it, up to its repository or `root`.

    Where those would pass over the folder itself they do not count: whoever names it wants it.
    """
    rules = replace(
        rules,
        exclude=rules.exclude and rules.exclude.begin_walk(folder, given),
        include=rules.include and rules.include.begin_walk(folder, given),
    )
    if not rules.is_ignoring:
        return rules
    repository = next((each for each in (folder, *folder.parents) if Path(each, ".git").exists()), None)
    top = repository or (root if root and folder.is_relative_to(root) else folder)
    files: list[tuple[Path, Path]] = []  # the folder that the patterns count below, and the file
    if repository and Path(info := repository / ".git" / "info" / "exclude").is_file():
        files.append((repository, info))
    between = [each for each in reversed(folder.parents) if each.is_relative_to(top)]
    git = files + [(each, each / GIT_FILE) for each in between if repository and _is_ignore_file(each / GIT_FILE)]
    clew = [(each, each / CLEW_FILE) for each in between if _is_ignore_file(each / CLEW_FILE)]
    return replace(rules, git=_load_files_above(git, folder), clew=_load_files_above(clew, folder))


def _load_files_above(files: Sequence[tuple[Path, Path]], folder: Path) -> tuple[IgnoreFile, ...]:
    """Load the ignore files above a walked folder, except those that would pass over the folder itself."""
    loaded: list[tuple[Path, PatternList]] = []
    for level in (*reversed(folder.parents), folder):
        if _find_first(each.check(_encode_below(level, base), is_folder=True) for base, each in reversed(loaded)):
            loaded.clear()
        loaded += [(base, _load_patterns(file)) for base, file in files if base == level]
    return tuple(
        IgnoreFile(each, b"" if base == folder else _encode_below(folder, base) + b"/") for base, each in loaded
    )


def _encode_below(folder: Path, base: Path) -> bytes:
    return os.fsencode(folder.relative_to(base).as_posix())


def _check_files(files: Sequence[IgnoreFile], path: bytes, *, is_folder: bool) -> bool | None:
    """Return whether an entry is ignored by the nearest file with a pattern that matches it; None if there is none."""
    return _find_first(file.check(path, is_folder=is_folder) for file in reversed(files))


def _find_first(answers: Iterable[bool | None]) -> bool | None:
    """Find the first answer that is one."""
    return next((answer for answer in answers if answer is not None), None)


def _is_ignore_file(path: Path) -> bool:
    """Return whether there is a file, or a link, wherever that goes."""
    return path.is_symlink() or path.is_file()


def _load_patterns(file: Path) -> PatternList:
    """Load the patterns of an ignore file; a SourceError if it cannot be read: nothing may be added that it keeps out.

    A link is followed to a file; one that goes elsewhere cannot be read.
    """
    try:
        if file.is_symlink() and not file.is_file():
            reason = "is a link that leads to no file; nothing of the folder was added, since it may keep files out"
            raise SourceError(str(file), reason)
        with file.open("rb") as stream:
            data = stream.read(MAX_IGNORE_BYTES + 1)
    except OSError as error:
        reason = f"{describe_os_error(error)}; nothing of the folder was added, since it may keep files out"
        raise SourceError(str(file), reason) from error
    if len(data) > MAX_IGNORE_BYTES:
        raise SourceError(str(file), f"is longer than {MAX_IGNORE_BYTES:,} bytes; nothing of the folder was added")
    return PatternList.parse(data)
