"""Parts of stored threads, and edits of them: a long thread is changed without being read or written as a whole."""

from dataclasses import dataclass
from typing import NamedTuple

from clew.core.text import Terms
from clew.core.types import Chunk, Document, Matrix


@dataclass(frozen=True, slots=True)
class ThreadPart:
    """Some messages of a stored thread, in order, as a Document of these alone.

    `numbers` are their places in the thread, of which greater means later; they stay when other messages go. `first`
    and `last` are the numbers of the thread's first and last message. A parent that is not in the part is None.
    `revision` is another after every change of the thread.
    """

    document: Document
    numbers: tuple[int, ...]
    first: int
    last: int
    revision: int


@dataclass(frozen=True, slots=True)
class ThreadEdit:
    """What changes in one thread, for `Store.edit_threads`.

    `document` is a part of the thread as it will be, and `numbers` are the places of its messages. Those at `positions`
    are written, new ones too; the parent of each is in the part. `removed` are the numbers of messages that go; a
    thread that is left empty goes too. `chunks` are all chunks of the messages at `positions`, with spans in the text
    of the part. `revision` is that of the part that was read; 0: the thread is new. `is_append`: messages are added at
    the end and nothing else changes, so that title and hash stay. The summary goes, since it was made of the text
    before.
    """

    document: Document
    numbers: tuple[int, ...]
    positions: tuple[int, ...]
    chunks: tuple[Chunk, ...]
    vectors: Matrix
    terms: tuple[Terms, ...]
    removed: tuple[int, ...] = ()
    revision: int = 0
    is_append: bool = False


class Waiting(NamedTuple):
    """A stored message that answers one that is not stored, and the thread that it is in."""

    message: str
    doc_id: str
