"""Chat exports as sources: each thread of each channel is a document of its own."""

import logging
import os
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from clew.core.errors import SourceError
from clew.core.plural import format_count
from clew.core.report import OnWarning, SourceFailure
from clew.core.settings import ThreadConfig
from clew.core.time import EARLIEST
from clew.core.types import Document
from clew.index.add.prepare import Source
from clew.index.chat import SLACK_DAY, ChatExport
from clew.index.thread.threads import build_threads, find_latest_message_time
from clew.index.walk.files import EXPORT_SUFFIXES

log = logging.getLogger("clew")
_LOOKED_INTO = EXPORT_SUFFIXES | {".txt", ".", ""}


def may_be_chat_export(path: Path) -> bool:
    """Whether a path can hold a chat export, so that its content is worth a look."""
    return os.path.splitext(path)[1].lower() in _LOOKED_INTO  # noqa: PTH122 (many times faster than a Path)


def make_thread_sources(
    export: ChatExport, config: ThreadConfig, on_warning: OnWarning
) -> Iterator[Source | SourceError]:
    """One Source per thread of an export, channel by channel; what was skipped or assumed is reported at the end."""
    try:
        for channel, messages in export.read_channels():
            exported = list(messages)
            ids = frozenset(message.id for message in exported)
            # A message that cannot be read, or of another day, is not one that was deleted: what is stored of it stays.
            is_partial = export.notes.failures or export.kind == SLACK_DAY
            until = EARLIEST if is_partial else find_latest_message_time(exported)
            counts = Counter(message.id for message in exported)
            for thread in build_threads(channel, exported, config=config):
                document = thread.document()
                for message in thread.messages:
                    if counts[message.id] > 1:
                        on_warning(SourceFailure(document.uri, _explain_repeated_id(message.id, counts[message.id])))
                read = partial(_return_document, document)
                yield Source(document.id, document.uri, read, exported_until=until, exported_ids=ids)
        yield from export.notes.failures
        if more := export.notes.unlisted_failures:
            yield SourceError(str(export.path), f"{format_count(more, 'more line')} cannot be read")
    except SourceError as error:
        yield error
    notes, restricted = export.notes.describe(), export.notes.describe_restricted()
    for note in (
        f"only members may see: {restricted} (access labels: user ids)" if restricted else "",
        f"skipped or assumed: {notes}" if notes else "",
    ):
        if note:
            log.info("%s: %s", export.path, note)
            on_warning(SourceFailure(str(export.path), note))


def _explain_repeated_id(message_id: str, count: int) -> str:
    return f"the export has {count} messages with the id {message_id}; the first was kept; give each an id of its own"


def _return_document(document: Document) -> Document:
    return document
