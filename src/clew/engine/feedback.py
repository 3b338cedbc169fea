"""What users say of answers and which results they open: kept with the collection, for `clew evaluate make`."""

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

from clew.core.errors import SettingsError
from clew.core.protocols import RecordStore
from clew.engine.opened import check_positive_count, check_question

if TYPE_CHECKING:
    from clew.engine import Engine

FeedbackKind = Literal["judged", "opened"]
MAX_READ: Final = 1000  # that are read back
MAX_CHARS: Final = 16 * 1024 * 1024  # of one collection; beyond it the older half goes
_FIELDS: Final = (("id", str), ("at", str), ("question", str), ("kind", str), ("documents", list))  # of what is read
_TRIM_EVERY = "00"  # the end of an id with which the size is looked at, one of 256


def feedback(
    engine: "Engine",
    question: str,
    *,
    good: bool | None = None,
    opened: str | None = None,
    rank: int | None = None,
    comment: str = "",
    answer: str = "",
    documents: Sequence[str] = (),
    caller: str = "",
) -> dict[str, Any]:
    """Keeps whether an answer and its documents were good, or that a result was opened; as it is kept.

    Give `good`, or the id of the document that was `opened` and the rank of the result. `make_questions` with the
    source feedback makes judged questions of them.
    """
    check_question(question)
    engine.opened.check_unbounded()
    if (good is None) == (opened is None):
        raise SettingsError("feedback says good=True or False of an answer, or names the document that was opened=…")
    kept: dict[str, Any] = {
        "id": uuid.uuid4().hex,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "question": question,
        "kind": "judged" if opened is None else "opened",
        "good": good,
        "rank": None if rank is None else check_positive_count("rank", rank),
        "comment": comment,
        "answer": answer,
        "documents": [*documents] if opened is None else [opened],
        "caller": caller,
    }
    records = engine.opened.store.records
    records.append("feedback", json.dumps(kept) + "\n")  # ASCII: no character of a text can end the line
    if kept["id"].endswith(_TRIM_EVERY):
        trim_feedback(records)
    return kept


def list_feedback(engine: "Engine") -> list[dict[str, Any]]:
    """The last thousand judgements and openings of the collection, the oldest first."""
    engine.opened.check_unbounded()
    lines = engine.opened.store.records.read("feedback").split("\n")
    return [*islice(_parse_lines(reversed(lines)), MAX_READ)][::-1]


def _parse_lines(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """What was kept; a line that was cut off, or that no `feedback` wrote, is left out."""
    for line in lines:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and "good" in found and all(type(found.get(name)) is kind for name, kind in _FIELDS):
            yield found


def trim_feedback(records: RecordStore, *, max_chars: int = MAX_CHARS) -> None:
    """Removes the older half if there is too much."""
    text = records.read("feedback")
    if len(text) > max_chars:
        _, _, newer = text[len(text) // 2 :].partition("\n")
        records.write("feedback", newer)
