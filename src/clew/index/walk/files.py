"""The walk of a folder: yields the files and chat exports below the given paths one at a time.

A chat export can be a folder: the walk records which files belong to it, and which of those the rules exclude.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from clew.core.errors import SourceError
from clew.core.report import PassedOver
from clew.core.settings import IngestionConfig
from clew.index.chat import SLACK, SLACK_CHANNEL, ChatExport
from clew.index.chat.served import detect_export_within, make_served_export
from clew.index.chat.slack import TABLES, is_day_name
from clew.index.read import SUFFIXES, has_known_format
from clew.index.read.load import describe_os_error
from clew.index.read.process.limits import ReadLimits
from clew.index.walk.ignore import DEPENDENCIES, WalkRules, begin_walk, is_python_environment, make_walk_rules

_MARKERS = frozenset({*TABLES, "realm.json"})  # an export folder has one of these, or the file of a day
ATTACHMENT = "attachment of a chat export"
_ZULIP = "zulip"  # formats other than Slack and Zulip are single files
_TABLE = {
    SLACK: re.compile(
        r"(users|org_users|channels|groups|dms|mpims|integration_logs|canvases|lists|file_conversations)\.json"
    ),
    SLACK_CHANNEL: re.compile("(?!)"),  # none
    _ZULIP: re.compile(r"(realm|messages-\d+|attachment|analytics|migration_status)\.json"),
}
_ZULIP_ATTACHMENTS = frozenset({"uploads", "avatars", "emoji", "realm_icons"})
EXPORT_SUFFIXES = frozenset({".zip", ".json", ".jsonl", ".ndjson", ".mbox", ".mbx", ".mboxrd"})
DATABASE_FILE, SETTINGS_FILE = "clew.db", "clew.toml"
UNKNOWN_FORMAT, LINK, SPECIAL = "unknown format", "symbolic link", "not a regular file"
OWN_FILES = "files of Clew"
_OWN_SUFFIXES = (".clew", ".lance")  # folders of collections, and of their Lance datasets
MAX_COUNTED_FILES = 100_000  # counted in a skipped folder: counting more takes too long

Found = Path | ChatExport | SourceError | PassedOver
DEFAULT_RULES = WalkRules()


@dataclass(slots=True)
class OpenExport:
    """An export folder that the walk is inside of."""

    folder: Path
    kind: str
    prefix: str  # its path below the walked folder, with a slash
    limits: ReadLimits
    left_out: set[str] = field(default_factory=set)
    parts: int = 0
    reason: str = ""  # why one of its tables, and so the whole export, is left out

    def is_part(self, path: str) -> bool:
        """Return whether a file belongs to the export, by its path below the walked folder."""
        folder, _, name = path[len(self.prefix) :].rpartition("/")
        if is_day_name(name):
            return "/" not in folder and self.kind == (SLACK if folder else SLACK_CHANNEL)
        return not folder and _TABLE[self.kind].fullmatch(name) is not None

    def has_attachments(self, path: str) -> bool:
        """Return whether a folder holds attachments, by its path below the walked folder."""
        return self.kind == _ZULIP and path[len(self.prefix) :] in _ZULIP_ATTACHMENTS

    def leave_out(self, path: str, reason: str) -> None:
        """Exclude a file or folder from the export, for a reason given by the walk's rules."""
        inside = path[len(self.prefix) :]
        self.left_out.add(inside)
        if "/" not in inside and _TABLE[self.kind].fullmatch(inside):
            self.reason = self.reason or reason

    def close(self) -> Iterator[ChatExport | PassedOver]:
        """Yield the export, or a PassedOver for all of it if one of its tables was left out."""
        if self.parts and self.reason:
            yield PassedOver(f"{self.folder}/", self.reason, self.parts)
        elif self.parts:
            yield make_served_export(self.folder, self.kind, limits=self.limits, left_out=self.left_out)


def may_be_export(names: Iterable[str], path: str, export: OpenExport | None) -> bool:
    """Return whether a folder with these names may be an export; `export` is the one around it, if any."""
    days = (name for name in names if is_day_name(name) and not (export and export.is_part(path + name)))
    return not _MARKERS.isdisjoint(names) or any(days)


def find_export_folder(folder: Path, prefix: str, limits: ReadLimits) -> OpenExport | None:
    """Return the chat export if the folder is one, whatever other files it has; else None."""
    found = detect_export_within(folder, limits=limits)
    return OpenExport(folder, found.kind, prefix, limits) if found and found.kind in _TABLE else None


def find_files(
    paths: Iterable[Path],
    *,
    suffixes: Set[str] = SUFFIXES,
    rules: WalkRules = DEFAULT_RULES,
    root: Path | None = None,
) -> Iterator[Found]:
    """Yield each file once, in order; a path that cannot be opened as a SourceError.

    A given file is yielded as it is. A folder is walked, sorted by name, for files with one of the suffixes and for
    chat exports; a folder that is an export is yielded as a ChatExport, after the other files in it. A PassedOver
    stands for each entry that the rules exclude, links (not followed), Clew's own folders and its settings file (which
    may hold a key). Ignore files above a folder apply up to its repository, else up to `root`.
    """
    sources = list(paths)
    seen = _SeenPaths(sources)
    for source in sources:
        try:
            real = source.resolve(strict=True)
            is_folder = real.is_dir()
        except OSError as error:
            yield SourceError(str(source), describe_os_error(error))
            continue
        except (ValueError, RuntimeError):  # a NUL in the path; a link to itself
            yield SourceError(str(source), "is not a valid path")
            continue
        if not seen.add_source(real):
            continue
        if not is_folder:
            reason = rules.find_named_reason(source)
            yield PassedOver(str(source), reason) if reason else source
        elif real.suffix == ".clew":
            yield SourceError(str(source), "is a Clew collection, not a source")
        else:
            yield from seen.filter(_walk_source(source, real, suffixes, rules, root))


class _SeenPaths:
    """The sources and files found so far, by resolved path. Files are recorded only if one source contains another."""

    def __init__(self, sources: Sequence[Path]) -> None:
        given = {Path(os.path.realpath(source)) for source in sources if "\0" not in str(source)}
        self._is_overlapping = any(not given.isdisjoint(path.parents) for path in given)
        self._seen: set[str] = set()

    def add_source(self, real: Path) -> bool:
        """Record a source; return False if it, or an export that contains it, was found before."""
        if str(real) in self._seen or (self._is_overlapping and any(str(each) in self._seen for each in real.parents)):
            return False
        if not real.is_dir():
            self._seen.add(str(real))
        return True

    def filter(self, found: Iterable[Found]) -> Iterator[Found]:
        """Yield and record the entries that were not found before."""
        for each in found:
            if isinstance(each, Path | ChatExport) and self._is_overlapping:
                key = str((each if isinstance(each, Path) else each.path).resolve())
                if key in self._seen:
                    continue
                self._seen.add(key)
            yield each


def _walk_source(source: Path, real: Path, suffixes: Set[str], rules: WalkRules, root: Path | None) -> Iterator[Found]:
    try:
        rules = begin_walk(rules, real, given=source, root=root)
    except OSError as error:
        yield SourceError(str(source), describe_os_error(error))
        return
    except SourceError as error:
        yield error
        return
    yield from _walk_folder(source, suffixes, rules)


def _walk_folder(folder: Path, suffixes: Set[str], rules: WalkRules) -> Iterator[Found]:
    """Yield the files below a folder, depth first; only the folders on the current path are in memory."""
    open_folders: list[_OpenFolder] = []
    yield from _enter_folder(folder, "", rules, open_folders)
    while open_folders:
        inside = open_folders[-1]
        entry = next(inside.entries, None)
        if entry is None:
            open_folders.pop()
            if inside.export and inside.path == inside.export.prefix:
                yield from inside.export.close()
            continue
        path = inside.path + entry.name
        try:
            is_folder = entry.is_dir(follow_symlinks=False)
        except OSError as error:
            yield SourceError(_make_printable(entry.path), describe_os_error(error))
            continue
        export = inside.export
        reason = inside.rules.find_reason(entry.name, path, is_folder=is_folder)
        if reason:
            if export:
                export.leave_out(path, reason)
            yield _pass_over(entry, reason, is_folder=is_folder)
        elif is_folder and export and export.has_attachments(path):
            yield _pass_over(entry, ATTACHMENT, is_folder=True)
        elif is_folder:
            yield from _enter_folder(Path(entry.path), f"{path}/", inside.rules, open_folders, export)
        elif export and export.is_part(path):
            export.parts += 1
        else:
            yield _examine_file(entry, suffixes, inside.rules.limits)


class _OpenFolder:
    """A folder on the current path: its remaining entries, its path, its rules and the export around it."""

    __slots__ = ("entries", "export", "path", "rules")

    def __init__(
        self, entries: Sequence["os.DirEntry[str]"], path: str, rules: WalkRules, export: OpenExport | None
    ) -> None:
        self.entries, self.path, self.rules, self.export = iter(entries), path, rules, export


def _enter_folder(
    folder: Path, path: str, rules: WalkRules, open_folders: list[_OpenFolder], export: OpenExport | None = None
) -> Iterator[Found]:
    """Push a folder onto the walk; yield an error or a PassedOver instead if it is skipped."""
    if path and folder.suffix in _OWN_SUFFIXES:
        yield PassedOver(f"{folder}/", OWN_FILES, count_files(folder))
        return
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        names = {entry.name for entry in entries}
        if path and (DATABASE_FILE in names or (rules.is_ignoring and is_python_environment(names))):
            reason = OWN_FILES if DATABASE_FILE in names else DEPENDENCIES
            yield PassedOver(f"{folder}/", reason, count_files(folder))
            return
        rules = rules.enter(entries, path)
    except OSError as error:
        yield SourceError(str(folder), describe_os_error(error))
        return
    except SourceError as error:
        yield error
        return
    if may_be_export(names, path, export):
        try:
            export = find_export_folder(folder, path, rules.limits) or export
        except SourceError as error:
            yield error
            rules = replace(rules, is_broken_export=True)
    open_folders.append(_OpenFolder(entries, path, rules, export))


def _examine_file(entry: "os.DirEntry[str]", suffixes: Set[str], limits: ReadLimits) -> Found:
    """Return the path of a file to read, or why it is skipped or cannot be read."""
    try:
        entry.name.encode()
        if not entry.is_file(follow_symlinks=False):
            return PassedOver(_make_printable(entry.path), LINK if entry.is_symlink() else SPECIAL)
        if entry.name == SETTINGS_FILE:
            return PassedOver(_make_printable(entry.path), OWN_FILES)
        is_read = _has_known_format(entry, suffixes, limits)
    except UnicodeEncodeError:
        return SourceError(_make_printable(entry.path), "has a name that is not UTF-8; rename it")
    except OSError as error:
        return SourceError(_make_printable(entry.path), describe_os_error(error))
    return Path(entry.path) if is_read else PassedOver(_make_printable(entry.path), UNKNOWN_FORMAT)


def _has_known_format(entry: "os.DirEntry[str]", suffixes: Set[str], limits: ReadLimits) -> bool:
    """Return whether a file has one of the suffixes, or is a chat export."""
    if has_known_format(entry.name, suffixes):
        return True
    suffix = os.path.splitext(entry.name)[1].lower()  # noqa: PTH122 (many times faster than a Path)
    try:
        return suffix in EXPORT_SUFFIXES and detect_export_within(Path(entry.path), limits=limits) is not None
    except SourceError:
        return True  # a damaged export: reading it reports the damage


def _pass_over(entry: "os.DirEntry[str]", reason: str, *, is_folder: bool) -> PassedOver:
    path = _make_printable(entry.path)
    return PassedOver(f"{path}/", reason, count_files(Path(entry.path))) if is_folder else PassedOver(path, reason)


def count_files(folder: Path) -> int:
    """Count the files below a folder, at most MAX_COUNTED_FILES; unreadable folders count as empty."""
    count = 0
    for _, _, names in os.walk(folder):
        count += len(names)
        if count >= MAX_COUNTED_FILES:
            return MAX_COUNTED_FILES
    return count


def _make_printable(path: str) -> str:
    """Format a path for a report: without a leading "./", and with bytes that are not UTF-8 replaced."""
    return path.removeprefix("./").encode(errors="surrogateescape").decode(errors="replace")


def find_reason_passed_over(file: Path, *, root: Path, config: IngestionConfig) -> str:
    """Explain why adding a folder above a file would skip the file, as in "in .gitignore"; empty if it would not.

    The folder is `root`, or the folder of a file outside it.
    """
    real = Path(os.path.abspath(file))  # noqa: PTH100 (a link stays one)
    top = root if real.is_relative_to(root) else real.parent
    try:
        rules, path = begin_walk(make_walk_rules(config), top, given=top, root=root), ""
        folder = top
        parts = real.relative_to(top).parts
        for depth, name in enumerate(parts, 1):
            with os.scandir(folder) as entries:
                rules = rules.enter(list(entries), path)
            is_folder = depth < len(parts)
            if reason := rules.find_reason(name, path + name, is_folder=is_folder):
                return reason
            folder, path = folder / name, f"{path}{name}/"
    except (OSError, SourceError):
        return ""
    return ""
