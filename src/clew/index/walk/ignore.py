"""Ignore rules of file discovery: which entries of a folder are skipped, and why.

The rules apply in this order: `ingestion.exclude`, `.clewignore`, entries of tools (dependencies, build output) and
hidden entries, `.gitignore`. A `!pattern` in a `.clewignore` overrules the later rules.

Patterns match as in Git, which compares bytes: `?` and a class such as `[a-z]` match one byte, `*` any number of bytes
without a slash, and `**` between slashes any number of folders. A pattern becomes a regular expression without
backtracking over a star: the first place where the text after a star fits is as good as any later one. Matching
therefore takes time at most proportional to the pattern length times the path length.
"""

import os
import re
import string
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from clew.core.errors import SettingsError, SourceError
from clew.core.report import SourceFailure
from clew.core.settings import IngestionConfig
from clew.index.read.load import describe_os_error
from clew.index.read.process.limits import DEFAULT_LIMITS, ReadLimits

_SPECIAL = frozenset(b"*?[\\")
_ALL_BYTES = frozenset(range(256))
_PRINTED, _SPACES = frozenset(range(0x20, 0x7F)), frozenset(b" \t\n\r")
_NAMED_CLASSES = {
    b"alnum": frozenset((string.ascii_letters + string.digits).encode()),
    b"alpha": frozenset(string.ascii_letters.encode()),
    b"blank": frozenset(b" \t"),
    b"cntrl": frozenset((*range(0x20), 0x7F)),
    b"digit": frozenset(string.digits.encode()),
    b"graph": _PRINTED - _SPACES,
    b"lower": frozenset(string.ascii_lowercase.encode()),
    b"print": _PRINTED,
    b"punct": frozenset(string.punctuation.encode()),
    b"space": _SPACES,
    b"upper": frozenset(string.ascii_uppercase.encode()),
    b"xdigit": frozenset(string.hexdigits.encode()),
}

# A token of a pattern is one of these, or the regular expression of a single byte.
_STAR, _SLASH = b"*", b"/"
_FOLDERS, _SOME_FOLDERS, _REST = b"**/", b"**\\/", b"**"  # any number of folders; at least one; whatever follows
_DOUBLE_STARS = frozenset((_FOLDERS, _SOME_FOLDERS, _REST))


class Wildcards:
    """A wildcard pattern that must match a whole path."""

    def __init__(self, pattern: bytes) -> None:
        plain = next((place for place, byte in enumerate(pattern) if byte in _SPECIAL), len(pattern))
        self._prefix, self._rest = pattern[:plain], pattern[plain:]

    def match(self, path: bytes) -> bool:
        """Return whether the pattern matches the path."""
        if not self._rest:
            return path == self._prefix
        if not path.startswith(self._prefix) or len(path) < self._min_length:
            return False  # and avoid compiling a very long pattern
        return self._expression is not None and self._expression.fullmatch(path, len(self._prefix)) is not None

    @property
    def problem(self) -> str:
        """The problem of the pattern, in a few words; empty if it is valid."""
        if not self._rest:
            return "" if self._prefix else "it matches nothing"
        if self._parsed is None:
            return "it ends with a backslash, or a [class] in it is unknown or has no end"
        return "a range in it runs from a later to an earlier character" if self._parsed.has_reversed_range else ""

    @cached_property
    def _parsed(self) -> "_Parsed | None":
        """The tokens after the literal prefix; None if the pattern is malformed, and so matches nothing.

        A `**` right after the literal prefix counts as if a slash preceded it, as in Git.
        """
        try:
            return _parse(self._rest)
        except IndexError:  # the pattern ends too early
            return None

    @cached_property
    def _min_length(self) -> int:
        """The length of the shortest path that can match."""
        counted = self._parsed.tokens if self._parsed else ()
        return len(self._prefix) + sum(token not in (_STAR, _FOLDERS, _REST) for token in counted)

    @cached_property
    def _expression(self) -> re.Pattern[bytes] | None:
        return re.compile(_write_expression(self._parsed.tokens), re.DOTALL) if self._parsed else None


@dataclass(frozen=True, slots=True)
class _Parsed:
    tokens: Sequence[bytes]
    has_reversed_range: bool


def _parse(pattern: bytes) -> _Parsed:
    """Parse the tokens of a pattern; raise IndexError if it is malformed."""
    tokens: list[bytes] = []
    has_reversed_range = False
    place = 0
    while place < len(pattern):
        byte = pattern[place : place + 1]
        if byte == b"*":
            start = place
            while pattern[place : place + 1] == b"*":
                place += 1
            tokens.append(_read_stars(pattern, start, place))
            place += {_FOLDERS: 1, _SOME_FOLDERS: 2}.get(tokens[-1], 0)
            continue
        if byte == b"[":
            members, place, is_reversed = _read_class(pattern, place + 1)
            has_reversed_range = has_reversed_range or is_reversed
            tokens.append(_write_class(members - {ord("/")}))
        elif byte == b"?":
            tokens.append(b"[^/]")
        else:
            place += byte == b"\\"
            tokens.append(re.escape(bytes((pattern[place],))))
        place += 1
    return _Parsed(tokens, has_reversed_range)


def _read_stars(pattern: bytes, start: int, end: int) -> bytes:
    """Return the token of the stars in pattern[start:end]; two or more between slashes match folders."""
    if end - start == 1 or (start > 0 and pattern[start - 1 : start] != b"/"):
        return _STAR
    if end == len(pattern):
        return _REST
    if pattern.startswith(b"/", end):
        return _FOLDERS
    return _SOME_FOLDERS if pattern.startswith(b"\\/", end) else _STAR


def _read_class(pattern: bytes, place: int) -> tuple[frozenset[int], int, bool]:
    """Parse the class at a place: return its bytes, its end, and whether one of its ranges is reversed."""
    is_negated = pattern[place] in b"!^"
    place += is_negated
    members: set[int] = set()
    has_reversed_range = False
    before = 0  # the possible first byte of a range
    is_first = True
    while is_first or pattern[place] != ord("]"):
        is_first = False
        byte = pattern[place]
        if byte == ord("-") and before and pattern[place + 1] != ord("]"):
            place += 1 + (pattern[place + 1] == ord("\\"))
            has_reversed_range = has_reversed_range or pattern[place] < before
            members.update(range(before, pattern[place] + 1))
            before = 0
        elif byte == ord("[") and pattern[place + 1] == ord(":"):
            end = pattern.find(b"]", place + 2)
            name = pattern[place + 2 : end - 1]
            if end < 0:
                raise IndexError
            if end < place + 3 or pattern[end - 1] != ord(":"):
                members.add(byte)
                before = byte
            else:
                if name not in _NAMED_CLASSES:
                    raise IndexError
                members |= _NAMED_CLASSES[name]
                place, before = end, 0
        else:
            place += byte == ord("\\")
            before = pattern[place]
            members.add(before)
        place += 1
    return (_ALL_BYTES - members if is_negated else frozenset(members)), place, has_reversed_range


def _write_class(members: Iterable[int]) -> bytes:
    written = b"".join(rb"\x%02x" % byte for byte in sorted(members))
    return b"[%s]" % written if written else b"(?!)"


def _write_expression(tokens: Sequence[bytes]) -> bytes:
    """Write the regular expression of a pattern, searching the text after a `**` folder by folder."""
    written, start, opened = b"", 0, b""
    for place, token in enumerate(tokens):
        if token not in _DOUBLE_STARS:
            continue
        written += opened + _write_run(tokens[start:place]) + (b")" if opened else b"")
        start = place + 1
        opened = rb"(?>(?:[^/]*/)%s?" % (b"+" if token == _SOME_FOLDERS else b"*")
        if token == _REST:
            return written + b".*"
    return written + opened + _write_run(tokens[start:]) + (rb"\Z)" if opened else rb"\Z")


def _write_run(tokens: Sequence[bytes]) -> bytes:
    """Write the regular expression of tokens without `**`.

    The text after a star matches at its first occurrence, or after the last star before a slash or the end, at its
    last one.
    """
    written = b""
    place = 0
    while place < len(tokens):
        if tokens[place] != _STAR:
            written += tokens[place]
            place += 1
            continue
        end = next((each for each in range(place + 1, len(tokens)) if tokens[each] in (_STAR, _SLASH)), len(tokens))
        after = b"".join(tokens[place + 1 : end])
        if end < len(tokens) and tokens[end] == _STAR:
            written += rb"(?>[^/]*?%s)" % after
        else:
            written += rb"(?>[^/]*%s)" % after
        place = end
    return written


@dataclass(frozen=True, slots=True)
class Pattern:
    """An ignore pattern: it matches an entry by name, or by path if the pattern has a slash."""

    wildcards: Wildcards
    is_negated: bool = False  # begins with "!"
    is_for_folders: bool = False  # ends with a slash
    is_path: bool = False

    @classmethod
    def parse(cls, text: bytes) -> "Pattern":
        """Parse a line that is not a comment."""
        text = _trim_trailing_spaces(text.split(b"\0", 1)[0])
        is_negated, is_for_folders = text.startswith(b"!"), text.endswith(b"/")
        text = text.removeprefix(b"!").removesuffix(b"/")
        return cls(Wildcards(text.removeprefix(b"/")), is_negated, is_for_folders, b"/" in text)

    def match(self, path: bytes, *, is_folder: bool) -> bool:
        """Return whether the pattern matches this entry itself, by its path below the folder of the ignore file."""
        if self.is_for_folders and not is_folder:
            return False
        return self.wildcards.match(path if self.is_path else path[path.rfind(b"/") + 1 :])


@dataclass(frozen=True, slots=True)
class PatternList:
    """The patterns of one ignore file."""

    patterns: Sequence[Pattern]  # last first

    @classmethod
    def parse(cls, data: bytes) -> "PatternList":
        """Parse the patterns of an ignore file. Only a newline ends a pattern."""
        lines = (line.removesuffix(b"\r") for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"))
        return cls([Pattern.parse(line) for line in lines if line and not line.startswith(b"#")][::-1])

    def check(self, path: bytes, *, is_folder: bool) -> bool | None:
        """Return whether the last matching pattern ignores the entry; None if no pattern matches."""
        name = path[path.rfind(b"/") + 1 :]
        for pattern in self.patterns:  # Pattern.match, inlined for speed
            if is_folder or not pattern.is_for_folders:  # noqa: SIM102 (the cheap test first)
                if pattern.wildcards.match(path if pattern.is_path else name):
                    return not pattern.is_negated
        return None


def _trim_trailing_spaces(text: bytes) -> bytes:
    """Strip trailing spaces, except one after a backslash."""
    trimmed = text.rstrip(b" ")
    backslashes = len(trimmed) - len(trimmed.rstrip(b"\\"))
    return trimmed + b" " if backslashes % 2 and len(trimmed) < len(text) else trimmed


_Entry = tuple[bytes, bool]  # a path, and whether it is a folder


@dataclass(frozen=True, slots=True)
class ChosenPatterns:
    """The patterns of `exclude` or `include`, matched below the walked folder or relative to the working directory."""

    setting: str
    patterns: tuple[tuple[str, tuple[Pattern, ...]], ...]  # by the user's text, last first
    unmatched: dict[str, None] = field(compare=False)  # patterns without a match yet in this `add`; mutated
    from_here: str = ""  # the walked folder relative to the working directory

    @classmethod
    def parse(cls, setting: str, texts: Sequence[str]) -> "ChosenPatterns | None":
        """Parse the patterns of a setting, None if it has none; raise SettingsError if one is malformed."""
        try:
            patterns = {text: (_parse_chosen(_normalise(text)),) for text in reversed(texts)}
        except UnicodeEncodeError as error:
            raise SettingsError(f"{setting} has {error.object!r}, which is not valid text") from error
        for text, (pattern,) in patterns.items():
            if problem := pattern.wildcards.problem or ("it has a NUL" if "\0" in text else ""):
                example = "give patterns as in a .gitignore, such as *.log or drafts/"
                raise SettingsError(f"{setting} has {text!r}, but {problem}; {example}")
        return cls(setting, tuple(patterns.items()), dict.fromkeys(texts)) if patterns else None

    def begin_walk(self, folder: Path, given: Path) -> "ChosenPatterns":
        """Return the patterns for a walk of a folder; one that begins with the folder's path also matches below it."""
        from_here = _describe_from_here(given)
        prefixes = {f"{path}/" for path in (folder.as_posix(), given.as_posix(), from_here) if path not in ("", ".")}
        with suppress(OSError):  # the working directory is gone
            prefixes.add(f"{Path(os.path.abspath(given)).as_posix()}/")  # noqa: PTH100 (a link stays one)
        patterns = tuple((text, (*known, *_parse_below(text, prefixes))) for text, known in self.patterns)
        return replace(self, patterns=patterns, from_here=from_here)

    def exclude(self, path: str, *, is_folder: bool) -> bool:
        """Return whether an entry, by its path below the walked folder, or the walked folder itself is excluded.

        The caller has checked the folders between them already.
        """
        above = _list_entries(self.from_here, is_folder=True) if self.from_here else ()
        written = {path, self._write_from_here(path)}
        entry = [(os.fsencode(each), is_folder) for each in written]
        return any(self._decide([each]) for each in above) or self._decide(entry)

    def include(self, path: str) -> bool:
        """Return whether a file is included: the last pattern that matches it or a folder above it decides."""
        written = {path, self._write_from_here(path)}
        return self._decide([entry for each in written for entry in _list_entries(each, is_folder=False)])

    def match_named(self, file: Path) -> bool:
        """Return whether a file given by name matches, by its path as given, or by its full path for `/patterns`."""
        written = {file.as_posix().lstrip("/"), f"{_describe_from_here(file.parent)}/{file.name}".lstrip("/")}
        if self._decide([entry for path in written for entry in _list_entries(path, is_folder=False)]):
            return True
        with suppress(OSError):  # the working directory is gone
            absolute = Path(os.path.abspath(file)).as_posix().lstrip("/")  # noqa: PTH100 (a link stays one)
            rooted = tuple(each for each in self.patterns if each[0].startswith("/"))
            return replace(self, patterns=rooted)._decide(list(_list_entries(absolute, is_folder=False)))
        return False

    def _write_from_here(self, path: str) -> str:
        return f"{self.from_here}/{path}" if self.from_here else path

    def _decide(self, entries: Collection[_Entry]) -> bool:
        """Return the verdict of the last pattern that matches an entry, and record all matching patterns."""
        found: bool | None = None
        for text, patterns in self.patterns:
            if found is not None and text not in self.unmatched:
                continue
            if any(pattern.match(path, is_folder=is_folder) for pattern in patterns for path, is_folder in entries):
                self.unmatched.pop(text, None)
                found = not patterns[0].is_negated if found is None else found
        return bool(found)


def _list_entries(path: str, *, is_folder: bool) -> Iterator[_Entry]:
    """Yield the folders above an entry, topmost first, then the entry."""
    data = os.fsencode(path)
    slash = data.find(b"/")
    while slash >= 0:
        yield data[:slash], True
        slash = data.find(b"/", slash + 1)
    yield data, is_folder


def _describe_from_here(folder: Path) -> str:
    """Return a folder relative to the working directory; empty if it is that, or absolute and elsewhere."""
    if folder.is_absolute():
        with suppress(OSError, ValueError):  # the working directory is gone, or the folder is not below it
            return folder.relative_to(Path.cwd()).as_posix().removeprefix(".")
        return ""
    return "" if str(folder) == "." else folder.as_posix()


def _normalise(text: str) -> str:
    """Normalise a path to a .gitignore pattern: `./x//y/` becomes `/x/y/`."""
    sign, body = ("!", text[1:]) if text.startswith("!") else ("", text)
    if "/" not in body:
        return text
    first = "/" if body.startswith(("/", "./")) else ""
    last = "/" if body.endswith(("/", "/.")) else ""
    parts = [part for part in body.split("/") if part not in ("", ".")]
    return f"{sign}{first}{'/'.join(parts)}{last if parts else ''}"


def _parse_chosen(text: str) -> Pattern:
    return Pattern.parse(os.fsencode(text))


def _parse_below(text: str, prefixes: Collection[str]) -> Iterator[Pattern]:
    """Yield, for each folder prefix that a pattern begins with, the rest as a pattern below that folder."""
    normal = _normalise(text)
    sign, body = ("!", normal[1:]) if normal.startswith("!") else ("", normal)
    for prefix in prefixes:
        rest = (body if prefix.startswith("/") else body.removeprefix("/")).removeprefix(prefix)
        if rest and len(rest) < len(body.removeprefix("/")):
            yield _parse_chosen(f"{sign}/{rest}")


GIT_FILE, CLEW_FILE = ".gitignore", ".clewignore"
HIDDEN, VERSION_CONTROL, DEPENDENCIES, BUILD = "hidden", "version control", "dependencies", "build output"
EXCLUDED, NOT_INCLUDED, BROKEN_EXPORT = "excluded", "not included", "in a chat export that cannot be read"
BY_GIT, BY_CLEW = f"in {GIT_FILE}", f"in {CLEW_FILE}"
BY_DEFAULT = frozenset((HIDDEN, VERSION_CONTROL, DEPENDENCIES, BUILD))
_KEPT: Final = ""  # the verdict of a rule that overrules the others and keeps an entry
MAX_IGNORE_BYTES = 1_000_000

_BY_NAME = {
    **dict.fromkeys((".git", ".hg", ".svn", ".bzr", ".jj"), VERSION_CONTROL),
    **dict.fromkeys(("node_modules", "bower_components", "jspm_packages", "site-packages"), DEPENDENCIES),
    **dict.fromkeys(("__pypackages__", "elm-stuff", ".venv", ".tox", ".nox", ".yarn", ".pnpm-store"), DEPENDENCIES),
    **dict.fromkeys(("__pycache__", "htmlcov", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".cache"), BUILD),
    **dict.fromkeys((".gradle", ".next", ".nuxt", ".svelte-kit", ".terraform", ".ipynb_checkpoints"), BUILD),
}
_BY_SUFFIX = {".egg-info": BUILD, ".dist-info": DEPENDENCIES}
# Common words: they count only beside a file that marks the folder as a software project.
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
_ENVIRONMENT_FILE = "pyvenv.cfg"  # marks a Python environment of any name


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The patterns of an ignore file, and the mapping from paths below the walked folder to paths below the file's."""

    patterns: PatternList
    above: bytes = b""  # prepended to the path, for a file above the walked folder
    skip: int = 0  # bytes cut from the path, for a file below the walked folder

    def check(self, path: bytes, *, is_folder: bool) -> bool | None:
        """Return whether the last matching pattern ignores a path; None if no pattern matches."""
        return self.patterns.check(self.above + path[self.skip :], is_folder=is_folder)


@dataclass(frozen=True, slots=True)
class WalkRules:
    """The rules for the entries of one folder of a walk; `enter` returns the rules of a subfolder."""

    exclude: ChosenPatterns | None = None
    include: ChosenPatterns | None = None
    is_ignoring: bool = True  # whether ignore files and default rules apply
    git: tuple[IgnoreFile, ...] = ()
    clew: tuple[IgnoreFile, ...] = ()
    is_project: bool = field(default=False, compare=False)
    limits: ReadLimits = DEFAULT_LIMITS  # for opening chat exports
    is_broken_export: bool = False  # a chat export with unreadable tables: its messages must not be read as pages

    def find_reason(self, name: str, path: str, *, is_folder: bool) -> str:
        """Explain why an entry is skipped, by its name and its path below the walked folder; empty if it is not."""
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
        """Explain why a file given by name is skipped. Only `exclude` and `include` apply to it."""
        if self.exclude is not None and self.exclude.match_named(file):
            return EXCLUDED
        return NOT_INCLUDED if self.include is not None and not self.include.match_named(file) else ""

    def note_unmatched(self) -> list[SourceFailure]:
        """Report the patterns of `exclude` and `include` that matched nothing."""
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
        """Return the rules inside a folder with these entries; `path` is below the walked folder."""
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
    """Return whether a folder with these files is a Python environment."""
    return _ENVIRONMENT_FILE in names


def make_walk_rules(config: IngestionConfig) -> WalkRules:
    """Make the rules of the settings."""
    return WalkRules(
        exclude=ChosenPatterns.parse("ingestion.exclude", config.exclude),
        include=ChosenPatterns.parse("ingestion.include", config.include),
        is_ignoring=config.ignore,
        limits=ReadLimits.of(config),
    )


def begin_walk(rules: WalkRules, folder: Path, *, given: Path, root: Path | None) -> WalkRules:
    """Return the rules for a walk of a folder, with the ignore files above it, up to its repository or `root`.

    Ignore files that would skip the folder itself do not apply: whoever names the folder wants it.
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
    files: list[tuple[Path, Path]] = []  # the folder below which the patterns apply, and the ignore file
    if repository and Path(info := repository / ".git" / "info" / "exclude").is_file():
        files.append((repository, info))
    between = [each for each in reversed(folder.parents) if each.is_relative_to(top)]
    git = files + [(each, each / GIT_FILE) for each in between if repository and _is_ignore_file(each / GIT_FILE)]
    clew = [(each, each / CLEW_FILE) for each in between if _is_ignore_file(each / CLEW_FILE)]
    return replace(rules, git=_load_files_above(git, folder), clew=_load_files_above(clew, folder))


def _load_files_above(files: Sequence[tuple[Path, Path]], folder: Path) -> tuple[IgnoreFile, ...]:
    """Load the ignore files above a walked folder, except those that would skip the folder itself."""
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
    """Return the verdict of the nearest file with a matching pattern; None if there is none."""
    return _find_first(file.check(path, is_folder=is_folder) for file in reversed(files))


def _find_first(answers: Iterable[bool | None]) -> bool | None:
    """Return the first answer that is not None."""
    return next((answer for answer in answers if answer is not None), None)


def _is_ignore_file(path: Path) -> bool:
    """Return whether the path is a file or any link, even a broken one."""
    return path.is_symlink() or path.is_file()


def _load_patterns(file: Path) -> PatternList:
    """Load the patterns of an ignore file, following a link.

    Raise SourceError if it cannot be read or a link does not lead to a file: files that it excludes must not be added.
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
