"""Takes erased text out of what is kept beside the content: chats, jobs, runs of evaluations, feedback."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from clew.core.errors import SourceError
from clew.core.protocols import RecordStore
from clew.core.stored import StoredSession
from clew.engine.sessions import import_session_file
from clew.index.erase import Journal, Quotes, Selection

if TYPE_CHECKING:
    from clew.engine import Engine

ERASED = "[erased]"


def scrub(engine: "Engine", journal: Journal, quotes: Quotes) -> tuple[Counter[str], tuple[str, ...]]:
    """Remove what names or quotes erased documents; how many of each kind, and the jobs that have not ended."""
    opened = engine.opened
    names = [json.dumps(name, ensure_ascii=ascii_) for name in journal.documents for ascii_ in (True, False)]

    def tells(text: str) -> bool:
        return any(name in text for name in names) or quotes.are_in_json(text)

    jobs, busy = opened.store.jobs.drop(lambda job, text: job in journal.jobs or tells(text))
    counts = Counter(sessions=_scrub_sessions(engine, journal.selection, quotes), jobs=jobs)
    counts.update(_scrub_records(opened.store.records, tells))
    return counts, tuple(busy)


def _scrub_sessions(engine: "Engine", selection: Selection, quotes: Quotes) -> int:
    """Rewrite the sessions that hold erased text; how many.

    In a session that was shown a document which is erased, or has lost messages, every answer goes: it may tell in
    other words what the document said. Questions go if they quote it. Documents keep their numbers.
    """
    changed = _take_over_files(engine, quotes)
    sessions = engine.opened.store.sessions
    for name in sessions.names():
        before = sessions.get(name)
        if before is not None and _scrub_session(before, selection, quotes) != before:
            sessions.update(name, lambda session: _scrub_session(session, selection, quotes))
            changed += 1
    return changed


def _scrub_session(session: StoredSession, selection: Selection, quotes: Quotes) -> StoredSession:
    """A session without erased text."""
    erased = set(selection.documents)
    ids = session.documents
    was_shown = not erased.isdisjoint(ids) or not selection.messages.keys().isdisjoint(ids)
    messages = tuple(
        replace(message, text=ERASED, id="")
        if message.text != ERASED and ((was_shown and message.role == "assistant") or quotes.are_in(message.text))
        else message
        for message in session.messages
    )
    kept = tuple(f"erased {number}" if doc_id in erased else doc_id for number, doc_id in enumerate(ids, 1))
    return replace(session, documents=kept, messages=messages)


def _take_over_files(engine: "Engine", quotes: Quotes) -> int:
    """Move the sessions that an earlier version saved in files to the store; delete others of the files that tell."""
    folder = engine.opened.folder
    home = folder / "sessions" if folder else None
    deleted = 0
    for file in sorted(home.iterdir()) if home and home.is_dir() else ():
        try:
            import_session_file(engine, file.stem, file)
        except SourceError:  # the rest of a save that was interrupted, or not a session
            if file.is_file() and quotes.are_in_json(file.read_text(encoding="utf-8", errors="replace")):
                file.unlink(missing_ok=True)
                deleted += 1
    return deleted


def _scrub_records(records: RecordStore, tells: Callable[[str], bool]) -> dict[str, int]:
    """Delete the runs and the judgements of users that name or quote what is erased; how many of each."""
    runs = [name for name, text in records.read_all("evaluations").items() if tells(text)]
    for name in runs:
        records.write("evaluations", "", name=name)
    lines = records.read("feedback").splitlines(keepends=True)
    kept = [line for line in lines if not tells(line)]
    if len(kept) < len(lines):
        records.write("feedback", "".join(kept))
    return {"evaluation": len(runs), "judgement": len(lines) - len(kept)}
