"""Chat exports read in the reader process, within its limits: both the caller's side and the process's side.

The process opens the export by its path, detects it again, and sends its channels in parts, so that neither side holds
more than one channel.
"""

import json
import os
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import fields
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from clew.core.errors import SourceError
from clew.core.types import Message
from clew.index.chat import SLACK, SLACK_CHANNEL, SLACK_DAY, Channels, ChatExport, detect_export
from clew.index.chat.normalise import ExportNotes
from clew.index.read.guard import wrap_library_errors
from clew.index.read.process import wire
from clew.index.read.process.limits import PAGES_PER_LIMIT, ReadLimits, start_pages
from clew.index.read.process.pool import read_parts_in_process

MAX_DETECTED_HERE = 1_000_000  # bytes: detection in a larger file runs in the reader process
BYTES_PER_LIMIT = 10_000_000  # bytes of an export allowed for each time limit of a file
PACKED_RATIO = 5  # assumed compression of chats in a zip
PART_MESSAGES, PART_CHARS = 500, 1_000_000
_ACCESS_KINDS = frozenset({"messages", SLACK, SLACK_CHANNEL, SLACK_DAY})  # formats with access labels
_FIELDS = tuple(each.name for each in fields(Message))


def detect_export_within(path: Path, *, limits: ReadLimits) -> ChatExport | None:
    """Detect the chat export at a path, in the reader process if it is large; None if there is none.

    The export itself is always read in the reader process.
    """
    if _measure_export(path) <= MAX_DETECTED_HERE:
        found = detect_export(path)
        kind = found.kind if found else ""
    else:
        parts = read_parts_in_process(_make_request(path, limits))
        kind = "".join(str(part["kind"]) for part in parts)
    return make_served_export(path, kind, limits=limits) if kind else None


def make_served_export(path: Path, kind: str, *, limits: ReadLimits, left_out: Set[str] = frozenset()) -> ChatExport:
    """Make a ChatExport that is read in the reader process, without the paths in its folder that are left out."""
    return ChatExport(kind, path, partial(_read_in_process, path, kind, limits, frozenset(left_out)))


def _read_in_process(path: Path, kind: str, limits: ReadLimits, left_out: Set[str], notes: ExportNotes) -> Channels:
    """Yield the channels of an export, joining the parts of each."""
    messages: list[Message] = []
    for part in read_parts_in_process(_make_request(path, limits, left_out, kind=kind)):
        try:
            messages += [_decode_message(values, kind) for values in part["messages"]]
            channel, is_last = str(part["channel"]), bool(part["is_last"])
            _take_notes(part["notes"], notes)
        except (LookupError, TypeError, ValueError) as error:
            raise SourceError(str(path), "cannot be read: its reader gave no messages; it is broken") from error
        if is_last:
            if messages:
                yield channel, messages
            messages = []


def _make_request(
    path: Path, limits: ReadLimits, left_out: Set[str] = frozenset(), *, kind: str = ""
) -> wire.ReadRequest:
    """Make the request for the kind of an export or, with `kind`, for its channels; the path may be relative."""
    options = {"folder": str(Path.cwd()), "left_out": json.dumps(sorted(left_out)), **({"kind": kind} if kind else {})}
    return wire.ReadRequest(wire.EXPORT, str(path), path.name, limits, options)


def serve_export(path: str, options: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the replies for the export at a path: its kind, or if `options` has `kind`, its channels in parts."""
    os.chdir(options["folder"])
    export = detect_export(Path(path), left_out=frozenset(json.loads(options["left_out"])))
    if "kind" not in options:
        yield {"kind": export.kind if export else ""}
        return
    if export is None or export.kind != options["kind"]:
        raise SourceError(path, "changed while it was read; add it again")
    start_pages(PAGES_PER_LIMIT * _measure_export(Path(path)) // BYTES_PER_LIMIT)
    with wrap_library_errors(path, format_name=f"{export.kind} export"):
        for channel, messages in export.read(export.notes):
            part: list[list[Any]] = []
            chars = 0
            for message in messages:
                if len(part) >= PART_MESSAGES or chars >= PART_CHARS:
                    yield {"channel": channel, "messages": part, "is_last": False, "notes": None}
                    part, chars = [], 0
                part.append([getattr(message, name) for name in _FIELDS])
                chars += len(message.text)
            yield {"channel": channel, "messages": part, "is_last": True, "notes": _give_notes(export.notes)}
    yield {"channel": "", "messages": [], "is_last": True, "notes": _give_notes(export.notes)}


def _measure_export(path: Path) -> int:
    """Estimate the unpacked bytes of an export."""
    try:
        if not path.is_dir():
            return path.stat().st_size * (PACKED_RATIO if path.suffix.lower() == ".zip" else 1)
        size = 0
        for folder, _, names in os.walk(path):
            for name in names:
                with suppress(OSError):
                    size += os.path.getsize(os.path.join(folder, name))  # noqa: PTH118, PTH202
        return size
    except (OSError, ValueError):  # reading it reports the error
        return 0


def _decode_message(values: list[Any], kind: str) -> Message:
    given = dict(zip(_FIELDS, values, strict=True))
    at, access = given.pop("at"), given.pop("access")
    labels = frozenset(access) if access is not None and kind in _ACCESS_KINDS else None
    return Message(**given, at=datetime.fromisoformat(at) if at else None, access=labels)


def _give_notes(notes: ExportNotes) -> dict[str, Any]:
    failures = [[error.source, error.reason] for error in notes.failures]
    return {"counts": dict(notes), "failures": failures, "unlisted": notes.unlisted_failures}


def _take_notes(given: Mapping[str, Any] | None, notes: ExportNotes) -> None:
    """Replace the notes by those of the reader process, if given."""
    if given is None:
        return
    notes.clear()
    notes.update({str(what): int(count) for what, count in given["counts"].items()})
    notes.failures += [SourceError(str(source), str(reason)) for source, reason in given["failures"]]
    notes.unlisted_failures = int(given["unlisted"])
