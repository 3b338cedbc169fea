"""Empty files in the write path: passed over, and named where an earlier version of them is stored."""

import stat
from codecs import getincrementaldecoder
from collections.abc import Iterable, Set
from io import FileIO
from pathlib import Path

from clew.core.filter import Filter
from clew.core.ids import make_document_id
from clew.core.protocols import Store
from clew.core.report import PassedOver, SourceFailure
from clew.index.read.sections import get_source_uri, make_section_name
from clew.index.read.uri import make_file_uri

EMPTY = "empty"
MAX_BLANK_BYTES = 10_000_000  # of a file that is looked into
_HEAD_BYTES = 64  # which tell most files from a blank one


def is_empty_file(path: Path) -> bool:
    """Whether a regular file has no bytes, or nothing but white space."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BLANK_BYTES:
            return False
        if not status.st_size:
            return True
        with FileIO(path) as file:
            head = file.read(_HEAD_BYTES) or b""
            decoder = getincrementaldecoder("utf-8-sig")()  # the head may end within a character
            return not decoder.decode(head).strip() and not decoder.decode(file.readall(), final=True).strip()
    except (OSError, ValueError):  # reading it reports that; what is no UTF-8 is not blank
        return False


def list_empty_files(passed_over: Iterable[PassedOver], root: Path) -> frozenset[str]:
    """The uris of the empty files among what was passed over."""
    return frozenset(make_file_uri(Path(each.source), root) for each in passed_over if each.reason == EMPTY)


def note_emptied_files(store: Store, uris: Set[str], *, is_upload: bool = False) -> list[SourceFailure]:
    """What is said of the files that are empty now and of which an earlier version is stored."""
    ids = [make_document_id(uri) for uri in uris]
    known = frozenset(ids) | {make_section_name(doc_id, 1) for doc_id in ids}
    stored = sorted({get_source_uri(record) for record in store.documents(Filter(documents=known))}) if ids else ()
    outcome = "drop it by its address" if is_upload else "add its folder with --sync (sync=True) to drop it"
    reason = f"is empty now; the earlier version stays; {outcome}"
    return [SourceFailure(uri, reason) for uri in stored]
