"""Chat exports that are folders, within a walk: which files belong to one, and which of them the rules keep out."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from clew.core.report import PassedOver
from clew.index.chat import ChatExport
from clew.index.chat.served import detect_export_within, make_served_export
from clew.index.read.process.limits import ReadLimits

EXPORT_MARKERS = frozenset({"users.json", "channels.json", "realm.json"})  # one of them is in such a folder
ATTACHMENT = "attachment of a chat export"
_SLACK, _ZULIP = "slack", "zulip"  # the other formats are single files, whatever lies beside them
_TABLE = {
    _SLACK: re.compile(
        r"(users|org_users|channels|groups|dms|mpims|integration_logs|canvases|lists|file_conversations)\.json"
    ),
    _ZULIP: re.compile(r"(realm|messages-\d+|attachment|analytics|migration_status)\.json"),
}
_ZULIP_ATTACHMENTS = frozenset({"uploads", "avatars", "emoji", "realm_icons"})
_DAY_FILE = re.compile(r"\d{4}-\d{2}-\d{2}\.json")


@dataclass(slots=True)
class OpenExport:
    """An export on the path of a walk, while its files are looked at."""

    folder: Path
    kind: str
    prefix: str  # of its files' paths below the walked folder
    limits: ReadLimits
    left_out: set[str] = field(default_factory=set)
    parts: int = 0
    reason: str = ""  # why one of its tables is left out, and so all of it

    def is_part(self, path: str) -> bool:
        """Whether the file at a path below the walked folder belongs to the export."""
        folder, _, name = path[len(self.prefix) :].rpartition("/")
        if not folder:
            return _TABLE[self.kind].fullmatch(name) is not None
        return self.kind == _SLACK and "/" not in folder and _DAY_FILE.fullmatch(name) is not None

    def has_attachments(self, path: str) -> bool:
        """Whether a folder at a path below the walked folder holds what people sent, in public or not."""
        return self.kind == _ZULIP and path[len(self.prefix) :] in _ZULIP_ATTACHMENTS

    def leave_out(self, path: str, reason: str) -> None:
        """Keeps a file or folder from being read, for a reason of the walk's rules."""
        inside = path[len(self.prefix) :]
        self.left_out.add(inside)
        if "/" not in inside and _TABLE[self.kind].fullmatch(inside):
            self.reason = self.reason or reason

    def close(self) -> Iterator[ChatExport | PassedOver]:
        """What the walk found: the export, or that all of it is passed over since one of its tables is."""
        if not self.reason:
            yield make_served_export(self.folder, self.kind, limits=self.limits, left_out=self.left_out)
        elif self.parts:
            yield PassedOver(f"{self.folder}/", self.reason, self.parts)


def find_export_folder(folder: Path, prefix: str, limits: ReadLimits) -> OpenExport | None:
    """The chat export that a folder is, with whatever else lies in it; None if it is none."""
    found = detect_export_within(folder, limits=limits)
    return OpenExport(folder, found.kind, prefix, limits) if found and found.kind in _TABLE else None
