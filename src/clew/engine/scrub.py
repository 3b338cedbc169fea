"""Takes erased text out of what is kept beside the content: chat sessions, runs of evaluations, feedback."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from clew.core.errors import DriverFailed
from clew.core.fingerprint import Matcher
from clew.core.plural import format_count
from clew.core.protocols import RecordStore, SessionStore
from clew.core.session import StoredSession
from clew.core.types import Message
from clew.index.erase.compare import TEXT_KINDS
from clew.index.erase.select import Selection

ERASED = "[erased]"


def scrub_sessions(sessions: SessionStore, folder: Path | None, selection: Selection, matcher: Matcher) -> int:
    """Rewrites the sessions that hold erased text; how many.

    In a session that was shown a document which is erased, or has lost messages, every answer goes: it may tell in
    other words what the document said. Questions go if they quote it. Documents keep their numbers.
    """
    changed = 0
    for name in sessions.names():
        before = sessions.get(name)
        if before is not None and _scrub_session(before, selection, matcher) != before:
            sessions.update(name, lambda session: _scrub_session(session, selection, matcher))
            changed += 1
    return changed + (_scrub_files(folder / "sessions", selection, matcher) if folder else 0)


def scrub_records(records: RecordStore | None, selection: Selection, matcher: Matcher) -> list[str]:
    """Deletes the runs and the judgements of users that name or quote what is erased; a note of each kind."""
    if records is None:
        return []
    names = [json.dumps(name, ensure_ascii=ascii_) for name in selection.documents for ascii_ in (True, False)]

    def tells(text: str) -> bool:
        return any(name in text for name in names) or bool(matcher.count_in_text(text, TEXT_KINDS))

    runs = [name for name in records.names("evaluations") if tells(records.read("evaluations", name))]
    for name in runs:
        records.write("evaluations", "", name=name)
    lines = records.read("feedback").splitlines(keepends=True)
    kept = [line for line in lines if not tells(line)]
    if len(kept) < len(lines):
        records.write("feedback", "".join(kept))
    gone = ((len(runs), "evaluation"), (len(lines) - len(kept), "judgement"))
    return [f"{format_count(count, what)} that named what is erased: gone as well" for count, what in gone if count]


def _scrub_session(session: StoredSession, selection: Selection, matcher: Matcher) -> StoredSession:
    """A session without erased text."""
    erased = set(selection.documents)
    ids = session.documents
    was_shown = not erased.isdisjoint(ids) or not selection.messages.keys().isdisjoint(ids)
    messages = tuple(
        replace(message, text=ERASED, id="")
        if (was_shown and message.role == "assistant") or matcher.count_in_text(message.text, TEXT_KINDS)
        else message
        for message in session.messages
    )
    kept = tuple(f"erased {number}" if doc_id in erased else doc_id for number, doc_id in enumerate(ids, 1))
    return replace(session, documents=kept, messages=messages)


def _scrub_files(home: Path, selection: Selection, matcher: Matcher) -> int:
    """Rewrites the files in which an earlier version saved sessions; how many."""
    changed = 0
    for file in sorted(home.iterdir()) if home.is_dir() else ():
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue  # what it holds is searched for with everything else
        try:
            saved = json.loads(text)
        except ValueError:
            saved = None
        if saved is None:
            if matcher.count_in_text(text, TEXT_KINDS):
                file.unlink(missing_ok=True)  # the rest of a save that was interrupted
                changed += 1
            continue
        scrubbed = _scrub_saved(saved, selection, matcher)
        if scrubbed != saved:
            _replace_file(file, scrubbed)
            changed += 1
    return changed


def _scrub_saved(saved: Any, selection: Selection, matcher: Matcher) -> Any:
    """The content of a session file without erased text."""
    if not isinstance(saved, dict):
        return saved
    turns = [turn for turn in saved.get("turns", ()) if isinstance(turn, dict)]
    session = StoredSession(
        tuple(str(doc_id) for doc_id in saved.get("documents", ())),
        tuple(Message(str(turn.get("text")), role=str(turn.get("role"))) for turn in turns),
    )
    scrubbed = _scrub_session(session, selection, matcher)
    texts = [{"role": message.role, "text": message.text} for message in scrubbed.messages]
    return {**saved, "documents": list(scrubbed.documents), "turns": texts}


def _replace_file(file: Path, content: Any) -> None:
    temporary = file.with_suffix(f".{uuid4().hex}.new")
    try:
        temporary.write_text(json.dumps(content), encoding="ascii")
        temporary.replace(file)
    except OSError as error:
        raise DriverFailed(f"the chat session {file} cannot be rewritten: {error.strerror}") from error
