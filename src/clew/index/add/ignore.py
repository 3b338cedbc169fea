"""Ignore rules of file discovery: which entries of a folder are passed over, and for which reason.

In this order: `ingestion.exclude`, `.clewignore`, what is hidden or made by tools (dependencies, build output),
`.gitignore`. A `!pattern` in a `.clewignore` keeps what the later rules would pass over.
"""

import os
from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pathspec import GitIgnoreSpec

from clew.core.errors import SettingsError, SourceError
from clew.core.settings import IngestionConfig
from clew.index.read.load import describe_os_error
from clew.index.read.process.limits import DEFAULT_LIMITS, ReadLimits

GIT_FILE, CLEW_FILE = ".gitignore", ".clewignore"
HIDDEN, VERSION_CONTROL, DEPENDENCIES, BUILD = "hidden", "version control", "dependencies", "build output"
EXCLUDED, NOT_INCLUDED, BROKEN_EXPORT = "excluded", "not included", "in a chat export that cannot be read"
BY_GIT, BY_CLEW = f"in {GIT_FILE}", f"in {CLEW_FILE}"
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

    spec: GitIgnoreSpec
    above: str = ""  # goes before the path: the file is in a folder above the walked one
    skip: int = 0  # characters cut from the path: the file is in a folder below it

    def check(self, path: str) -> bool | None:
        """Whether the path is ignored; None if no pattern matches it."""
        return self.spec.check_file(self.above + path[self.skip :]).include


@dataclass(frozen=True, slots=True)
class WalkRules:
    """The rules in force in one folder of a walk; `enter` gives those of a folder below it."""

    exclude: GitIgnoreSpec | None = None
    include: GitIgnoreSpec | None = None
    is_ignoring: bool = True  # whether ignore files and the default rules count
    given: str = ""  # the walked folder as the user named it, with a slash: patterns may begin with it
    git: tuple[IgnoreFile, ...] = ()
    clew: tuple[IgnoreFile, ...] = ()
    is_project: bool = field(default=False, compare=False)
    limits: ReadLimits = DEFAULT_LIMITS  # of looking into a chat export
    is_broken_export: bool = False  # a chat export whose tables cannot be read: its messages are no pages

    def find_reason(self, name: str, path: str, *, is_folder: bool) -> str:
        """Why an entry is passed over, by its name and its path below the walked folder; empty if it is not."""
        path = f"{path}/" if is_folder else path
        if self.exclude is not None and _matches_either(self.exclude, path, self.given):
            return EXCLUDED
        if self.is_ignoring and (reason := self._find_ignoring_rule(name, path, is_folder=is_folder)):
            return reason
        if name.startswith(".") and not self.is_ignoring:
            return _BY_NAME.get(name, HIDDEN)
        if self.include is not None and not is_folder and not _matches_either(self.include, path, self.given):
            return NOT_INCLUDED
        return BROKEN_EXPORT if self.is_broken_export and name.endswith(".json") else ""

    def find_named_reason(self, file: Path) -> str:
        """Why a file that is named by itself is passed over; only `exclude` and `include` can, by its path or name."""
        path = file.as_posix().lstrip("/")
        if self.exclude is not None and self.exclude.match_file(path):
            return EXCLUDED
        return NOT_INCLUDED if self.include is not None and not self.include.match_file(path) else ""

    def _find_ignoring_rule(self, name: str, path: str, *, is_folder: bool) -> str:
        for file in reversed(self.clew):
            found = file.check(path)
            if found is not None:
                return BY_CLEW if found else _KEPT
        if is_folder:
            if reason := _BY_NAME.get(name) or _BY_SUFFIX.get(os.path.splitext(name)[1]):  # noqa: PTH122 (a name)
                return reason
            if self.is_project and name in _IN_PROJECT:
                return _IN_PROJECT[name]
        if name.startswith("."):
            return HIDDEN
        for file in reversed(self.git):
            found = file.check(path)
            if found is not None:
                return BY_GIT if found else _KEPT
        return ""

    def enter(self, entries: Sequence["os.DirEntry[str]"], path: str) -> "WalkRules":
        """The rules inside a folder with these entries; `path` is its own below the walked folder, with a slash."""
        if not self.is_ignoring:
            return self
        added: dict[str, tuple[IgnoreFile, ...]] = {GIT_FILE: (), CLEW_FILE: ()}
        is_project = False
        for entry in entries:
            is_project = is_project or entry.name in _PROJECT_FILES
            if entry.name in added and (entry.is_file(follow_symlinks=False) or entry.is_symlink()):
                added[entry.name] = (IgnoreFile(_load_spec(Path(entry.path)), skip=len(path)),)
        return replace(self, git=self.git + added[GIT_FILE], clew=self.clew + added[CLEW_FILE], is_project=is_project)


def is_python_environment(names: Set[str]) -> bool:
    """Whether a folder with files of these names is a Python environment."""
    return _ENVIRONMENT_FILE in names


def make_walk_rules(config: IngestionConfig) -> WalkRules:
    """The rules of the settings, before any folder is entered."""
    return WalkRules(
        exclude=_compile_patterns("ingestion.exclude", config.exclude),
        include=_compile_patterns("ingestion.include", config.include),
        is_ignoring=config.ignore,
        limits=ReadLimits.of(config),
    )


def _compile_patterns(setting: str, patterns: Sequence[str]) -> GitIgnoreSpec | None:
    for pattern in patterns:
        if not _is_pattern(pattern):
            raise SettingsError(
                f"{setting} has {pattern!r}; give patterns as in a .gitignore, such as *.log or drafts/"
            )
    return GitIgnoreSpec.from_lines(patterns) if patterns else None


def begin_walk(rules: WalkRules, folder: Path, *, given: Path, root: Path | None) -> WalkRules:
    """The rules for a walk of a folder: with the ignore files above it, up to its repository, or else up to `root`.

    Where those would pass over the folder itself they do not count: whoever names it wants it.
    """
    prefix = "" if given.is_absolute() or str(given) == "." else f"{given.as_posix()}/"
    rules = replace(rules, given=prefix)
    if not rules.is_ignoring:
        return rules
    repository = next((each for each in (folder, *folder.parents) if Path(each, ".git").exists()), None)
    top = repository or (root if root and folder.is_relative_to(root) else folder)
    git: list[IgnoreFile] = []
    clew: list[IgnoreFile] = []
    if repository and Path(info := repository / ".git" / "info" / "exclude").is_file():
        above = folder.relative_to(repository).as_posix()
        git.append(IgnoreFile(_load_spec(info), "" if above == "." else f"{above}/"))
    between = [each for each in reversed(folder.parents) if each.is_relative_to(top)] if folder != top else []
    for each in between:
        above = f"{folder.relative_to(each).as_posix()}/"
        if repository and _is_ignore_file(each / GIT_FILE):
            git.append(IgnoreFile(_load_spec(each / GIT_FILE), above))
        if _is_ignore_file(each / CLEW_FILE):
            clew.append(IgnoreFile(_load_spec(each / CLEW_FILE), above))
    return replace(
        rules,
        git=() if any(each.check("") for each in git if each.above) else tuple(git),
        clew=() if any(each.check("") for each in clew) else tuple(clew),
    )


def _is_ignore_file(path: Path) -> bool:
    """Whether there is a file, or a link, wherever that goes."""
    return path.is_symlink() or path.is_file()


def _load_spec(file: Path) -> GitIgnoreSpec:
    """The patterns of an ignore file; a SourceError if it cannot be read: nothing may be added that it keeps out.

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
    text = data.decode("utf-8-sig", errors="surrogateescape")
    lines = [line.removesuffix("\r") for line in text.split("\n")]  # no other character ends a pattern of git
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:
        return GitIgnoreSpec.from_lines(line for line in lines if _is_pattern(line))


def _is_pattern(line: str) -> bool:
    """Whether a line is a pattern; one that is none matches nothing, as in Git."""
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def _matches_either(spec: GitIgnoreSpec, path: str, given: str) -> bool:
    """Whether patterns match a path below the walked folder, or the same as the user would write it from here."""
    return spec.match_file(path) or bool(given and spec.match_file(given + path))
