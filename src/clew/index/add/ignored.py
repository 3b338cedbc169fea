"""Files that were added before and are passed over now: named, and dropped by a synchronisation if they are ignored.

What the default rules pass over (hidden, dependencies, build output) was added with `--no-ignore` or by name. It stays.
"""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from clew.core.protocols import Store
from clew.core.report import PassedOver, SourceFailure
from clew.core.types import DocumentRecord
from clew.index.read.sections import get_source_uri
from clew.index.read.uri import make_file_uri
from clew.index.walk.ignore import BY_CLEW, BY_DEFAULT, BY_GIT

MAX_NAMED = 20  # files that are named one by one
_BY_FILES = frozenset((BY_GIT, BY_CLEW))


@dataclass(frozen=True, slots=True)
class IgnoredFiles:
    """The uris of the files and folders that some rules kept out of a walk, each with the reason.

    What is given to `add` by name is not among them, whatever an ignore file above it says.
    """

    files: dict[str, str]
    folders: dict[str, str]
    named: tuple[str, ...] = ()

    def find_reason(self, uri: str) -> str:
        """The reason why a file is ignored, such as "in .gitignore"; empty if it is not."""
        if any(uri == each or uri.startswith(f"{each}/") for each in self.named):
            return ""
        if reason := self.files.get(uri):
            return reason
        above = (uri[: place + 1] for place, character in enumerate(uri) if character == "/")
        return next((reason for folder in above if (reason := self.folders.get(folder))), "")


NONE_IGNORED = IgnoredFiles({}, {})


def list_ignored_files(passed_over: Iterable[PassedOver], locations: Sequence[Path], root: Path) -> IgnoredFiles:
    """The files and folders among what was passed over that an ignore file names."""
    return _list_by_reason(passed_over, locations, root, _BY_FILES)


def list_files_skipped_by_default(
    passed_over: Iterable[PassedOver], locations: Sequence[Path], root: Path
) -> IgnoredFiles:
    """The files and folders among what was passed over that are hidden or made by tools."""
    return _list_by_reason(passed_over, locations, root, BY_DEFAULT)


def _list_by_reason(
    passed_over: Iterable[PassedOver], locations: Sequence[Path], root: Path, reasons: Set[str]
) -> IgnoredFiles:
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for each in passed_over:
        if each.reason not in reasons:
            continue
        uri = make_file_uri(Path(each.source), root)
        if each.source.endswith("/"):
            folders[f"{uri}/"] = each.reason
        else:
            files[uri] = each.reason
    ignored = IgnoredFiles(files, folders)
    given = (make_file_uri(path, root) for path in locations)
    named = (uri for uri in given if ignored.find_reason(uri) or ignored.find_reason(f"{uri}/"))
    return IgnoredFiles(files, folders, tuple(named))


def note_ignored_files(store: Store, ignored: IgnoredFiles) -> list[SourceFailure]:
    """What is said of stored files that are ignored now."""
    if not ignored.files and not ignored.folders:
        return []
    stored = (record for record in store.documents() if record.stamp)
    return _note_each(
        stored, ignored, "the earlier version stays; add its folder with --sync (sync=True) to drop it", "stay"
    )


def note_skipped_files(store: Store, skipped: IgnoredFiles) -> list[SourceFailure]:
    """What is said of stored files that the default rules pass over; a synchronisation keeps them too."""
    if not skipped.files and not skipped.folders:
        return []
    stored = (record for record in store.documents() if record.stamp)
    outcome = "the earlier version stays, also with --sync; `clew drop` (Engine.drop) removes it"
    return _note_each(stored, skipped, outcome, "stay", verb="passed over")


def note_dropped_files(dropped: Iterable[DocumentRecord], ignored: IgnoredFiles) -> list[SourceFailure]:
    """What is said of files that were dropped because they are ignored now."""
    return _note_each(dropped, ignored, "its document was dropped", "were dropped")


def _note_each(
    records: Iterable[DocumentRecord], ignored: IgnoredFiles, outcome: str, of_the_rest: str, *, verb: str = "ignored"
) -> list[SourceFailure]:
    reasons = {uri: reason for uri in map(get_source_uri, records) if (reason := ignored.find_reason(uri))}
    notes = [SourceFailure(uri, f"is {verb} now ({reason}); {outcome}") for uri, reason in sorted(reasons.items())]
    if len(notes) <= MAX_NAMED:
        return notes
    rest = f"is {verb} now, as are {len(notes) - MAX_NAMED - 1:,} more; they {of_the_rest}"
    return [*notes[:MAX_NAMED], SourceFailure(notes[MAX_NAMED].source, rest)]
