"""The proof of places in threads, once for each thread and block of a read and not for each chunk of it."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from clew.drivers.store import codec
from clew.drivers.store.checksums import damaged_error

_WRONG_THREADS = (
    f"SELECT d.id FROM documents d WHERE d.row IN (SELECT value FROM json_each(?)) AND {codec.PROOF} IS NOT true"
)
_WRONG_BLOCKS = (
    "SELECT d.id FROM (SELECT json_extract(value, '$[0]') AS doc, json_extract(value, '$[1]') AS piece"
    " FROM json_each(?)) c"
    f" LEFT JOIN documents d ON d.row = c.doc WHERE {codec.BLOCK_PROOF} IS NOT true"
)


def check_places(db: sqlite3.Connection, read: Iterable[Sequence[Any]]) -> None:
    """CollectionDamaged unless what the places of these CHUNK_COLUMNS are added up from is as written.

    It need not be of the same moment as the read: damage stays.
    """
    try:
        blocks = {(columns[10], columns[11] >> codec.BLOCK_BITS) for columns in read if columns[11] is not None}
    except TypeError as error:  # a text or a fraction in place of a number
        raise damaged_error("the place of a chunk that was found") from error
    if not blocks:
        return
    threads = json.dumps(sorted({doc for doc, _ in blocks}))
    firsts = json.dumps([(doc, block << codec.BLOCK_BITS) for doc, block in sorted(blocks)])
    for sql, params in ((_WRONG_THREADS, threads), (_WRONG_BLOCKS, firsts)):
        for (doc_id,) in db.execute(sql, (params,)):
            raise damaged_error(f"the place of the chunk that was found in the document {doc_id!r}")
