"""Chat exports as sources: each thread of each channel is a document of its own."""

import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from clew.core.errors import SourceError
from clew.core.report import Failure
from clew.core.settings import ThreadConfig
from clew.core.types import Document
from clew.index.add.files import CHATS
from clew.index.add.prepare import Source
from clew.index.chat import Export
from clew.index.thread.threads import last_said, threads

log = logging.getLogger("clew")


def may_be_chat(path: Path) -> bool:
    """Whether a path that was found can hold a chat export, so that it is worth a look inside."""
    return path.suffix.lower() in CHATS | {".txt", ""} or path.is_dir()


def thread_sources(
    export: Export, config: ThreadConfig, notes: list[Failure] | None = None
) -> Iterator[Source | SourceError]:
    """The threads of an export, a channel at a time; what was left out of it is noted in the end."""
    try:
        for channel, messages in export.channels():
            all_of_it = list(messages)
            until, held = last_said(all_of_it), frozenset(message.id for message in all_of_it)
            for thread in threads(channel, all_of_it, config=config):
                document = thread.document()
                yield Source(document.id, document.uri, partial(_given, document), until=until, held=held)
    except SourceError as error:
        yield error
    said = "; ".join(f"{count:,} {what}" for what, count in sorted(export.notes.items()))
    if said:
        log.info("%s: left out or taken for granted: %s", export.place, said)
        if notes is not None:
            notes.append(Failure(str(export.place), f"left out or taken for granted: {said}"))


def _given(document: Document) -> Document:
    return document
