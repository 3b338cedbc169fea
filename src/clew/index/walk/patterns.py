"""Patterns of a .gitignore: the lines of an ignore file, and those that a user gives with `exclude` and `include`."""

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from clew.core.errors import SettingsError
from clew.index.walk.wildmatch import Wildcards


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern: it matches an entry of a folder by its name, or by its path where the pattern has a slash."""

    wildcards: Wildcards
    is_negated: bool = False  # begins with "!"
    is_for_folders: bool = False  # ends with a slash
    is_path: bool = False

    @classmethod
    def parse(cls, text: bytes) -> "Pattern":
        """The pattern of a line that is no comment."""
        text = _trim_trailing_spaces(text.split(b"\0", 1)[0])
        is_negated, is_for_folders = text.startswith(b"!"), text.endswith(b"/")
        text = text.removeprefix(b"!").removesuffix(b"/")
        return cls(Wildcards(text.removeprefix(b"/")), is_negated, is_for_folders, b"/" in text)

    def match(self, path: bytes, *, is_folder: bool) -> bool:
        """Whether the pattern matches this very entry, by its path below the folder of the ignore file."""
        if self.is_for_folders and not is_folder:
            return False
        return self.wildcards.match(path if self.is_path else path[path.rfind(b"/") + 1 :])


@dataclass(frozen=True, slots=True)
class PatternList:
    """The patterns of one ignore file."""

    patterns: Sequence[Pattern]

    @classmethod
    def parse(cls, data: bytes) -> "PatternList":
        """The patterns of an ignore file. A newline ends a pattern and no other character does."""
        lines = (line.removesuffix(b"\r") for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"))
        return cls([Pattern.parse(line) for line in lines if line and not line.startswith(b"#")][::-1])

    def check(self, path: bytes, *, is_folder: bool) -> bool | None:
        """Whether the entry is ignored, by the last pattern that matches it; None if none does."""
        name = path[path.rfind(b"/") + 1 :]
        for pattern in self.patterns:  # as Pattern.match, for each entry of a walk
            if is_folder or not pattern.is_for_folders:  # noqa: SIM102 (the cheap question first)
                if pattern.wildcards.match(path if pattern.is_path else name):
                    return not pattern.is_negated
        return None


def _trim_trailing_spaces(text: bytes) -> bytes:
    """The text without the spaces at its end, but for one after a backslash."""
    trimmed = text.rstrip(b" ")
    backslashes = len(trimmed) - len(trimmed.rstrip(b"\\"))
    return trimmed + b" " if backslashes % 2 and len(trimmed) < len(text) else trimmed


_Entry = tuple[bytes, bool]  # a path, and whether it is that of a folder


@dataclass(frozen=True, slots=True)
class ChosenPatterns:
    """The patterns of `exclude` or `include`, for paths below the walked folder or as they are written from here."""

    setting: str
    patterns: tuple[tuple[str, tuple[Pattern, ...]], ...]  # by what the user wrote, the last first
    unmatched: dict[str, None] = field(compare=False)  # what has matched nothing yet, in all walks of one `add`
    from_here: str = ""  # the walked folder as it is written from the working directory

    @classmethod
    def parse(cls, setting: str, texts: Sequence[str]) -> "ChosenPatterns | None":
        """The patterns of a setting, None if it has none; a SettingsError if one of them is malformed."""
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
        """The patterns for a walk of a folder: those that begin with its path count below it too."""
        from_here = _describe_from_here(given)
        prefixes = {f"{path}/" for path in (folder.as_posix(), given.as_posix(), from_here) if path not in ("", ".")}
        with suppress(OSError):  # the working directory is gone
            prefixes.add(f"{Path(os.path.abspath(given)).as_posix()}/")  # noqa: PTH100 (a link stays one)
        patterns = tuple((text, (*known, *_parse_below(text, prefixes))) for text, known in self.patterns)
        return replace(self, patterns=patterns, from_here=from_here)

    def exclude(self, path: str, *, is_folder: bool) -> bool:
        """Whether the entry at a path below the walked folder is excluded, or the walked folder is.

        The folders on the way to the entry are asked about before it.
        """
        above = _list_entries(self.from_here, is_folder=True) if self.from_here else ()
        written = {path, self._write_from_here(path)}
        entry = [(os.fsencode(each), is_folder) for each in written]
        return any(self._decide([each]) for each in above) or self._decide(entry)

    def include(self, path: str) -> bool:
        """Whether a file is included: the last pattern that matches it, or a folder above it, decides."""
        written = {path, self._write_from_here(path)}
        return self._decide([entry for each in written for entry in _list_entries(each, is_folder=False)])

    def match_named(self, file: Path) -> bool:
        """Whether a file that is named by itself matches: by its path, or by the full one if the pattern is one."""
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
        """What the last pattern that matches one of the entries says; each that matches one is noted."""
        found: bool | None = None
        for text, patterns in self.patterns:
            if found is not None and text not in self.unmatched:
                continue
            if any(pattern.match(path, is_folder=is_folder) for pattern in patterns for path, is_folder in entries):
                self.unmatched.pop(text, None)
                found = not patterns[0].is_negated if found is None else found
        return bool(found)


def _list_entries(path: str, *, is_folder: bool) -> Iterator[_Entry]:
    """The folders on the way to an entry, the topmost first, and the entry itself."""
    data = os.fsencode(path)
    slash = data.find(b"/")
    while slash >= 0:
        yield data[:slash], True
        slash = data.find(b"/", slash + 1)
    yield data, is_folder


def _describe_from_here(folder: Path) -> str:
    """A folder as the user writes it from the working directory; empty if it is that, or elsewhere and absolute."""
    if folder.is_absolute():
        with suppress(OSError, ValueError):  # the working directory is gone, or the folder is not below it
            return folder.relative_to(Path.cwd()).as_posix().removeprefix(".")
        return ""
    return "" if str(folder) == "." else folder.as_posix()


def _normalise(text: str) -> str:
    """A pattern as in a .gitignore of what may be a path: `./x//y/` is `/x/y/`."""
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
    """A pattern that begins with the path of a folder, as patterns below that folder."""
    normal = _normalise(text)
    sign, body = ("!", normal[1:]) if normal.startswith("!") else ("", normal)
    for prefix in prefixes:
        rest = (body if prefix.startswith("/") else body.removeprefix("/")).removeprefix(prefix)
        if rest and len(rest) < len(body.removeprefix("/")):
            yield _parse_chosen(f"{sign}/{rest}")
