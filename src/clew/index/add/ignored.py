"""Files that an ignore file keeps out now and that were added before: dropped by a synchronisation, else named."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from clew.core.protocols import Store
from clew.core.report import PassedOver, SourceFailure
from clew.core.types import DocumentRecord
from clew.index.add.ignore import BY_CLEW, BY_GIT
from clew.index.read.sections import get_source_uri
from clew.index.read.uri import make_file_uri

MAX_NAMED = 20  # files that are named one by one


@dataclass(frozen=True, slots=True)
class IgnoredFiles:
    """The uris of the files and folders that ignore files kept out of a walk, each with the reason.

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
        return next((reason for folder, reason in self.folders.items() if uri.startswith(folder)), "")


NONE_IGNORED = IgnoredFiles({}, {})


def list_ignored_files(passed_over: Iterable[PassedOver], locations: Sequence[Path], root: Path) -> IgnoredFiles:
    """The files and folders among what was passed over that an ignore file names."""
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for each in passed_over:
        uri = make_file_uri(Path(each.source), root)
        if each.reason in (BY_GIT, BY_CLEW) and each.source.endswith("/"):
            folders[f"{uri}/"] = each.reason
        elif each.reason in (BY_GIT, BY_CLEW):
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


def note_dropped_files(dropped: Iterable[DocumentRecord], ignored: IgnoredFiles) -> list[SourceFailure]:
    """What is said of files that were dropped because they are ignored now."""
    return _note_each(dropped, ignored, "its document was dropped", "were dropped")


def _note_each(
    records: Iterable[DocumentRecord], ignored: IgnoredFiles, outcome: str, of_the_rest: str
) -> list[SourceFailure]:
    reasons = {uri: reason for uri in map(get_source_uri, records) if (reason := ignored.find_reason(uri))}
    notes = [SourceFailure(uri, f"is ignored now ({reason}); {outcome}") for uri, reason in sorted(reasons.items())]
    if len(notes) <= MAX_NAMED:
        return notes
    rest = f"is ignored now, as are {len(notes) - MAX_NAMED - 1:,} more; they {of_the_rest}"
    return [*notes[:MAX_NAMED], SourceFailure(notes[MAX_NAMED].source, rest)]
