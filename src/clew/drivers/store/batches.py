"""Reading a collection in batches: how much of it is in memory at once.

A batch never ends inside a document, so a document that is replaced between two batches is read once, as it was
before or after.
"""

from collections.abc import Iterable, Sequence

DOCUMENT_PAGE = 256  # documents whose sizes are read at once
MAX_CHUNKS, MAX_CHARS = 2000, 8_000_000  # of a batch, unless a single document has more


def take_batch(sizes: Iterable[Sequence[int]]) -> list[int]:
    """The first rows of `(row, chunks, chars)` that together stay within a batch; at least one if there are any."""
    rows, chunks, chars = list[int](), 0, 0
    for row, more_chunks, more_chars in sizes:
        chunks, chars = chunks + more_chunks, chars + more_chars
        if rows and (chunks > MAX_CHUNKS or chars > MAX_CHARS):
            break
        rows.append(row)
    return rows
