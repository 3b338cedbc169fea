"""Takes erased text out of the chat sessions that are saved in the folder of a collection."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

from clew.core.errors import DriverFailed
from clew.core.fingerprint import Matcher
from clew.index.erase.compare import TEXT_KINDS
from clew.index.erase.select import Selection

ERASED = "[erased]"


def scrub_sessions(folder: Path, selection: Selection, matcher: Matcher) -> int:
    """Rewrites the saved sessions that hold erased text; how many.

    In a session that was shown a document which is erased, or has lost messages, every answer goes: it may tell in
    other words what the document said. Questions go if they quote it. Documents keep their numbers.
    """
    home = folder / "sessions"
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
        scrubbed = _scrub_session(saved, selection, matcher)
        if scrubbed != saved:
            _replace_file(file, scrubbed)
            changed += 1
    return changed


def _scrub_session(saved: Any, selection: Selection, matcher: Matcher) -> Any:
    """A session without erased text."""
    if not isinstance(saved, dict):
        return saved
    erased = set(selection.documents)
    ids = [str(doc_id) for doc_id in saved.get("documents", ())]
    was_shown = not erased.isdisjoint(ids) or not selection.messages.keys().isdisjoint(ids)
    turns = [
        {**turn, "text": ERASED}
        if (was_shown and turn.get("role") == "assistant") or matcher.count_in_text(str(turn.get("text")), TEXT_KINDS)
        else turn
        for turn in saved.get("turns", ())
    ]
    kept = [f"erased {number}" if doc_id in erased else doc_id for number, doc_id in enumerate(ids, 1)]
    return {**saved, "documents": kept, "turns": turns}


def _replace_file(file: Path, content: Any) -> None:
    temporary = file.with_suffix(f".{uuid4().hex}.new")
    try:
        temporary.write_text(json.dumps(content), encoding="ascii")
        temporary.replace(file)
    except OSError as error:
        raise DriverFailed(f"the chat session {file} cannot be rewritten: {error.strerror}") from error
