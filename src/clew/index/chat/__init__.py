"""Readers of chat exports, the counterpart of `index.read`: an export becomes Messages by channel, sorted by time.

The format is detected from the contents; each format has a module. `files` opens folders and zips and parses JSON of
any size, `normalise` unifies times and texts. Only one channel at a time is in memory.
"""

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

from clew.core.errors import SourceError
from clew.core.types import Message
from clew.index.chat.discord import is_discord_export, read_discord_export
from clew.index.chat.files import ExportFile, ExportTree, make_export_file, open_export_tree
from clew.index.chat.jsonl import is_jsonl_export, read_jsonl_export
from clew.index.chat.mbox import is_mbox, read_mbox
from clew.index.chat.normalise import ExportNotes
from clew.index.chat.slack import find_slack_root, is_slack_channel, is_slack_day, read_slack_export
from clew.index.chat.telegram import is_telegram_export, read_telegram_export
from clew.index.chat.whatsapp import derive_channel_name, is_whatsapp_export, read_whatsapp_export
from clew.index.chat.zulip import find_zulip_root, read_zulip_export
from clew.index.read.guard import wrap_library_errors
from clew.index.read.load import describe_os_error

SLACK, SLACK_CHANNEL, SLACK_DAY = "slack", "slack channel", "slack day"  # a whole export, and a part by itself
Channels = Iterator[tuple[str, Iterable[Message]]]
_MAILBOX_SUFFIXES = frozenset(
    {".mbox", ".mbx", ".mboxrd", ".txt", ""}
)  # archives of mailing lists are often named .txt


@dataclass(frozen=True, slots=True)
class ChatExport:
    """A chat export: its format, its path, and its messages by channel, sorted by time.

    `notes` counts skipped and assumed parts and holds the failures of single lines. Each reading resets it and fills it
    until the last channel is read.
    """

    kind: str
    path: Path
    read: Callable[[ExportNotes], Channels]
    notes: ExportNotes = field(default_factory=ExportNotes, compare=False)

    def read_channels(self) -> Channels:
        """Yield each channel that has messages, with its messages; raise SourceError if there is none.

        Messages are sorted by time, then by id. One without a time stays after its predecessor in the export.
        """
        self.notes.clear()
        found = False
        with wrap_library_errors(str(self.path), format_name=f"{self.kind} export"):
            for name, messages in self.read(self.notes):
                rest = iter(messages)
                first = next(rest, None)
                if first is not None:
                    found = True
                    yield name, chain((first,), rest)
        if not found:
            if self.notes.failures:
                raise self.notes.failures[0]
            skipped = self.notes.describe()
            raise SourceError(
                str(self.path), f"is a {self.kind} export without messages{f'; skipped: {skipped}' if skipped else ''}"
            )


def detect_export(path: Path, *, left_out: Set[str] = frozenset()) -> ChatExport | None:
    """Detect the chat export at a path from its contents; None if there is none.

    Other files in its folder are ignored. `left_out` are paths in the folder that must not be read.
    """
    suffix = path.suffix.lower()
    try:
        if path.is_dir() or (suffix == ".zip" and path.is_file()):
            with wrap_library_errors(str(path), format_name="chat export"), open_export_tree(path, left_out) as tree:
                return _detect_export_in_tree(path, tree, left_out)
        if not path.is_file():
            return None
        file = make_export_file(path)
        with wrap_library_errors(str(path), format_name="chat export"):
            return _detect_export_in_file(path, file, suffix)
    except OSError as error:
        raise SourceError(str(path), describe_os_error(error)) from error


def _detect_export_in_file(path: Path, file: ExportFile, suffix: str) -> ChatExport | None:
    if suffix == ".json" and (is_slack_day(file) or is_slack_day(make_export_file(path.resolve()))):  # a link to one
        return _make_slack_part(SLACK_DAY, path)
    if suffix == ".json" and is_discord_export(file):
        return ChatExport("discord", path, partial(read_discord_export, [file]))
    if suffix == ".json" and is_telegram_export(file):
        return ChatExport("telegram", path, partial(read_telegram_export, file))
    if suffix in (".jsonl", ".ndjson") and is_jsonl_export(file):
        return ChatExport("messages", path, partial(read_jsonl_export, file))
    if suffix == ".txt" and is_whatsapp_export(file):
        return ChatExport("whatsapp", path, partial(read_whatsapp_export, file, derive_channel_name(file, place=path)))
    if suffix in _MAILBOX_SUFFIXES and is_mbox(file):
        return ChatExport("mbox", path, partial(read_mbox, file))
    return None


def _detect_export_in_tree(path: Path, tree: ExportTree, left_out: Set[str]) -> ChatExport | None:
    for kind, find_root, read_channels in (
        (SLACK, find_slack_root, read_slack_export),
        ("zulip", find_zulip_root, read_zulip_export),
        ("telegram", _find_telegram_root, _read_telegram_tree),
        ("whatsapp", _find_whatsapp_root, partial(_read_whatsapp_tree, path)),
        ("discord", _find_discord_root, _read_discord_tree),
    ):
        if find_root(tree) is not None:
            return ChatExport(kind, path, partial(_read_export_tree, path, left_out, find_root, read_channels))
    is_channel = path.is_dir() and is_slack_channel(tree.list_files())
    return _make_slack_part(SLACK_CHANNEL, path, left_out) if is_channel else None


def _make_slack_part(kind: str, path: Path, left_out: Set[str] = frozenset()) -> ChatExport:
    """Make the export of one channel or day; the tables, if any, are in the folder above the channel."""
    real = path.resolve()
    root = real.parent if kind == SLACK_CHANNEL else real.parent.parent
    part = real.relative_to(root).as_posix()
    outside = frozenset(f"{part}/{each}" for each in left_out)
    read_part = partial(read_slack_export, only=part)
    return ChatExport(kind, path, partial(_read_export_tree, root, outside, lambda tree: tree, read_part))


def _read_export_tree(
    path: Path,
    left_out: Set[str],
    find_root: Callable[[ExportTree], ExportTree | None],
    read_channels: Callable[[ExportTree, ExportNotes], Channels],
    notes: ExportNotes,
) -> Channels:
    """Yield the channels of a folder or zip, keeping it open meanwhile."""
    with open_export_tree(path, left_out) as tree:
        root = find_root(tree)
        if root is None:
            raise SourceError(str(path), "changed while it was read; add it again")
        yield from read_channels(root, notes)


def _find_telegram_root(tree: ExportTree) -> ExportTree | None:
    found = (root for root in tree.find_possible_roots() if "result.json" in root.list_files())
    return next((root for root in found if is_telegram_export(root.list_files()["result.json"])), None)


def _read_telegram_tree(root: ExportTree, notes: ExportNotes) -> Channels:
    return read_telegram_export(root.list_files()["result.json"], notes)


def _find_whatsapp_text(root: ExportTree) -> ExportFile | None:
    """Find the WhatsApp text that a folder or zip holds beside its media.

    An iPhone names it _chat.txt. Another name counts only if it is the only text in a zip.
    """
    texts = {name: file for name, file in root.list_files().items() if name.lower().endswith(".txt")}
    is_zip = root.uri.lower().endswith(".zip")
    file = texts.get("_chat.txt") or (next(iter(texts.values())) if is_zip and len(texts) == 1 else None)
    return file if file is not None and is_whatsapp_export(file) else None


def _find_whatsapp_root(tree: ExportTree) -> ExportTree | None:
    return next((root for root in tree.find_possible_roots() if _find_whatsapp_text(root) is not None), None)


def _read_whatsapp_tree(path: Path, root: ExportTree, notes: ExportNotes) -> Channels:
    file = _find_whatsapp_text(root)
    return read_whatsapp_export(file, derive_channel_name(file, place=path), notes) if file is not None else iter(())


def _find_discord_root(tree: ExportTree) -> ExportTree | None:
    for root in tree.find_possible_roots():
        files = root.list_files()
        if not files or not all(name.lower().endswith(".json") for name in files):
            continue
        channels = sum(map(is_discord_export, files.values()))
        if channels > len(files) / 2:  # reading reports the others, which are broken
            return root
    return None


def _read_discord_tree(root: ExportTree, notes: ExportNotes) -> Channels:
    return read_discord_export(list(root.list_files().values()), notes)
