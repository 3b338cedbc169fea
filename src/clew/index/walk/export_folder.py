"""Chat exports that are folders, within a walk: which files belong to one, and which of them the rules keep out."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from clew.core.report import PassedOver
from clew.index.chat import SLACK, SLACK_CHANNEL, ChatExport
from clew.index.chat.served import detect_export_within, make_served_export
from clew.index.chat.slack.export import TABLES, is_day_name
from clew.index.read.process.limits import ReadLimits

_MARKERS = frozenset({*TABLES, "realm.json"})  # one of them, or a day of a channel, is in such a folder
ATTACHMENT = "attachment of a chat export"
_ZULIP = "zulip"  # the other formats are single files, whatever lies beside them
_TABLE = {
    SLACK: re.compile(
        r"(users|org_users|channels|groups|dms|mpims|integration_logs|canvases|lists|file_conversations)\.json"
    ),
    SLACK_CHANNEL: re.compile("(?!)"),  # none
    _ZULIP: re.compile(r"(realm|messages-\d+|attachment|analytics|migration_status)\.json"),
}
_ZULIP_ATTACHMENTS = frozenset({"uploads", "avatars", "emoji", "realm_icons"})


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
        if is_day_name(name):
            return "/" not in folder and self.kind == (SLACK if folder else SLACK_CHANNEL)
        return not folder and _TABLE[self.kind].fullmatch(name) is not None

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
        if self.parts and self.reason:
            yield PassedOver(f"{self.folder}/", self.reason, self.parts)
        elif self.parts:
            yield make_served_export(self.folder, self.kind, limits=self.limits, left_out=self.left_out)


def may_be_export(names: Iterable[str], path: str, export: OpenExport | None) -> bool:
    """Return whether a folder with these names may be an export; `export` is the one that the folder is within."""
    days = (name for name in names if is_day_name(name) and not (export and export.is_part(path + name)))
    return not _MARKERS.isdisjoint(names) or any(days)


def find_export_folder(folder: Path, prefix: str, limits: ReadLimits) -> OpenExport | None:
    """The chat export that a folder is, with whatever else lies in it; None if it is none."""
    found = detect_export_within(folder, limits=limits)
    return OpenExport(folder, found.kind, prefix, limits) if found and found.kind in _TABLE else None
