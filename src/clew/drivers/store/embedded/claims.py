"""Claims on documents: who is at work on which, and until when."""

import sqlite3
import time
from collections.abc import Sequence


def claim_documents(db: sqlite3.Connection, doc_ids: Sequence[str], *, owner: str, seconds: float) -> set[str]:
    """Claims the documents that nobody else has claimed; the ids of those."""
    now = time.time()
    sql = (
        "INSERT INTO claims SELECT row, ?, ? FROM documents WHERE id = ? ON CONFLICT(row) DO UPDATE"
        " SET owner = excluded.owner, until = excluded.until WHERE owner = excluded.owner OR until <= ?"
    )
    return {doc_id for doc_id in doc_ids if db.execute(sql, (owner, now + seconds, doc_id, now)).rowcount == 1}
