"""Chat exports, beside the readers of pages: what an export holds becomes Messages by channel, in the order of time.

An export is known by its shape. One module a format says what is a message of it; `tree` opens folders and zips, `scan`
walks JSON of any size, `tidy` makes times and texts alike. One channel at a time is held, never a whole export.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

from clew.core.errors import SourceError
from clew.core.types import Message
from clew.index.chat.discord import discord, is_discord
from clew.index.chat.jsonl import is_jsonl, jsonl
from clew.index.chat.mbox import is_mbox, mbox
from clew.index.chat.slack.export import slack, slack_root
from clew.index.chat.telegram import is_telegram, telegram
from clew.index.chat.tidy import Notes
from clew.index.chat.tree import Part, Tree, opened, single
from clew.index.chat.whatsapp.export import channel_of, is_whatsapp, whatsapp
from clew.index.chat.zulip import zulip, zulip_root
from clew.index.read.guard import sealed
from clew.index.read.source import why

Channels = Iterator[tuple[str, Iterable[Message]]]
_MAILBOXES = frozenset({".mbox", ".mbx", ".mboxrd", ".txt", ""})  # archives of lists are often named .txt


@dataclass(frozen=True, slots=True)
class Export:
    """A chat export: what it is, and its messages by channel in the order of time.

    `notes` says what was left out or assumed and how often; it is filled as the channels are read, and begins anew with
    each reading.
    """

    kind: str
    place: Path
    read: Callable[[Notes], Channels]
    notes: Notes = field(default_factory=Notes, compare=False)

    def channels(self) -> Channels:
        """Each channel that holds messages, with them; a SourceError where none does.

        Messages are sorted by time and then by id; one without a time stays behind the one it was written after.
        """
        self.notes.clear()
        found = False
        with sealed(str(self.place), what=f"{self.kind} export"):
            for name, messages in self.read(self.notes):
                rest = iter(messages)
                first = next(rest, None)
                if first is not None:
                    found = True
                    yield name, chain((first,), rest)
        if not found:
            left = "; ".join(f"{count:,} {what}" for what, count in sorted(self.notes.items()))
            raise SourceError(
                str(self.place), f"is a {self.kind} export without messages{f' (left out: {left})' if left else ''}"
            )


def export_of(path: Path, *, direct: bool = False) -> Export | None:
    """The chat export at a path, known by its shape; None where it is none.

    A folder is one only where it is the export as a whole, so that pages beside a chat stay pages. `direct` takes the
    direct messages of a Zulip export too, which holds those of everyone; the others hold what their owner chose.
    """
    suffix = path.suffix.lower()
    try:
        if path.is_dir() or (suffix == ".zip" and path.is_file()):
            with sealed(str(path), what="chat export"), opened(path) as tree:
                return _of_tree(path, tree, direct=direct)
        if not path.is_file():
            return None
        part = single(path)
        with sealed(str(path), what="chat export"):
            return _of_file(path, part, suffix)
    except OSError as error:
        raise SourceError(str(path), why(error)) from error


def _of_file(path: Path, part: Part, suffix: str) -> Export | None:
    if suffix == ".json" and is_discord(part):
        return Export("discord", path, partial(discord, [part]))
    if suffix == ".json" and is_telegram(part):
        return Export("telegram", path, partial(telegram, part))
    if suffix in (".jsonl", ".ndjson") and is_jsonl(part):
        return Export("messages", path, partial(jsonl, part))
    if suffix == ".txt" and is_whatsapp(part):
        return Export("whatsapp", path, partial(_whatsapp, part, channel_of(part, place=path)))
    if suffix in _MAILBOXES and is_mbox(part):
        return Export("mbox", path, partial(mbox, part))
    return None


def _of_tree(path: Path, tree: Tree, *, direct: bool) -> Export | None:
    for kind, root_of, read in (
        ("slack", slack_root, slack),
        ("zulip", zulip_root, partial(zulip, direct=direct)),
        ("telegram", _telegram_root, _telegram),
        ("whatsapp", _whatsapp_root, partial(_whatsapp_tree, path)),
        ("discord", _discord_root, _discord),
    ):
        if root_of(tree) is not None:
            return Export(kind, path, partial(_reopened, path, root_of, read))
    return None


def _reopened(
    path: Path, root_of: Callable[[Tree], Tree | None], read: Callable[[Tree, Notes], Channels], notes: Notes
) -> Channels:
    """The channels of a tree, which is open as long as they are read."""
    with opened(path) as tree:
        root = root_of(tree)
        if root is None:
            raise SourceError(str(path), "changed while it was read; add it again")
        yield from read(root, notes)


def _telegram_root(tree: Tree) -> Tree | None:
    found = (root for root in tree.roots() if "result.json" in root.parts())
    return next((root for root in found if is_telegram(root.parts()["result.json"])), None)


def _telegram(root: Tree, notes: Notes) -> Channels:
    return telegram(root.parts()["result.json"], notes)


def _chat_text(root: Tree) -> Part | None:
    """The one chat that a folder or zip holds beside its media.

    An iPhone calls it by no name, so it stands for its folder; one with a name may stand among other files.
    """
    texts = {name: part for name, part in root.parts().items() if name.lower().endswith(".txt")}
    is_zip = root.uri.lower().endswith(".zip")
    part = texts.get("_chat.txt") or (next(iter(texts.values())) if is_zip and len(texts) == 1 else None)
    return part if part is not None and is_whatsapp(part) else None


def _whatsapp_root(tree: Tree) -> Tree | None:
    return next((root for root in tree.roots() if _chat_text(root) is not None), None)


def _whatsapp_tree(path: Path, root: Tree, notes: Notes) -> Channels:
    part = _chat_text(root)
    return _whatsapp(part, channel_of(part, place=path), notes) if part is not None else iter(())


def _whatsapp(part: Part, channel: str, notes: Notes) -> Channels:
    return whatsapp(part, channel=channel, notes=notes)


def _discord_root(tree: Tree) -> Tree | None:
    for root in tree.roots():
        parts = root.parts()
        if parts and all(name.lower().endswith(".json") and is_discord(part) for name, part in parts.items()):
            return root
    return None


def _discord(root: Tree, notes: Notes) -> Channels:
    return discord(list(root.parts().values()), notes)
