"""Synchronisation, after the sources are added: documents whose files are gone are dropped, unless that is too many.

A share that is not mounted looks like an empty folder. So where more than half of what a folder gave would go, nothing
of that folder is dropped until the caller confirms it.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from clew.core.protocols import Store
from clew.core.report import SourceFailure
from clew.core.types import DocumentRecord
from clew.index.add.ignored import NONE_IGNORED, IgnoredFiles
from clew.index.read.load import is_folder, is_there
from clew.index.read.sections import get_source_uri
from clew.index.read.uri import make_file_uri

MAX_DROP_SHARE = 0.5  # of the files of a folder whose documents are dropped without a confirmation


@dataclass(frozen=True, slots=True)
class Vanished:
    """The documents whose files are gone: those to drop, those held back, and why."""

    dropped: Sequence[DocumentRecord] = ()
    held_back: Sequence[DocumentRecord] = ()
    notes: Sequence[SourceFailure] = ()


def find_vanished_documents(
    store: Store,
    folders: Sequence[Path],
    *,
    root: Path,
    allow_mass_drop: bool,
    added: Set[str] = frozenset(),
    moved: Set[str] = frozenset(),
    empty: Set[str] = frozenset(),
    ignored: IgnoredFiles = NONE_IGNORED,
) -> Vanished:
    """The documents whose files were below one of the folders and no longer exist, or are now `empty` or `ignored`.

    Only a document read from a file has a stamp: one that a program made is never taken for a deleted file. Documents
    that were added just now (by uri), and those whose files were moved (by id), do not count in the share of a folder.
    """
    prefixes = {f"{make_file_uri(folder, root)}/".removeprefix("./"): folder for folder in folders if is_folder(folder)}
    known: dict[str, set[str]] = {prefix: set() for prefix in prefixes}  # files, which may have given several documents
    lost: dict[str, set[str]] = {prefix: set() for prefix in prefixes}
    gone: dict[str, list[DocumentRecord]] = {prefix: [] for prefix in prefixes}
    for record in store.documents() if prefixes else ():
        inside = [prefix for prefix in prefixes if _is_below(record.uri, prefix)] if record.stamp else ()
        if not inside:
            continue
        file = get_source_uri(record)
        is_gone = file in empty or bool(ignored.find_reason(file)) or not is_there(Path(root, file))
        for prefix in inside:
            gone[prefix] += [record] if is_gone else []
            if record.uri not in added and record.id not in moved:
                known[prefix].add(file)
                lost[prefix] |= {file} if is_gone else set()
    held: dict[str, DocumentRecord] = {}
    notes: list[SourceFailure] = []
    for prefix, records in gone.items():
        if not allow_mass_drop and len(lost[prefix]) > MAX_DROP_SHARE * len(known[prefix]):
            held |= {record.id: record for record in records}
            reason = _explain_mass_drop(len(lost[prefix]), len(known[prefix]))
            notes.append(SourceFailure(str(prefixes[prefix]), reason))
    vanished = {record.id: record for records in gone.values() for record in records}
    dropped = [record for record in vanished.values() if record.id not in held]
    return Vanished(dropped, list(held.values()), notes)


def _is_below(uri: str, prefix: str) -> bool:
    """Whether a file is below a folder; the prefix of the collection's root is empty, and full paths are outside it."""
    return uri.startswith(prefix) if prefix else not Path(uri).is_absolute() and not uri.startswith("../")


def _explain_mass_drop(lost: int, total: int) -> str:
    return (
        f"{lost} of its {total} files are gone, empty or ignored; their documents were not dropped, since the folder "
        "may only be out of reach; if the files are gone for good, repeat it with --yes (allow_mass_drop=True)"
    )
